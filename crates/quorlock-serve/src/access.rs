//! Who may do what: secrets, scopes, and what callers without a secret may do.

use crate::app::App;
use crate::code::Code;
use crate::keys::{Keys, KeysError};
use crate::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

impl Access {
    /// Reads the secrets from `file`, if there is one.
    pub(crate) fn new(file: Option<PathBuf>, anonymous: Option<Scope>) -> Result<Self, KeysError> {
        let keys = file.as_deref().map(Keys::load).transpose()?.unwrap_or_default();
        Ok(Self { file, keys: RwLock::new(Arc::new(keys)), anonymous })
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

    /// What the sender of `headers` may do.
    pub(crate) fn scope(&self, headers: &HeaderMap, peer: Peer) -> Result<Scope, Problem> {
        let Some(shown) = headers.get(AUTHORIZATION) else { return Ok(self.anonymous(peer)) };
        let bytes = shown.as_bytes();
        let secret = bytes.split_at_checked(7).filter(|(kind, _)| kind.eq_ignore_ascii_case(b"bearer "));
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        secret.and_then(|(_, secret)| keys.scope_of(secret.trim_ascii())).ok_or_else(|| {
            Problem::new(
                Code::Unauthorized,
                "send `Authorization: Bearer SECRET` with a secret of the token file",
            )
        })
    }

    fn check(&self, parts: &Parts, needed: Scope) -> Result<Scope, Problem> {
        let peer = parts.extensions.get().copied().unwrap_or(Peer::Remote);
        let scope = self.scope(&parts.headers, peer)?;
        if scope >= needed {
            return Ok(scope);
        }
        let word = needed.word();
        if self.has_secrets() && !parts.headers.contains_key(AUTHORIZATION) {
            let detail = format!("send `Authorization: Bearer SECRET` with a secret of scope `{word}`");
            return Err(Problem::new(Code::Unauthorized, detail));
        }
        let detail = format!(
            "this needs scope `{word}`, but the caller has `{}`; use another secret, or start the sidecar with other rules",
            scope.word()
        );
        Err(Problem::new(Code::Forbidden, detail).with("scope", word))
    }
}

/// A caller that may look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanRead(pub(crate) Scope);

/// A caller that may take locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanLock;

/// A caller that may take locks away from others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanWrite;

impl FromRequestParts<Arc<App>> for CanRead {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.access.check(parts, Scope::Read).map(Self)
    }
}

impl FromRequestParts<Arc<App>> for CanLock {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.access.check(parts, Scope::Lock).map(|_| Self)
    }
}

impl FromRequestParts<Arc<App>> for CanWrite {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.access.check(parts, Scope::Write).map(|_| Self)
    }
}
