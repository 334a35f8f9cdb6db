//! One moment of the modelled world.

use super::plan::{Mode, Names};
use crate::state::Reply;

/// The most names of a case.
pub(crate) const NAMES: usize = 3;

/// What a node stores of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place {
    pub(crate) writer: Option<u8>,
    /// One bit for each client.
    pub(crate) readers: u8,
    /// Readers whose end has passed and that are stored all the same. Only broken nodes have them.
    pub(crate) outlived: u8,
    pub(crate) counter: u8,
}

impl Place {
    pub(crate) fn is_of(&self, client: usize, mode: Mode) -> bool {
        let writes = self.writer.is_some_and(|writer| usize::from(writer) == client);
        writes || (mode == Mode::Shared && self.readers & 1 << client != 0)
    }

    /// Removes whatever `client` has here.
    pub(crate) fn remove(&mut self, client: usize) {
        self.writer.take_if(|writer| usize::from(*writer) == client);
        self.readers &= !(1 << client);
        self.outlived &= self.readers;
    }

    pub(crate) fn store(&mut self, client: usize, mode: Mode) {
        match mode {
            Mode::Shared => self.readers |= 1 << client,
            Mode::Exclusive => self.writer = Some(u8::try_from(client).unwrap()),
        }
    }
}

/// How far a vote has been executed, with one bit for each name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Progress {
    pub(crate) is_done: bool,
    pub(crate) asked: u8,
    pub(crate) admitted: u8,
    pub(crate) raised: u8,
}

/// What is sent after the vote, as bits of [`Cell::queued`] in the order of sending.
pub(crate) mod command {
    /// The stamps of the acquire.
    pub(crate) const STAMPS: [u8; 2] = [1 << 0, 1 << 1];
    pub(crate) const DOWNGRADE: u8 = 1 << 2;
    /// The second half of a downgrade in two steps.
    pub(crate) const ADD_READER: u8 = 1 << 3;
    pub(crate) const UPGRADE: u8 = 1 << 4;
    pub(crate) const UPGRADE_STAMPS: [u8; 2] = [1 << 5, 1 << 6];
    /// The undo of the upgrade.
    pub(crate) const UNDO: u8 = 1 << 7;
}

/// What lies between one client and one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cell {
    pub(crate) vote: Progress,
    pub(crate) ballot: Reply,
    /// Of the stamp round under way.
    pub(crate) mark: Reply,
    /// Commands that were sent and not executed yet.
    pub(crate) queued: u8,
    /// Whether the client's lease outlasts its entries here.
    pub(crate) is_loose: bool,
}

/// One node with all that concerns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Column<const C: usize> {
    pub(crate) places: [Place; NAMES],
    pub(crate) cells: [Cell; C],
}

impl<const C: usize> Column<C> {
    /// Whether `client` has an entry for every one of `names` that is good for `mode`.
    pub(crate) fn is_of(&self, client: usize, names: Names, mode: Mode) -> bool {
        names.iter().all(|name| self.places[name].is_of(client, mode))
    }

    /// Whether `client` has an entry for some name.
    pub(crate) fn stores(&self, client: usize) -> bool {
        self.places.iter().any(|place| place.is_of(client, Mode::Shared))
    }

    pub(crate) fn highest(&self, names: Names) -> u8 {
        names.iter().map(|name| self.places[name].counter).max().unwrap()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Acquiring,
    Holding,
    /// It holds as a reader.
    Upgrading,
    Over,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seat {
    pub(crate) phase: Phase,
    /// Whether it holds as a writer.
    pub(crate) writes: bool,
    /// Whether it has begun its downgrade.
    pub(crate) has_downgraded: bool,
    /// Whether it has begun its upgrade.
    pub(crate) has_upgraded: bool,
    /// The highest fence of its names that had been returned when the attempt started.
    pub(crate) before: u8,
    /// Its fence, where it matters later.
    pub(crate) fence: u8,
    /// Stamp rounds begun in this attempt.
    pub(crate) rounds: u8,
    /// Of the acquire and of the upgrade.
    pub(crate) targets: [[u8; 2]; 2],
}

impl Seat {
    pub(crate) fn holds(&self) -> bool {
        matches!(self.phase, Phase::Holding | Phase::Upgrading)
    }

    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.phase, Phase::Acquiring | Phase::Upgrading)
    }

