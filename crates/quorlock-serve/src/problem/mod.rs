//! Errors as callers get them: `application/problem+json`, never with a token in it.

pub(crate) mod code;

use crate::json::holder::HolderJson;
use crate::json::millis;
use crate::json::node_vote::NodeVoteJson;
use crate::json::reader::ReaderJson;
use crate::metrics;
use crate::problem::code::ProblemCode;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use quorlock::{
    AcquireError, ConfigError, ExtendError, HeldName, Holder, InspectError, Lease, ListError, Locker, Lost,
    NameError, NodeReport, Quorum,
};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// A problem that a request met.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    code: ProblemCode,
    detail: String,
    extras: Map<String, Value>,
    retry_after: Option<u64>,
}

impl Problem {
    /// `detail` is one line that says what to do.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), extras: Map::new(), retry_after: None }
    }

    /// Adds a field.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.extras.insert(key.to_owned(), value.into());
        self
    }

    /// Advises to try again after `span`, in whole seconds, at least 1.
    pub(crate) fn retry_after(mut self, span: Option<Duration>) -> Self {
        let span = span.unwrap_or(Duration::from_secs(1));
        self.retry_after = Some((span.as_secs() + u64::from(span.subsec_nanos() > 0)).max(1));
        self
    }

    pub(crate) fn code(&self) -> ProblemCode {
        self.code
    }

    pub(crate) fn shutting_down() -> Self {
        Self::new(
            ProblemCode::ShuttingDown,
            "ask another sidecar, or this one again once it has been restarted",
        )
    }

    pub(crate) fn wrong_method() -> Self {
        let detail = "see /openapi.json for the methods of each path, and the header `allow`";
        Self::new(ProblemCode::MethodNotAllowed, detail)
    }

    pub(crate) fn internal() -> Self {
        let detail = "this is a bug; read the sidecar's own output, and report it";
        Self::new(ProblemCode::Internal, detail)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(ProblemCode::NotFound, "see /openapi.json for the paths; a `/` in a name is written %2F")
    }

    /// The lock was not acquired. `has_waited` if the caller was ready to wait.
    pub(crate) fn not_acquired(error: AcquireError, has_waited: bool) -> Self {
        match error {
            AcquireError::Held { lock, holder, left, .. } => {
                let fact = format!("lock `{lock}` is held by {}", holder_text(&holder));
                Self::held(ProblemCode::Held, &fact, left, has_waited).with_holder(&holder)
            }
            AcquireError::NamesHeld { held, .. } => Self::names_held(&held, has_waited),
            AcquireError::NoPermit { lock, slots, .. } => {
                let fact = format!("all {slots} slots of semaphore `{lock}` are taken");
                Self::held(ProblemCode::NoPermit, &fact, None, has_waited).with("slots", slots)
            }
            AcquireError::SlotsDiffer { lock, recorded } => {
                let detail = format!(
                    "semaphore `{lock}` is in use with {recorded} slots; use that number, or free all slots first"
                );
                Self::new(ProblemCode::SlotsDiffer, detail).with("recorded", recorded)
            }
            AcquireError::Contended { lock, attempts, .. } => {
                let detail = format!(
                    "lock `{lock}` is contended: no client has a majority, after {attempts} attempts; try again"
                );
                Self::new(ProblemCode::Contended, detail).retry_after(None)
            }
            AcquireError::NoQuorum { lock, quorum, answered, nodes } => {
                let detail = format!(
                    "lock `{lock}` needs {} of {} nodes, but only {answered} could vote; look at `nodes`, then at the servers",
                    quorum.needed(),
                    quorum.nodes()
                );
                Self::nodes_failed(ProblemCode::NoQuorum, detail, quorum, &nodes)
            }
            AcquireError::TooSlow { lock, took, ttl } => {
                let detail = format!(
                    "a majority agreed on lock `{lock}` only after {} ms, too late for its ttl of {} ms; use a longer ttl_ms",
                    took.as_millis(),
                    ttl.as_millis()
                );
                Self::new(ProblemCode::TooSlow, detail)
            }
            AcquireError::Config { source, .. } => source.into(),
            AcquireError::Cancelled { .. } => Self::shutting_down(),
            AcquireError::TooManyWaiters { lock, waiters } => Self::too_many_waiters(format!(
                "{waiters} calls wait for lock `{lock}` already; try later, or ask another sidecar"
            )),
            other => Self::new(
                ProblemCode::Internal,
                format!("the lock was not acquired ({}); try again", other.kind()),
            ),
        }
    }

    /// Another caller of this sidecar has the lock, although the nodes forgot it.
    pub(crate) fn held_here(lease: &Lease, has_waited: bool) -> Self {
        let holder = HolderJson::from(&lease.owner());
        let fact = format!("lock `{}` is held by {holder} through this sidecar", lease.name().topic());
        let code = if lease.name().as_slot().is_some() { ProblemCode::NoPermit } else { ProblemCode::Held };
        Self::held(code, &fact, Some(lease.time_left()), has_waited).with("holder", json!(holder))
    }

    /// Other clients hold some of the names, each named with its holder.
    fn names_held(held: &[HeldName], has_waited: bool) -> Self {
        let fact = |held: &HeldName| format!("`{}` is held by {}", held.name, holder_text(&held.holder));
        let facts = held.iter().map(fact).collect::<Vec<_>>().join("; ");
        let holder = |held: &HeldName| {
            json!({
                "name": held.name,
                "holder": HolderJson::of(&held.holder),
                "readers": ReaderJson::all(&held.holder),
                "remaining_ms": held.left.map(millis),
            })
        };
        let left = held.iter().filter_map(|held| held.left).max();
        Self::held(ProblemCode::NamesHeld, &facts, left, has_waited)
            .with("held", held.iter().map(holder).collect::<Vec<_>>())
    }

    /// Another client has what was wanted: `code`, unless the caller waited for it.
    fn held(code: ProblemCode, fact: &str, left: Option<Duration>, has_waited: bool) -> Self {
        let (code, advice) = if has_waited {
            (ProblemCode::WaitOver, "wait longer with wait_ms, or try later")
        } else {
            (code, "try later, or wait for it with wait_ms")
        };
        Self::new(code, format!("{fact}; {advice}"))
            .with("remaining_ms", json!(left.map(millis)))
            .retry_after(left)
    }

    fn with_holder(self, holder: &Holder) -> Self {
        self.with("holder", json!(HolderJson::of(holder))).with("readers", json!(ReaderJson::all(holder)))
    }

    pub(crate) fn too_many_waiters(detail: impl Into<String>) -> Self {
        Self::new(ProblemCode::TooManyWaiters, detail).retry_after(None)
    }

    pub(crate) fn lost(lost: &Lost) -> Self {
        let detail = format!(
            "lock `{}` is not held under this token: {}; stop the work that it protects",
            lost.lock, lost.reason
        );
        Self::new(ProblemCode::Lost, detail)
    }

    /// Adds whether each node can vote now, for problems without a round of votes.
    pub(crate) fn with_nodes(self, locker: &Locker) -> Self {
        let nodes: Vec<NodeVoteJson> = locker.health().iter().map(Into::into).collect();
        self.with("quorum", locker.quorum().needed()).with("nodes", json!(nodes))
    }

    pub(crate) fn nodes_failed(
        code: ProblemCode,
        detail: String,
        quorum: Quorum,
        nodes: &[NodeReport],
    ) -> Self {
        let nodes: Vec<NodeVoteJson> = nodes.iter().map(Into::into).collect();
        Self::new(code, detail).with("quorum", quorum.needed()).with("nodes", json!(nodes))
    }
}

