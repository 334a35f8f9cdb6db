//! The few requests to a cluster that locks need.

use crate::node::NodeError;
use crate::node::engine::batch::Batch;
use crate::node::etcd::client::calls::{Call, Headed};
use crate::node::etcd::client::channel::{Channel, Messages, frame};
use crate::node::etcd::client::cluster::Cluster;
use crate::node::etcd::client::errors::CallError;
use crate::node::etcd::client::member_checks::Checks;
use crate::node::etcd::client::members::{Connection, Members};
use crate::node::etcd::client::messages::{
    AuthenticateRequest, Entry, GrantRequest, Header, MembersRequest, RangeRequest, StatusRequest,
    StatusResponse, TimeToLiveRequest, TxnResponse, WatchRequest,
};
use crate::node::etcd::client::txn::{KeyRange, Txn};
use crate::node::server_text::server_text;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

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

/// The interface of one cluster.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) members: Members,
    pub(crate) cluster: Cluster,
    /// When all members were asked for their cluster.
    pub(crate) checks: Checks,
    /// Changes that are to be sent together.
    pub(crate) batch: Batch<Self>,
    login: Option<Login>,
    /// The cluster's token for our user and password. Locked while it is requested, so that it is
    /// requested once.
    auth_token: Mutex<Option<Arc<str>>>,
    request_timeout: Duration,
}

/// The answer of one member, and which one.
struct Answered<A> {
    answer: A,
    connection: Connection,
}

impl Api {
    pub(crate) fn new(
        members: Members,
        login: Option<Login>,
        batch: Batch<Self>,
        request_timeout: Duration,
    ) -> Self {
        let (cluster, checks, auth_token) = Default::default();
        Self { members, cluster, checks, batch, login, auth_token, request_timeout }
    }

    /// What is stored under `key`.
    #[cfg(test)]
    pub(crate) async fn read(&self, key: &[u8]) -> Result<Option<Entry>, CallError> {
        let request = RangeRequest { key: key.to_vec(), ..RangeRequest::default() };
        Ok(self.ask(&request).await?.kvs.into_iter().next())
    }

    /// The keys that begin with `prefix`, at most `limit`, and whether these are all.
    pub(crate) async fn keys(&self, prefix: &[u8], limit: usize) -> Result<(Vec<Vec<u8>>, bool), CallError> {
        let all = KeyRange::with_prefix(prefix).request();
        let found = self.ask(&RangeRequest { limit: limit as i64, keys_only: true, ..all }).await?;
        Ok((found.kvs.into_iter().map(|Entry { key, .. }| key).collect(), !found.more))
    }

    /// Carries out `txn` at once, whole or not at all.
    pub(crate) async fn execute(&self, txn: Txn) -> Result<TxnResponse, CallError> {
        self.ask(&txn.into_request()).await
    }

    /// Makes the lease `id`, which ends after `ttl` or somewhat later: etcd counts whole seconds, two at
    /// least.
    pub(crate) async fn grant(&self, id: i64, ttl: Duration) -> Result<(), CallError> {
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let ttl = i64::try_from(seconds).unwrap_or(i64::MAX);
        let granted = self.ask(&GrantRequest { ttl, id }).await?;
        if granted.ttl < ttl {
            let message = format!("a lease of {} s was granted instead of {ttl} s", granted.ttl).into();
            return Err(CallError::Unsent(NodeError::Server { message }));
        }
        Ok(())
    }

    /// The same for a lease that another client may make at the same moment, which is as good.
    pub(crate) async fn try_grant(&self, id: i64, ttl: Duration) -> Result<(), CallError> {
        match self.grant(id, ttl).await {
            Err(CallError::Refused(refusal)) if refusal.message.contains("lease already exists") => Ok(()),
            granted => granted,
        }
    }

    /// Ends the lease `id`, and all that ends with it. Returns whether there was one.
    #[cfg(test)]
    pub(crate) async fn revoke(&self, id: i64) -> Result<bool, CallError> {
        match self.ask(&crate::node::etcd::client::messages::RevokeRequest { id }).await {
            Ok(_) => Ok(true),
            // A refusal does not name the cluster that it comes from; this does.
            Err(error) if error.is_lost_lease() => self.left(id).await.map(|_| false),
            Err(error) => Err(error),
        }
    }

    /// How long the lease `id` lasts, as one member reports it: too long, if that has just become the
    /// leader, and up to a second too short. Nothing may depend on it but how long a lease is granted
    /// for.
    pub(crate) async fn left(&self, id: i64) -> Result<Duration, CallError> {
        let lease = self.ask(&TimeToLiveRequest { id }).await?;
        // A leader that has not begun to count reports centuries.
        Ok(Duration::from_secs(u64::try_from(lease.ttl.min(lease.granted)).unwrap_or(0)))
    }

    /// The state of the member that answers.
    pub(crate) async fn status(&self) -> Result<StatusResponse, CallError> {
        let status = self.ask(&StatusRequest {}).await?;
        let errors = status.errors.iter().take(MAX_ERRORS).map(server_text).collect();
        Ok(StatusResponse { version: server_text(&status.version), errors, ..status })
    }

