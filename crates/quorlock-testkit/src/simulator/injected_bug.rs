//! Bugs injected on purpose: each must be found, or the simulator proves nothing.

use crate::simulator::faults::Fault;
use quorlock::Builder;
use quorlock::InjectedBug as LibraryBug;
use std::fmt;
use std::str::FromStr;

/// A bug that other lock libraries really have, or that ours had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectedBug {
    /// The proposal is the fence although fewer than a majority were raised to it.
    NoStamp,
    /// A stamp gives the number that the counter has already.
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
    /// An attempt that was refused does not release what it may have set.
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
    /// A node extends or takes back a lock that was taken from its holder by force.
    RepairTaken,
    /// Counters vanish on a minority of nodes, even where no majority then knows the last fence.
    CounterLoss,
    /// Votes count although the epoch after them is not the one that was verified.
    EpochUnchecked,
    /// A new epoch counts as old enough if the one before it was.
    MatureForever,
    /// Votes of a server in quarantine count.
    QuarantinedVote,
    /// A quarantine ends by the server's clock alone.
    ServerClockQuarantine,
    /// A server that restarted keeps its epoch, even if it may have lost writes.
    RunIdIgnored,
    /// An extend that is confirmed does not make the lock last longer.
    ExtendNotStored,
    /// Unacknowledged releases are dropped when a new connection begins.
    UnackedForgotten,
    /// Replies on a new connection answer the commands of the one before.
    RepliesAcrossConnections,
    /// The first part of a reply survives its connection.
    PartialReplyKept,
    /// A reply that comes twice answers the next command.
    RepeatedReply,
    /// Releases overtake the acquires that wait with them for a connection.
    ReleaseOvertakes,
    /// An extension counts nodes that lost the lock and get it back.
    RepairCounts,
    /// An acquire that may have reached the server counts as never sent.
    SentAsUnsent,
    /// Hints are subscribed to after the lock was found to be held.
    HintsAfterLook,
    /// A script that the server does not have is not sent again.
    NoScript,
    /// The connection before is not ended by the next one.
    OldConnectionKept,
    /// A compare-and-delete that found another value counts as done.
    FastReleaseBlind,
}

