//! What a storm checks, and a promise that was broken.

use std::time::Duration;

/// What a promise of the lock is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No client holds a name at the same moment as one that holds it alone.
    Exclusion,
    /// No more permits are held than the semaphore has slots.
    Permits,
    /// No fence is handed out twice.
    UniqueFences,
    /// A later grant has a higher fence.
    IncreasingFences,
    /// A lock that was lost is never held again.
    FinalLoss,
    /// A resource that compares fences loses no update.
    NoFencedLoss,
    /// A resource that compares fences shows no reader a value that has changed since it read it before.
    StableReads,
    /// A resource that compares fences refuses no client that holds the lock.
    NoHolderRefused,
    /// In the recovery phase every client gets every lock.
    Recovery,
    /// When all clients have been idle for a while, no server stores a lock.
    NothingLeft,
}

/// A promise that was broken, and when.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When, on the clock of the history.
    pub at: Duration,
    /// How.
    pub what: String,
}
