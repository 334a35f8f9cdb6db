//! Reading requests: names in paths, JSON bodies, query strings. What callers sent is never repeated to them.

use crate::app::App;
use crate::code::Code;
use crate::limits::Limits;
use crate::problem::Problem;
use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderValue;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use quorlock::{Name, Token};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// What `acquire` takes.
#[derive(Debug, Default, Deserialize, ToSchema, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Acquire {
    /// How long the nodes keep the lock without hearing from the holder.
    pub(crate) ttl_ms: Option<u64>,
    /// How long to wait for it, at most an hour.
    pub(crate) wait_ms: Option<u64>,
    /// Who takes it, for people who ask.
    pub(crate) owner: Option<String>,
    /// Why, for people who ask.
    pub(crate) reason: Option<String>,
}

/// What `extend` takes.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extend {
    /// The token of the lease.
    pub(crate) token: String,
    /// For how long from now; if left out as long as last time, or the sidecar's own default if another handed it out. A
    /// lease never becomes shorter: `remaining_ms` tells what it has.
    pub(crate) ttl_ms: Option<u64>,
}

/// What `release` and `force-release` take.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release {
    /// The token of the lease.
    pub(crate) token: String,
}

/// A body or query with the fields that it may have, for people who got them wrong.
pub(crate) trait Fields {
    const FIELDS: &'static str;
}

impl Fields for Acquire {
    const FIELDS: &'static str =
        "ttl_ms, wait_ms (whole numbers), owner, reason (texts), each of which may be left out";
}

impl Fields for Extend {
    const FIELDS: &'static str = "token (text), and if you like ttl_ms (a whole number)";
}

impl Fields for Release {
    const FIELDS: &'static str = "token (text)";
}

impl Acquire {
    /// How long to wait, `default` if it was left out.
    pub(crate) fn wait(&self, default: Duration) -> Result<Duration, Problem> {
        let wait = self.wait_ms.map_or(default, Duration::from_millis);
        if wait > Limits::WAIT {
            return Err(Problem::new(
                Code::BadRequest,
                "give a wait_ms of at most 3600000 (one hour), and ask again",
            ));
        }
        Ok(wait)
    }
}

/// A token as callers send it.
pub(crate) fn token(text: &str) -> Result<Token, Problem> {
    text.parse().map_err(|_| {
        Problem::new(Code::BadToken, "send the token that acquire gave: 32 lower-case hexadecimal digits")
    })
}

/// The name of a lock in a path.
#[derive(Debug)]
pub(crate) struct LockName(pub(crate) Name);

impl FromRequestParts<Arc<App>> for LockName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, app).await;
        let Path(text) =
            text.map_err(|_| Problem::new(Code::BadName, "a name must be percent-encoded UTF-8"))?;
        Ok(Self(Name::new(text)?))
    }
}

/// A JSON body of at most [`Limits::BODY`] bytes.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + Fields> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Refusal> {
        let body = read(request, app.limits.body).await?;
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            Refusal::open(Problem::new(
                Code::BadRequest,
                format!(
                    "the body is not what this call takes ({place}); send a JSON object with {}",
                    T::FIELDS
                ),
            ))
        })
    }
}

/// The fields of a query string.
#[derive(Debug)]
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned + Fields> FromRequestParts<Arc<App>> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, app).await;
        query.map(|Query(asked)| Self(asked)).map_err(|_| {
            Problem::new(Code::BadRequest, format!("the query is not what this call takes: {}", T::FIELDS))
        })
    }
}

/// Reads the body of a request that says it is JSON, within `limit`.
async fn read(request: Request, limit: Duration) -> Result<Bytes, Refusal> {
    if !is_json(request.headers().get(CONTENT_TYPE)) {
        let detail = "send the header `content-type: application/json`";
        return Err(Refusal::closing(Problem::new(Code::WrongContentType, detail)));
    }
    collect(request.into_body(), limit).await
}

/// Reads a body that is short by its own account ahead: who is refused has then been heard out, and does not find the
/// connection broken while it still writes.
pub(crate) async fn read_ahead(request: Request, limit: Duration) -> Result<Request, Refusal> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if !length.is_some_and(|length: usize| (1..=Limits::BODY).contains(&length)) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    Ok(Request::from_parts(parts, collect(body, limit).await?.into()))
}

async fn collect(body: Body, limit: Duration) -> Result<Bytes, Refusal> {
    let body = Limited::new(body, Limits::BODY);
    match tokio::time::timeout(limit, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            Err(Refusal::closing(Problem::new(Code::BodyTooLarge, "send a body of at most 16384 bytes")))
        }
        Ok(Err(_)) => {
            Err(Refusal::closing(Problem::new(Code::BadRequest, "the body ended early; send it again")))
        }
        Err(_) => {
            Err(Refusal::closing(Problem::new(Code::BadRequest, "the body came too slowly; send it at once")))
        }
    }
}

fn is_json(kind: Option<&HeaderValue>) -> bool {
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// A problem with a body. If not all of it was read, the connection cannot be used again.
#[derive(Debug)]
pub(crate) struct Refusal {
    problem: Problem,
    closes: bool,
}

impl Refusal {
    fn open(problem: Problem) -> Self {
        Self { problem, closes: false }
    }

    fn closing(problem: Problem) -> Self {
        Self { problem, closes: true }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.problem.into_response();
        if self.closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
