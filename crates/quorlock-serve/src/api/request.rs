//! Parsing requests: names in paths, JSON bodies, query strings. Problems never repeat what the caller
//! sent.

#[cfg(any(test, fuzzing))]
pub(crate) mod property;

use crate::api::locks::target::Target;
use crate::api::state::AppState;
use crate::json::mode::ModeJson;
use crate::limits::Limits;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use axum::body::Body;
use axum::extract::{self, FromRequest, FromRequestParts, Request};
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use percent_encoding::percent_decode_str;
use quorlock::{ConfigError, Name, NameError, NameSet, Semaphore, Token};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use utoipa::{IntoParams, ToSchema};

/// What `campaign` takes.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Campaign {
    /// What the leader publishes, such as its address: 1 to 200 bytes of printable text.
    #[param(min_length = 1, max_length = 200)]
    pub(crate) value: String,
    /// How long the nodes keep the leadership without hearing from the leader.
    pub(crate) ttl_ms: Option<u64>,
    /// How long to campaign, at most an hour, which is the default.
    pub(crate) wait_ms: Option<u64>,
    /// Who campaigns, for people who ask.
    pub(crate) owner: Option<String>,
}

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
    /// `exclusive` (the default), or `shared`: held together with other callers that share it.
    pub(crate) mode: Option<ModeJson>,
    /// Further names, held together with the one in the path, all or none. At most 16 names in all.
    #[schema(min_items = 1, max_items = 15)]
    #[param(min_items = 1, max_items = 15)]
    pub(crate) names: Option<Vec<String>>,
    /// Asks for a permit of the semaphore that the path names, which has this many slots. All callers
    /// must give the same number.
    #[schema(minimum = 1, maximum = 1024)]
    #[param(minimum = 1, maximum = 1024)]
    pub(crate) slots: Option<u32>,
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
    /// The further names that are held together with the one in the path. The sidecar that granted the
    /// lease knows them; any other one needs them.
    #[schema(min_items = 1, max_items = 15)]
    pub(crate) names: Option<Vec<String>>,
    /// The slot of a permit. The sidecar that granted it knows it; any other one needs it.
    #[schema(maximum = 1023)]
    pub(crate) slot: Option<u32>,
}

/// The parameters of `release` and `force-release`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release {
    /// The token of the lease.
    pub(crate) token: String,
    /// The further names that are held together with the one in the path. The sidecar that granted the
    /// lease knows them; any other one needs them.
    #[schema(min_items = 1, max_items = 15)]
    pub(crate) names: Option<Vec<String>>,
    /// The slot of a permit. The sidecar that granted it knows it; any other one needs it.
    #[schema(maximum = 1023)]
    pub(crate) slot: Option<u32>,
}

/// A body or query that can list its fields, for the problem that a wrong one gets.
pub(crate) trait Fields {
    const FIELDS: &'static str;
}

impl Fields for Acquire {
    const FIELDS: &'static str = "ttl_ms, wait_ms (whole numbers), owner, reason (texts), mode (exclusive or shared), names (1 to 15 \
         further names), slots (1 to 1024), each of them optional";
}

impl Fields for Campaign {
    const FIELDS: &'static str = "value (1 to 200 bytes of printable text), and optionally ttl_ms, wait_ms (whole numbers), owner (text)";
}

impl Fields for Extend {
    const FIELDS: &'static str =
        "token (text), and optionally ttl_ms (a whole number), names (a list of texts), slot (0 to 1023)";
}

impl Fields for Release {
    const FIELDS: &'static str = "token (text), and optionally names (a list of texts), slot (0 to 1023)";
}

impl Acquire {
    /// How long to wait.
    pub(crate) fn wait(&self, default: Duration) -> Result<Duration, Problem> {
        check_wait(self.wait_ms.map_or(default, Duration::from_millis))
    }

    /// What is asked for under the name in the path.
    pub(crate) fn target(&self, name: &Name) -> Result<Target, Problem> {
        let mode = self.mode.unwrap_or_default();
        let Some(slots) = self.slots else {
            return Ok(Target::Names { names: together(name, self.names.as_deref())?, mode: mode.into() });
        };
        if self.names.is_some() || mode == ModeJson::Shared {
            let detail = "a permit of a semaphore is exclusive and alone: leave out names and mode, or slots";
            return Err(Problem::new(ProblemCode::BadRequest, detail));
        }
        Ok(Target::Permit { semaphore: name.clone(), slots })
    }
}

impl Campaign {
    /// How long to campaign.
    pub(crate) fn wait(&self) -> Result<Duration, Problem> {
        check_wait(self.wait_ms.map_or(Limits::WAIT, Duration::from_millis))
    }
}

