//! What one client of a case does: which names it asks for, in which mode, and how it goes on.

/// How a client holds its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Shared,
    Exclusive,
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
    /// Whether it may downgrade once.
    pub(crate) downgrades: bool,
    /// The proposal of its upgrade, if it may upgrade once: after the downgrade, if there is one.
    pub(crate) upgrade: Option<u8>,
}

impl Plan {
    /// A writer of the names `letters`.
    pub(crate) fn writer(letters: &str, proposal: u8) -> Self {
        let names = Names::of(letters);
        Self { names, mode: Mode::Exclusive, proposal, downgrades: false, upgrade: None }
    }

    /// A reader of the names `letters`.
    pub(crate) fn reader(letters: &str, proposal: u8) -> Self {
        Self { mode: Mode::Shared, ..Self::writer(letters, proposal) }
    }

    pub(crate) fn downgrades(self) -> Self {
        Self { downgrades: true, ..self }
    }

    pub(crate) fn upgrades(self, proposal: u8) -> Self {
        Self { upgrade: Some(proposal), ..self }
    }
}
