//! A held lock as its guard, its watchdog and its line see it.

pub(crate) mod clock_jumps;
pub(crate) mod deferred_watchdogs;
pub(crate) mod extend;
pub(crate) mod extend_by_token;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod keeper;
pub(crate) mod once_signal;
pub(crate) mod release;
pub(crate) mod watchdog;

use crate::acquire::name_queue::{Line, LocalHolder};
use crate::context::event::Event;
use crate::context::options::Options;
use crate::error::Lost;
use crate::hold::keeper::Keeper;
use crate::hold::once_signal::Signal;
use crate::node::{Acquire, Command, Tie};
use crate::quorum::Voters;
use quorlock_core::{Fence, Label, Lease, Loss, Moment, Name, Standing, Token, Ttl, Wall};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// A held lock, shared by its guard and its watchdog.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) name: Name,
    pub(crate) options: Arc<Options>,
    pub(crate) voters: Voters,
    pub(crate) label: Label,
    /// Whether this very label is what nodes store. Those of a lock that was adopted store that of who gave it away.
    is_stored: bool,
    line: Arc<Line>,
    pub(crate) keeper: Arc<Keeper>,
    state: Mutex<State>,
    /// Fires when the lock is lost.
    lost: Signal,
    /// Fires when the guard lets go.
    closed: Signal,
}

#[derive(Debug)]
struct State {
    lease: Lease,
    votes: usize,
    /// Whether the last round to extend it failed.
    has_failed: bool,
    tied: bool,
    /// Set once a guard has it: what ends before that was never held here.
    announced: bool,
    /// Whether its loss was told.
    told: bool,
    /// Once set, no command may follow that could bring the lock back on a node.
    closed: bool,
}

/// Whether a hold was closed by this call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Closing {
    /// Yes; and why it had been lost before, if that was told.
    First { lost: Option<Loss> },
    /// That was done before.
    Again,
}

impl Closing {
    pub(crate) fn lost(self) -> Option<Loss> {
        match self {
            Closing::First { lost } => lost,
            Closing::Again => None,
        }
    }
}

impl Hold {
    pub(crate) fn new(
        (lease, votes): (Lease, usize),
        name: Name,
        options: Arc<Options>,
        voters: Voters,
        (label, is_stored): (Label, bool),
        line: Arc<Line>,
        keeper: Arc<Keeper>,
    ) -> Arc<Self> {
        let tied = options.tied;
        Arc::new(Self {
            name,
            options,
            voters,
            label,
            is_stored,
            line,
            keeper,
            state: Mutex::new(State {
                lease,
                votes,
                has_failed: false,
                tied,
                announced: false,
                told: false,
                closed: false,
            }),
            lost: Signal::default(),
            closed: Signal::default(),
        })
    }

