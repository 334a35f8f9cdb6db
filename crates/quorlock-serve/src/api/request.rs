//! Parsing requests: names in paths, JSON bodies, query strings. Problems never repeat what the caller
//! sent.

#[cfg(any(test, fuzzing))]
pub(crate) mod property;

use crate::api::state::AppState;
use crate::limits::Limits;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use axum::body::Body;
use axum::extract::{self, FromRequest, FromRequestParts, Path, Request};
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
    /// Who acquires it, for people who ask.
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
    /// For how long from now. Default: as long as last time, or the sidecar's own default if another
    /// sidecar granted it. A lease never becomes shorter: `remaining_ms` says what is left.
    pub(crate) ttl_ms: Option<u64>,
}

/// The parameters of `release` and `force-release`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release {
    /// The token of the lease.
    pub(crate) token: String,
}

/// A body or query that can list its fields, for the problem that a wrong one gets.
pub(crate) trait Fields {
    const FIELDS: &'static str;
}

impl Fields for Acquire {
    const FIELDS: &'static str =
        "ttl_ms, wait_ms (whole numbers), owner, reason (texts), each of them optional";
}

impl Fields for Extend {
    const FIELDS: &'static str = "token (text), and optionally ttl_ms (a whole number)";
}

impl Fields for Release {
    const FIELDS: &'static str = "token (text)";
}

impl Acquire {
    /// How long to wait.
    pub(crate) fn wait(&self, default: Duration) -> Result<Duration, Problem> {
        let wait = self.wait_ms.map_or(default, Duration::from_millis);
        if wait > Limits::WAIT {
            return Err(Problem::new(
                ProblemCode::BadRequest,
                "give a wait_ms of at most 3600000 (one hour), and ask again",
            ));
        }
        Ok(wait)
    }
}

/// Parses a token.
pub(crate) fn parse_token(text: &str) -> Result<Token, Problem> {
    text.parse().map_err(|_| {
        Problem::new(
            ProblemCode::BadToken,
            "send the token that acquire returned: 32 lower-case hexadecimal digits",
        )
    })
}

/// The name of a lock in a path.
#[derive(Debug)]
pub(crate) struct LockName(pub(crate) Name);

impl FromRequestParts<Arc<AppState>> for LockName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Problem> {
        let text = Path::<String>::from_request_parts(parts, app).await;
        let Path(text) =
            text.map_err(|_| Problem::new(ProblemCode::BadName, "a name must be percent-encoded UTF-8"))?;
        Ok(Self(Name::new(text)?))
    }
}

/// A JSON body of at most [`Limits::BODY`] bytes.
#[derive(Debug)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned + Fields> FromRequest<Arc<AppState>> for Json<T> {
    type Rejection = BodyError;

    async fn from_request(request: Request, app: &Arc<AppState>) -> Result<Self, BodyError> {
        let body = read_json(request, app.limits.body).await?;
        parse_body(&body).map(Self).map_err(BodyError::reusable)
    }
}

fn parse_body<T: DeserializeOwned + Fields>(body: &[u8]) -> Result<T, Problem> {
    let unusable = |line: usize, column: usize| {
        let place = format!("line {line}, column {column}");
        let detail = format!("the body cannot be used ({place}); send a JSON object with {}", T::FIELDS);
        Problem::new(ProblemCode::BadRequest, detail)
    };
    let request = serde_json::from_slice(body).map_err(|error| unusable(error.line(), error.column()))?;
    // An array with the values in the order of the fields would do for serde.
    if body.trim_ascii_start().starts_with(b"{") { Ok(request) } else { Err(unusable(1, 1)) }
}

/// The fields of a query string.
#[derive(Debug)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned + Fields> FromRequestParts<Arc<AppState>> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<AppState>) -> Result<Self, Problem> {
        let query = extract::Query::from_request_parts(parts, app).await;
        query.map(|extract::Query(query)| Self(query)).map_err(|_| {
            Problem::new(
                ProblemCode::BadRequest,
                format!("the query cannot be used; its parameters are {}", T::FIELDS),
            )
        })
    }
}

/// Reads the body of a request whose content type is JSON, within `limit`.
async fn read_json(request: Request, limit: Duration) -> Result<Bytes, BodyError> {
    if !is_json(request.headers().get(CONTENT_TYPE)) {
        let detail = "send the header `content-type: application/json`";
        return Err(BodyError::closing(Problem::new(ProblemCode::WrongContentType, detail)));
    }
    collect(request.into_body(), limit).await
}

/// Reads the body ahead if its declared length is within the limit. A refused caller then gets its
/// response, and not a broken connection in the middle of its request.
pub(crate) async fn buffer_body(request: Request, limit: Duration) -> Result<Request, BodyError> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if !length.is_some_and(|length: usize| (1..=Limits::BODY).contains(&length)) {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    Ok(Request::from_parts(parts, collect(body, limit).await?.into()))
}

async fn collect(body: Body, limit: Duration) -> Result<Bytes, BodyError> {
    let body = Limited::new(body, Limits::BODY);
    match tokio::time::timeout(limit, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => Err(BodyError::closing(
            Problem::new(ProblemCode::BodyTooLarge, "send a body of at most 16384 bytes"),
        )),
        Ok(Err(_)) => Err(BodyError::closing(Problem::new(
            ProblemCode::BadRequest,
            "the body ended early; send it again",
        ))),
        Err(_) => Err(BodyError::closing(Problem::new(
            ProblemCode::BadRequest,
            "the body came too slowly; send it at once",
        ))),
    }
}

fn is_json(kind: Option<&HeaderValue>) -> bool {
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// A problem with a body. If a part of it was not read, the connection cannot be used again.
#[derive(Debug)]
pub(crate) struct BodyError {
    problem: Problem,
    closes: bool,
}

impl BodyError {
    fn reusable(problem: Problem) -> Self {
        Self { problem, closes: false }
    }

    fn closing(problem: Problem) -> Self {
        Self { problem, closes: true }
    }
}

impl IntoResponse for BodyError {
    fn into_response(self) -> Response {
        let mut response = self.problem.into_response();
        if self.closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
