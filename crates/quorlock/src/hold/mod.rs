//! A held lock as its guard, its watchdog and the waiters of its locker see it.

pub(crate) mod clock_jumps;
pub(crate) mod deferred_watchdogs;
pub(crate) mod extend;
pub(crate) mod extend_by_token;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod keeper;
pub(crate) mod lease;
pub(crate) mod once_signal;
pub(crate) mod release;
pub(crate) mod upgrade;
pub(crate) mod watchdog;

use crate::acquire::attempt::Grant;
use crate::acquire::name_queue::{LocalHolder, NameQueue};
use crate::context::event::{Event, ReleaseKind};
use crate::context::injected_bug::InjectedBug;
use crate::context::mutex::Mutex;
use crate::context::options::Options;
use crate::error::Lost;
use crate::hold::keeper::Keeper;
use crate::hold::once_signal::OnceSignal;
use crate::node::{Acquire, AcquireKind, Command, Commands, Tie};
use crate::quorum::Nodes;
use crate::quorum::round::Round;
use quorlock_core::{
    Fence, Label, LeaseState, LeaseTerms, LossReason, Mode, Moment, NameSet, Token, Ttl, Wall,
};
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

/// A held lock, shared by its guard and its watchdog.
#[derive(Debug)]
pub(crate) struct HeldLock {
    pub(crate) names: NameSet,
    pub(crate) options: Arc<Options>,
    pub(crate) label: Label,
    /// Whether the nodes store this label. For an adopted lock they store the label of the process that
    /// gave it away.
    is_stored: bool,
    queue: Arc<NameQueue>,
    pub(crate) keeper: Arc<Keeper>,
    inner: Mutex<HoldState>,
    /// Fires when the lock is lost.
    lost: OnceSignal,
    /// Fires when the guard releases the lock or gives it away.
    closed: OnceSignal,
}

#[derive(Debug)]
struct HoldState {
    lease: LeaseTerms,
    votes: usize,
    /// Whether the last round to extend it failed.
    has_failed: bool,
    tied: bool,
    mode: HoldMode,
    /// Whether it is shared or ever was: some nodes may still have it so.
    was_shared: bool,
    /// The highest fence that this hold or an upgrade of it has asked for.
    highest_fence: Fence,
    /// Set once a guard has it: a hold that ends before that was never reported as held.
    guarded: bool,
    /// Whether its loss was reported.
    loss_reported: bool,
    /// Once set, no command may follow that could bring the lock back on a node.
    closed: bool,
}

/// How a lock is held, and what nodes may still have to learn of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldMode {
    Exclusive,
    Shared,
    /// Shared, and an upgrade is under way.
    Upgrading,
    /// Shared, and some nodes may still have it exclusively: it was downgraded, or an upgrade failed.
    Downgraded,
}

impl HoldMode {
    fn mode(self) -> Mode {
        if self == HoldMode::Exclusive { Mode::Exclusive } else { Mode::Shared }
    }
}

/// How a hold ended for its guard.
#[derive(Debug)]
pub(crate) struct Ended<T> {
    /// What was sent to the nodes.
    pub(crate) sent: T,
    pub(crate) fence: Fence,
    /// How long it was held.
    pub(crate) held: Duration,
    /// Why it had been lost before, if that was reported.
    pub(crate) lost: Option<LossReason>,
}

impl HeldLock {
    pub(crate) fn new(
        (lease, votes): (LeaseTerms, usize),
        (names, mode): (NameSet, Mode),
        options: Arc<Options>,
        (label, is_stored): (Label, bool),
        queue: Arc<NameQueue>,
        keeper: Arc<Keeper>,
    ) -> Arc<Self> {
        let (tied, highest_fence) = (options.tied, lease.fence());
        Arc::new(Self {
            names,
            options,
            label,
            is_stored,
            queue,
            keeper,
            inner: Mutex::new(HoldState {
                lease,
                votes,
                has_failed: false,
                tied,
                mode: if mode == Mode::Shared { HoldMode::Shared } else { HoldMode::Exclusive },
                // The process that gave an adopted lock away may have upgraded it.
                was_shared: mode == Mode::Shared || !is_stored,
                highest_fence,
                guarded: false,
                loss_reported: false,
                closed: false,
            }),
            lost: OnceSignal::default(),
            closed: OnceSignal::default(),
        })
    }

