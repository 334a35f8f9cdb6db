//! Locks, holders and leases as JSON.

use quorlock::node::{Content, Health, View};
use quorlock::{Held, Holder, Inspection, Locker, Moment, NodeReport, NodeView, Owner, Said, Stored, Token};
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// A lock that is yours until its deadline.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lease {
    /// The lock.
    pub(crate) name: String,
    /// The proof of ownership: whoever has it can extend and release the lock.
    pub(crate) token: String,
    /// The number to send with every write to what the lock protects; null if it cannot be told any more.
    pub(crate) fence: Option<u64>,
    /// How long the nodes keep it after each extension.
    pub(crate) ttl_ms: u64,
    /// How long it was held for sure when this was written. Do not count from when you read it: see the next two.
    pub(crate) remaining_ms: u64,
    /// How long the sidecar had had the request when this was written. The lock is yours until `request_age_ms` and
    /// `remaining_ms` have passed since before you sent the request.
    pub(crate) request_age_ms: u64,
    /// The end of it on `CLOCK_BOOTTIME` of the sidecar's machine, for clients that share that clock.
    pub(crate) deadline_boot_ms: u64,
    /// How many nodes had agreed when it was decided.
    pub(crate) votes: usize,
    /// How many nodes there are.
    pub(crate) nodes: usize,
    /// How many of them decide.
    pub(crate) quorum: usize,
}

impl Lease {
    pub(crate) fn of(held: &Held, ttl: Duration, locker: &Locker, arrived: Moment) -> Self {
        let (validity, quorum) = (Validity::of(held, locker, arrived), locker.quorum());
        Self {
            name: held.name().to_string(),
            token: held.token().to_string(),
            fence: Some(held.fence()),
            ttl_ms: millis(ttl),
            remaining_ms: validity.remaining_ms,
            request_age_ms: validity.request_age_ms,
            deadline_boot_ms: validity.deadline_boot_ms,
            votes: held.votes(),
            nodes: quorum.nodes(),
            quorum: quorum.needed(),
        }
    }
}

/// Until when a lock is its caller's: an absolute end for a client that shares the boot clock, and for any other what it
/// needs to count from before its request. Both are never later than the end that we count ourselves.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Validity {
    pub(crate) remaining_ms: u64,
    pub(crate) request_age_ms: u64,
    pub(crate) deadline_boot_ms: u64,
}

impl Validity {
    /// Of a held lock that was asked for by a request that had `arrived` by then.
    pub(crate) fn of(held: &Held, locker: &Locker, arrived: Moment) -> Self {
        // The clock is read first: a pause between the two makes the end seem earlier, never later.
        let now = locker.now();
        Self::at(now, held.remaining(), arrived)
    }

    /// With so much `left` at `now`, or later.
    pub(crate) fn at(now: Moment, left: Duration, arrived: Moment) -> Self {
        Self {
            remaining_ms: millis(left),
            request_age_ms: millis(now.since(arrived)),
            deadline_boot_ms: millis((now + left).since_boot()),
        }
    }
}

/// Who has a lock, as the holder told it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Who {
    /// `user@host`, or what the caller gave as `owner`; `?` if another kind of client holds it.
    owner: String,
    /// The process that took it.
    pid: Option<u32>,
    /// When it began to take it, in milliseconds since 1970, by its own clock.
    since: Option<u64>,
    /// Why, if it said so.
    reason: Option<String>,
    /// Whether another kind of client holds it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    foreign: bool,
}

impl Who {
    /// A holder that tells of itself.
    pub(crate) fn owner(owner: &Owner) -> Self {
        Self {
            owner: owner.who.clone(),
            pid: Some(owner.pid),
            since: Some(owner.since.as_micros() / 1000),
            reason: owner.reason.clone(),
            foreign: false,
        }
    }

    /// `None` if nobody has it.
    pub(crate) fn of(holder: &Holder) -> Option<Self> {
        match holder {
            Holder::Owner { owner, .. } => Some(Self::owner(owner)),
            // What it stored may be the secret of that client, so it is not repeated.
            Holder::Foreign(_) => {
                Some(Self { owner: "?".to_owned(), pid: None, since: None, reason: None, foreign: true })
            }
            _ => None,
        }
    }

