//! What a case allows, and in which way it is broken on purpose.

use super::plan::Plan;
use crate::rules::{Answers, NameLoss, Voting};

/// One rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutation {
    /// None: the protocol as it is shipped.
    None,
    /// A reader raises no counter and takes the highest that it saw.
    ReaderMax,
    /// The vote of a node counts if it admitted some of the names.
    Partial,
    /// A node confirms if it raised the counter of some of the names.
    HalfRaise,
    /// All readers of a name end when the first of them does.
    CommonEndFirst,
    /// All readers of a name end when the last of them does.
    CommonEndLast,
    /// A release removes all readers of the name.
    ReleaseRemovesAll,
    /// A release removes only the kind of entry that the client holds by.
    ReleaseOfOneKind,
    /// A node upgrades a reader while it stores other readers.
    UpgradeWithReaders,
    /// A node upgrades a reader if all others have asked for an upgrade as well.
    UpgradeOfTwo,
    /// An upgrade raises no counter, and the client keeps its fence.
    UpgradeKeepsFence,
    /// An upgrade does not prolong the entry.
    UpgradeKeepsEnd,
    /// The undo of a failed upgrade removes the entry.
    UndoRemoves,
    /// A node executes the commands of a client in any order.
    Reordered,
    /// A node executes later commands of a client before its downgrade.
    LateDowngrade,
    /// A client that downgrades counts as a writer until a majority has executed it.
    DowngradeCountedLate,
    /// A node downgrades in two commands: it removes the entry, and adds the reader later.
    DowngradeInTwoSteps,
    /// The extend of a writer counts on nodes that store it as a reader.
    ExtendOfAnyKind,
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<const N: usize, const C: usize> {
    pub(crate) plans: [Plan; C],
    pub(crate) loss: NameLoss,
    /// `Native`: a vote handles name by name with others in between, and what it was admitted to
    /// stays until it is undone.
    pub(crate) voting: Voting,
    pub(crate) answers: Answers,
    /// Whether the entries of a client that ended stay until they are released or expire, and its late
    /// commands are executed. What it leaves only refuses others, and the search tries silence
    /// anyway; without it there are fewer states.
    pub(crate) leaves_entries: bool,
    /// Whether holders extend.
    pub(crate) extends: bool,
    pub(crate) mutation: Mutation,
    /// After how many states the search ends without having seen all.
    pub(crate) most_states: usize,
}

impl<const N: usize, const C: usize> Rules<N, C> {
    /// The protocol as it is shipped.
    pub(crate) fn shipped(plans: [Plan; C], loss: NameLoss) -> Self {
        Self {
            plans,
            loss,
            voting: Voting::Atomic,
            answers: Answers::Prompt,
            leaves_entries: true,
            extends: false,
            mutation: Mutation::None,
            most_states: usize::MAX,
        }
    }

    /// Names end only by release and expiry.
    pub(crate) fn valid(plans: [Plan; C]) -> Self {
        Self::shipped(plans, NameLoss::Valid)
    }

    /// Names vanish at any moment.
    pub(crate) fn any(plans: [Plan; C]) -> Self {
        Self::shipped(plans, NameLoss::Any)
    }

    pub(crate) fn native(self) -> Self {
        Self { voting: Voting::Native, ..self }
    }

    pub(crate) fn answered_late(self) -> Self {
        Self { answers: Answers::Late, ..self }
    }

    pub(crate) fn leaving_nothing(self) -> Self {
        Self { leaves_entries: false, ..self }
    }

    pub(crate) fn extending(self) -> Self {
        Self { extends: true, ..self }
    }

    pub(crate) fn broken(self, mutation: Mutation) -> Self {
        Self { mutation, ..self }
    }

    pub(crate) fn at_most(self, most_states: usize) -> Self {
        Self { most_states, ..self }
    }

    pub(crate) fn is(&self, mutation: Mutation) -> bool {
        self.mutation == mutation
    }
}