fn check_wait(wait: Duration) -> Result<Duration, Problem> {
    if wait > Limits::WAIT {
        let detail = "give a wait_ms of at most 3600000 (one hour), and ask again";
        return Err(Problem::new(ProblemCode::BadRequest, detail));
    }
    Ok(wait)
}

impl Extend {
    /// The names that the lease covers, as far as the caller gave them.
    pub(crate) fn covered(&self, name: &Name) -> Result<NameSet, Problem> {
        covered(name, self.names.as_deref(), self.slot)
    }
}

impl Release {
    /// The names that the lease covers, as far as the caller gave them.
    pub(crate) fn covered(&self, name: &Name) -> Result<NameSet, Problem> {
        covered(name, self.names.as_deref(), self.slot)
    }
}

/// `name` and the further `names`.
fn together(name: &Name, names: Option<&[String]>) -> Result<NameSet, Problem> {
    if names.is_some_and(<[String]>::is_empty) {
        let detail = "give 1 to 15 further names, or leave out names for the one in the path alone";
        return Err(Problem::new(ProblemCode::BadRequest, detail));
    }
    let further = names.unwrap_or_default().iter().map(Name::new);
    let all: Result<Vec<Name>, NameError> = std::iter::once(Ok(name.clone())).chain(further).collect();
    NameSet::new(all?).map_err(|error| ConfigError::from(error).into())
}

/// The names of a lease that was granted under `name`.
fn covered(name: &Name, names: Option<&[String]>, slot: Option<u32>) -> Result<NameSet, Problem> {
    let Some(slot) = slot else { return together(name, names) };
    let is_semaphore = name.as_slot().is_none() && name.as_str().len() <= Semaphore::MAX_NAME;
    if names.is_some() || !is_semaphore || slot >= Semaphore::MAX_SLOTS {
        let detail = "give a slot of 0 to 1023 with the name of its semaphore in the path, and no names";
        return Err(Problem::new(ProblemCode::BadRequest, detail));
    }
    Ok(Name::of_slot(name, slot).into())
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

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> Result<Self, Problem> {
        Ok(Self(Name::new(path_text(parts)?)?))
    }
}

/// The name of a lock, or that of a semaphore's slot, in a path.
#[derive(Debug)]
pub(crate) struct StoredName(pub(crate) Name);

impl FromRequestParts<Arc<AppState>> for StoredName {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> Result<Self, Problem> {
        Ok(Self(Name::from_store(path_text(parts)?)?))
    }
}

/// The name in `/v1/locks/{name}` and `/v1/elections/{name}`, and in what is below them.
fn path_text(parts: &Parts) -> Result<Cow<'_, str>, Problem> {
    let encoded = parts.uri.path().split('/').nth(3).unwrap_or_default();
    percent_decode_str(encoded)
        .decode_utf8()
        .map_err(|_| Problem::new(ProblemCode::BadName, "a name must be percent-encoded UTF-8"))
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
        query.map(|extract::Query(query)| Self(query)).map_err(|_| unusable_query::<T>())
    }
}

/// The query of a hold, in which `names` comes once for each name.
#[derive(Debug)]
pub(crate) struct HoldQuery(pub(crate) Acquire);

impl FromRequestParts<Arc<AppState>> for HoldQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<AppState>) -> Result<Self, Problem> {
        parse_hold_query(parts.uri.query().unwrap_or_default())
            .ok_or_else(unusable_query::<Acquire>)
            .map(Self)
    }
}

fn parse_hold_query(query: &str) -> Option<Acquire> {
    let is_name = |pair: &&str| pair.starts_with("names=");
    let (names, others): (Vec<&str>, Vec<&str>) = query.split('&').partition(is_name);
    let names: Vec<(String, String)> = parse_query(&names)?;
    let mut acquire: Acquire = parse_query(&others)?;
    if !names.is_empty() {
        acquire.names = Some(names.into_iter().map(|(_, name)| name).collect());
    }
    Some(acquire)
}

fn parse_query<T: DeserializeOwned>(pairs: &[&str]) -> Option<T> {
    let uri: Uri = format!("/?{}", pairs.join("&")).parse().ok()?;
    extract::Query::try_from_uri(&uri).ok().map(|extract::Query(query)| query)
}

fn unusable_query<T: Fields>() -> Problem {
    let detail = format!("the query cannot be used; its parameters are {}", T::FIELDS);
    Problem::new(ProblemCode::BadRequest, detail)
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
    let mut collecting = pin!(Limited::new(body, Limits::BODY).collect());
    // Most bodies come together with their heads, and need no timer.
    let collected = match poll_fn(|task| Poll::Ready(collecting.as_mut().poll(task))).await {
        Poll::Ready(collected) => Ok(collected),
        Poll::Pending => tokio::time::timeout(limit, collecting).await,
    };
    match collected {
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
