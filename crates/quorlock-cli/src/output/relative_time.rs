//! Past times as people read them: the local time, and how long ago.

use super::duration::show as show_duration;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::time::{Duration, SystemTime};

/// `past` as `14:03:11 (2m5s ago)`, with the date unless it was today.
pub(crate) fn show(past: SystemTime, now: SystemTime) -> String {
    show_in(&TimeZone::system(), past, now)
}

/// Local date and time.
pub(crate) fn date_time(time: SystemTime) -> String {
    zoned(&TimeZone::system(), time)
        .map_or_else(|| "?".to_owned(), |it| it.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn show_in(zone: &TimeZone, past: SystemTime, now: SystemTime) -> String {
    // Milliseconds would be noise.
    let age = match now.duration_since(past).unwrap_or_default().as_secs() {
        0 => "0s".to_owned(),
        seconds => show_duration(Duration::from_secs(seconds)),
    };
    let Some(at) = zoned(zone, past) else { return format!("{age} ago") };
    let is_today = zoned(zone, now).is_some_and(|now| now.date() == at.date());
    let format = if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    format!("{} ({age} ago)", at.strftime(format))
}

/// `None` if no calendar reaches that far: the value is nonsense.
fn zoned(zone: &TimeZone, time: SystemTime) -> Option<jiff::Zoned> {
    Some(Timestamp::try_from(time).ok()?.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const DAY: u64 = 86_400;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn the_date_is_shown_unless_it_was_today() {
        let noon = 20_000 * DAY + DAY / 2;
        let table = [
            (noon - 125, "11:57:55 (2m5s ago)"),
            (noon, "12:00:00 (0s ago)"),
            (noon - DAY, "2024-10-03 12:00:00 (1d ago)"),
            (noon + 5, "12:00:05 (0s ago)"),
        ];
        for (past, text) in table {
            assert_eq!(show_in(&TimeZone::UTC, at(past), at(noon)), text);
        }
    }

    #[test]
    fn nonsense_is_no_date() {
        let nonsense = UNIX_EPOCH + Duration::from_micros(u64::MAX);
        assert_eq!(show_in(&TimeZone::UTC, nonsense, at(0)), "0s ago");
    }
}