impl InjectedBug {
    /// All of them.
    pub const ALL: [InjectedBug; 35] = [
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
        InjectedBug::EpochUnchecked,
        InjectedBug::MatureForever,
        InjectedBug::QuarantinedVote,
        InjectedBug::ServerClockQuarantine,
        InjectedBug::RunIdIgnored,
        InjectedBug::ExtendNotStored,
        InjectedBug::UnackedForgotten,
        InjectedBug::RepliesAcrossConnections,
        InjectedBug::PartialReplyKept,
        InjectedBug::RepeatedReply,
        InjectedBug::ReleaseOvertakes,
        InjectedBug::RepairCounts,
        InjectedBug::SentAsUnsent,
        InjectedBug::HintsAfterLook,
        InjectedBug::NoScript,
        InjectedBug::OldConnectionKept,
        InjectedBug::FastReleaseBlind,
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
                | InjectedBug::RepairCounts
                | InjectedBug::LateDeadline
                | InjectedBug::FastReleaseBlind
                | InjectedBug::PartialReplyKept
        )
    }

    /// The number of nodes with which it shows soonest.
    pub fn nodes(self) -> usize {
        match self {
            // Of few nodes a late answer is more often the one that decides.
            InjectedBug::LateDeadline => 3,
            // Of many nodes two majorities more often share just one.
            InjectedBug::CounterLoss => 7,
            _ => 5,
        }
    }

    /// The faults that make it show. Half of the faults of its worlds are of these kinds.
    pub(crate) fn provoked_by(self) -> &'static [Fault] {
        match self {
            InjectedBug::LateDeadline => &[Fault::Delay, Fault::Partition],
            InjectedBug::CounterLoss => &[Fault::Partition, Fault::ServerClockAhead, Fault::ClientCrash],
            InjectedBug::RepeatedReply => &[Fault::RepeatedReply],
            InjectedBug::NoScript => &[Fault::ScriptFlush],
            InjectedBug::PartialReplyKept => &[Fault::HalfReply, Fault::Cut, Fault::Split],
            InjectedBug::OldConnectionKept => &[Fault::Delay, Fault::Cut],
            InjectedBug::SentAsUnsent | InjectedBug::UnackedForgotten | InjectedBug::ReleaseOvertakes => {
                &[Fault::Cut, Fault::Delay]
            }
            InjectedBug::RunIdIgnored => &[Fault::LostTail, Fault::Failover],
            InjectedBug::EpochUnchecked => &[Fault::Flush],
            InjectedBug::QuarantinedVote | InjectedBug::MatureForever => &[Fault::Amnesia, Fault::Flush],
            InjectedBug::ServerClockQuarantine => &[Fault::JumpInQuarantine],
            _ => &[],
        }
    }

    /// What it replaces in the scripts, if it is a bug in one of them.
    pub(crate) fn in_scripts(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            InjectedBug::LooseRaise => ("to = counter + 1", "to = counter"),
            InjectedBug::BlindDelete => ("find(stored, token, 1, true) ~= 1", "false"),
            InjectedBug::ExtendCreates => (
                "-- Answers ARGV[3] done, 0 gone, -1 taken.",
                "redis.call('SET', KEYS[1], ARGV[1] .. ' 0 sim@sim 1 0', 'NX', 'PX', ARGV[2])",
            ),
            InjectedBug::RunIdIgnored => ("local same_run = old_run == run", "local same_run = true"),
            InjectedBug::ExtendNotStored => {
                ("redis.call('PEXPIRE', KEYS[1], ARGV[2])", "redis.call('PTTL', KEYS[1])")
            }
            InjectedBug::RepairTaken => ("if redis.call('EXISTS', KEYS[3]) == 1 then return -1 end", ""),
            _ => return None,
        })
    }

    /// The bug in the library, if it is one.
    fn in_library(self) -> Option<LibraryBug> {
        Some(match self {
            InjectedBug::LateDeadline => LibraryBug::LateDeadline,
            InjectedBug::ReachableMajority => LibraryBug::ReachableMajority,
            InjectedBug::LossByAnswer => LibraryBug::LossByAnswer,
            InjectedBug::AdoptUnasked => LibraryBug::AdoptUnasked,
            InjectedBug::ForceAnyHolder => LibraryBug::ForceAnyHolder,
            InjectedBug::ExtendGone => LibraryBug::ExtendGone,
            InjectedBug::NoStamp => LibraryBug::NoStamp,
            InjectedBug::LazyRelease => LibraryBug::LazyRelease,
            InjectedBug::EpochUnchecked => LibraryBug::EpochUnchecked,
            InjectedBug::MatureForever => LibraryBug::MatureForever,
            InjectedBug::QuarantinedVote => LibraryBug::QuarantinedVote,
            InjectedBug::ServerClockQuarantine => LibraryBug::ServerClockQuarantine,
            InjectedBug::UnackedForgotten => LibraryBug::UnackedForgotten,
            InjectedBug::RepliesAcrossConnections => LibraryBug::RepliesAcrossConnections,
            InjectedBug::PartialReplyKept => LibraryBug::PartialReplyKept,
            InjectedBug::RepeatedReply => LibraryBug::RepeatedReply,
            InjectedBug::ReleaseOvertakes => LibraryBug::ReleaseOvertakes,
            InjectedBug::RepairCounts => LibraryBug::RepairCounts,
            InjectedBug::SentAsUnsent => LibraryBug::SentAsUnsent,
            InjectedBug::HintsAfterLook => LibraryBug::HintsAfterLook,
            InjectedBug::NoScript => LibraryBug::NoScript,
            InjectedBug::OldConnectionKept => LibraryBug::OldConnectionKept,
            InjectedBug::FastReleaseBlind => LibraryBug::FastReleaseBlind,
            _ => return None,
        })
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
            InjectedBug::EpochUnchecked => "epoch-unchecked",
            InjectedBug::MatureForever => "mature-forever",
            InjectedBug::QuarantinedVote => "quarantined-vote",
            InjectedBug::ServerClockQuarantine => "server-clock-quarantine",
            InjectedBug::RunIdIgnored => "run-id-ignored",
            InjectedBug::ExtendNotStored => "extend-not-stored",
            InjectedBug::UnackedForgotten => "unacked-forgotten",
            InjectedBug::RepliesAcrossConnections => "replies-across-connections",
            InjectedBug::PartialReplyKept => "partial-reply-kept",
            InjectedBug::RepeatedReply => "repeated-reply",
            InjectedBug::ReleaseOvertakes => "release-overtakes",
            InjectedBug::RepairCounts => "repair-counts",
            InjectedBug::SentAsUnsent => "sent-as-unsent",
            InjectedBug::HintsAfterLook => "hints-after-look",
            InjectedBug::NoScript => "no-script",
            InjectedBug::OldConnectionKept => "old-connection-kept",
            InjectedBug::FastReleaseBlind => "fast-release-blind",
        }
    }
}

impl fmt::Display for InjectedBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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
    match bug.and_then(InjectedBug::in_library) {
        Some(bug) => builder.inject_bug(bug),
        None => builder,
    }
}