    /// The stamp round under way, with its attempt: the acquire or the upgrade.
    pub(crate) fn round(&self) -> Option<(usize, usize)> {
        let round = usize::from(self.rounds).checked_sub(1)?;
        self.is_asking().then_some((usize::from(self.phase == Phase::Upgrading), round))
    }

    /// The number that the stamp round under way asks for.
    pub(crate) fn target(&self) -> u8 {
        let (attempt, round) = self.round().unwrap();
        self.targets[attempt][round]
    }
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Violation {
    DuplicateFence,
    /// A fence that is not above one returned before the attempt started.
    NotAboveEarlier,
    /// Of two conflicting holders in turn, the later one has the smaller fence.
    HoldingOrder,
    /// A writer and another client hold one name.
    Conflict,
    /// A node that executed a release stores the client all the same.
    LeftBehind,
    /// A node refused a writer for readers whose end had passed.
    RefusedByEnded,
    /// A node that executed the undo of an upgrade stores its client as a writer.
    UpgradedAfterUndo,
}

/// `N` nodes and `C` clients at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const N: usize, const C: usize> {
    pub(crate) columns: [Column<C>; N],
    pub(crate) seats: [Seat; C],
    /// The fences returned for each name, one bit each.
    pub(crate) fences: [u32; NAMES],
    /// The highest fence that a writer of each name was returned.
    pub(crate) writers: [u8; NAMES],
    pub(crate) broken: Option<Violation>,
}

impl<const N: usize, const C: usize> State<N, C> {
    pub(crate) fn initial() -> Self {
        let column = Column { places: [Place::default(); NAMES], cells: [Cell::default(); C] };
        Self {
            columns: [column; N],
            seats: [Seat::default(); C],
            fences: [0; NAMES],
            writers: [0; NAMES],
            broken: None,
        }
    }

    /// The same for all states that differ only in the order of the nodes.
    pub(crate) fn canonical(mut self) -> Self {
        self.columns.sort_unstable();
        self
    }

    pub(crate) fn violate(&mut self, violation: Violation) {
        self.broken.get_or_insert(violation);
    }

    /// `client` sends a command to all nodes.
    pub(crate) fn send(&mut self, client: usize, bit: u8) {
        self.columns.iter_mut().for_each(|column| column.cells[client].queued |= bit);
    }

    /// The highest fence returned for any of `names`.
    pub(crate) fn highest_fence(&self, names: Names) -> u8 {
        let highest = |name: usize| self.fences[name].checked_ilog2().unwrap_or(0);
        u8::try_from(names.iter().map(highest).max().unwrap()).unwrap()
    }

    /// Forgets the answers to `client`: what is on its way to nodes still arrives.
    pub(crate) fn forget_answers(&mut self, client: usize) {
        for column in &mut self.columns {
            let cell = &mut column.cells[client];
            (cell.ballot, cell.mark) = (Reply::default(), Reply::default());
        }
        self.seats[client].rounds = 0;
        self.seats[client].before = 0;
        self.forget_targets(client);
    }

    /// Forgets the targets of stamps that no node has to execute any more, but for the round under
    /// way.
    pub(crate) fn forget_targets(&mut self, client: usize) {
        let current = self.seats[client].round();
        let queued = self.columns.iter().fold(0, |queued, column| queued | column.cells[client].queued);
        let seat = &mut self.seats[client];
        for (attempt, bits) in [command::STAMPS, command::UPGRADE_STAMPS].iter().enumerate() {
            for (round, bit) in bits.iter().enumerate() {
                if queued & bit == 0 && current != Some((attempt, round)) {
                    seat.targets[attempt][round] = 0;
                }
            }
        }
    }
}
