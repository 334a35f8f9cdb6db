//! Dapr's lock API, so that programs made for it need not be changed.

use crate::access::CanLock;
use crate::app::App;
use crate::ask::{Refusal, read};
use crate::code::Code;
use crate::delivery::Delivery;
use crate::locks::{lease, let_go};
use crate::problem::Problem;
use crate::reply::{json, json_with};
use crate::take::Wish;
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use quorlock::{Holder, Name, Release};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;
use utoipa::ToSchema;

/// Nodes keep labels of 200 bytes, and owners must not be cut: two could become one.
const MAX_LABEL: usize = 190;

/// What `lock` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lock {
    #[serde(default)]
    resource_id: String,
    #[serde(default)]
    lock_owner: String,
    #[serde(default)]
    expiry_in_seconds: i64,
}

/// What `unlock` takes.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unlock {
    #[serde(default)]
    resource_id: String,
    #[serde(default)]
    lock_owner: String,
}

/// An error in Dapr's form.
#[derive(Debug)]
pub(crate) struct Error(StatusCode, &'static str, String);

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        json_with(self.0, &json!({ "errorCode": self.1, "message": self.2 }))
    }
}

/// What became of an unlock, as Dapr numbers it.
#[derive(Clone, Copy, Debug)]
enum Unlocked {
    Done = 0,
    DoesNotExist = 1,
    BelongsToAnother = 2,
    Internal = 3,
}

/// Takes a lock the way Dapr does
#[utoipa::path(post, path = "/v1.0-alpha1/lock/{store}", tag = "dapr", params(("store" = String, Path,)),
    request_body = Lock, responses((status = 200, description = "{success}")))]
pub(crate) async fn lock(
    State(app): State<Arc<App>>,
    _: CanLock,
    delivery: Option<Extension<Arc<Delivery>>>,
    request: Request,
) -> Result<Response, Error> {
    let asked: Lock = parse(&read(request, app.limits.body).await?)?;
    let name = name(&asked.resource_id)?;
    let owner = owner(&asked.lock_owner)?;
    let seconds = u64::try_from(asked.expiry_in_seconds).ok().filter(|seconds| *seconds > 0);
    let seconds = seconds.ok_or_else(|| malformed("expiryInSeconds is not positive"))?;
    let wish = Wish {
        name,
        ttl: Duration::from_secs(seconds),
        wait: Duration::ZERO,
        owner: Some(owner),
        reason: None,
        is_kept: false,
    };
    match lease(&app, wish, delivery.map(|Extension(delivery)| delivery)).await {
        Ok(_) => Ok(json(&json!({ "success": true }))),
        Err(problem) if problem.code() == Code::Held => Ok(json(&json!({ "success": false }))),
        Err(problem) => Err(failed("ERR_TRY_LOCK", &problem)),
    }
}

/// Releases a lock the way Dapr does: by its owner, through which sidecar it may have been taken
#[utoipa::path(post, path = "/v1.0-alpha1/unlock/{store}", tag = "dapr", params(("store" = String, Path,)),
    request_body = Unlock, responses((status = 200, description = "{status}: 0 done, 1 does not exist, 2 belongs to another, 3 internal")))]
pub(crate) async fn unlock(
    State(app): State<Arc<App>>,
    _: CanLock,
    request: Request,
) -> Result<Response, Error> {
    let asked: Unlock = parse(&read(request, app.limits.body).await?)?;
    let (name, owner) = (name(&asked.resource_id)?, owner(&asked.lock_owner)?);
    let status = unlocked(&app, &name, &owner).await as u8;
    Ok(json(&json!({ "status": status })))
}

async fn unlocked(app: &App, name: &Name, owner: &str) -> Unlocked {
    let Ok(lock) = app.locker.named(name.as_str()) else { return Unlocked::Internal };
    // What the nodes forgot the caller may have still, as far as this sidecar knows.
    let claimed = app.claims.token_of(name, owner);
    let token = match lock.inspect().await.map(|seen| seen.holder) {
        Ok(Holder::Owner { token, owner: holder, .. }) if holder.who == owner => token,
        Ok(Holder::Nobody) => match claimed {
            Some(token) => token,
            None => return Unlocked::DoesNotExist,
        },
        Ok(_) => return Unlocked::BelongsToAnother,
        Err(_) => return Unlocked::Internal,
    };
    match let_go(app, name, token).await {
        Ok(Release::Released) => Unlocked::Done,
        Ok(Release::AlreadyGone) => Unlocked::DoesNotExist,
        _ => Unlocked::Internal,
    }
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|_| malformed("the body is not the JSON that this call takes"))
}

fn name(resource: &str) -> Result<Name, Error> {
    if resource.is_empty() {
        return Err(malformed("resourceId is empty"));
    }
    Name::new(resource).map_err(|error| malformed(&error.to_string()))
}

/// The label of a lock whose owner Dapr's caller named. What a label cannot hold is written `%xx`.
fn owner(given: &str) -> Result<String, Error> {
    if given.is_empty() {
        return Err(malformed("lockOwner is empty"));
    }
    let mut label = "dapr:".to_owned();
    for byte in given.bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            label.push(char::from(byte));
        } else {
            let _ = write!(label, "%{byte:02x}");
        }
    }
    if label.len() > MAX_LABEL {
        return Err(malformed("lockOwner is too long; 180 plain characters are enough for a UUID and more"));
    }
    Ok(label)
}

fn malformed(message: &str) -> Error {
    Error(StatusCode::BAD_REQUEST, "ERR_MALFORMED_REQUEST", message.to_owned())
}

fn failed(code: &'static str, problem: &Problem) -> Error {
    let status = problem.code().facts().1;
    if status.is_client_error() {
        return malformed(problem.detail());
    }
    Error(StatusCode::INTERNAL_SERVER_ERROR, code, problem.detail().to_owned())
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let status = refusal.problem.code().facts().1;
        Self(status, "ERR_MALFORMED_REQUEST", refusal.problem.detail().to_owned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn different_owners_have_different_labels() {
        let label = |given: &str| owner(given).unwrap();
        assert_eq!(label("a-b_c"), "dapr:a-b_c");
        assert_eq!(label("a b"), "dapr:a%20b");
        assert_ne!(label("a b"), label("a_b"));
        assert_ne!(label("a%20b"), label("a b"));
        assert!(owner("").is_err() && owner(&"x".repeat(186)).is_err());
    }
}
