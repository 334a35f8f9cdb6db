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
    /// A reader's vote does not raise the fence counter.
    ReaderUnraised,
    /// All readers of a name end with the first of them.
    ReadersEndTogether,
    /// A reader's release removes all readers.
    ReleaseAllReaders,
    /// A reader is upgraded although others share the name.
    UpgradeAmongReaders,
    /// An upgrade keeps the fence of the shared hold.
    UpgradeKeepsFence,
    /// New readers are admitted while a writer waits.
    ReadersIgnoreWriters,
    /// A node that admitted one of several names has voted.
    PartialSet,
    /// A node confirms that raised the counter of one of several names.
    PartialRaise,
    /// A node that has one of several names has extended them.
    PartialExtend,
    /// Votes for different slots count as one permit.
    AnyFreeSlot,
}

impl InjectedBug {
    /// All of them.
    pub const ALL: [InjectedBug; 45] = [
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
        InjectedBug::ReaderUnraised,
        InjectedBug::ReadersEndTogether,
        InjectedBug::ReleaseAllReaders,
        InjectedBug::UpgradeAmongReaders,
        InjectedBug::UpgradeKeepsFence,
        InjectedBug::ReadersIgnoreWriters,
        InjectedBug::PartialSet,
        InjectedBug::PartialRaise,
        InjectedBug::PartialExtend,
        InjectedBug::AnyFreeSlot,
    ];

    /// Whether it only shows where clients share locks, hold several names together, or take permits.
    pub(crate) fn needs_modes(self) -> bool {
        matches!(
            self,
            InjectedBug::ReaderUnraised
                | InjectedBug::ReadersEndTogether
                | InjectedBug::ReleaseAllReaders
                | InjectedBug::UpgradeAmongReaders
                | InjectedBug::UpgradeKeepsFence
                | InjectedBug::ReadersIgnoreWriters
                | InjectedBug::PartialSet
                | InjectedBug::PartialRaise
                | InjectedBug::PartialExtend
                | InjectedBug::AnyFreeSlot
        )
    }

    /// Whether it only shows where clients do more than acquire, hold and release.
    pub fn needs_variety(self) -> bool {
        let is_varied = matches!(
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
        );
        is_varied || self.needs_modes()
    }

    /// The number of nodes with which it shows soonest.
    pub fn nodes(self) -> usize {
        match self {
            // Of few nodes a late answer is more often the one that decides.
            InjectedBug::LateDeadline => 3,
            // Of few nodes a server that forgot is more often the one that two majorities share.
            InjectedBug::ServerClockQuarantine | InjectedBug::RunIdIgnored => 3,
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

    /// What clients of its worlds mostly want, if it shows only there.
    pub(crate) fn favourite(self) -> Option<Favourite> {
        match self {
            InjectedBug::PartialSet | InjectedBug::PartialRaise | InjectedBug::PartialExtend => {
                Some(Favourite::Sets)
            }
            InjectedBug::AnyFreeSlot => Some(Favourite::Permits),
            _ => None,
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
            InjectedBug::ReaderUnraised => (
                "share the name already') end\nlocal raised = 1\nif tonumber(ARGV[4]) > 0 then",
                "share the name already') end\nlocal raised = 1\nif false then",
            ),
            InjectedBug::ReadersEndTogether => ("-1, -1, 'WITHSCORES'", "0, 0, 'WITHSCORES'"),
            InjectedBug::ReleaseAllReaders => {
                ("call('ZREM', name, token) or 0", "call('DEL', name, labels) > 0 and 1 or 0")
            }
            InjectedBug::UpgradeAmongReaders => {
                ("'+inf') > 1 then return -1 end", "'+inf') > 99 then return -1 end")
            }
            InjectedBug::ReadersIgnoreWriters => ("KEYS[5] or KEYS[4]) == 1", "KEYS[5] or KEYS[5]) == 1"),
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
            InjectedBug::UpgradeKeepsFence => LibraryBug::UpgradeKeepsFence,
            InjectedBug::PartialSet => LibraryBug::PartialSet,
            InjectedBug::PartialRaise => LibraryBug::PartialRaise,
            InjectedBug::PartialExtend => LibraryBug::PartialExtend,
            InjectedBug::AnyFreeSlot => LibraryBug::AnyFreeSlot,
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
            InjectedBug::ReaderUnraised => "reader-unraised",
            InjectedBug::ReadersEndTogether => "readers-end-together",
            InjectedBug::ReleaseAllReaders => "release-all-readers",
            InjectedBug::UpgradeAmongReaders => "upgrade-among-readers",
            InjectedBug::UpgradeKeepsFence => "upgrade-keeps-fence",
            InjectedBug::ReadersIgnoreWriters => "readers-ignore-writers",
            InjectedBug::PartialSet => "partial-set",
            InjectedBug::PartialRaise => "partial-raise",
            InjectedBug::PartialExtend => "partial-extend",
            InjectedBug::AnyFreeSlot => "any-free-slot",
        }
    }
}

/// What the clients of a world mostly want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Favourite {
    /// Several names together.
    Sets,
    /// One slot of the semaphore.
    Permits,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Goal: a change of a script does not turn a bug in it into none.
    #[test]
    fn every_bug_in_a_script_replaces_text_of_a_shipped_script() {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quorlock/src/node/redis/protocol/lua");
        let texts: Vec<String> = fs::read_dir(scripts)
            .unwrap()
            .map(|script| fs::read_to_string(script.unwrap().path()).unwrap())
            .collect();
        for (bug, (from, to)) in InjectedBug::ALL.into_iter().filter_map(|bug| Some((bug, bug.in_scripts()?)))
        {
            assert!(texts.iter().any(|text| text.contains(from)), "{bug}: no script has `{from}`");
            assert_ne!(from, to);
        }
    }
}
