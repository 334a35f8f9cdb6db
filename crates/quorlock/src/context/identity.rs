//! The identity of this process, for the label of its locks.

use std::{env, fs};

/// The user and the host: `user@host`.
pub(crate) fn who() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{}@{host}", user())
}

fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|variable| env::var(variable).ok());
    let number = rustix::process::getuid().as_raw();
    let from_passwd =
        || field(&fs::read_to_string("/etc/passwd").unwrap_or_default(), number, NAME).map(str::to_owned);
    named
        .into_iter()
        .find(|user| !user.is_empty())
        .or_else(from_passwd)
        .unwrap_or_else(|| format!("uid{number}"))
}

/// The field of a line of `/etc/passwd` that has the account's name.
const NAME: usize = 0;
/// The field that has its home directory.
pub(crate) const HOME: usize = 5;

/// A field of the account with this number. Jobs of cron and of init systems often have no `USER` or
/// `HOME` set.
pub(crate) fn field(accounts: &str, number: u32, field: usize) -> Option<&str> {
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
        assert!(who().contains('@'));
    }
}
