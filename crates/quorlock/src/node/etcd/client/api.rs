//! The few requests of etcd's JSON interface that locks need.

use crate::node::NodeError;
use crate::node::etcd::client::cluster::{Cluster, Headed, Header};
use crate::node::etcd::client::errors::{ApiError, CallError};
use crate::node::etcd::client::http::{Answered, Call, Http, Opened};
use crate::node::etcd::client::json::{self, Answer, Entry, KeyRange, Range, Txn, number};
use crate::node::etcd::client::members::Checks;
use crate::node::server_text::server_text;
use bytes::Bytes;
use hyper::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// The most complaints of a member that are kept.
const MAX_ERRORS: usize = 16;

/// User and password.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

/// The JSON interface of one cluster.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) http: Http,
    pub(crate) cluster: Cluster,
    /// When all members were asked for their cluster.
    pub(crate) checks: Checks,
    login: Option<Login>,
    /// The cluster's token for our user and password. Locked while it is requested, so that it is
    /// requested once.
    auth_token: Mutex<Option<Arc<str>>>,
}

/// The state of the member that answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) version: String,
    /// How large its data is, in bytes.
    #[serde(rename = "dbSize", deserialize_with = "number")]
    pub(crate) size: u64,
    /// Which member leads; 0 if none does.
    #[serde(deserialize_with = "number")]
    pub(crate) leader: u64,
    /// What is wrong with it, as it reports it.
    pub(crate) errors: Vec<String>,
}

impl Api {
    pub(crate) fn new(http: Http, login: Option<Login>) -> Self {
        let (cluster, checks, auth_token) = Default::default();
        Self { http, cluster, checks, login, auth_token }
    }

    /// What is stored under `key`.
    pub(crate) async fn read(&self, key: &[u8]) -> Result<Option<Entry>, NodeError> {
        let found: Range = self.ask("/v3/kv/range", &json!({ "key": json::text(key) })).await?;
        Ok(found.kvs.into_iter().next())
    }

    /// The keys that begin with `prefix`, at most `limit`, and whether these are all.
    pub(crate) async fn keys(&self, prefix: &[u8], limit: usize) -> Result<(Vec<Vec<u8>>, bool), NodeError> {
        let request = json!({ "limit": limit.to_string(), "keys_only": true });
        let request = KeyRange::with_prefix(prefix).in_json(request);
        let found: Range = self.ask("/v3/kv/range", &request).await?;
        Ok((found.kvs.into_iter().map(|entry| entry.key).collect(), !found.more))
    }

    /// Carries out `txn`, whole or not at all.
    pub(crate) async fn execute(&self, txn: &Txn) -> Result<Answer, NodeError> {
        self.ask("/v3/kv/txn", &txn.to_json()).await
    }

    /// How often each member was left for another.
    pub(crate) fn member_changes(&self) -> watch::Receiver<Vec<u64>> {
        self.http.member_changes()
    }

    /// Uses another member from now on: the current one keeps a watch waiting.
    pub(crate) fn leave_member(&self) {
        self.http.leave_member(self.http.current());
    }