    /// Lets the waiters of this locker know that they need not ask the nodes while this is held.
    pub(crate) fn announce(self: &Arc<Self>) {
        self.inner().guarded = true;
        if self.mode() != Mode::Exclusive {
            return;
        }
        if self.queue.is_of(&self.names) {
            let holder: Weak<Self> = Arc::downgrade(self);
            self.queue.set_holder(holder);
        } else {
            // The holder of one slot keeps no waiter of the semaphore from another.
            self.queue.slots().hold(&self.names);
        }
    }

    fn inner(&self) -> MutexGuard<'_, HoldState> {
        self.inner.lock()
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.keeper.nodes
    }

    pub(crate) fn token(&self) -> Token {
        self.inner().lease.token()
    }

    /// How it is held.
    pub(crate) fn mode(&self) -> Mode {
        self.inner().mode.mode()
    }

    pub(crate) fn fence(&self) -> Fence {
        self.inner().lease.fence()
    }

    pub(crate) fn deadline(&self) -> Moment {
        self.inner().lease.deadline()
    }

    /// Time to the deadline, even if the lock is lost.
    pub(crate) fn time_left(&self) -> Duration {
        self.now().until(self.deadline())
    }

    /// The deadline by the wall clock as it is set now.
    pub(crate) fn expires_at(&self) -> Wall {
        self.nodes().ctx.clock.wall() + self.time_left()
    }

    /// How many nodes had agreed when the last round that gave or extended the lock was decided.
    pub(crate) fn votes(&self) -> usize {
        self.inner().votes
    }

    pub(crate) fn at_longest_hold(&self) -> bool {
        self.inner().lease.at_longest_hold()
    }

    pub(crate) fn now(&self) -> Moment {
        self.nodes().ctx.clock.now()
    }

    /// How long it has been held.
    pub(crate) fn age(&self) -> Duration {
        self.now().since(self.inner().lease.since())
    }

    /// The state of the lock right now: held, unverified, or lost and why. Asks no node.
    pub(crate) fn state(&self) -> LeaseState {
        let clock = &self.nodes().ctx.clock;
        self.inner().lease.state(clock.now(), clock.wall())
    }

    /// When the loss is announced unless an extension comes first.
    pub(crate) fn announce_at(&self) -> Moment {
        self.deadline() - self.options.margin()
    }

    /// Whether an unseen pause may have outlasted the lease.
    pub(crate) fn is_doubtful(&self) -> bool {
        let clock = &self.nodes().ctx.clock;
        let (now, wall) = (clock.now(), clock.wall());
        let inner = self.inner();
        inner.lease.state(now, wall) == LeaseState::Unverified
            && now + inner.lease.unseen(now, wall) + self.options.margin() >= inner.lease.deadline()
    }

    pub(crate) fn lost(&self) -> &OnceSignal {
        &self.lost
    }

    pub(crate) fn closed(&self) -> &OnceSignal {
        &self.closed
    }

    /// Declares the lock lost, and notifies observers, watchers and waiters. The first reason stays.
    pub(crate) fn lose(&self, reason: LossReason) -> Lost {
        let (first, reason) = {
            let mut inner = self.inner();
            let first = !inner.loss_reported && inner.guarded && !inner.closed;
            inner.loss_reported |= first;
            (first, inner.lease.lose(reason))
        };
        if first {
            let (fence, held) = (self.fence(), self.age());
            self.nodes().ctx.emit_each(&self.names, |name| Event::Lost { name, fence, reason, held });
        }
        self.lost.fire();
        // The next waiter of this locker may try now.
        self.queue.wakeup().notify();
        Lost { lock: self.names.clone(), reason }
    }

    /// Records that `votes` nodes, a majority, extended the lock in a round that started at `start`.
    pub(crate) fn confirm(&self, ttl: Ttl, start: (Moment, Wall), votes: usize) -> Result<(), LossReason> {
        let now = self.now();
        let mut inner = self.inner();
        inner.votes = votes;
        inner.has_failed = false;
        inner.lease.extend(ttl, start, now)
    }

    /// Records that a round to extend it failed.
    pub(crate) fn extend_failed(&self) {
        self.inner().has_failed = true;
    }

    /// Whether the last round to extend it failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.inner().has_failed
    }

    /// Whether it was lent by its token: no watchdog extends it, and it may outlive this process.
    pub(crate) fn is_lent(&self) -> bool {
        !self.options.watchdog && !self.ends_with_process()
    }

    /// Asks all nodes to extend the lock for `ttl`.
    ///
    /// The state stays locked while the commands are enqueued, so that none of them comes between the
    /// commands of an upgrade.
    pub(crate) fn ask_to_extend(&self, ttl: Ttl) -> Round {
        let inner = self.inner();
        let (token, mode) = (inner.lease.token(), inner.mode.mode());
        if inner.mode == HoldMode::Downgraded {
            self.send_downgrade(&inner);
        }
        let tie = if inner.tied { Tie::Here } else { Tie::Loose };
        let may_be_shared = inner.was_shared;
        self.nodes().ask(Commands::each(&self.names, |name| Command::Extend {
            name: name.clone(),
            token,
            ttl: ttl.span(),
            tie,
            mode,
            may_be_shared,
        }))
    }

    fn send_downgrade(&self, inner: &HoldState) {
        let (token, at_most, fence) = (inner.lease.token(), inner.highest_fence, inner.lease.fence());
        for name in &self.names {
            self.nodes().send(Command::Downgrade { name: name.clone(), token, at_most, fence });
        }
    }

    /// Holds it shared from now on.
    pub(crate) fn downgrade(&self) {
        let mut inner = self.inner();
        if inner.mode == HoldMode::Exclusive {
            inner.mode = HoldMode::Downgraded;
            inner.was_shared = true;
            self.send_downgrade(&inner);
            drop(inner);
            self.queue.forget(self);
            self.queue.wakeup().notify();
            self.emit_mode();
        }
    }

    /// Begins an upgrade, which must propose a higher fence than the one that this returns; `None` if it is
    /// exclusive already or another upgrade is under way.
    pub(crate) fn begin_upgrade(&self) -> Option<Fence> {
        let mut inner = self.inner();
        let begins = matches!(inner.mode, HoldMode::Shared | HoldMode::Downgraded);
        begins.then(|| {
            inner.mode = HoldMode::Upgrading;
            inner.highest_fence
        })
    }

    /// Ends an upgrade that may have asked for fences up to `highest`. If it failed, nodes that upgraded are
    /// downgraded again, now and with each extension.
    pub(crate) fn end_upgrade(&self, highest: Fence) {
        let mut inner = self.inner();
        inner.highest_fence = inner.highest_fence.max(highest);
        if inner.mode == HoldMode::Upgrading {
            inner.mode = HoldMode::Downgraded;
            if !inner.closed {
                self.send_downgrade(&inner);
            }
        }
    }

    /// Records an upgrade that was granted as `grant`.
    pub(crate) fn upgraded(self: &Arc<Self>, grant: &Grant) -> Result<(), LossReason> {
        let (now, ttl) = (self.now(), self.options.ttl);
        {
            let mut inner = self.inner();
            inner.lease.extend(ttl, grant.start, now)?;
            if !self.nodes().ctx.injected.is_on(InjectedBug::UpgradeKeepsFence) {
                inner.lease.raise_fence(grant.lease.fence());
            }
            inner.votes = grant.votes;
            inner.mode = HoldMode::Exclusive;
        }
        let holder: Weak<Self> = Arc::downgrade(self);
        self.queue.set_holder(holder);
        self.emit_mode();
        Ok(())
    }

    fn emit_mode(&self) {
        let (mode, fence) = (self.mode(), self.fence());
        self.nodes().ctx.emit_each(&self.names, |name| Event::ModeChanged { name, mode, fence });
    }

    /// Whether only this process releases it. A lock that may outlive the process can be released by any
    /// client that has its token.
    pub(crate) fn ends_with_process(&self) -> bool {
        self.inner().tied
    }

    /// From now on the lock may outlive this process.
    pub(crate) fn outlive_process(&self) {
        self.inner().tied = false;
    }

    /// Gives the lock back to a node that does not have it, if it is still held here.
    pub(crate) fn repair(&self, node: usize) -> bool {
        let clock = &self.nodes().ctx.clock;
        // The state stays locked while the command is enqueued, so that no release can come before it.
        let inner = self.inner();
        let held = matches!(inner.lease.state(clock.now(), clock.wall()), LeaseState::Held { .. });
        if inner.closed || !inner.guarded || !held {
            return false;
        }
        for name in &self.names {
            let command = Command::Acquire(Acquire {
                name: name.clone(),
                token: inner.lease.token(),
                proposal: inner.lease.fence(),
                label: self.label.clone(),
                ttl: self.options.ttl.span(),
                tied: inner.tied,
                mode: inner.mode.mode(),
                kind: AcquireKind::Repair,
            });
            self.nodes().send_to(node, command);
        }
        true
    }

    /// Ends the hold: closes it, sends what `send` sends, then wakes the next waiter of this locker.
    /// `None` if it was ended before.
    ///
    /// The order matters. Once the hold is closed, no command follows that could bring the lock back. The
    /// acquire of the next waiter is enqueued behind the release on every node.
    pub(crate) fn end<T>(&self, send: impl FnOnce(&Self) -> T) -> Option<Ended<T>> {
        let lost = {
            let mut inner = self.inner();
            if std::mem::replace(&mut inner.closed, true) {
                return None;
            }
            let lost = inner.lease.lost().filter(|_| inner.loss_reported);
            inner.lease.lose(LossReason::Released);
            lost
        };
        let sent = send(self);
        self.closed.fire();
        self.lost.fire();
        self.queue.forget(self);
        self.queue.slots().release(&self.names);
        self.queue.hand_over();
        Some(Ended { sent, fence: self.fence(), held: self.age(), lost })
    }

    /// The commands that release the lock. They send no hint if a waiter of this locker takes the lock at
    /// once.
    pub(crate) fn release_commands(&self) -> Commands {
        let inner = self.inner();
        let quiet = !inner.was_shared && self.queue.has_next();
        let stored = !inner.was_shared && self.is_stored;
        // The process that gave an adopted lock away may still have a repair under way.
        let forced = !self.is_stored;
        Commands::each(&self.names, |name| Command::Release {
            name: name.clone(),
            token: inner.lease.token(),
            quiet,
            stored_after_token: stored.then(|| (inner.lease.fence(), self.label.clone())),
            may_be_shared: inner.was_shared,
            forced,
        })
    }

    /// Ends the hold without a release: another process goes on with the lock. Waiters of this locker
    /// must watch the nodes from now on.
    pub(crate) fn give_away(&self) {
        if let Some(Ended { fence, held, lost: None, .. }) = self.end(|_| ()) {
            self.nodes().ctx.emit_each(&self.names, |name| Event::GivenAway { name, fence, held });
        }
    }

    pub(crate) fn emit_released<T>(&self, outcome: ReleaseKind, ended: &Ended<T>) {
        let (fence, held, lost) = (ended.fence, ended.held, ended.lost);
        let released = |name| Event::Released { name, fence, outcome, held, lost };
        self.nodes().ctx.emit_each(&self.names, released);
    }

    /// Records whether waiters outside this locker were known when this was released.
    pub(crate) fn set_others_wait(&self, waited: bool) {
        self.queue.set_others_wait(waited);
    }

    /// Whether its guard is releasing it, and the release is not on its way to every node yet.
    fn is_closing(&self) -> bool {
        self.inner().closed && !self.closed.is_fired()
    }
}

impl LocalHolder for HeldLock {
    fn held_for(&self) -> Option<Duration> {
        match self.state() {
            // An attempt now would come before the release on some nodes and behind it on others.
            _ if self.is_closing() => Some(self.nodes().ctx.node_timeout),
            // A lock that other clients can release must be watched on the nodes.
            LeaseState::Held { left } if self.ends_with_process() => Some(left),
            _ => None,
        }
    }
}