    /// For people.
    pub(crate) fn told(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} (pid {pid})", self.owner),
            None => "another kind of client".to_owned(),
        }
    }
}

/// A lock as the nodes tell it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct LockView {
    pub(crate) name: String,
    /// Whether somebody has it on a majority of nodes.
    pub(crate) held: bool,
    pub(crate) holder: Option<Who>,
    /// The holder's fence.
    pub(crate) fence: Option<u64>,
    /// How long the holder has it, unless it extends.
    pub(crate) remaining_ms: Option<u64>,
    /// How many nodes the holder has it on.
    pub(crate) votes: usize,
    pub(crate) nodes: usize,
    pub(crate) quorum: usize,
    /// Calls of this sidecar that wait for it.
    pub(crate) waiters: usize,
    /// Whether it is held through this sidecar.
    pub(crate) here: bool,
    /// What each node stores; only when asked for one lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_views: Option<Vec<NodeStores>>,
    /// The holder's token; only for callers of scope `write` who ask for one lock. If the nodes have no holder, that of a
    /// caller of this sidecar whose lock they forgot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl LockView {
    /// Without waiters, nodes and token.
    pub(crate) fn of(seen: &Inspection) -> Self {
        Self {
            name: seen.name.to_string(),
            held: seen.is_held(),
            holder: Who::of(&seen.holder),
            fence: match &seen.holder {
                Holder::Owner { fence, .. } => Some(fence.get()),
                _ => None,
            },
            remaining_ms: seen.left.map(millis),
            votes: seen.votes,
            nodes: seen.quorum.nodes(),
            quorum: seen.quorum.needed(),
            waiters: 0,
            here: false,
            node_views: None,
            token: None,
        }
    }
}

/// The token of a holder that has one.
pub(crate) fn token_of(holder: &Holder) -> Option<Token> {
    match holder {
        Holder::Owner { token, .. } => Some(*token),
        _ => None,
    }
}

/// What one node stores for a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct NodeStores {
    node: String,
    /// `holds`, `free`, `other` (another holder than the majority's), `foreign`, `failed` or `unknown`.
    state: &'static str,
    remaining_ms: Option<u64>,
    holder: Option<Who>,
    /// Why it did not tell.
    cause: Option<String>,
}

impl NodeStores {
    pub(crate) fn of(node: &NodeView, holder: Option<Token>) -> Self {
        let name = node.node.to_string();
        let view = match &node.view {
            Ok(view) => view,
            Err(cause) => {
                let cause = Some(cause.to_string());
                return Self { node: name, state: "failed", remaining_ms: None, holder: None, cause };
            }
        };
        let (state, who) = Self::content(view, holder);
        Self { node: name, state, remaining_ms: view.left.map(millis), holder: who, cause: None }
    }

    fn content(view: &View, holder: Option<Token>) -> (&'static str, Option<Who>) {
        let owner = |stored: &Stored| {
            let (token, fence, owner) = (stored.token, stored.fence, stored.owner.clone());
            Who::of(&Holder::Owner { token, fence, owner })
        };
        match &view.content {
            Content::Free => ("free", None),
            Content::Lock(stored) if Some(stored.token) == holder => ("holds", owner(stored)),
            Content::Lock(stored) => ("other", owner(stored)),
            Content::Foreign(_) => ("foreign", Who::of(&Holder::Foreign(String::new()))),
            _ => ("unknown", None),
        }
    }
}

/// What one node said in a round that failed.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct NodeSaid {
    node: String,
    /// `yes`, `no` or `failed`.
    said: &'static str,
    cause: Option<String>,
}

impl NodeSaid {
    pub(crate) fn of(report: &NodeReport) -> Self {
        let (said, cause) = match &report.said {
            Said::Yes => ("yes", None),
            Said::No => ("no", None),
            Said::Failed(cause) => ("failed", Some(cause.to_string())),
            _ => ("unknown", None),
        };
        Self { node: report.node.to_string(), said, cause }
    }

    /// Whether a node can vote now.
    pub(crate) fn by_health(node: &str, health: &Health) -> Self {
        let cause = health.trouble.as_ref().map(ToString::to_string);
        Self { node: node.to_owned(), said: if cause.is_some() { "failed" } else { "yes" }, cause }
    }
}

/// Whole milliseconds.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
