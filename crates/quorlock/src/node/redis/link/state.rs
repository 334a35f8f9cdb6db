//! The state that senders and the driver share: what is to be sent, and what is known about the server.

use crate::context::injected_bug::InjectedBug;
use crate::context::{Context, RestartGuard};
use crate::node::limits::RELEASE_HEADROOM;
use crate::node::redis::link::concurrency::RecentConcurrency;
use crate::node::redis::link::epoch::Reading;
use crate::node::redis::link::greeting::{ConnectionId, Login};
use crate::node::redis::link::server_stats::ServerStats;
use crate::node::redis::link::voting_right::{Verified, VotingRight};
use crate::node::redis::pipeline::outbox::Outbox;
use crate::node::redis::pipeline::pending::{Pending, PendingRelease, PendingVerify};
use crate::node::redis::pipeline::unacked_releases::UnackedReleases;
use crate::node::redis::protocol::verify::{Syncs, VerifyRequest};
use crate::node::{AcquireKind, Command, NodeError, Request, Wakeup};
use quorlock_core::Moment;
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

/// The most commands that wait for a server.
pub(crate) const QUEUE_LIMIT: usize = 16 * 1024;
/// How often a server in quarantine is asked whether it was lifted.
const REVERIFY: Duration = Duration::from_secs(1);

/// The state of the connection.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// No driver runs.
    Idle,
    /// A connection is being made; commands wait for it.
    Connecting,
    Ready,
    /// There is no connection; commands fail at once with the cause.
    Down(NodeError),
}

/// What the driver must check now and then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingWork {
    /// There are unacknowledged releases to send again.
    pub(crate) has_unacked: bool,
    /// A waiter of this process wants hints.
    pub(crate) has_watchers: bool,
    /// The server has no epoch, or one that records less than those of others.
    pub(crate) lacks_epoch: bool,
}

/// A command that came while the connection was being made.
#[derive(Debug)]
struct Unsent {
    request: Request,
    since: Moment,
}

/// The shared state of one link.
#[derive(Debug)]
pub(crate) struct LinkState {
    pub(crate) phase: Phase,
    /// Whether the node was dropped, and the link ends once everything is sent.
    pub(crate) closing: bool,
    pub(crate) voting_right: VotingRight,
    /// The last epoch that was verified, even while it is in doubt.
    pub(crate) epoch: Option<Verified>,
    pub(crate) stats: ServerStats,
    pub(crate) outbox: Outbox,
    pub(crate) unacked: UnackedReleases,
    /// The wakeups of watched names; as many as there are names that a task of this process waits for.
    pub(crate) wakeups: BTreeMap<String, Wakeup>,
    /// The connection made last, by whichever driver: the next one ends it in case the server still has it.
    pub(crate) last_connection: Option<ConnectionId>,
    /// Wakes the driver, once: the driver registers it again each time it is polled.
    pub(crate) driver: Option<Waker>,
    waiting: VecDeque<Unsent>,
    /// How many pending replies the driver holds.
    in_flight: usize,
    concurrency: RecentConcurrency,
    reverified: Option<Moment>,
}

impl LinkState {
    pub(crate) fn new(ctx: &Context) -> Self {
        Self {
            phase: Phase::Idle,
            closing: false,
            voting_right: match ctx.guard {
                RestartGuard::Strict => VotingRight::Unverified,
                RestartGuard::Off => VotingRight::Unguarded,
            },
            epoch: None,
            stats: ServerStats::default(),
            outbox: Outbox::default(),
            unacked: UnackedReleases::default(),
            wakeups: BTreeMap::new(),
            last_connection: None,
            driver: None,
            waiting: VecDeque::new(),
            in_flight: 0,
            concurrency: RecentConcurrency::default(),
            reverified: None,
        }
    }

