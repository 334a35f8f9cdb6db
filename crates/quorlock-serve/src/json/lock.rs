//! A lock as the nodes see it.

use crate::json::holder::HolderJson;
use crate::json::millis;
use crate::json::mode::ModeJson;
use crate::json::reader::ReaderJson;
use quorlock::node::{Content, View};
use quorlock::{Holder, Inspection, NodeView};
use serde::Serialize;
use utoipa::ToSchema;

/// A lock as the nodes see it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = LockView)]
pub(crate) struct LockJson {
    pub(crate) name: String,
    /// The semaphore, if this is the name of one of its slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) semaphore: Option<String>,
    /// The number of the slot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<u32>,
    /// Whether a client has it on a majority of nodes.
    pub(crate) held: bool,
    /// How it is held; null if it is free, or if another kind of client holds it.
    pub(crate) mode: Option<ModeJson>,
    /// Who holds it exclusively.
    pub(crate) holder: Option<HolderJson>,
    /// Who shares it: those that end first come first; at most 100.
    pub(crate) readers: Vec<ReaderJson>,
    /// The fence of the exclusive holder.
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
    /// The token of the exclusive holder; only for callers of scope `write` who ask for one lock. If the nodes have no
    /// holder, the token of a caller of this sidecar whose lock they forgot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<String>,
}

impl From<&Inspection> for LockJson {
    /// Without waiters, node views and token.
    fn from(seen: &Inspection) -> Self {
        let slot = seen.name.as_slot();
        Self {
            name: seen.name.to_string(),
            semaphore: slot.map(|(semaphore, _)| semaphore.to_owned()),
            slot: slot.map(|(_, slot)| slot),
            held: seen.is_held(),
            mode: mode(&seen.holder),
            holder: HolderJson::of(&seen.holder),
            readers: ReaderJson::all(&seen.holder),
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

fn mode(holder: &Holder) -> Option<ModeJson> {
    match holder {
        Holder::Owner { .. } => Some(ModeJson::Exclusive),
        Holder::Shared { .. } => Some(ModeJson::Shared),
        _ => None,
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
    /// Who holds it exclusively.
    holder: Option<HolderJson>,
    /// How many clients share it.
    readers: usize,
    /// Why it did not reply.
    cause: Option<String>,
}

impl NodeLockJson {
    /// `holder` is the one that a majority of nodes stores.
    pub(crate) fn new(node: &NodeView, holder: &Holder) -> Self {
        let empty = Self {
            node: node.node.to_string(),
            state: "failed",
            remaining_ms: None,
            holder: None,
            readers: 0,
            cause: None,
        };
        match &node.view {
            Ok(view) => empty.with_content(view, holder),
            Err(cause) => Self { cause: Some(cause.to_string()), ..empty },
        }
    }

    fn with_content(self, view: &View, majority: &Holder) -> Self {
        let held = |is_majority: bool| if is_majority { "holds" } else { "other" };
        let (state, holder, readers) = match &view.content {
            Content::Free => ("free", None, 0),
            Content::Lock(stored) => {
                let same = matches!(majority, Holder::Owner { token, .. } if *token == stored.token);
                (held(same), Some((&stored.owner).into()), 0)
            }
            Content::Shared(readers) => {
                (held(matches!(majority, Holder::Shared { .. })), None, readers.len())
            }
            Content::Foreign(_) => ("foreign", Some(HolderJson::foreign()), 0),
            _ => ("unknown", None, 0),
        };
        Self { state, remaining_ms: view.left.map(millis), holder, readers, ..self }
    }
}
