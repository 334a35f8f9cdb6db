//! The few requests of Consul's HTTP interface that locks need.

use crate::node::NodeError;
use crate::node::consul::client::cluster::Cluster;
use crate::node::consul::client::errors::{denied, is_denied, refusal};
use crate::node::consul::client::http::{Answered, Call, Http};
use crate::node::consul::client::txn::{Answer, Content, Entry, Op, Outcome, Refusal};
use crate::node::engine::Failure;
use crate::node::server_text::server_text;
use hyper::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The node of the catalog that all sessions belong to. It is no machine: sessions of a real node end when that node
/// leaves, however long they were to last.
pub(crate) const NODE: &str = "quorlock";
/// How long an agent may take to answer at all, if no command waits for it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long after a check the agents that were silent in it are asked again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long an agent may hold back the answer to a watch.
pub(crate) const WATCH_SPAN: Duration = Duration::from_secs(30);
/// How much later than asked for the answer to a watch may come: Consul adds a sixteenth at random.
const WATCH_SLACK: Duration = Duration::from_secs(5);

/// Whether a read must see everything that was ever answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Consistency {
    /// The server that leads, or led a moment ago, answers by itself. For reads that a transaction verifies.
    Default,
    /// The server that leads asks a majority first.
    Verified,
}

/// A cluster as its agents offer it.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) http: Http,
    pub(crate) cluster: Cluster,
    /// The key that holds the id of the cluster.
    identity: String,
    /// When agents were last asked for their cluster. Locked while they are asked.
    checked: Mutex<Option<Instant>>,
}

/// What one agent reports about itself and the servers.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    /// `consul 1.8.7`, or `consul` if the token may not ask.
    pub(crate) version: String,
    pub(crate) has_leader: bool,
    pub(crate) servers: Option<usize>,
}

/// The id of the cluster that each agent belongs to, if it answered; `None` if its cluster has none.
type Answers = Vec<(usize, Result<Option<u64>, NodeError>)>;

/// The answer to a watch.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) keys: Vec<String>,
    pub(crate) index: u64,
}

impl Api {
    pub(crate) fn new(http: Http, prefix: &str) -> Self {
        let identity = format!("{prefix}/cluster-id");
        Self { http, cluster: Cluster::default(), identity, checked: Mutex::default() }
    }

    /// Executes `ops`, all or none of them. Those that write have a higher index than all writes before.
    pub(crate) async fn execute(&self, ops: &[Op]) -> Result<Outcome, Failure> {
        let before = self.cluster.index();
        let outcome = self.transact("/v1/txn", ops).await?;
        let written = ops.iter().filter_map(Op::written);
        if let Outcome::Done(entries) = &outcome {
            for key in written {
                let entry = entries.iter().rev().find(|entry| entry.key == key);
                let found = entry.map_or(0, |entry| entry.modify_index);
                if let Err(old) = self.cluster.accept_write(before, found) {
                    return Err(self.judge_old_answer(old).await.into());
                }
            }
        }
        Ok(outcome)
    }

    /// What an answer with an old index means: the cluster lost its data, or the network repeated an answer to
    /// another request.
    async fn judge_old_answer(&self, old: NodeError) -> NodeError {
        let agent = *self.http.current_agent().borrow();
        // No answer that is still on its way comes over a new connection.
        self.http.leave(agent);
        if let Ok(found) = self.ask_identity(agent, PROBE_TIMEOUT).await
            && !self.cluster.has_id(found)
        {
            self.cluster.set_restored(old.clone());
        }
        self.cluster.verdict().err().unwrap_or_else(|| protocol("its answer is older than its request"))
    }

    /// The keys that begin with one of `prefixes`, at one moment.
    pub(crate) async fn read(
        &self,
        prefixes: &[&str],
        consistency: Consistency,
    ) -> Result<Vec<Entry>, NodeError> {
        let ops: Vec<Op> = prefixes.iter().map(|prefix| Op::read_tree(prefix)).collect();
        match self.transact(txn_path(consistency), &ops).await.map_err(Failure::into_error)? {
            Outcome::Done(entries) => {
                let is_ours = |entry: &Entry| prefixes.iter().any(|prefix| entry.key.starts_with(prefix));
                if entries.iter().all(is_ours) {
                    Ok(entries)
                } else {
                    Err(protocol("it answered for other keys"))
                }
            }
            Outcome::Refused(refusal) => Err(protocol(format!("it refused a read: {refusal:?}"))),
        }
    }

