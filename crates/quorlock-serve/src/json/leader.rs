//! Who leads an election.

use crate::json::lease::LeaseJson;
use crate::json::unix_ms;
use quorlock::Leader;
use serde::Serialize;
use utoipa::ToSchema;

/// An election, as a majority of nodes reports it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Election)]
pub(crate) struct ElectionJson {
    pub(crate) name: String,
    /// Who leads; null if no candidate does.
    pub(crate) leader: Option<LeaderJson>,
}

/// Who leads. This may be old when you read it: compare terms.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Leader)]
pub(crate) struct LeaderJson {
    /// What the leader published.
    value: String,
    /// The term: above that of every leader before.
    pub(crate) term: u64,
    /// `user@host`, or what the leader gave as `owner`.
    owner: String,
    /// The process that campaigned.
    pid: u32,
    /// When it began to campaign, in milliseconds since 1970, by its own clock.
    since: u64,
}

impl From<&Leader> for LeaderJson {
    fn from(leader: &Leader) -> Self {
        Self {
            value: leader.value.clone(),
            term: leader.term.get(),
            owner: leader.owner.who.clone(),
            pid: leader.owner.pid,
            since: unix_ms(leader.owner.since),
        }
    }
}

/// That no candidate leads after one that was observed.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Vacancy)]
pub(crate) struct VacancyJson {
    /// The term of the leader before.
    pub(crate) last_term: u64,
}

/// A won election: a lease, with what was published and the term.
#[derive(Debug, Serialize)]
pub(crate) struct LeadershipJson {
    #[serde(flatten)]
    lease: LeaseJson,
    value: String,
    term: Option<u64>,
}

impl LeadershipJson {
    pub(crate) fn new(lease: LeaseJson, value: String) -> Self {
        Self { term: lease.fence, lease, value }
    }
}
