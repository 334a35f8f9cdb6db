//! Extractors that let only callers of a certain scope through.

use crate::api::state::AppState;
use crate::auth::caller::Caller;
use crate::auth::scope::Scope;
use crate::problem::Problem;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use std::sync::Arc;

/// A caller of scope `read` or more, with its scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CanRead(pub(crate) Scope);

/// Whether the caller has scope `read` or more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayRead(pub(crate) bool);

/// A caller of scope `lock` or more.
#[derive(Clone, Debug)]
pub(crate) struct CanLock(pub(crate) Caller);

/// A caller of scope `write`.
#[derive(Clone, Debug)]
pub(crate) struct CanWrite(pub(crate) Caller);

impl FromRequestParts<Arc<AppState>> for CanRead {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Problem> {
        app.access.require(parts, Scope::Read).map(|caller| Self(caller.scope))
    }
}

impl FromRequestParts<Arc<AppState>> for MayRead {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Problem> {
        Ok(Self(app.access.require(parts, Scope::Read).is_ok()))
    }
}

impl FromRequestParts<Arc<AppState>> for CanLock {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Problem> {
        app.access.require(parts, Scope::Lock).map(Self)
    }
}

impl FromRequestParts<Arc<AppState>> for CanWrite {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Problem> {
        app.access.require(parts, Scope::Write).map(Self)
    }
}