    async fn transact(&self, path: &str, ops: &[Op]) -> Result<Outcome, Failure> {
        let body = serde_json::to_vec(ops).map_err(|error| Failure::Unsent(protocol(error.to_string())))?;
        let answered = self.http.call(&Call::put(path, body)).await?;
        match answered.status {
            StatusCode::OK => Ok(Outcome::Done(parse::<Answer>(&answered)?.entries())),
            StatusCode::CONFLICT => refused(&parse::<Answer>(&answered)?),
            _ => Err(self.refused_by(&answered, path)),
        }
    }

    /// Begins a session that ends by itself `ttl` after this call at the earliest, and deletes what it has locked.
    pub(crate) async fn create_session(&self, ttl: Duration) -> Result<String, Failure> {
        #[derive(Deserialize)]
        struct Created {
            #[serde(rename = "ID")]
            id: String,
        }
        let session = json!({
            "Name": NODE,
            "Node": NODE,
            // None: the health of a machine must not end it.
            "Checks": [],
            "NodeChecks": [],
            "LockDelay": "0s",
            "Behavior": "delete",
            "TTL": format!("{}ms", ttl.as_millis()),
        });
        let path = "/v1/session/create";
        let create = Call::put(path, session.to_string());
        let mut answered = self.http.call(&create).await?;
        if answered.status == StatusCode::INTERNAL_SERVER_ERROR && is_missing_node(&answered.body) {
            self.register_node().await?;
            answered = self.http.call(&create).await?;
        }
        match answered.status {
            StatusCode::OK => Ok(parse::<Created>(&answered)?.id),
            _ => Err(self.refused_by(&answered, path)),
        }
    }

    /// Ends a session, and deletes everything that it has locked.
    pub(crate) async fn destroy_session(&self, id: &str) -> Result<(), Failure> {
        let path = format!("/v1/session/destroy/{id}");
        let answered = self.http.call(&Call::put(&path, "")).await?;
        match answered.status {
            StatusCode::OK => Ok(()),
            _ => Err(self.refused_by(&answered, "/v1/session/destroy")),
        }
    }

    /// Enters the node that sessions belong to in the catalog.
    pub(crate) async fn register_node(&self) -> Result<(), Failure> {
        let path = "/v1/catalog/register";
        let node = json!({ "Node": NODE, "Address": "127.0.0.1" });
        let answered = self.http.call(&Call::put(path, node.to_string())).await?;
        match answered.status {
            StatusCode::OK => Ok(()),
            _ => Err(self.refused_by(&answered, path)),
        }
    }

    /// The names of all keys that begin with `prefix`, and the date by the agent's clock.
    pub(crate) async fn keys(&self, prefix: &str) -> Result<(Vec<String>, Option<String>), NodeError> {
        let path = format!("/v1/kv/{}?keys&consistent", url_path(prefix));
        let answered = self.http.call(&Call::get(&path)).await.map_err(Failure::into_error)?;
        let date = answered.date().map(str::to_owned);
        Ok((self.keys_in(&answered)?, date))
    }

    /// The names of all keys that begin with `prefix`, from the agent `agent`, once something below `prefix` has
    /// changed after `index`, or after a while.
    pub(crate) async fn watch(&self, prefix: &str, index: u64, agent: usize) -> Result<Watched, NodeError> {
        let wait = WATCH_SPAN.as_secs();
        let path = match index {
            0 => format!("/v1/kv/{}?keys", url_path(prefix)),
            _ => format!("/v1/kv/{}?keys&index={index}&wait={wait}s", url_path(prefix)),
        };
        let limit = WATCH_SPAN + WATCH_SPAN / 16 + WATCH_SLACK;
        let answered = self.http.ask_agent(agent, &Call::get(&path), limit).await?;
        Ok(Watched { keys: self.keys_in(&answered)?, index: answered.index() })
    }

    fn keys_in(&self, answered: &Answered) -> Result<Vec<String>, NodeError> {
        match answered.status {
            StatusCode::OK => parse(answered).map_err(Failure::into_error),
            StatusCode::NOT_FOUND => Ok(Vec::new()),
            _ => Err(self.refused_by(answered, "/v1/kv").into_error()),
        }
    }