    /// How many commands wait for an answer.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.in_flight + self.outbox.len() + self.waiting.len()
    }

    /// Accepts a command; `true` if the driver must be woken for it. A request that is refused comes
    /// back.
    #[inline]
    pub(crate) fn accept(&mut self, request: Request, ctx: &Context) -> Result<bool, (Request, NodeError)> {
        if let Err(cause) = self.admit(request.command(), ctx) {
            self.keep_unacked(request.command(), ctx);
            return Err((request, cause));
        }
        if matches!(self.phase, Phase::Ready) {
            self.encode(request);
            return Ok(self.outbox.len() == 1);
        }
        self.waiting.push_back(Unsent { request, since: ctx.clock.now() });
        Ok(false)
    }

    #[inline]
    fn admit(&mut self, command: &Command, ctx: &Context) -> Result<(), NodeError> {
        let limit = match command {
            Command::Release { .. } => QUEUE_LIMIT + RELEASE_HEADROOM,
            _ => QUEUE_LIMIT,
        };
        if self.len() >= limit {
            return Err(NodeError::QueueFull { limit });
        }
        match (&self.phase, command) {
            (Phase::Down(cause), _) => Err(cause.clone()),
            (Phase::Ready, Command::Acquire(vote)) => {
                self.check_ttl(vote.ttl)?;
                let admitted = self.voting_right.admit(ctx.longest.recorded(), || ctx.clock.now());
                match admitted {
                    // The server keeps the name and does not count it: clients that do not know of
                    // quarantines see that it is taken.
                    Err(NodeError::Quarantined { .. }) => Ok(()),
                    Err(_) if vote.is_repair() => Ok(()),
                    admitted => admitted,
                }
            }
            (Phase::Ready, Command::Extend { ttl, .. }) => self.check_ttl(*ttl),
            _ => Ok(()),
        }
    }

    /// A ttl above what the server has recorded might outlast a quarantine of it.
    fn check_ttl(&self, ttl: Duration) -> Result<(), NodeError> {
        match self.voting_right.longest() {
            Some(longest) if ttl > longest => Err(NodeError::TtlNotRecorded { ttl, longest }),
            _ => Ok(()),
        }
    }

    #[inline]
    fn encode(&mut self, request: Request) {
        let guarded = !matches!(self.voting_right, VotingRight::Unguarded);
        self.outbox.command(request, guarded);
    }

    /// Keeps a release that cannot be sent now, unless the acquire before it was not sent either.
    pub(crate) fn keep_unacked(&mut self, command: &Command, ctx: &Context) {
        match command {
            Command::Release { name, token, forced, may_be_shared, .. }
                if *forced || !self.unacked.is_unsent(name, *token) =>
            {
                let mut release = PendingRelease::without_reply(name.clone(), *token);
                release.call.forced = *forced;
                release.call.may_be_shared = *may_be_shared;
                self.keep(release, ctx);
            }
            // The token of a repair or an upgrade is that of a lock which the server may hold already.
            Command::Acquire(vote)
                if vote.kind == AcquireKind::Vote && !matches!(self.phase, Phase::Ready) =>
            {
                self.unacked.record_unsent(&vote.name, vote.token);
            }
            _ => {}
        }
    }

    /// Keeps a release that was not acknowledged.
    pub(crate) fn keep(&mut self, release: PendingRelease, ctx: &Context) {
        let keep = ctx.longest_ttl.max(ctx.longest.recorded());
        self.unacked.add(release, ctx.clock.now(), keep);
    }

    /// Adds unacknowledged releases to the outbox again, as far as there is room.
    pub(crate) fn resend_unacked(&mut self, now: Moment) {
        while self.len() < QUEUE_LIMIT + RELEASE_HEADROOM {
            match self.unacked.take(now) {
                Some(release) => self.outbox.release(release),
                None => break,
            }
        }
    }

    /// Requests the server's epoch, and gives it one if it has none and may get one.
    pub(crate) fn verify(&mut self, verify: PendingVerify, ctx: &Context, login: &Login) {
        // What was found on connecting is checked again with every `INFO`.
        let syncs = if login.durable { Syncs::Always } else { Syncs::Unknown };
        self.outbox.verify(verify, &VerifyRequest::new(ctx, login.db, syncs), ctx);
    }

    /// Requests the epoch of a server in quarantine, now and then: an operator may have declared it
    /// fresh. `true` if the driver must be woken for it.
    pub(crate) fn reverify(&mut self, ctx: &Context, login: &Login) -> bool {
        let now = ctx.clock.now();
        let is_due = self.reverified.is_none_or(|last| now.since(last) >= REVERIFY);
        if !is_due || !matches!(self.phase, Phase::Ready) {
            return false;
        }
        self.reverified = Some(now);
        self.verify(PendingVerify::default(), ctx, login);
        true
    }

    /// Records a reading of the epoch; `true` if it is not the epoch known before.
    pub(crate) fn record_epoch(&mut self, reading: &Reading, ctx: &Context) -> bool {
        let before = self.epoch.as_ref();
        let now = ctx.clock.now();
        let Some(epoch) = &reading.epoch else {
            self.voting_right = VotingRight::NoEpoch;
            return false;
        };
        let seen_before = before.filter(|_| !ctx.injected.is_on(InjectedBug::ServerClockQuarantine));
        let epoch = Verified::new((epoch, reading.now), seen_before, now);
        let is_new = before.is_none_or(|before| before.nonce() != epoch.nonce());
        let mature = match &self.voting_right {
            VotingRight::Verified { mature, .. } if ctx.injected.is_on(InjectedBug::MatureForever) => *mature,
            _ => None,
        };
        if is_new {
            self.outbox.fence_ttls.clear(now);
        }
        if !matches!(self.voting_right, VotingRight::Unguarded) {
            self.voting_right = VotingRight::Verified { epoch: epoch.clone(), mature };
        }
        self.epoch = Some(epoch);
        is_new
    }

    /// Whether the server lacks an epoch, or one that records what other nodes have, and may get it now.
    pub(crate) fn lacks_epoch(&self, ctx: &Context) -> bool {
        let lacks = match &self.voting_right {
            VotingRight::Unguarded | VotingRight::Unverified => false,
            VotingRight::NoEpoch => true,
            VotingRight::Verified { epoch, .. } => epoch.longest() < ctx.longest.recorded(),
        };
        lacks && ctx.begins_epochs && matches!(self.phase, Phase::Ready)
    }

    /// Subscribes to hints about `name`, or unsubscribes. Without a connection only `wakeups` remembers
    /// it, and while the queue is full the server is not asked: missing hints cost time, never safety.
    pub(crate) fn set_hints(&mut self, name: &str, wanted: bool) {
        if matches!(self.phase, Phase::Ready) && self.len() < QUEUE_LIMIT {
            self.outbox.set_hints(name, wanted);
        }
    }

    /// Begins a new connection: first unacknowledged releases, then hints, then commands that waited.
    /// Commands that waited too long are refused, except for releases: an acquire whose caller has given
    /// up would take the name for no one.
    pub(crate) fn begin(&mut self, ctx: &Context) -> Vec<(Request, NodeError)> {
        let now = ctx.clock.now();
        self.phase = Phase::Ready;
        // The server may have restarted and forgotten.
        self.outbox.fence_ttls.clear(now);
        self.unacked.forget_unsent();
        if ctx.injected.is_on(InjectedBug::UnackedForgotten) {
            self.unacked = UnackedReleases::default();
        }
        self.resend_unacked(now);
        if ctx.injected.is_on(InjectedBug::ReleaseOvertakes) {
            let is_release = |waiting: &Unsent| matches!(waiting.request.command(), Command::Release { .. });
            self.waiting.make_contiguous().sort_by_key(|waiting| !is_release(waiting));
        }
        for name in self.wakeups.keys() {
            self.outbox.set_hints(name, true);
        }
        let mut refused = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let request = waiting.request;
            let is_release = matches!(request.command(), Command::Release { .. });
            let verdict = if now.since(waiting.since) > ctx.node_timeout && !is_release {
                Err(NodeError::Timeout { after: ctx.node_timeout })
            } else {
                self.admit(request.command(), ctx)
            };
            match verdict {
                Ok(()) => self.encode(request),
                Err(cause) => {
                    self.keep_unacked(request.command(), ctx);
                    refused.push((request, cause));
                }
            }
        }
        refused
    }

    /// Registers the waker of the driver.
    pub(crate) fn register_waker(&mut self, driver: &Waker) {
        if !self.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            self.driver = Some(driver.clone());
        }
    }

    /// Whether there is something to write, and other tasks may be about to add to it. A single client is
    /// not kept waiting.
    pub(crate) fn may_grow(&self) -> bool {
        !self.outbox.is_empty() && !self.concurrency.is_single_client()
    }

    /// What the driver must check now and then.
    pub(crate) fn work(&self, ctx: &Context) -> PendingWork {
        PendingWork {
            has_unacked: !self.unacked.is_empty(),
            has_watchers: !self.wakeups.is_empty(),
            lacks_epoch: self.lacks_epoch(ctx),
        }
    }

    /// Hands everything to be written over to the driver, if `out` has room for it.
    pub(crate) fn take_over(&mut self, out: &mut Vec<u8>, in_flight: &mut VecDeque<Pending>) {
        if out.is_empty() {
            self.outbox.take_over(out, in_flight);
        }
        self.in_flight = in_flight.len();
        self.concurrency.record(self.in_flight);
    }

    /// Ends the connection, keeps the releases that were not acknowledged, and returns what is to be
    /// failed. Commands go on waiting while another connection is made.
    pub(crate) fn end(
        &mut self,
        phase: Phase,
        in_flight: impl Iterator<Item = Pending>,
        ctx: &Context,
    ) -> Vec<Pending> {
        self.in_flight = 0;
        let mut failed: Vec<Pending> = in_flight.chain(self.outbox.drain()).collect();
        if ctx.injected.is_on(InjectedBug::SentAsUnsent) {
            for pending in &failed {
                if let Pending::Vote(vote) = pending
                    && let Some(undo) = vote.undo()
                {
                    self.unacked.record_unsent(undo.name(), undo.call.token);
                }
            }
        }
        if !matches!(phase, Phase::Connecting) {
            for waiting in self.waiting.drain(..) {
                if let Command::Acquire(vote) = waiting.request.command()
                    && vote.kind == AcquireKind::Vote
                {
                    self.unacked.record_unsent(&vote.name, vote.token);
                }
                failed.push(waiting.into_pending());
            }
        }
        self.phase = phase;
        let keep = |pending: Pending| {
            let (pending, unacked) = pending.split_release();
            unacked.into_iter().for_each(|release| self.keep(release, ctx));
            pending
        };
        failed.into_iter().map(keep).collect()
    }
}

