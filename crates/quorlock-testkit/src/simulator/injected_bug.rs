//! Bugs injected on purpose: each must be found, or the simulator proves nothing.

use quorlock::Builder;
use quorlock::InjectedBug as LibraryBug;
use std::fmt;
use std::str::FromStr;

/// A bug that other lock libraries really have, or that ours had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
    /// The proposal is the fence although fewer than a majority were raised to it.
    NoStamp,
    /// A raise also succeeds when the counter is at the number already.
    LooseRaise,
    /// The next attempt uses the token of the one before.
    TokenReuse,
    /// A release deletes the lock of any holder.
    BlindDelete,
    /// An extend creates the lock where it is gone.
    ExtendCreates,
    /// A node that lost its memory votes at once.
    NoRestartGuard,
    /// The lease is counted on a clock that stops while the machine sleeps.
    SleepyClock,
    /// A release is not sent to nodes that did not answer.
    LazyRelease,
    /// The deadline is counted from the last answer.
    LateDeadline,
    /// A majority of the nodes that answered is enough.
    ReachableMajority,
    /// A loss is announced when the nodes say so, not by a timer.
    LossByAnswer,
    /// An adoption believes its handle and asks no node.
    AdoptUnasked,
    /// A forced release frees the current holder, not the one that the caller saw.
    ForceAnyHolder,
    /// An extension by token counts nodes that no longer have the lock.
    ExtendGone,
    /// The list of nodes changes by two at once.
    TwoNodesAtOnce,
    /// The list of nodes changes again as soon as all clients have it.
    HastyLists,
    /// A node takes a lock back that was taken from its holder by force.
    RepairTaken,
    /// Counters vanish on a minority of nodes, even where no majority then knows the last fence.
    CounterLoss,
}

impl InjectedBug {
    /// All of them.
    pub const ALL: [InjectedBug; 18] = [
        InjectedBug::NoStamp,
        InjectedBug::LooseRaise,
        InjectedBug::TokenReuse,
        InjectedBug::BlindDelete,
        InjectedBug::ExtendCreates,
        InjectedBug::NoRestartGuard,
        InjectedBug::SleepyClock,
        InjectedBug::LazyRelease,
        InjectedBug::LateDeadline,
        InjectedBug::ReachableMajority,
        InjectedBug::LossByAnswer,
        InjectedBug::AdoptUnasked,
        InjectedBug::ForceAnyHolder,
        InjectedBug::ExtendGone,
        InjectedBug::TwoNodesAtOnce,
        InjectedBug::HastyLists,
        InjectedBug::RepairTaken,
        InjectedBug::CounterLoss,
    ];

    /// Whether it only shows where clients do more than acquire, hold and release.
    pub fn needs_variety(self) -> bool {
        matches!(
            self,
            InjectedBug::AdoptUnasked
                | InjectedBug::ForceAnyHolder
                | InjectedBug::ExtendGone
                | InjectedBug::TwoNodesAtOnce
                | InjectedBug::HastyLists
                | InjectedBug::RepairTaken
                | InjectedBug::CounterLoss
        )
    }

    /// The number of nodes with which it shows soonest.
    pub fn nodes(self) -> usize {
        match self {
            // Of few nodes a late answer is more often the one that decides.
            InjectedBug::LateDeadline => 3,
            // Of many nodes two majorities more often share just one.
            InjectedBug::TwoNodesAtOnce | InjectedBug::CounterLoss => 7,
            _ => 5,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            InjectedBug::NoStamp => "no-stamp",
            InjectedBug::LooseRaise => "loose-raise",
            InjectedBug::TokenReuse => "token-reuse",
            InjectedBug::BlindDelete => "blind-delete",
            InjectedBug::ExtendCreates => "extend-creates",
            InjectedBug::NoRestartGuard => "no-restart-guard",
            InjectedBug::SleepyClock => "sleepy-clock",
            InjectedBug::LazyRelease => "lazy-release",
            InjectedBug::LateDeadline => "late-deadline",
            InjectedBug::ReachableMajority => "reachable-majority",
            InjectedBug::LossByAnswer => "loss-by-answer",
            InjectedBug::AdoptUnasked => "adopt-unasked",
            InjectedBug::ForceAnyHolder => "force-any-holder",
            InjectedBug::ExtendGone => "extend-gone",
            InjectedBug::TwoNodesAtOnce => "two-nodes-at-once",
            InjectedBug::HastyLists => "hasty-lists",
            InjectedBug::RepairTaken => "repair-taken",
            InjectedBug::CounterLoss => "counter-loss",
        }
    }
}

impl fmt::Display for InjectedBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for InjectedBug {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || InjectedBug::ALL.map(InjectedBug::name).join(", ");
        // The name that older reports use.
        let name = if name == "force-whoever" { InjectedBug::ForceAnyHolder.name() } else { name };
        let found = InjectedBug::ALL.into_iter().find(|bug| bug.name() == name);
        found.ok_or_else(|| format!("there is no bug `{name}` to inject; known: {}", known()))
    }
}

/// Switches `bug` on if it is one of the library itself; the others are injected from outside.
pub(crate) fn inject_bug(builder: Builder, bug: Option<InjectedBug>) -> Builder {
    match bug {
        Some(InjectedBug::LateDeadline) => builder.inject_bug(LibraryBug::LateDeadline),
        Some(InjectedBug::ReachableMajority) => builder.inject_bug(LibraryBug::ReachableMajority),
        Some(InjectedBug::LossByAnswer) => builder.inject_bug(LibraryBug::LossByAnswer),
        Some(InjectedBug::AdoptUnasked) => builder.inject_bug(LibraryBug::AdoptUnasked),
        Some(InjectedBug::ForceAnyHolder) => builder.inject_bug(LibraryBug::ForceAnyHolder),
        Some(InjectedBug::ExtendGone) => builder.inject_bug(LibraryBug::ExtendGone),
        _ => builder,
    }
}
