//! A lease as its caller gets it.

use crate::json::millis;
use crate::json::mode::ModeJson;
use quorlock::{Lease, Locker, Moment, Name};
use serde::Serialize;
use std::time::Duration;
use utoipa::ToSchema;

/// A lock that is yours until its deadline.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Lease)]
pub(crate) struct LeaseJson {
    /// The lock, or the semaphore of a permit.
    pub(crate) name: String,
    /// All names that are held together, in the order of their text; only if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) names: Option<Vec<String>>,
    /// The slot of a permit: send the pair of slot and fence to what the semaphore protects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) slot: Option<u32>,
    /// How it is held; null if another sidecar granted it.
    pub(crate) mode: Option<ModeJson>,
    /// The proof of ownership: a client that has it can extend and release the lock.
    pub(crate) token: String,
    /// The number to send with every write to what the lock protects; null if too few nodes store it.
    pub(crate) fence: Option<u64>,
    /// How long the nodes keep it after each extension.
    pub(crate) ttl_ms: u64,
    /// How long it was held for sure when this was written. Do not count from when you read it: see the
    /// next two.
    pub(crate) remaining_ms: u64,
    /// How long the sidecar had had the request when this was written. The lock is yours until
    /// `request_age_ms` and `remaining_ms` have passed since before you sent the request.
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

impl LeaseJson {
    /// `lease` in the response to a request for `name` that came at `arrived`.
    pub(crate) fn new(lease: &Lease, name: &Name, ttl: Duration, locker: &Locker, arrived: Moment) -> Self {
        let (validity, quorum) = (Validity::of(lease, locker, arrived), locker.quorum());
        Self {
            name: name.topic().to_string(),
            names: several(lease.names()),
            slot: slot(lease.names()),
            mode: Some(lease.mode().into()),
            token: lease.token().to_string(),
            fence: Some(lease.fence().get()),
            ttl_ms: millis(ttl),
            remaining_ms: validity.remaining_ms,
            request_age_ms: validity.request_age_ms,
            deadline_boot_ms: validity.deadline_boot_ms,
            votes: lease.votes(),
            nodes: quorum.nodes(),
            quorum: quorum.needed(),
        }
    }
}

/// The names as texts, if there are several.
pub(crate) fn several(names: &[Name]) -> Option<Vec<String>> {
    (names.len() > 1).then(|| names.iter().map(ToString::to_string).collect())
}

/// The number of the slot, if the first of these names is that of one.
pub(crate) fn slot(names: &[Name]) -> Option<u32> {
    names.first().and_then(Name::as_slot).map(|(_, slot)| slot)
}

/// Until when a lock is its caller's: an absolute end for clients that share the boot clock, and a span
/// to count from before the request for all others. Neither is later than the end that the sidecar
/// counts with.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Validity {
    pub(crate) remaining_ms: u64,
    pub(crate) request_age_ms: u64,
    pub(crate) deadline_boot_ms: u64,
}

impl Validity {
    /// The validity of `lease` for a request that came at `arrived`.
    pub(crate) fn of(lease: &Lease, locker: &Locker, arrived: Moment) -> Self {
        // The clock is read first: a pause between the two reads makes the end seem earlier, never later.
        let now = locker.now();
        Self::at(now, lease.remaining(), arrived)
    }

    /// The validity of a lock with at least `left` to go at `now`.
    pub(crate) fn at(now: Moment, left: Duration, arrived: Moment) -> Self {
        Self {
            remaining_ms: millis(left),
            request_age_ms: millis(now.since(arrived)),
            deadline_boot_ms: millis((now + left).since_boot()),
        }
    }
}
