//! What a case allows, and in which way it is broken on purpose.

use quorlock_core::{Drift, Moment, Ttl, Wall};
use std::time::Duration;

/// How long a node keeps a lock in most cases, in ticks. It is the longest ttl, too.
pub(crate) const TTL: u8 = 2;

/// How far apart the fences of two ticks are: more than an attempt can stamp.
const FENCES_PER_TICK: u8 = 4;

/// When a vote reads the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochCheck {
    /// After its SET: shipped.
    AfterVote,
    BeforeVote,
    /// Only on connecting.
    OnConnect,
    /// Not where the name is stored by a repair, and that counts like a vote.
    NotForRepairs,
}

/// Which clock ends a quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuarantineClock {
    /// The client's own, from when it first saw the epoch: shipped.
    Client,
    /// The server's, whenever it is read.
    Server,
}

/// What an extend does to a node that does not have the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtendOfNothing {
    Refused,
    Creates,
}

/// What is left of a client that has released or lost the lock, or was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterEnd {
    /// Its locks are gone at once, and its commands do not arrive. What it could leave behind would
    /// only refuse the votes and extends of other clients, to whom silence, which the search tries,
    /// allows more. Counters stay.
    Nothing,
    /// Its commands arrive at any later time, a release behind them. This has many times more
    /// states.
    LateCommands,
}

/// One case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<const N: usize, const C: usize> {
    /// The last tick.
    pub(crate) horizon: u8,
    /// How long a node keeps a lock, in ticks.
    pub(crate) ttl: u8,
    /// How long a tick is. The vote window is 50 ms: less than a tick of a second.
    pub(crate) tick: Duration,
    /// How many ticks an attempt waits for the answers of a round. The node timeout is below a
    /// quarter of a lock's validity, so it is less than one tick of a second.
    pub(crate) round_takes: u8,
    /// Whether an attempt whose votes are further apart than the vote window asks the voters again.
    pub(crate) confirms_slow_votes: bool,
    /// Whether a lock must be extended one vote window before its deadline.
    pub(crate) extends_in_time: bool,
    /// Whether nodes have counters. Without them every vote confirms, and there are fewer states.
    pub(crate) fences: bool,
    /// Whether holders extend, and so repair.
    pub(crate) extends: bool,
    /// How often a node may lose its memory, all nodes together.
    pub(crate) losses: u8,
    /// How often the clock of a node in quarantine may jump ahead. Every client has seen the epoch
    /// before (a client that has not is fooled; T2 excludes that).
    pub(crate) jumps: u8,
    /// Whether an operator releases the lock of the first client by force.
    pub(crate) forces: bool,
    /// Within how many ticks the forced release reaches all nodes that it reaches.
    pub(crate) force_takes: u8,
    /// How long a node remembers a forced release.
    pub(crate) mark_lasts: u8,
    /// By how many ticks the clock that each client proposes by is ahead.
    pub(crate) skews: [i8; C],
    pub(crate) quarantine: u8,
    pub(crate) quarantine_clock: QuarantineClock,
    pub(crate) epoch: EpochCheck,
    pub(crate) after_end: AfterEnd,
    pub(crate) extend_of_nothing: ExtendOfNothing,
    /// How many nodes must extend, if not a majority.
    pub(crate) extend_needs: Option<usize>,
    /// Whether a node refuses the repair of a lock that was released by force there.
    pub(crate) repair_checks_mark: bool,
    /// Whether it refuses to extend one.
    pub(crate) extend_checks_mark: bool,
    /// Whether a repair raises the counter only if that is below the fence, and never lowers it.
    pub(crate) repair_raises_only: bool,
    /// Whether no repair follows once the holder has released.
    pub(crate) repair_checks_closed: bool,
    /// After how many states the search ends without having seen all.
    pub(crate) most_states: usize,
}

impl<const N: usize, const C: usize> Rules<N, C> {
    /// The protocol as it is shipped, on exact clocks and without faults, for `horizon` ticks.
    pub(crate) fn shipped(horizon: u8) -> Self {
        Self {
            horizon,
            ttl: TTL,
            tick: Duration::from_secs(1),
            round_takes: 0,
            confirms_slow_votes: true,
            extends_in_time: true,
            fences: true,
            extends: true,
            losses: 0,
            jumps: 0,
            forces: false,
            force_takes: 0,
            mark_lasts: 2 * TTL,
            skews: [0; C],
            quarantine: TTL,
            quarantine_clock: QuarantineClock::Client,
            epoch: EpochCheck::AfterVote,
            after_end: AfterEnd::Nothing,
            extend_of_nothing: ExtendOfNothing::Refused,
            extend_needs: None,
            repair_checks_mark: true,
            extend_checks_mark: true,
            repair_raises_only: true,
            repair_checks_closed: true,
            most_states: usize::MAX,
        }
    }

    pub(crate) fn losing_memory(self, losses: u8) -> Self {
        Self { losses, ..self }
    }

    pub(crate) fn without_fences(self) -> Self {
        Self { fences: false, ..self }
    }

    pub(crate) fn forced(self) -> Self {
        Self { forces: true, ..self }
    }

    /// Clocks of nodes differ by up to two ticks: the first client proposes by the fastest, the
    /// others by the slowest. The quarantine covers it.
    pub(crate) fn skewed(self) -> Self {
        let mut skews = [-1; C];
        skews[0] = 1;
        Self { skews, quarantine: TTL + 2, ..self }
    }

    /// A lock lasts four ticks, and the votes of an attempt may be one tick apart.
    pub(crate) fn in_short_ticks(self) -> Self {
        Self { ttl: 4, tick: Duration::from_millis(50), round_takes: 1, quarantine: 4, mark_lasts: 8, ..self }
    }

    pub(crate) fn with_late_commands(self) -> Self {
        Self { after_end: AfterEnd::LateCommands, ..self }
    }

    pub(crate) fn clients_are_alike(&self) -> bool {
        !self.forces && self.skews.iter().all(|skew| *skew == self.skews[0])
    }

    pub(crate) fn at_most(self, most_states: usize) -> Self {
        Self { most_states, ..self }
    }

    /// What `client` proposes as its fence at tick `now`.
    pub(crate) fn proposal(&self, client: usize, now: u8) -> u8 {
        if !self.fences {
            return 0;
        }
        // One tick more than the clock, so that the slowest one does not begin below zero.
        (now + 2).checked_add_signed(self.skews[client]).unwrap() * FENCES_PER_TICK
    }

    /// The ttl as the shipped code sees it.
    pub(crate) fn ttl(&self) -> Ttl {
        let (span, node_timeout) = (self.tick * self.ttl.into(), Duration::from_millis(10));
        let ttl = Ttl::new(span, Drift::DEFAULT, node_timeout, span).unwrap();
        if self.extends_in_time { ttl } else { ttl.on_one_node() }
    }

    /// Whether votes that took from tick `from` to tick `now` count together.
    pub(crate) fn count_together(&self, from: u8, now: u8) -> bool {
        let window = Self { extends_in_time: true, ..*self }.ttl().vote_window();
        self.tick * (now - from).into() <= window || !self.confirms_slow_votes
    }

    /// Both clocks of every client at tick `now`.
    pub(crate) fn clocks(&self, now: u8) -> (Moment, Wall) {
        let since = self.tick * now.into();
        (Moment::from_boot(since), Wall::from_micros(0) + since)
    }
}