    /// Makes the lease `id`, which ends after `ttl` or somewhat later: etcd counts whole seconds, two at
    /// least.
    pub(crate) async fn grant(&self, id: i64, ttl: Duration) -> Result<(), NodeError> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let request = json!({ "ID": id.to_string(), "TTL": seconds.to_string() });
        self.ask::<Value>("/v3/lease/grant", &request).await.map(drop)
    }

    /// The same for a lease that another client may make at the same moment, which is as good.
    pub(crate) async fn try_grant(&self, id: i64, ttl: Duration) -> Result<(), NodeError> {
        match self.grant(id, ttl).await {
            Err(NodeError::Server { message }) if message.contains("lease already exists") => Ok(()),
            granted => granted,
        }
    }

    /// Ends the lease `id`, and all that ends with it. Returns whether there was one.
    pub(crate) async fn revoke(&self, id: i64) -> Result<bool, NodeError> {
        match self.try_ask::<Value>("/v3/lease/revoke", &json!({ "ID": id.to_string() })).await {
            Ok(_) => Ok(true),
            // A refusal does not name the cluster that it comes from; this does.
            Err(CallError::Refused(refusal)) if refusal.server_text().contains("lease not found") => {
                self.left(id).await.map(|_| false)
            }
            Err(trouble) => Err(trouble.cause()),
        }
    }

    /// How long the lease `id` lasts, as one member reports it: too long, if that has just become the
    /// leader, and up to a second too short. Nothing may depend on it but how long a lease is granted
    /// for.
    pub(crate) async fn left(&self, id: i64) -> Result<Duration, NodeError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Lease {
            #[serde(rename = "TTL", deserialize_with = "number")]
            ttl: i64,
            #[serde(rename = "grantedTTL", deserialize_with = "number")]
            granted: i64,
        }
        let lease: Lease = self.ask("/v3/lease/timetolive", &json!({ "ID": id.to_string() })).await?;
        // A leader that has not begun to count reports centuries.
        Ok(Duration::from_secs(u64::try_from(lease.ttl.min(lease.granted)).unwrap_or(0)))
    }

    /// The state of the member that answers.
    pub(crate) async fn status(&self) -> Result<Status, NodeError> {
        let status: Status = self.ask("/v3/maintenance/status", &json!({})).await?;
        let errors = status.errors.iter().take(MAX_ERRORS).map(server_text).collect();
        Ok(Status { version: server_text(&status.version), errors, ..status })
    }

    /// How many members the cluster has.
    pub(crate) async fn members(&self) -> Result<usize, NodeError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Members {
            members: Vec<serde::de::IgnoredAny>,
        }
        let found: Members = self.ask("/v3/cluster/member/list", &json!({})).await?;
        Ok(found.members.len())
    }

    /// How one member in the address answers, if it does within `limit`.
    pub(crate) async fn ask_member(&self, number: usize, limit: Duration) -> Option<Header> {
        let auth_token = self.auth_token().await.ok()?;
        let call = Call { path: "/v3/maintenance/status", body: encoded(&json!({})), auth_token };
        let body = self.http.ask_member(number, &call, limit).await?;
        serde_json::from_slice(&body).ok().map(|Headed { header }| header)
    }

    /// Whether an answer with this `header` counts.
    pub(crate) fn accept(&self, header: Header, endpoint: usize, at_least: u64) -> Result<(), NodeError> {
        self.cluster.accept(header, self.http.member(endpoint), at_least)
    }

    /// What happens to the keys of `ranges` after the revision `since`, or from now on if that is 0, as a
    /// text that does not end; read by the watch module. Each range is confirmed by a line.
    pub(crate) async fn watch(&self, ranges: &[KeyRange], since: u64) -> Result<Opened, NodeError> {
        let start = if since == 0 { 0 } else { since + 1 };
        let request = |range: &KeyRange| {
            let what = json!({ "filters": ["NOPUT"], "start_revision": start.to_string() });
            json!({ "create_request": range.in_json(what) }).to_string()
        };
        let body = ranges.iter().map(request).collect::<Vec<_>>().join("\n").into();
        let call = Call { path: "/v3/watch", body, auth_token: self.auth_token().await? };
        let opened = self.http.open(&call).await?;
        if opened.status != StatusCode::OK {
            return Err(NodeError::Server {
                message: format!("it refuses to be watched: {}", opened.status).into(),
            });
        }
        Ok(opened)
    }

    /// Requests a new token with the next call: the current one may be stale.
    pub(crate) async fn renew_auth_token(&self) {
        *self.auth_token.lock().await = None;
    }

    async fn ask<T: DeserializeOwned>(&self, path: &str, request: &Value) -> Result<T, NodeError> {
        self.try_ask(path, request).await.map_err(CallError::cause)
    }

    async fn try_ask<T: DeserializeOwned>(&self, path: &str, request: &Value) -> Result<T, CallError> {
        let body = encoded(request);
        let auth_token = self.auth_token().await?;
        match self.call(&Call { path, body: body.clone(), auth_token: auth_token.clone() }).await {
            // Tokens end after some minutes, and with a restart.
            Err(CallError::Refused(refusal)) if auth_token.is_some() && refusal.is_expired_token() => {
                self.forget_auth_token(&auth_token).await;
                let auth_token = self.auth_token().await?;
                self.call(&Call { path, body, auth_token }).await
            }
            answer => answer,
        }
    }

    async fn call<T: DeserializeOwned>(&self, call: &Call<'_>) -> Result<T, CallError> {
        // Read before it is sent: other calls may raise it until the answer comes.
        let at_least = if is_agreed_on(call.path) { self.cluster.revision() } else { 0 };
        let Answered { status, body, endpoint } = self.http.call(call).await?;
        let read = match status {
            StatusCode::OK => self.read_answer(&body, endpoint, at_least).map_err(CallError::from),
            _ => Err(match serde_json::from_slice::<ApiError>(&body) {
                Ok(refusal) if refusal.code != 0 => CallError::Refused(refusal),
                _ => protocol(format!(
                    "{} answered {status}; it must be the client port of etcd 3.4 or newer, with its JSON gateway on",
                    call.path
                ))
                .into(),
            }),
        };
        // If this is no answer of a healthy member, another member may give one.
        if let Err(trouble) = &read
            && !trouble.is_definite()
        {
            self.http.leave_member(endpoint);
        }
        read
    }

    fn read_answer<T: DeserializeOwned>(
        &self,
        body: &[u8],
        endpoint: usize,
        at_least: u64,
    ) -> Result<T, NodeError> {
        let unreadable = |error: serde_json::Error| {
            protocol(format!("an answer cannot be read: {}", server_text(error.to_string())))
        };
        let Headed { header } = serde_json::from_slice(body).map_err(unreadable)?;
        self.accept(header, endpoint, at_least)?;
        serde_json::from_slice(body).map_err(unreadable)
    }

    /// The cluster's token for our user and password, requested if needed; `None` without a login.
    pub(crate) async fn auth_token(&self) -> Result<Option<Arc<str>>, NodeError> {
        let Some(login) = &self.login else { return Ok(None) };
        let mut cached = self.auth_token.lock().await;
        if cached.is_some() {
            return Ok(cached.clone());
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Granted {
            token: String,
        }
        let request = json!({ "name": login.user, "password": login.password });
        let call = Call { path: "/v3/auth/authenticate", body: encoded(&request), auth_token: None };
        let granted = match self.call::<Granted>(&call).await {
            Ok(granted) => granted,
            // A cluster without authentication needs no token.
            Err(CallError::Refused(refusal))
                if refusal.server_text().contains("authentication is not enabled") =>
            {
                return Ok(None);
            }
            Err(trouble) => return Err(trouble.cause()),
        };
        let auth_token: Arc<str> = granted.token.into();
        *cached = Some(auth_token.clone());
        Ok(Some(auth_token))
    }

    async fn forget_auth_token(&self, stale: &Option<Arc<str>>) {
        let mut cached = self.auth_token.lock().await;
        if *cached == *stale {
            *cached = None;
        }
    }
}

/// Whether a majority of the members agrees on the answers to `path`, so that none is older than its
/// request. What one member answers alone may be.
fn is_agreed_on(path: &str) -> bool {
    matches!(path, "/v3/kv/range" | "/v3/kv/txn" | "/v3/lease/grant" | "/v3/lease/revoke")
}

fn encoded(request: &Value) -> Bytes {
    request.to_string().into()
}

pub(crate) fn protocol(reason: impl Into<Arc<str>>) -> NodeError {
    NodeError::Protocol { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Comparing the revision of an answer that one member gives alone would take a member that lags
    /// behind for a restored one.
    #[test]
    fn only_what_a_majority_agrees_on_is_as_new_as_its_request() {
        for path in ["/v3/kv/range", "/v3/kv/txn", "/v3/lease/grant", "/v3/lease/revoke"] {
            assert!(is_agreed_on(path), "{path}");
        }
        for path in ["/v3/maintenance/status", "/v3/lease/timetolive", "/v3/cluster/member/list"] {
            assert!(!is_agreed_on(path), "{path}");
        }
    }
}
