//! Who this process is, for the label of its locks.

use std::env;

/// `user@host`.
pub(crate) fn who() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{}@{host}", user())
}

fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|variable| env::var(variable).ok());
    let by_number = || format!("uid{}", rustix::process::getuid().as_raw());
    named.into_iter().find(|user| !user.is_empty()).unwrap_or_else(by_number)
}