    /// What the agent that is used reports.
    pub(crate) async fn status(&self) -> Result<Status, NodeError> {
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Agent {
            config: Config,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "PascalCase")]
        struct Config {
            version: String,
        }
        let leader: String = self.ask("/v1/status/leader").await?;
        let servers: Option<Vec<serde::de::IgnoredAny>> = self.ask("/v1/status/peers").await.ok();
        // A token for locks need not have the right to ask an agent about itself.
        let agent: Agent = self.ask("/v1/agent/self").await.unwrap_or_default();
        let version = server_text(format!("consul {}", agent.config.version));
        Ok(Status { version, has_leader: !leader.is_empty(), servers: servers.map(|servers| servers.len()) })
    }

    pub(crate) async fn ask<T: DeserializeOwned>(&self, path: &str) -> Result<T, NodeError> {
        let answered = self.http.call(&Call::get(path)).await.map_err(Failure::into_error)?;
        match answered.status {
            StatusCode::OK => parse(&answered).map_err(Failure::into_error),
            _ => Err(self.refused_by(&answered, path).into_error()),
        }
    }

    /// Whether the agents in the address may be used, by the cluster that they belong to.
    ///
    /// The first call asks all of them, for at most half of `limit`. Those that are silent then are not used until
    /// they have answered; they are asked again from time to time, without waiting for them.
    pub(crate) async fn check_agents(
        self: &Arc<Self>,
        limit: Duration,
        new_id: u64,
    ) -> Result<(), NodeError> {
        let unknown = self.http.unknown();
        if unknown.len() == self.http.agents() {
            self.ask_agents(&unknown, limit / 2, new_id).await?;
        } else if !unknown.is_empty()
            && let Ok(mut last) = self.checked.try_lock()
            && last.is_none_or(|last| last.elapsed() >= RETRY_AFTER)
        {
            *last = Some(Instant::now());
            let api = self.clone();
            tokio::spawn(async move { drop(api.judge(&api.ask_all(&unknown, PROBE_TIMEOUT).await)) });
        }
        self.cluster.verdict()
    }

    /// Asks every agent. Returns those that are silent.
    pub(crate) async fn check_all_agents(self: &Arc<Self>, new_id: u64) -> Result<Vec<String>, NodeError> {
        let all: Vec<usize> = (0..self.http.agents()).collect();
        let answers = self.ask_until_known(&all, PROBE_TIMEOUT, new_id).await?;
        self.judge(&answers)?;
        self.cluster.verdict()?;
        let silent = answers.iter().filter(|(_, answer)| answer.is_err());
        Ok(silent.map(|(agent, _)| self.http.authority(*agent).to_owned()).collect())
    }

    /// Asks `agents` for their cluster, unless that was just done.
    async fn ask_agents(
        self: &Arc<Self>,
        agents: &[usize],
        limit: Duration,
        new_id: u64,
    ) -> Result<(), NodeError> {
        let mut last = self.checked.lock().await;
        if self.http.unknown().len() < self.http.agents() {
            return Ok(());
        }
        *last = Some(Instant::now());
        let answers = self.ask_until_known(agents, limit, new_id).await?;
        self.judge(&answers)
    }

    /// Asks `agents`, and makes an id for a cluster that has none.
    async fn ask_until_known(
        self: &Arc<Self>,
        agents: &[usize],
        limit: Duration,
        new_id: u64,
    ) -> Result<Answers, NodeError> {
        let answers = self.ask_all(agents, limit).await;
        let Some((agent, _)) = answers.iter().find(|(_, answer)| matches!(answer, Ok(None))) else {
            return Ok(answers);
        };
        // Another client may make one at this moment, so even an agent of a known cluster may lack it once.
        if !answers.iter().any(|(_, answer)| matches!(answer, Ok(Some(_)))) && !self.cluster.is_known() {
            self.create_identity(*agent, limit, new_id).await?;
        }
        Ok(self.ask_all(agents, limit).await)
    }

    /// Asks `agents` at the same moment for the id of their cluster.
    async fn ask_all(self: &Arc<Self>, agents: &[usize], limit: Duration) -> Answers {
        let mut calls = JoinSet::new();
        for agent in agents.iter().copied() {
            let api = self.clone();
            calls.spawn(async move { (agent, api.ask_identity(agent, limit).await) });
        }
        let mut answers = calls.join_all().await;
        // In the order of the address, so that the same agent is found to be of another cluster each time.
        answers.sort_by_key(|(agent, _)| *agent);
        answers
    }

    /// Uses the agents that belong to the cluster which answered first. Fails if none answered.
    fn judge(&self, answers: &Answers) -> Result<(), NodeError> {
        let mut cause = None;
        let lacks_id = |answer: &&(usize, Result<Option<u64>, NodeError>)| matches!(answer.1, Ok(None));
        let with_id = answers.iter().filter(|answer| !lacks_id(answer));
        for (agent, answer) in with_id.chain(answers.iter().filter(lacks_id)) {
            match answer {
                Ok(Some(id)) => {
                    let is_ours = self.cluster.accept(*agent, self.http.authority(*agent), *id);
                    self.http.set_usable(*agent, is_ours);
                }
                // The cluster that answered first has an id that all of its agents know.
                Ok(None) if self.cluster.is_known() => {
                    self.cluster.accept(*agent, self.http.authority(*agent), 0);
                    self.http.set_usable(*agent, false);
                }
                Ok(None) => {}
                Err(error) => cause = Some(error.clone()),
            }
        }
        match cause {
            Some(cause) if self.http.unknown().len() == self.http.agents() => Err(cause),
            _ => Ok(()),
        }
    }

    async fn ask_identity(&self, agent: usize, limit: Duration) -> Result<Option<u64>, NodeError> {
        let (path, ops) = (txn_path(Consistency::Verified), [Op::read_tree(&self.identity)]);
        let body = serde_json::to_vec(&ops).map_err(|error| protocol(error.to_string()))?;
        let answered = self.http.ask_agent(agent, &Call::put(path, body), limit).await?;
        if answered.status != StatusCode::OK {
            return Err(refusal(answered.status, &answered.body, path).into_error());
        }
        let entries = parse::<Answer>(&answered).map_err(Failure::into_error)?.entries();
        let Some(entry) = entries.iter().find(|entry| entry.key == self.identity) else { return Ok(None) };
        let id = std::str::from_utf8(&entry.value).ok().and_then(|id| u64::from_str_radix(id, 16).ok());
        let odd = || protocol(format!("the key `{}` holds no id of ours", server_text(&self.identity)));
        id.map(Some).ok_or_else(odd)
    }

    /// Stores an id for the cluster, unless another client does so first.
    async fn create_identity(&self, agent: usize, limit: Duration, id: u64) -> Result<(), NodeError> {
        let id = format!("{id:016x}");
        let content = Content { key: &self.identity, value: id.as_bytes(), flags: 0 };
        let body =
            serde_json::to_vec(&[Op::swap(content, 0)]).map_err(|error| protocol(error.to_string()))?;
        let answered = self.http.ask_agent(agent, &Call::put("/v1/txn", body), limit).await?;
        match answered.status {
            StatusCode::OK => Ok(()),
            StatusCode::CONFLICT => {
                let answer = parse::<Answer>(&answered).map_err(Failure::into_error)?;
                refused(&answer).map(drop).map_err(Failure::into_error)
            }
            status => Err(refusal(status, &answered.body, "/v1/txn").into_error()),
        }
    }

    /// What an answer that is no success means. If another agent may do better, it is used from now on.
    fn refused_by(&self, answered: &Answered, path: &str) -> Failure {
        let failure = refusal(answered.status, &answered.body, path);
        if matches!(failure, Failure::Unknown(_)) {
            self.http.leave(answered.agent);
        }
        failure
    }
}