    /// Lets the others of this process know that they need not ask the nodes while this is held.
    pub(crate) fn announce(self: &Arc<Self>) {
        self.state().announced = true;
        let holder: Weak<Self> = Arc::downgrade(self);
        self.line.set_holder(holder);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn token(&self) -> Token {
        self.state().lease.token()
    }

    pub(crate) fn fence(&self) -> Fence {
        self.state().lease.fence()
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.state().lease.deadline()
    }

    /// Time to the deadline, whatever the lock is worth.
    pub(crate) fn time_left(&self) -> Duration {
        self.now().until(self.deadline())
    }

    /// The deadline by the wall clock as it stands now.
    pub(crate) fn expires_at(&self) -> Wall {
        self.voters.around.clock.wall() + self.time_left()
    }

    /// How many nodes had agreed when the last round that gave or extended the lock was decided.
    pub(crate) fn votes(&self) -> usize {
        self.state().votes
    }

    pub(crate) fn at_longest_hold(&self) -> bool {
        self.state().lease.at_longest_hold()
    }

    pub(crate) fn now(&self) -> Moment {
        self.voters.around.clock.now()
    }

    /// How long it has been held.
    pub(crate) fn age(&self) -> Duration {
        self.now().since(self.state().lease.since())
    }

    /// What the lock is worth right now. The clocks are read, nobody is asked.
    pub(crate) fn standing(&self) -> Standing {
        let clock = &self.voters.around.clock;
        self.state().lease.standing(clock.now(), clock.wall())
    }

    /// When the loss is announced unless an extension comes first.
    pub(crate) fn announce_at(&self) -> Moment {
        self.deadline() - self.options.margin()
    }

    /// Whether an unseen pause may have outlasted the lease.
    pub(crate) fn is_doubtful(&self) -> bool {
        let clock = &self.voters.around.clock;
        let (now, wall) = (clock.now(), clock.wall());
        let state = self.state();
        state.lease.standing(now, wall) == Standing::Unverified
            && now + state.lease.unseen(now, wall) + self.options.margin() >= state.lease.deadline()
    }

    pub(crate) fn lost(&self) -> &Signal {
        &self.lost
    }

    pub(crate) fn closed(&self) -> &Signal {
        &self.closed
    }

    /// Declares the lock lost and tells everybody. The first reason stays.
    pub(crate) fn lose(&self, loss: Loss) -> Lost {
        let (first, loss) = {
            let mut state = self.state();
            let first = !state.told && state.announced && !state.closed;
            state.told |= first;
            (first, state.lease.lose(loss))
        };
        if first {
            let (fence, held) = (self.fence(), self.age());
            self.voters.around.emit(&Event::Lost { name: self.name.clone(), fence, loss, held });
        }
        self.lost.fire();
        // Whoever of this process waits behind us may try now.
        self.line.bell().ring();
        Lost { lock: self.name.clone(), loss }
    }

    /// Takes the confirmation of `votes` nodes, a majority, in a round that started at `start`.
    pub(crate) fn confirm(&self, ttl: Ttl, start: (Moment, Wall), votes: usize) -> Result<(), Loss> {
        let now = self.now();
        let mut state = self.state();
        state.votes = votes;
        state.has_failed = false;
        state.lease.extend(ttl, start, now)
    }

    /// Notes that a round to extend it failed.
    pub(crate) fn note_failure(&self) {
        self.state().has_failed = true;
    }

    /// Whether the last round to extend it failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Whether it was lent by its token: no watchdog extends it, and it may outlive this process.
    pub(crate) fn is_lent(&self) -> bool {
        !self.options.watchdog && !self.is_tied()
    }

    /// The command that extends the lock for `ttl`.
    pub(crate) fn extension(&self, ttl: Ttl) -> Command {
        let state = self.state();
        Command::Extend {
            name: self.name.clone(),
            token: state.lease.token(),
            ttl: ttl.span(),
            tie: if state.tied { Tie::Here } else { Tie::Loose },
        }
    }

    /// Whether only this process lets it go. One that may outlive it can be released by whoever has its token.
    pub(crate) fn is_tied(&self) -> bool {
        self.state().tied
    }

    /// From now on the lock may outlive this process.
    pub(crate) fn untie(&self) {
        self.state().tied = false;
    }

    /// Gives the lock back to a node that does not have it, if it is still held here.
    pub(crate) fn top_up(&self, node: usize) -> bool {
        let clock = &self.voters.around.clock;
        // The state stays locked while the command is enqueued, so that no release can come before it.
        let state = self.state();
        let held = matches!(state.lease.standing(clock.now(), clock.wall()), Standing::Held { .. });
        if state.closed || !state.announced || !held {
            return false;
        }
        let command = Command::Acquire(Acquire {
            name: self.name.clone(),
            token: state.lease.token(),
            proposal: state.lease.fence(),
            label: self.label.clone(),
            ttl: self.options.ttl.span(),
            tied: state.tied,
            top_up: true,
        });
        self.voters.tell_one(node, command);
        true
    }

    /// Ends it for us: nothing that could bring the lock back follows. The release is sent next, and only then
    /// [`Hold::hand_over`] tells everybody.
    pub(crate) fn close(&self) -> Closing {
        let mut state = self.state();
        let lost = state.lease.lost().filter(|_| state.told);
        state.lease.lose(Loss::Released);
        if std::mem::replace(&mut state.closed, true) { Closing::Again } else { Closing::First { lost } }
    }

    /// The command that releases the lock. If the next of this process takes it at once, it needs no hint.
    pub(crate) fn release(&self) -> Command {
        let quiet = self.line.has_next();
        let state = self.state();
        let behind = self.is_stored.then(|| (state.lease.fence(), self.label.clone()));
        // The process that gave an adopted lock away may still have a refill on its way.
        let forced = !self.is_stored;
        Command::Release { name: self.name.clone(), token: state.lease.token(), quiet, behind, forced }
    }

    /// Notes whether others waited when this was released.
    pub(crate) fn note_others(&self, waited: bool) {
        self.line.note_others(waited);
    }

    /// Stops the watchdog for good and wakes the next of this process, whose acquire is then enqueued behind our release on
    /// every node.
    pub(crate) fn hand_over(&self) {
        self.closed.fire();
        self.lost.fire();
        self.line.forget(self);
        self.line.hand_over();
    }

    /// Whether its guard is about to let go, or just does: the release is not on its way to every node.
    fn is_closing(&self) -> bool {
        self.state().closed && !self.closed.is_fired()
    }
}

impl LocalHolder for Hold {
    fn held_for(&self) -> Option<Duration> {
        match self.standing() {
            // An attempt now would come before the release on some nodes and behind it on others.
            _ if self.is_closing() => Some(self.voters.around.node_timeout),
            // One that others can release must be watched on the nodes.
            Standing::Held { left } if self.is_tied() => Some(left),
            _ => None,
        }
    }
}
