//! How a server reads and writes numbers.

use crate::simulator::redis_server::Version;

/// Newer servers write whole numbers up to this, half of the longest integer, with all their digits.
const MAX_WHOLE: f64 = 4_611_686_018_427_387_904.0;

/// A number as a server accepts it: no sign `+`, no leading zeros, no spaces.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = text.strip_prefix(b"-").map_or((false, text), |digits| (true, digits));
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    digits.iter().try_fold(0_i64, |number, digit| {
        let digit = i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
        number.checked_mul(10)?.checked_add(if is_negative { -digit } else { digit })
    })
}

/// A score of a sorted set.
pub(super) fn double(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

/// Writes a double as `version` does: with 17 digits up to Redis 7.0, later with as few as needed.
pub(super) fn write_double(out: &mut Vec<u8>, number: f64, version: Version) {
    if number.is_infinite() {
        out.extend_from_slice(if number > 0.0 { b"inf" } else { b"-inf" });
    } else if number == 0.0 {
        out.push(b'0');
    } else if version.is_after_redis_7_0() && number.fract() == 0.0 && number.abs() <= MAX_WHOLE {
        out.extend_from_slice(format!("{number:.0}").as_bytes());
    } else if version.is_after_redis_7_0() {
        out.extend_from_slice(shortest(number).as_bytes());
    } else {
        out.extend_from_slice(general(number).as_bytes());
    }
}

/// C's `%.17g`.
pub(super) fn general(number: f64) -> String {
    const PRECISION: i32 = 17;
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let strip = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..PRECISION).contains(&exponent) {
        let decimals = usize::try_from(PRECISION - 1 - exponent).unwrap_or_default();
        return strip(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", strip(mantissa), exponent.abs())
}

/// The fewest digits that give the same number back, in the form of `fpconv_dtoa`.
fn shortest(number: f64) -> String {
    let scientific = format!("{:e}", number.abs());
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let count = i32::try_from(digits.len()).unwrap_or_default();
    // The digits are an integer times ten to this power.
    let power = exponent - count + 1;
    let sign = if number < 0.0 { "-" } else { "" };
    if power >= 0 && exponent.abs() < count + 7 {
        return format!("{sign}{digits}{}", "0".repeat(usize::try_from(power).unwrap_or_default()));
    }
    if power < 0 && (power > -7 || exponent.abs() < 4) {
        return format!("{sign}{}", number.abs());
    }
    let fraction = if count > 1 { format!(".{}", &digits[1..]) } else { String::new() };
    format!("{sign}{}{fraction}e{}{}", &digits[..1], if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_each_version_writes_them() {
        for (number, old, new) in [
            (0.1, "0.10000000000000001", "0.1"),
            (1e-7, "9.9999999999999995e-08", "1e-7"),
            (123_456_789_012_345_678.0, "1.2345678901234568e+17", "123456789012345680"),
            (132_463_988_267_086_672.0, "1.3246398826708667e+17", "132463988267086672"),
            (1e21, "1e+21", "1e+21"),
            (1.5, "1.5", "1.5"),
            (-0.0, "0", "0"),
            (9_007_199_254_740_992.0, "9007199254740992", "9007199254740992"),
        ] {
            for (version, expected) in [(Version::Redis7, old), (Version::Valkey9, new)] {
                let mut out = Vec::new();
                write_double(&mut out, number, version);
                assert_eq!(String::from_utf8_lossy(&out), expected);
            }
        }
    }

    #[test]
    fn integers_have_one_form() {
        assert_eq!(integer(b"-12"), Some(-12));
        for text in ["", "-", "+1", "01", "-0", "1 ", "9223372036854775808", "1.0"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }
}
