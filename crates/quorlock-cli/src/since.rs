//! Moments of the past as people read them: the time here, and how long ago.

use crate::duration::show;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use quorlock::Wall;
use std::time::Duration;

/// The time now.
pub(crate) fn now() -> Wall {
    Wall::from_micros(u64::try_from(Timestamp::now().as_microsecond()).unwrap_or(0))
}

/// `past` as `14:03:11 (2m5s ago)`, with the date unless it was today.
pub(crate) fn told(past: Wall, now: Wall) -> String {
    told_in(&TimeZone::system(), past, now)
}

/// Date and time here at `moment`.
pub(crate) fn time(moment: Wall) -> String {
    zoned(&TimeZone::system(), moment)
        .map_or_else(|| "?".to_owned(), |it| it.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

fn told_in(zone: &TimeZone, past: Wall, now: Wall) -> String {
    // Nobody wants to know by how many milliseconds.
    let age = match now.since(past).as_secs() {
        0 => "0s".to_owned(),
        seconds => show(Duration::from_secs(seconds)),
    };
    let Some(at) = zoned(zone, past) else { return format!("{age} ago") };
    let is_today = zoned(zone, now).is_some_and(|now| now.date() == at.date());
    let format = if is_today { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    format!("{} ({age} ago)", at.strftime(format))
}

/// `None` if it is too far in the future for any calendar: the value is nonsense.
fn zoned(zone: &TimeZone, moment: Wall) -> Option<jiff::Zoned> {
    let micros = i64::try_from(moment.as_micros()).ok()?;
    Some(Timestamp::from_microsecond(micros).ok()?.to_zoned(zone.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400;

    fn at(seconds: u64) -> Wall {
        Wall::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_date_is_told_unless_it_was_today() {
        let noon = 20_000 * DAY + DAY / 2;
        let table = [
            (noon - 125, "11:57:55 (2m5s ago)"),
            (noon, "12:00:00 (0s ago)"),
            (noon - DAY, "2024-10-03 12:00:00 (1d ago)"),
            (noon + 5, "12:00:05 (0s ago)"),
        ];
        for (past, text) in table {
            assert_eq!(told_in(&TimeZone::UTC, at(past), at(noon)), text);
        }
    }

    #[test]
    fn nonsense_is_no_moment() {
        let nonsense = Wall::from_micros(u64::MAX);
        assert_eq!(told_in(&TimeZone::UTC, nonsense, at(0)), "0s ago");
    }
}
