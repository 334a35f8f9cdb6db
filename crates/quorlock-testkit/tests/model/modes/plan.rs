//! What one client of a case does: which names it asks for, in which mode, and how it goes on.

/// How a client holds its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
}

/// What a holder may do once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Nothing,
    /// From exclusive to shared.
    Downgrade,
    /// From shared to exclusive, with another proposal.
    Upgrade {
        proposal: u8,
    },
}

/// A set of names, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) u8);

impl Names {
    fn of(letters: &str) -> Self {
        Self(letters.bytes().fold(0, |names, letter| names | 1 << (letter - b'a')))
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |name| self.0 & 1 << name != 0)
    }

    pub(crate) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// One client, which makes one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) names: Names,
    pub(crate) mode: Mode,
    pub(crate) proposal: u8,
    pub(crate) change: Change,
}

impl Plan {
    /// A writer of the names `letters`.
    pub(crate) fn writer(letters: &str, proposal: u8) -> Self {
        Self { names: Names::of(letters), mode: Mode::Exclusive, proposal, change: Change::Nothing }
    }

    /// A reader of the names `letters`.
    pub(crate) fn reader(letters: &str, proposal: u8) -> Self {
        Self { mode: Mode::Shared, ..Self::writer(letters, proposal) }
    }

    pub(crate) fn downgrades(self) -> Self {
        Self { change: Change::Downgrade, ..self }
    }

    pub(crate) fn upgrades(self, proposal: u8) -> Self {
        Self { change: Change::Upgrade { proposal }, ..self }
    }
}
