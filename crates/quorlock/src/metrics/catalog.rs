//! The names of the metrics, what they mean, and buckets that fit them.

use ::metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

pub(crate) const ACQUIRE_DURATION: &str = "redlock_acquire_duration_seconds";
pub(crate) const QUORUM_SIZE: &str = "redlock_quorum_size";
pub(crate) const HELD: &str = "redlock_locks_held";
pub(crate) const WAIT: &str = "redlock_wait_seconds";
pub(crate) const HOLD: &str = "redlock_hold_seconds";
pub(crate) const ATTEMPTS: &str = "redlock_acquire_attempts";
pub(crate) const REFUSED: &str = "redlock_attempts_refused_total";
pub(crate) const WAITS: &str = "redlock_waits_total";
pub(crate) const GAVE_UP: &str = "redlock_acquire_failures_total";
pub(crate) const EXTENSIONS: &str = "redlock_extensions_total";
pub(crate) const EXTENSION_FAILURES: &str = "redlock_extension_failures_total";
pub(crate) const VALIDITY_LEFT: &str = "redlock_extension_validity_left_seconds";
pub(crate) const LOSSES: &str = "redlock_losses_total";
pub(crate) const RELEASES: &str = "redlock_releases_total";
pub(crate) const FORCE_RELEASES: &str = "redlock_force_releases_total";
pub(crate) const ADOPTIONS: &str = "redlock_adoptions_total";
pub(crate) const HANDOFFS: &str = "redlock_handoffs_total";
pub(crate) const NODE_FAILURES: &str = "redlock_node_failures_total";
pub(crate) const NODE_FAILURES_BY_CAUSE: &str = "redlock_node_failures_by_cause_total";
pub(crate) const NODE_DOWNS: &str = "redlock_node_downs_total";
pub(crate) const NODE_UP: &str = "redlock_node_up";
pub(crate) const NODE_CAN_VOTE: &str = "redlock_node_can_vote";
pub(crate) const NODE_ROUND_TRIP: &str = "redlock_node_round_trip_seconds";
pub(crate) const NODE_CLOCK_OFFSET: &str = "redlock_node_clock_offset_seconds";
pub(crate) const NODE_QUARANTINE: &str = "redlock_node_quarantine_seconds";
pub(crate) const NODE_QUEUE: &str = "redlock_node_queue_depth";
pub(crate) const REPAIRS: &str = "redlock_repairs_total";
pub(crate) const CLOCK_JUMPS: &str = "redlock_clock_jumps_total";

/// From a fast round trip to the longest waits and holds, in seconds.
const SPANS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
    3600.0,
];

/// Buckets for each histogram, by its name, for exporters that want them.
pub const BUCKETS: &[(&str, &[f64])] = &[
    (ACQUIRE_DURATION, SPANS),
    (WAIT, SPANS),
    (HOLD, SPANS),
    (VALIDITY_LEFT, SPANS),
    (ATTEMPTS, &[1.0, 2.0, 3.0, 5.0, 10.0, 25.0, 100.0, 1000.0]),
];

/// Describes each metric to the recorder.
pub(crate) fn describe() {
    describe_locks();
    describe_nodes();
}

fn describe_locks() {
    describe_histogram!(
        ACQUIRE_DURATION,
        Unit::Seconds,
        "from the call of acquire to the guard, calls that got the lock"
    );
    describe_gauge!(
        QUORUM_SIZE,
        Unit::Count,
        "nodes that had agreed when the lock was last granted or extended"
    );
    describe_gauge!(HELD, Unit::Count, "locks that this process holds now");
    describe_histogram!(
        WAIT,
        Unit::Seconds,
        "the part of an acquire call before the attempt that won; all of it if it gave up"
    );
    describe_histogram!(
        HOLD,
        Unit::Seconds,
        "how long locks were held, to the release, the loss or the hand-over"
    );
    describe_histogram!(ATTEMPTS, Unit::Count, "attempts that an acquire call needed");
    describe_counter!(
        REFUSED,
        Unit::Count,
        "attempts that were refused: held by others, split, or no quorum"
    );
    describe_counter!(WAITS, Unit::Count, "times that a waiting call looked and found the lock held");
    describe_counter!(GAVE_UP, Unit::Count, "acquire calls that gave up");
    describe_counter!(EXTENSIONS, Unit::Count, "extensions of held locks");
    describe_counter!(
        EXTENSION_FAILURES,
        Unit::Count,
        "rounds that failed to extend a held lock; it stays held until its deadline"
    );
    describe_histogram!(VALIDITY_LEFT, Unit::Seconds, "validity that was left when an extension began");
    describe_counter!(LOSSES, Unit::Count, "locks that were lost while held");
    describe_counter!(RELEASES, Unit::Count, "releases, of locks lost before, too");
    describe_counter!(FORCE_RELEASES, Unit::Count, "locks that this process released by force");
    describe_counter!(ADOPTIONS, Unit::Count, "locks that were taken over from another process");
    describe_counter!(HANDOFFS, Unit::Count, "locks that were given away for another process to adopt");
}

fn describe_nodes() {
    describe_counter!(NODE_FAILURES, Unit::Count, "commands that the node failed to answer");
    describe_counter!(
        NODE_FAILURES_BY_CAUSE,
        Unit::Count,
        "commands that the node failed to answer, by cause"
    );
    describe_counter!(NODE_DOWNS, Unit::Count, "times that the node became unable to answer");
    describe_gauge!(NODE_UP, Unit::Count, "1 if the node answers, 0 if it is down");
    describe_gauge!(NODE_CAN_VOTE, Unit::Count, "1 if the node answers and is not quarantined");
    describe_gauge!(NODE_ROUND_TRIP, Unit::Seconds, "how long the last answer took");
    describe_gauge!(NODE_CLOCK_OFFSET, Unit::Seconds, "how far the node's wall clock is ahead of ours");
    describe_gauge!(NODE_QUARANTINE, Unit::Seconds, "how long until the node may vote again after a restart");
    describe_gauge!(NODE_QUEUE, Unit::Count, "commands that wait for the node's answer");
    describe_counter!(REPAIRS, Unit::Count, "held locks that were given again to a node that had lost them");
    describe_counter!(
        CLOCK_JUMPS,
        Unit::Count,
        "times that the machine slept or its wall clock jumped ahead"
    );
}
