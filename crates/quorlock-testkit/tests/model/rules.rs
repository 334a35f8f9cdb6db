//! What a case allows, and in which way it is broken on purpose.

/// How a vote is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voting {
    /// In one step, and it returns the counter: the memory node and the file node.
    Atomic,
    /// SET and raise with others in between, and without reading the counter: servers.
    Native,
}

/// When a name may vanish from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameLoss {
    /// At any moment: evicted, deleted by hand, a server clock that jumped.
    Any,
    /// When its owner releases it, or when its time is over, which the owner then knows.
    Valid,
}

/// How answers travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// The client hears them as soon as the command is executed, or has given up waiting for them
    /// before.
    Prompt,
    /// They are under way for any time, with anything in between. This has many times more states.
    Late,
}

/// What a client does when a majority voted but too few were raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// It stamps.
    Shipped,
    /// It takes the proposal all the same.
    TakeProposal,
    /// It takes one more than the highest counter that it was sent, and writes it nowhere.
    TakeMaximum,
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<const N: usize, const C: usize> {
    pub(crate) proposals: [u8; C],
    pub(crate) voting: Voting,
    pub(crate) loss: NameLoss,
    pub(crate) answers: Answers,
    pub(crate) decision: Decision,
    /// Whether a vote raises only a counter below the proposal, not also one at it.
    pub(crate) vote_is_strict: bool,
    /// Whether a stamp raises above the counter, not only to it.
    pub(crate) stamp_is_strict: bool,
    pub(crate) stamp_checks_token: bool,
    /// Whether the second attempt is made by the first one's client, after that, with the same
    /// token.
    pub(crate) token_is_reused: bool,
    /// After how many states the search ends without having seen all.
    pub(crate) most_states: usize,
}

impl<const N: usize, const C: usize> Rules<N, C> {
    /// The protocol as it is shipped.
    pub(crate) fn shipped(proposals: [u8; C], voting: Voting, loss: NameLoss) -> Self {
        Self {
            proposals,
            voting,
            loss,
            answers: Answers::Prompt,
            decision: Decision::Shipped,
            vote_is_strict: true,
            stamp_is_strict: true,
            stamp_checks_token: true,
            token_is_reused: false,
            most_states: usize::MAX,
        }
    }

    pub(crate) fn answered_late(self) -> Self {
        Self { answers: Answers::Late, ..self }
    }

    pub(crate) fn at_most(self, most_states: usize) -> Self {
        Self { most_states, ..self }
    }

    /// Whether both attempts use the same token.
    pub(crate) fn same_token(&self, one: usize, other: usize) -> bool {
        one == other || (self.token_is_reused && one < 2 && other < 2)
    }
}
