//! Who this process is, for the label of its locks.

use std::{env, fs};

/// `user@host`.
pub(crate) fn who() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{}@{host}", user())
}

fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|variable| env::var(variable).ok());
    let number = rustix::process::getuid().as_raw().to_string();
    let known = || account(&fs::read_to_string("/etc/passwd").unwrap_or_default(), &number);
    named.into_iter().find(|user| !user.is_empty()).or_else(known).unwrap_or_else(|| format!("uid{number}"))
}

/// The name of the account with this number. Jobs of cron and of init systems often have no `USER` set.
fn account(accounts: &str, number: &str) -> Option<String> {
    let mut lines = accounts.lines().map(|line| line.split(':'));
    let mut found = lines.find(|fields| fields.clone().nth(2) == Some(number))?;
    found.next().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_number() {
        let accounts = "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nodd\n";
        assert_eq!(account(accounts, "1000").as_deref(), Some("ann"));
        assert_eq!(account(accounts, "7"), None);
        assert!(who().contains('@'));
    }
}