impl Unsent {
    /// The pending reply to fail in its place.
    fn into_pending(self) -> Pending {
        PendingRelease::new(self.request).map_or_else(Pending::AnswerOnly, Pending::Release)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::{Name, Token};

    /// Goal: a repair or an upgrade that was not sent does not make the release of its lock superfluous.
    #[test]
    fn the_token_of_a_repair_or_an_upgrade_is_still_to_be_released() {
        use crate::node::contract::{TTL, acquire, release};
        for (kind, is_kept) in
            [(AcquireKind::Vote, false), (AcquireKind::Repair, true), (AcquireKind::Upgrade, true)]
        {
            let ctx = Context::default();
            let mut state = LinkState::new(&ctx);
            let Command::Acquire(mut unsent) = acquire("a", 1, 5, TTL, false) else { panic!("no acquire") };
            unsent.kind = kind;
            state.keep_unacked(&Command::Acquire(unsent), &ctx);
            state.keep_unacked(&release("a", 1), &ctx);
            assert_eq!(!state.unacked.is_empty(), is_kept, "{kind:?}");
        }
    }

    #[test]
    fn only_the_first_command_of_a_write_wakes_the_driver() {
        let ctx = Context::default();
        let mut state = LinkState { phase: Phase::Ready, ..LinkState::new(&ctx) };
        let name = Name::new("a").unwrap();
        let accept = |state: &mut LinkState| {
            let token = Token::from_random([1; 16]);
            let release = Command::Release {
                name: name.clone(),
                token,
                quiet: false,
                stored_after_token: None,
                may_be_shared: false,
                forced: false,
            };
            state.accept(Request::without_reply(release), &ctx).unwrap()
        };
        for _ in 0..3 {
            assert!(accept(&mut state));
            assert!(!accept(&mut state));
            state.take_over(&mut Vec::new(), &mut VecDeque::new());
        }
    }
}