/// Who has a lock, without what another kind of client stored.
fn holder_text(holder: &Holder) -> String {
    HolderJson::of(holder).map_or_else(|| holder.to_string(), |known| known.to_string())
}

impl From<NameError> for Problem {
    fn from(error: NameError) -> Self {
        Self::new(ProblemCode::BadName, error.to_string())
    }
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        match error {
            ConfigError::Ttl(error) => Self::new(ProblemCode::BadTtl, error.to_string()),
            ConfigError::Name(error) => error.into(),
            other => Self::new(ProblemCode::BadRequest, other.to_string()),
        }
    }
}

impl From<ExtendError> for Problem {
    fn from(error: ExtendError) -> Self {
        match error {
            ExtendError::Lost(lost) => Self::lost(&lost),
            ExtendError::NoQuorum { lock, quorum, answered, nodes } => {
                let detail = format!(
                    "only {answered} of {} nodes extended lock `{lock}`; it is held until its old deadline, so try again before that",
                    quorum.nodes()
                );
                Self::nodes_failed(ProblemCode::NoQuorum, detail, quorum, &nodes)
            }
            ExtendError::Config(error) => error.into(),
            _ => Self::new(ProblemCode::Internal, "the lock was not extended; try again before its deadline"),
        }
    }
}

impl From<InspectError> for Problem {
    fn from(error: InspectError) -> Self {
        let detail = format!(
            "too few nodes answered who holds lock `{}`; look at `nodes`, then at the servers",
            error.lock
        );
        Self::nodes_failed(ProblemCode::NoQuorum, detail, error.quorum, &error.nodes)
    }
}

