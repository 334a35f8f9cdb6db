//! The identity of this process, for the label of its locks.

use crate::context::platform;
use std::env;

/// The user and the host: `user@host`.
pub(crate) fn who() -> String {
    format!("{}@{}", user(), platform::host_name())
}

fn user() -> String {
    let named = ["USER", "LOGNAME"].into_iter().filter_map(|variable| env::var(variable).ok());
    named.into_iter().find(|user| !user.is_empty()).unwrap_or_else(platform::user_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_names_a_user_and_a_host() {
        assert!(who().contains('@'));
    }
}
