//! The secrets that callers show, from a file with one per line.

use crate::auth::scope::Scope;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The shortest secret, in characters: a shorter one could be guessed.
const MIN_SECRET: usize = 16;
/// The longest name of a secret, in characters.
const MAX_NAME: usize = 64;
/// The largest token file, in bytes. A larger one is refused without being read to its end.
const MAX_SIZE: u64 = 1 << 20;

/// All secrets of a token file.
#[derive(Default)]
pub(crate) struct Secrets(Vec<Secret>);

/// One secret with its name and its scope.
struct Secret {
    value: Box<[u8]>,
    /// From the file, or `#LINE` for a line without one.
    name: Arc<str>,
    scope: Scope,
}

/// Why a file of secrets cannot be used. No secret is repeated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretsError {
    /// It cannot be read.
    #[error("the token file `{}` cannot be read: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A line in it cannot be used.
    #[error("line {line} of the token file `{}` {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it, and what to write.
        fault: LineFault,
    },
    /// It holds no secret.
    #[error("the token file `{}` holds no secret; write one per line: SCOPE:NAME:SECRET, with the scope read, lock or write", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// What is wrong with a line of a token file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// It does not begin with a scope.
    #[error(
        "begins with no scope; write SCOPE:NAME:SECRET or SCOPE:SECRET, with the scope read, lock or write"
    )]
    Scope,
    /// The name of the secret cannot be used.
    #[error(
        "has a name that cannot be used; write SCOPE:NAME:SECRET with a name of 1 to 64 letters, digits, `.`, `_` or `-`"
    )]
    Name,
    /// There are too many colons.
    #[error("has more than two `:`; write SCOPE:NAME:SECRET with a secret that has none")]
    Colons,
    /// The secret is too short.
    #[error("has a secret of under 16 characters; make one with `openssl rand -hex 32`")]
    Short,
    /// Another line has the same secret.
    #[error("repeats the secret of line {first}; remove one of them")]
    Repeated {
        /// The other line.
        first: usize,
    },
}

impl Secrets {
    /// Reads a file of secrets.
    pub(crate) fn load(path: &Path) -> Result<Self, SecretsError> {
        let unreadable = |source| SecretsError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(MAX_SIZE + 1).read_to_string(&mut text).map_err(unreadable)?;
        if text.len() as u64 > MAX_SIZE {
            return Err(unreadable(io::Error::new(io::ErrorKind::FileTooLarge, "it has over 1 MiB")));
        }
        Self::parse(&text, path)
    }

    fn parse(text: &str, path: &Path) -> Result<Self, SecretsError> {
        let mut secrets: Vec<Secret> = Vec::new();
        let mut lines: HashMap<Box<[u8]>, usize> = HashMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let refused = |fault| SecretsError::Line { path: path.to_owned(), line, fault };
            let secret = parse_line(text, line).map_err(refused)?;
            if let Some(first) = lines.insert(secret.value.clone(), line) {
                return Err(refused(LineFault::Repeated { first }));
            }
            secrets.push(secret);
        }
        if secrets.is_empty() {
            return Err(SecretsError::Empty { path: path.to_owned() });
        }
        Ok(Self(secrets))
    }

    /// The scope and the name of the secret `value`, in constant time.
    pub(crate) fn find(&self, value: &[u8]) -> Option<(Scope, Arc<str>)> {
        let mut found = None;
        for secret in &self.0 {
            if bool::from(secret.value.ct_eq(value)) {
                found = Some((secret.scope, &secret.name));
            }
        }
        found.map(|(scope, name)| (scope, name.clone()))
    }
}

/// `SCOPE:SECRET` or `SCOPE:NAME:SECRET`. A secret has no `:`, so that there is one way to read a line.
fn parse_line(text: &str, line: usize) -> Result<Secret, LineFault> {
    let (scope, rest) = text.split_once(':').ok_or(LineFault::Scope)?;
    let scope = match scope {
        "read" => Scope::Read,
        "lock" => Scope::Lock,
        "write" => Scope::Write,
        _ => return Err(LineFault::Scope),
    };
    let (name, value) = match rest.split_once(':') {
        None => (format!("#{line}"), rest),
        Some((_, value)) if value.contains(':') => return Err(LineFault::Colons),
        Some((name, value)) if is_name(name) => (name.to_owned(), value),
        Some(_) => return Err(LineFault::Name),
    };
    let value = value.trim();
    if value.chars().count() < MIN_SECRET {
        return Err(LineFault::Short);
    }
    Ok(Secret { value: value.as_bytes().into(), name: name.into(), scope })
}

fn is_name(text: &str) -> bool {
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

/// Whether other users than the owner may read a file of secrets.
///
/// # Errors
/// The file's permissions cannot be read.
pub fn is_readable_by_others(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o044 != 0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Secrets, SecretsError> {
        Secrets::parse(text, Path::new("tokens"))
    }

    #[test]
    fn each_line_is_a_secret_with_its_scope_and_its_name() {
        let text = "# ours\n\nread:aaaaaaaaaaaaaaaa\nlock:web-1:bbbbbbbbbbbbbbbb\n write:ann.b_c:cccccccccccccccc \n";
        let secrets = parse(text).unwrap();
        let find = |secret: &str| secrets.find(secret.as_bytes());
        assert_eq!(find("aaaaaaaaaaaaaaaa"), Some((Scope::Read, "#3".into())));
        assert_eq!(find("bbbbbbbbbbbbbbbb"), Some((Scope::Lock, "web-1".into())));
        assert_eq!(find("cccccccccccccccc"), Some((Scope::Write, "ann.b_c".into())));
        for wrong in ["aaaaaaaaaaaaaaab", "", "web-1:bbbbbbbbbbbbbbbb", "read:aaaaaaaaaaaaaaaa"] {
            assert_eq!(find(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn malformed_and_ambiguous_lines_are_refused_without_repeating_them() {
        let long = "n".repeat(65);
        let table = [
            ("aaaaaaaaaaaaaaaa", LineFault::Scope),
            ("wirte:aaaaaaaaaaaaaaaa", LineFault::Scope),
            (" :aaaaaaaaaaaaaaaa", LineFault::Scope),
            ("none:aaaaaaaaaaaaaaaa", LineFault::Scope),
            ("read::aaaaaaaaaaaaaaaa", LineFault::Name),
            ("read:a b:aaaaaaaaaaaaaaaa", LineFault::Name),
            (&format!("read:{long}:aaaaaaaaaaaaaaaa"), LineFault::Name),
            ("read:ann:aaaaaaaa:aaaaaaaa", LineFault::Colons),
            ("read:aaaaaaa", LineFault::Short),
            ("read:aaaaaaaaaaaaaaaa:", LineFault::Short),
            ("read:bob:cccccccccccccccc", LineFault::Repeated { first: 1 }),
        ];
        for (line, wanted) in table {
            let error = parse(&format!("write:cccccccccccccccc\n{line}")).unwrap_err();
            let text = error.to_string();
            assert!(
                matches!(error, SecretsError::Line { line: 2, fault, .. } if fault == wanted),
                "{line}: {text}"
            );
            assert!(text.contains("line 2") && !text.contains("aaaa") && !text.contains("cccc"), "{text}");
        }
        assert!(matches!(parse("# nothing\n"), Err(SecretsError::Empty { .. })));
        assert_eq!(format!("{:?}", parse("read:aaaaaaaaaaaaaaaa").unwrap()), "Secrets(1)");
    }
}