impl From<ListError> for Problem {
    fn from(error: ListError) -> Self {
        match error {
            ListError::NoQuorum { quorum, nodes } => {
                let detail = "too few nodes listed their locks; look at `nodes`, then at the servers";
                Self::nodes_failed(ProblemCode::NoQuorum, detail.to_owned(), quorum, &nodes)
            }
            ListError::Inspect(error) => error.into(),
            _ => Self::new(ProblemCode::Internal, "the locks cannot be listed; try again"),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (word, status, title) = self.code.facts();
        let mut object = Map::new();
        object.insert("type".into(), format!("urn:quorlock:{word}").into());
        object.insert("code".into(), word.into());
        object.insert("title".into(), title.into());
        object.insert("status".into(), status.as_u16().into());
        object.insert("detail".into(), self.detail.into());
        object.extend(self.extras);
        let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"))];
        let mut response = (status, json, Value::Object(object).to_string()).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        metrics::count_problem(word);
        if self.code == ProblemCode::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"quorlock\""));
        }
        response
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use quorlock::Name;

    #[test]
    fn a_retry_is_advised_in_whole_seconds_and_never_at_once() {
        for (millis, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (9500, 10)] {
            let problem =
                Problem::new(ProblemCode::Held, "").retry_after(Some(Duration::from_millis(millis)));
            assert_eq!(problem.retry_after, Some(seconds), "{millis}");
        }
    }

    #[test]
    fn what_another_kind_of_client_stored_is_not_repeated() {
        let lock = Name::new("a").unwrap().into();
        let holder = quorlock::Holder::Foreign("s3cr3t".to_owned());
        let error = AcquireError::Held { lock, holder, left: None, waited: Duration::ZERO };
        let problem = Problem::not_acquired(error, false);
        assert_eq!(problem.extras["holder"]["owner"], "?");
        assert_eq!(problem.extras["holder"]["foreign"], true);
        assert!(!format!("{problem:?}").contains("s3cr3t"));
    }

    #[tokio::test]
    async fn nodes_that_were_too_slow_are_named() {
        let locker = Locker::builder().nodes(["memory:"]).build().unwrap();
        let (lock, took, ttl) =
            (Name::new("a").unwrap().into(), Duration::from_secs(2), Duration::from_secs(1));
        let problem =
            Problem::not_acquired(AcquireError::TooSlow { lock, took, ttl }, false).with_nodes(&locker);
        assert_eq!(problem.code().facts().1, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            (&problem.extras["quorum"], &problem.extras["nodes"][0]["said"]),
            (&json!(1), &json!("yes"))
        );
    }
}
