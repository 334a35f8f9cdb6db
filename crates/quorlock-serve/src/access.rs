//! Who may do what: secrets, scopes, and what callers without a secret may do.

use crate::app::App;
use crate::bucket::Bucket;
use crate::code::Code;
use crate::exporter;
use crate::keys::{Keys, KeysError};
use crate::problem::Problem;
use crate::source::Source;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;
use utoipa::ToSchema;

/// What a caller may do; each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Nothing.
    None,
    /// Look.
    Read,
    /// Take locks, and extend and release one's own.
    Lock,
    /// Take locks away from others.
    Write,
}

impl Scope {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Scope::None => "none",
            Scope::Read => "read",
            Scope::Lock => "lock",
            Scope::Write => "write",
        }
    }
}

/// From where a connection came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Peer {
    /// Through a socket in the file system, which only its owner may open.
    Unix,
    /// Through an address of this machine alone.
    Loopback,
    /// Through an address that others can reach.
    Remote,
}

/// The rules of access.
#[derive(Debug)]
pub(crate) struct Access {
    file: Option<PathBuf>,
    keys: RwLock<Arc<Keys>>,
    anonymous: Option<Scope>,
    wrong_secrets: Mutex<WrongSecrets>,
}

/// Logs wrong secrets: 10 lines at once, and one every 10 s in the long run, so that guessing floods no log.
#[derive(Debug)]
struct WrongSecrets {
    lines: Bucket,
    /// How many were not logged since the last line.
    suppressed: u64,
}

impl Access {
    /// Reads the secrets from `file`, if there is one.
    pub(crate) fn new(file: Option<PathBuf>, anonymous: Option<Scope>) -> Result<Self, KeysError> {
        let keys = file.as_deref().map(Keys::load).transpose()?.unwrap_or_default();
        let lines = Bucket::new(0.1, 10.0, Instant::now());
        let wrong_secrets = Mutex::new(WrongSecrets { lines, suppressed: 0 });
        Ok(Self { file, keys: RwLock::new(Arc::new(keys)), anonymous, wrong_secrets })
    }

    /// Reads the secrets again. After a failure those from before stay.
    pub(crate) fn reload(&self) -> Result<(), KeysError> {
        let Some(file) = &self.file else { return Ok(()) };
        let keys = Arc::new(Keys::load(file)?);
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// Whether callers can show secrets.
    pub(crate) fn has_secrets(&self) -> bool {
        self.file.is_some()
    }

    /// Whether the sender of `headers` may do something without showing a secret.
    pub(crate) fn trusts(&self, headers: &HeaderMap, peer: Peer) -> bool {
        self.anonymous(peer) > Scope::None && !(self.has_secrets() && headers.contains_key(AUTHORIZATION))
    }

    fn anonymous(&self, peer: Peer) -> Scope {
        self.anonymous.unwrap_or(match peer {
            _ if self.has_secrets() => Scope::None,
            Peer::Unix => Scope::Write,
            Peer::Loopback | Peer::Remote => Scope::Lock,
        })
    }

    /// Whether `headers` have a secret of the token file.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        self.shown(headers).is_some()
    }

    /// The scope and the name of the secret in `headers`.
    fn shown(&self, headers: &HeaderMap) -> Option<(Scope, Arc<str>)> {
        let bytes = headers.get(AUTHORIZATION)?.as_bytes();
        let (_, secret) =
            bytes.split_at_checked(7).filter(|(kind, _)| kind.eq_ignore_ascii_case(b"bearer "))?;
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        keys.find(secret.trim_ascii())
    }

    /// Who sent a request.
    fn caller(&self, parts: &Parts) -> Result<Caller, Problem> {
        let peer = parts.extensions.get().copied().unwrap_or(Peer::Remote);
        let source = parts.extensions.get().copied().unwrap_or_default();
        if !parts.headers.contains_key(AUTHORIZATION) {
            return Ok(Caller { scope: self.anonymous(peer), secret: None, peer, source });
        }
        let Some((scope, secret)) = self.shown(&parts.headers) else {
            self.note_wrong_secret(source);
            let detail = "send `Authorization: Bearer SECRET` with a secret of the token file";
            return Err(Problem::new(Code::Unauthorized, detail));
        };
        Ok(Caller { scope, secret: Some(secret), peer, source })
    }

    fn note_wrong_secret(&self, source: Source) {
        exporter::count_wrong_secret();
        let mut wrong = self.wrong_secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.lines.take(Instant::now()).is_err() {
            wrong.suppressed += 1;
            return;
        }
        let suppressed = std::mem::take(&mut wrong.suppressed);
        drop(wrong);
        tracing::warn!(target: "quorlock", peer = %source, suppressed, "wrong secret");
    }

    fn check(&self, parts: &Parts, needed: Scope) -> Result<Caller, Problem> {
        let caller = self.caller(parts)?;
        if caller.scope >= needed {
            return Ok(caller);
        }
        let word = needed.word();
        if self.has_secrets() && caller.secret.is_none() {
            let detail = format!("send `Authorization: Bearer SECRET` with a secret of scope `{word}`");
            return Err(Problem::new(Code::Unauthorized, detail));
        }
        let detail = format!(
            "this needs scope `{word}`, but the caller has `{}`; use another secret, or start the sidecar with other rules",
            caller.scope.word()
        );
        Err(Problem::new(Code::Forbidden, detail).with("scope", word))
    }
}

/// Who sent a request, as far as the sidecar knows.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) scope: Scope,
    /// The name of the secret that was shown.
    pub(crate) secret: Option<Arc<str>>,
    pub(crate) peer: Peer,
    pub(crate) source: Source,
}

/// A caller that may look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanRead(pub(crate) Scope);

/// Whether the caller may look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayRead(pub(crate) bool);

/// A caller that may take locks.
#[derive(Clone, Debug)]
pub(crate) struct CanLock(pub(crate) Caller);

/// A caller that may take locks away from others.
#[derive(Clone, Debug)]
pub(crate) struct CanWrite(pub(crate) Caller);

impl FromRequestParts<Arc<App>> for CanRead {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.access.check(parts, Scope::Read).map(|caller| Self(caller.scope))
    }
}

impl FromRequestParts<Arc<App>> for MayRead {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        Ok(Self(app.access.check(parts, Scope::Read).is_ok()))
    }
}

impl FromRequestParts<Arc<App>> for CanLock {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.access.check(parts, Scope::Lock).map(Self)
    }
}

impl FromRequestParts<Arc<App>> for CanWrite {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.access.check(parts, Scope::Write).map(Self)
    }
}
