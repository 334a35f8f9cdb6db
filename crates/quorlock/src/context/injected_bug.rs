//! Bugs that the simulator switches on to prove that it would find them. Without the feature `plants` there are none.

/// A bug in the lock itself; those of servers and clocks are brought in from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "plants"), allow(unreachable_pub))]
pub enum Planted {
    /// The deadline is counted from the last answer instead of before the first send.
    LateDeadline,
    /// A majority of the nodes that answered is enough.
    ReachableMajority,
    /// A loss is announced when the nodes say so, not by a timer.
    LossByAnswer,
    /// An adoption believes its handle and asks no node.
    AdoptUnasked,
    /// A forced release frees the holder of the moment, not the one that the caller saw.
    ForceWhoever,
    /// An extension by token counts nodes that no longer have the lock.
    ExtendGone,
}