/// Why a transaction was refused.
fn refused(answer: &Answer) -> Result<Outcome, Failure> {
    let causes: Vec<String> = answer.causes().map(server_text).collect();
    if let Some(cause) = causes.iter().find(|cause| is_denied(cause)) {
        return Err(Failure::Unsent(denied(cause)));
    }
    let has_ended = causes.iter().any(|cause| cause.contains("invalid session"));
    Ok(Outcome::Refused(match has_ended {
        true => Refusal::NoSession,
        false => Refusal::Conflict(causes.into_iter().next().unwrap_or_default()),
    }))
}

fn is_missing_node(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains("Missing node registration")
}

fn txn_path(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Default => "/v1/txn",
        Consistency::Verified => "/v1/txn?consistent",
    }
}

fn parse<T: DeserializeOwned>(answered: &Answered) -> Result<T, Failure> {
    serde_json::from_slice(&answered.body).map_err(|error| {
        let error = server_text(error.to_string());
        Failure::Unknown(protocol(format!("an answer cannot be read: {error}")))
    })
}

/// A key as part of a URL.
fn url_path(key: &str) -> String {
    let mut path = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                path.push(byte.into())
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

pub(crate) fn protocol(reason: impl Into<Arc<str>>) -> NodeError {
    NodeError::Protocol { reason: reason.into() }
}
