//! Which versions were built in.

const LOCK_FILE: &str = include_str!("../../../Cargo.lock");

/// The version of `package` in the lock file.
pub fn of(package: &str) -> &'static str {
    let marker = format!("name = \"{package}\"\nversion = \"");
    LOCK_FILE
        .split_once(&marker)
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("unknown", |(version, _)| version)
}
