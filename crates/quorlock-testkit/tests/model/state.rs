//! One moment of the modelled world, small enough to keep a million of them.

/// What a node answered a client, or is about to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Word {
    #[default]
    Silent,
    Confirmed,
    /// With the counter, or 0 where the vote does not read it.
    Voted(u8),
    Denied,
    Stamped(u8),
    /// Stamped although the name was not the client's there. Only broken nodes say this.
    Hollow(u8),
    NotHeld,
    /// Time ran out. The command may still be executed later.
    Missing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Reply {
    pub(crate) word: Word,
    /// Whether the client has counted it; until then it is on its way.
    pub(crate) heard: bool,
}

/// How far a vote has been executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Progress {
    #[default]
    Sent,
    /// The SET took, the counter is not raised yet.
    Won,
    /// The SET was refused, the counter is not raised yet.
    Lost,
    Done,
}

/// What lies between one client and one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Cell {
    pub(crate) vote: Progress,
    pub(crate) ballot: Reply,
    /// Of the stamp round under way.
    pub(crate) mark: Reply,
    /// Stamps that were sent and not executed yet, one bit for each round.
    pub(crate) queued: u8,
}

/// One node with all that concerns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Column<const C: usize> {
    /// The attempt that set the name.
    pub(crate) holder: Option<u8>,
    pub(crate) counter: u8,
    pub(crate) cells: [Cell; C],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    #[default]
    Idle,
    Running,
    Holding,
    Over,
}

/// One client, which makes one attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seat {
    pub(crate) phase: Phase,
    /// The highest fence that had been returned when the attempt started.
    pub(crate) before: u8,
    /// Stamp rounds begun.
    pub(crate) rounds: u8,
    pub(crate) targets: [u8; 2],
}

impl Seat {
    /// The number that the stamp round under way asks for.
    pub(crate) fn target(&self) -> u8 {
        self.targets[usize::from(self.rounds) - 1]
    }
}

/// What must never be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Violation {
    DuplicateFence,
    /// A fence that is not above one returned before the attempt started.
    NotAboveEarlier,
    /// A fence to which too few nodes were raised where the name was the client's.
    WithoutTheName,
    /// Of two holders in turn, the later one has the smaller fence.
    HoldingOrder,
    TwoHolders,
}

/// `N` nodes and `C` clients at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State<const N: usize, const C: usize> {
    pub(crate) columns: [Column<C>; N],
    pub(crate) seats: [Seat; C],
    /// The fences returned so far, one bit each.
    pub(crate) fences: u32,
    pub(crate) broken: Option<Violation>,
}

impl<const N: usize, const C: usize> State<N, C> {
    pub(crate) fn initial() -> Self {
        let column = Column { holder: None, counter: 0, cells: [Cell::default(); C] };
        Self { columns: [column; N], seats: [Seat::default(); C], fences: 0, broken: None }
    }

    /// The same for all states that differ only in the order of the nodes.
    pub(crate) fn canonical(mut self) -> Self {
        self.columns.sort_unstable();
        self
    }

    /// The highest fence returned so far.
    pub(crate) fn highest_fence(&self) -> u8 {
        u8::try_from(self.fences.checked_ilog2().unwrap_or(0)).unwrap()
    }

    /// Ends the attempt of `client`: answers no longer matter, but what is on its way to nodes
    /// still arrives.
    pub(crate) fn end(&mut self, client: usize, phase: Phase) {
        let mut under_way = 0;
        for column in &mut self.columns {
            let cell = &mut column.cells[client];
            *cell = Cell { vote: cell.vote, queued: cell.queued, ..Cell::default() };
            under_way |= cell.queued;
        }
        let targets = if under_way == 0 { [0; 2] } else { self.seats[client].targets };
        self.seats[client] = Seat { phase, targets, ..Seat::default() };
    }
}
