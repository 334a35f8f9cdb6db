//! Bugs planted on purpose: each must be found, or the simulator proves nothing.

use std::fmt;
use std::str::FromStr;

/// A bug that other lock libraries really have, or that ours had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// The proposal is the fence although fewer than a majority were raised to it.
    NoStamp,
    /// A raise also succeeds when the counter is at the number already.
    LooseRaise,
    /// The next attempt uses the token of the one before.
    TokenReuse,
    /// A release deletes whatever is stored.
    BlindDelete,
    /// An extend creates the lock where it is gone.
    ExtendCreates,
    /// A node that lost its memory votes at once.
    NoRestartGuard,
    /// The lease is judged on a clock that stands still while the machine sleeps.
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
    /// A forced release frees the holder of the moment, not the one that was seen.
    ForceAnyHolder,
    /// An extension by token counts nodes that no longer have the lock.
    ExtendGone,
    /// The list of nodes changes by two at once.
    TwoNodesAtOnce,
    /// The list of nodes changes again as soon as all clients have it.
    HastyLists,
    /// A node takes a lock back that was taken from its holder by force.
    RefillTaken,
    /// Counters vanish on a minority of nodes, also where then no majority knows the last fence.
    CounterLoss,
}

impl Plant {
    /// All of them.
    pub const ALL: [Plant; 18] = [
        Plant::NoStamp,
        Plant::LooseRaise,
        Plant::TokenReuse,
        Plant::BlindDelete,
        Plant::ExtendCreates,
        Plant::NoRestartGuard,
        Plant::SleepyClock,
        Plant::LazyRelease,
        Plant::LateDeadline,
        Plant::ReachableMajority,
        Plant::LossByAnswer,
        Plant::AdoptUnasked,
        Plant::ForceAnyHolder,
        Plant::ExtendGone,
        Plant::TwoNodesAtOnce,
        Plant::HastyLists,
        Plant::RefillTaken,
        Plant::CounterLoss,
    ];

    /// Whether it only shows where clients do more than acquire, hold and let go.
    pub fn needs_variety(self) -> bool {
        matches!(
            self,
            Plant::AdoptUnasked
                | Plant::ForceAnyHolder
                | Plant::ExtendGone
                | Plant::TwoNodesAtOnce
                | Plant::HastyLists
                | Plant::RefillTaken
                | Plant::CounterLoss
        )
    }

    /// In worlds of how many nodes it shows soonest.
    pub fn nodes(self) -> usize {
        match self {
            // Of few nodes a late answer is more often the one that decides.
            Plant::LateDeadline => 3,
            // Of many nodes two majorities more often share just one.
            Plant::TwoNodesAtOnce | Plant::CounterLoss => 7,
            _ => 5,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Plant::NoStamp => "no-stamp",
            Plant::LooseRaise => "loose-raise",
            Plant::TokenReuse => "token-reuse",
            Plant::BlindDelete => "blind-delete",
            Plant::ExtendCreates => "extend-creates",
            Plant::NoRestartGuard => "no-restart-guard",
            Plant::SleepyClock => "sleepy-clock",
            Plant::LazyRelease => "lazy-release",
            Plant::LateDeadline => "late-deadline",
            Plant::ReachableMajority => "reachable-majority",
            Plant::LossByAnswer => "loss-by-answer",
            Plant::AdoptUnasked => "adopt-unasked",
            Plant::ForceAnyHolder => "force-whoever",
            Plant::ExtendGone => "extend-gone",
            Plant::TwoNodesAtOnce => "two-nodes-at-once",
            Plant::HastyLists => "hasty-lists",
            Plant::RefillTaken => "refill-taken",
            Plant::CounterLoss => "counter-loss",
        }
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Plant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Plant::ALL.map(Plant::name).join(", ");
        let found = Plant::ALL.into_iter().find(|plant| plant.name() == name);
        found.ok_or_else(|| format!("there is no planted bug `{name}`; known: {}", known()))
    }
}
