//! The boot clock and the names on Unix.

use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::Duration;

/// `std::time::Instant` stops while a Linux machine sleeps; this one does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT_CLOCK: ClockId = ClockId::Boottime;

/// `CLOCK_MONOTONIC` counts sleep on macOS, where `std::time::Instant` does not (`CLOCK_UPTIME_RAW`). Other
/// systems have nothing better to offer.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

/// The time since the machine started, sleep included. All processes of the machine read the same.
pub(crate) fn boot_time() -> Duration {
    let time = clock_gettime(BOOT_CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// What the machine is called.
pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// What the user is called where the environment does not say it.
pub(crate) fn user_name() -> String {
    let number = rustix::process::getuid().as_raw();
    account_field(number, NAME).unwrap_or_else(|| format!("uid{number}"))
}

/// The home directory of the account with this number, as `/etc/passwd` has it.
pub(crate) fn account_home(number: u32) -> Option<String> {
    account_field(number, HOME)
}

/// The field of a line of `/etc/passwd` that has the account's name.
const NAME: usize = 0;
/// The field that has its home directory.
const HOME: usize = 5;

fn account_field(number: u32, index: usize) -> Option<String> {
    field(&fs::read_to_string("/etc/passwd").ok()?, number, index).map(str::to_owned)
}

/// A field of the account with this number. Jobs of cron and of init systems often have no `USER` or
/// `HOME` set.
fn field(accounts: &str, number: u32, field: usize) -> Option<&str> {
    let number = number.to_string();
    let mut lines = accounts.lines().map(|line| line.split(':'));
    let mut found = lines.find(|fields| fields.clone().nth(2) == Some(&number))?;
    found.nth(field).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_number() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nodd\n";
        assert_eq!(field(accounts, 1000, NAME), Some("ann"));
        assert_eq!(field(accounts, 1000, HOME), Some("/home/ann"));
        assert_eq!(field(accounts, 7, NAME), None);
    }
}
