//! What must hold for any bytes that a server sends.

// Only the fuzz targets reach it from outside.
#![cfg_attr(not(fuzzing), allow(unreachable_pub))]

use super::{Garbage, MAX_REPLY, Value, read};

/// Reads `input` whole and from every prefix of it.
///
/// # Panics
/// If a prefix gives another reply than the whole, if a reply has bytes that it does not need, or if
/// one is missing although more bytes than any reply may have are there.
pub fn check_reply_bytes(input: &[u8]) {
    let whole = read(input);
    if let Ok(Some((_, length))) = whole {
        assert!((1..=input.len()).contains(&length), "{length} bytes of {}", input.len());
    }
    assert!(whole != Ok(None) || input.len() <= MAX_REPLY, "it waits for more of a reply that is too long");
    for end in cuts(input) {
        let prefix = read(&input[..end]);
        let is_same = match (&whole, &prefix) {
            // More bytes may be needed; nothing is known yet.
            (_, Ok(None)) => !matches!(whole, Ok(Some((_, length))) if length <= end),
            (Ok(Some((value, length))), Ok(Some((read, used)))) => length == used && is_equal(value, read),
            // What was garbage in the beginning stays so.
            (Err(whole), Err(prefix)) => whole == prefix,
            (_, Err(Garbage::TooLong)) => end > MAX_REPLY,
            _ => false,
        };
        assert!(is_same, "{prefix:?} from {end} of {} bytes, {whole:?} from all", input.len());
    }
}

/// Every place to cut a short input, and some of a long one.
fn cuts(input: &[u8]) -> impl Iterator<Item = usize> + use<> {
    (0..input.len()).step_by(1 + input.len() / 64)
}

/// A reply may have numbers that are not equal to themselves.
fn is_equal(one: &Value, other: &Value) -> bool {
    format!("{one:?}") == format!("{other:?}")
}
