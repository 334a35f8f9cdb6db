//! The secrets that callers show, from a file with one per line.

use crate::access::Scope;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;

/// A shorter secret could be guessed.
const LEAST_SECRET: usize = 16;
/// Larger files are none of ours.
const MAX_SIZE: u64 = 1 << 20;

/// Secrets with what they allow.
#[derive(Default)]
pub(crate) struct Keys(Vec<(Box<[u8]>, Scope)>);

/// Why a file of secrets cannot be used. No secret is repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// It cannot be read.
    #[error("the token file `{}` cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A secret in it is too short.
    #[error("line {line} of the token file `{}` has a secret of under 16 characters; make one with `openssl rand -hex 32`", path.display())]
    Short {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// It holds no secret.
    #[error("the token file `{}` holds no secret; write one per line: SECRET, or read:SECRET, lock:SECRET, write:SECRET", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

impl Keys {
    /// Reads a file of secrets.
    pub(crate) fn load(path: &Path) -> Result<Self, KeysError> {
        let unreadable = |source| KeysError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_SIZE).read_to_string(&mut text).map_err(unreadable)?;
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, KeysError> {
        let mut keys = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (secret, scope) = match line.split_once(':') {
                Some(("read", secret)) => (secret, Scope::Read),
                Some(("lock", secret)) => (secret, Scope::Lock),
                Some(("write", secret)) => (secret, Scope::Write),
                _ => (line, Scope::Write),
            };
            let secret = secret.trim();
            if secret.chars().count() < LEAST_SECRET {
                return Err(KeysError::Short { path: path.to_owned(), line: number + 1 });
            }
            keys.push((secret.as_bytes().into(), scope));
        }
        if keys.is_empty() {
            return Err(KeysError::Empty { path: path.to_owned() });
        }
        Ok(Self(keys))
    }

    /// What `secret` allows. Takes the same time whichever it is.
    pub(crate) fn scope_of(&self, secret: &[u8]) -> Option<Scope> {
        let mut found = None;
        for (key, scope) in &self.0 {
            if bool::from(key.ct_eq(secret)) {
                found = found.max(Some(*scope));
            }
        }
        found
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.0.len())
    }
}

/// Whether others than the owner of a file of secrets may read it.
///
/// # Errors
/// The file cannot be looked at.
pub fn is_readable_by_others(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o044 != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Keys, KeysError> {
        Keys::parse(text, Path::new("tokens"))
    }

    #[test]
    fn each_line_is_a_secret_with_its_scope() {
        let text = "# ours\n\nread:aaaaaaaaaaaaaaaa\nlock:bbbbbbbbbbbbbbbb\nwrite:cccccccccccccccc\ndddd:ddddddddddd\n";
        let keys = parse(text).unwrap();
        let scope = |secret: &str| keys.scope_of(secret.as_bytes());
        assert_eq!(scope("aaaaaaaaaaaaaaaa"), Some(Scope::Read));
        assert_eq!(scope("bbbbbbbbbbbbbbbb"), Some(Scope::Lock));
        assert_eq!(scope("cccccccccccccccc"), Some(Scope::Write));
        assert_eq!(scope("dddd:ddddddddddd"), Some(Scope::Write));
        assert_eq!(scope("aaaaaaaaaaaaaaab"), None);
        assert_eq!(scope(""), None);
    }

    #[test]
    fn short_secrets_and_empty_files_are_refused_without_repeating_them() {
        let told = parse("write:cccccccccccccccc\nread:hunter2").unwrap_err().to_string();
        assert!(told.contains("line 2") && !told.contains("hunter2"), "{told}");
        assert!(matches!(parse("# nothing\n"), Err(KeysError::Empty { .. })));
        let keys = parse("aaaaaaaaaaaaaaaa").unwrap();
        assert_eq!(format!("{keys:?}"), "Keys(1)");
    }
}