    /// How many members the cluster has.
    pub(crate) async fn member_count(&self) -> Result<usize, CallError> {
        Ok(self.ask(&MembersRequest {}).await?.members.len())
    }

    /// How one member in the address answers, if it does within `limit`. Else that member is not used any
    /// more until others fail.
    pub(crate) async fn ask_member(&self, number: usize, limit: Duration) -> Option<Header> {
        let answer = async {
            let auth_token = self.auth_token().await.ok()?;
            let channel = self.members.connect_to(number).await.ok()?;
            call(&channel, &StatusRequest {}, auth_token.as_deref()).await.ok()
        };
        let answer = timeout(limit.min(self.request_timeout), answer).await.ok().flatten();
        if answer.is_none() {
            self.members.leave_member(number);
        }
        answer.map(|status| status.header())
    }

    /// Whether an answer with this `header` counts.
    pub(crate) fn accept(&self, header: Header, endpoint: usize, at_least: u64) -> Result<(), NodeError> {
        self.cluster.accept(header, self.members.member(endpoint), at_least)
    }

    /// Messages about what happens to keys, and the member that they come from.
    pub(crate) async fn open_watch(&self) -> Result<(Messages, Connection), CallError> {
        let auth_token = self.auth_token().await?;
        let connection = self.members.connection().await.map_err(CallError::Unsent)?;
        let messages = connection.channel.open_stream(WatchRequest::PATH, auth_token.as_deref()).await?;
        Ok((messages, connection))
    }

    /// Requests a new token with the next call: the current one may be stale.
    pub(crate) async fn renew_auth_token(&self) {
        *self.auth_token.lock().await = None;
    }

    /// The answer to `request`.
    pub(crate) async fn ask<C: Call>(&self, request: &C) -> Result<C::Answer, CallError> {
        let message = frame(request);
        let auth_token = self.auth_token().await?;
        match self.send::<C>(message.clone(), auth_token.as_deref()).await {
            // Tokens end after some minutes, and with a restart.
            Err(CallError::Refused(refusal)) if auth_token.is_some() && refusal.is_expired_token() => {
                self.forget_auth_token(&auth_token).await;
                let auth_token = self.auth_token().await?;
                self.send::<C>(message, auth_token.as_deref()).await
            }
            answer => answer,
        }
    }

    /// Sends `message` to the current member, and checks which cluster answers.
    async fn send<C: Call>(&self, message: Bytes, auth_token: Option<&str>) -> Result<C::Answer, CallError> {
        // Read before it is sent: other calls may raise it until the answer comes.
        let at_least = if C::IS_AGREED_ON { self.cluster.revision() } else { 0 };
        let Answered { answer, connection } = self.answer::<C>(message, auth_token).await?;
        if let Err(error) = self.accept(answer.header(), connection.endpoint, at_least) {
            // Another member may belong to our cluster.
            self.members.leave(&connection);
            return Err(CallError::Failed(error));
        }
        Ok(answer)
    }

    async fn answer<C: Call>(
        &self,
        message: Bytes,
        auth_token: Option<&str>,
    ) -> Result<Answered<C::Answer>, CallError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let connection = self.members.connection().await.map_err(CallError::Unsent)?;
            let answer = connection.channel.call(C::PATH, message.clone(), auth_token);
            let answer = timeout(self.request_timeout, answer)
                .await
                .unwrap_or(Err(CallError::Failed(NodeError::Timeout { after: self.request_timeout })));
            match answer {
                Ok(answer) => return Ok(Answered { answer, connection }),
                Err(error) => {
                    // If this is no answer of a healthy member, another member may give one.
                    if !error.is_definite() {
                        self.members.leave(&connection);
                    }
                    // The member closed the connection while nothing was sent.
                    if !matches!(error, CallError::Unsent(_)) || tries > self.members.count() {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The cluster's token for our user and password, requested if needed; `None` without a login.
    pub(crate) async fn auth_token(&self) -> Result<Option<Arc<str>>, CallError> {
        let Some(login) = &self.login else { return Ok(None) };
        let mut cached = self.auth_token.lock().await;
        if cached.is_some() {
            return Ok(cached.clone());
        }
        let request = AuthenticateRequest { name: login.user.clone(), password: login.password.clone() };
        let granted = match self.send::<AuthenticateRequest>(frame(&request), None).await {
            Ok(granted) => granted,
            // A cluster without authentication needs no token.
            Err(CallError::Refused(refusal)) if refusal.message.contains("authentication is not enabled") => {
                return Ok(None);
            }
            // What the token was for was not sent.
            Err(CallError::Failed(error)) => return Err(CallError::Unsent(error)),
            Err(error) => return Err(error),
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

async fn call<C: Call>(
    channel: &Channel,
    request: &C,
    auth_token: Option<&str>,
) -> Result<C::Answer, CallError> {
    channel.call(C::PATH, frame(request), auth_token).await
}
