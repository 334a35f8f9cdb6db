//! A lock as the nodes see it.

use crate::json::holder::HolderJson;
use crate::json::millis;
use quorlock::node::{Content, View};
use quorlock::{Holder, Inspection, NodeView, Token};
use serde::Serialize;
use utoipa::ToSchema;

/// A lock as the nodes see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = LockView)]
pub(crate) struct LockJson {
    pub(crate) name: String,
    /// Whether a client has it on a majority of nodes.
    pub(crate) held: bool,
    pub(crate) holder: Option<HolderJson>,
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
    pub(crate) node_views: Option<Vec<NodeLockJson>>,
    /// The holder's token; only for callers of scope `write` who ask for one lock. If the nodes have no
    /// holder, the token of a caller of this sidecar whose lock they forgot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl From<&Inspection> for LockJson {
    /// Without waiters, node views and token.
    fn from(seen: &Inspection) -> Self {
        Self {
            name: seen.name.to_string(),
            held: seen.is_held(),
            holder: HolderJson::of(&seen.holder),
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

/// What one node stores for a lock.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = NodeStores)]
pub(crate) struct NodeLockJson {
    node: String,
    /// `holds`, `free`, `other` (another holder than the majority's), `foreign`, `failed` or `unknown`.
    state: &'static str,
    remaining_ms: Option<u64>,
    holder: Option<HolderJson>,
    /// Why it did not reply.
    cause: Option<String>,
}

impl NodeLockJson {
    /// `holder` is the token that a majority of nodes stores.
    pub(crate) fn new(node: &NodeView, holder: Option<Token>) -> Self {
        let name = node.node.to_string();
        let view = match &node.view {
            Ok(view) => view,
            Err(cause) => {
                let cause = Some(cause.to_string());
                return Self { node: name, state: "failed", remaining_ms: None, holder: None, cause };
            }
        };
        let (state, holder) = Self::content(view, holder);
        Self { node: name, state, remaining_ms: view.left.map(millis), holder, cause: None }
    }

    fn content(view: &View, holder: Option<Token>) -> (&'static str, Option<HolderJson>) {
        match &view.content {
            Content::Free => ("free", None),
            Content::Lock(stored) => {
                let state = if Some(stored.token) == holder { "holds" } else { "other" };
                (state, Some((&stored.owner).into()))
            }
            Content::Foreign(_) => ("foreign", Some(HolderJson::foreign())),
            _ => ("unknown", None),
        }
    }
}
