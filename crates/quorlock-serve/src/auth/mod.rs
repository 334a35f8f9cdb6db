//! Who may do what: secrets, scopes, and what callers without a secret may do.

pub(crate) mod caller;
pub(crate) mod cross_site;
pub(crate) mod new_names;
pub(crate) mod origin;
pub(crate) mod scope;
pub(crate) mod secrets;

use crate::auth::caller::{Caller, Ingress, Peer, Source};
use crate::auth::scope::Scope;
use crate::auth::secrets::{Secrets, SecretsError};
use crate::limits::rate_limit::RateLimit;
use crate::metrics;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

/// The rules of access.
#[derive(Debug)]
pub(crate) struct Access {
    file: Option<PathBuf>,
    secrets: RwLock<Arc<Secrets>>,
    anonymous: Option<Scope>,
    wrong_secrets: Mutex<WrongSecrets>,
}

/// Limits the log lines about wrong secrets to 10 at once, and one every 10 s in the long run.
#[derive(Debug)]
struct WrongSecrets {
    lines: RateLimit,
    /// How many were not logged since the last line.
    suppressed: u64,
}

impl Access {
    /// Reads the secrets from `file`, if there is one.
    pub(crate) fn new(file: Option<PathBuf>, anonymous: Option<Scope>) -> Result<Self, SecretsError> {
        let secrets = file.as_deref().map(Secrets::load).transpose()?.unwrap_or_default();
        let lines = RateLimit::new(0.1, 10.0, Instant::now());
        let wrong_secrets = Mutex::new(WrongSecrets { lines, suppressed: 0 });
        Ok(Self { file, secrets: RwLock::new(Arc::new(secrets)), anonymous, wrong_secrets })
    }

    /// Reads the secrets again. After a failure the old ones stay.
    pub(crate) fn reload(&self) -> Result<(), SecretsError> {
        let Some(file) = &self.file else { return Ok(()) };
        let secrets = Arc::new(Secrets::load(file)?);
        *self.secrets.write().unwrap_or_else(PoisonError::into_inner) = secrets;
        Ok(())
    }

    /// Whether callers can show secrets.
    pub(crate) fn has_secrets(&self) -> bool {
        self.file.is_some()
    }

    /// Whether a request with these `headers` may do something without a secret.
    pub(crate) fn allows_anonymous(&self, headers: &HeaderMap, peer: Peer) -> bool {
        self.anonymous_scope(peer) > Scope::None
            && !(self.has_secrets() && headers.contains_key(AUTHORIZATION))
    }

    fn anonymous_scope(&self, peer: Peer) -> Scope {
        self.anonymous.unwrap_or(match peer {
            _ if self.has_secrets() => Scope::None,
            Peer::Unix => Scope::Write,
            Peer::Loopback | Peer::Remote => Scope::Lock,
        })
    }

    /// Whether `headers` carry a secret of the token file.
    pub(crate) fn has_valid_secret(&self, headers: &HeaderMap) -> bool {
        self.find_secret(headers).is_some()
    }

    /// The scope and the name of the secret in `headers`.
    fn find_secret(&self, headers: &HeaderMap) -> Option<(Scope, Arc<str>)> {
        let bytes = headers.get(AUTHORIZATION)?.as_bytes();
        let (_, secret) =
            bytes.split_at_checked(7).filter(|(kind, _)| kind.eq_ignore_ascii_case(b"bearer "))?;
        let secrets = self.secrets.read().unwrap_or_else(PoisonError::into_inner).clone();
        secrets.find(secret.trim_ascii())
    }

    /// The sender of a request.
    fn caller(&self, parts: &Parts) -> Result<Caller, Problem> {
        let Ingress { peer, source, .. } = Ingress::of(&parts.extensions);
        if !parts.headers.contains_key(AUTHORIZATION) {
            return Ok(Caller { scope: self.anonymous_scope(peer), secret: None, peer, source });
        }
        let Some((scope, secret)) = self.find_secret(&parts.headers) else {
            self.report_wrong_secret(source);
            let detail = "send `Authorization: Bearer SECRET` with a secret of the token file";
            return Err(Problem::new(ProblemCode::Unauthorized, detail));
        };
        Ok(Caller { scope, secret: Some(secret), peer, source })
    }

    fn report_wrong_secret(&self, source: Source) {
        metrics::count_wrong_secret();
        let mut wrong = self.wrong_secrets.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.lines.try_acquire(Instant::now()).is_err() {
            wrong.suppressed += 1;
            return;
        }
        let suppressed = std::mem::take(&mut wrong.suppressed);
        drop(wrong);
        tracing::warn!(target: "quorlock", peer = %source, suppressed, "wrong secret");
    }

    /// The sender of a request, if it has at least the scope `needed`.
    pub(crate) fn require(&self, parts: &Parts, needed: Scope) -> Result<Caller, Problem> {
        let caller = self.caller(parts)?;
        if caller.scope >= needed {
            return Ok(caller);
        }
        let word = needed.word();
        if self.has_secrets() && caller.secret.is_none() {
            let detail = format!("send `Authorization: Bearer SECRET` with a secret of scope `{word}`");
            return Err(Problem::new(ProblemCode::Unauthorized, detail));
        }
        let detail = format!(
            "this needs scope `{word}`, but the caller has `{}`; use another secret, or start the sidecar with other rules",
            caller.scope.word()
        );
        Err(Problem::new(ProblemCode::Forbidden, detail).with("scope", word))
    }
}
