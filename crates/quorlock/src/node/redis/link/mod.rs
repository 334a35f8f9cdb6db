//! One server's link as senders and the driver use it: commands in, states and events out.

pub(crate) mod concurrency;
pub(crate) mod epoch;
pub(crate) mod greeting;
pub(crate) mod server_stats;
pub(crate) mod state;
pub(crate) mod voting_right;

use crate::context::event::Event;
use crate::context::mutex::Mutex;
use crate::context::watched::Watched;
use crate::context::{CLOCK_TOLERANCE, Context};
use crate::node::net::stream::Address;
use crate::node::redis::link::epoch::Reading;
use crate::node::redis::link::greeting::{Greeting, Login, ServerClock};
use crate::node::redis::link::state::{LinkState, Phase};
use crate::node::redis::link::voting_right::VotingRight;
use crate::node::redis::pipeline::pending::Pending;
use crate::node::redis::protocol::compare_and_delete::CompareAndDelete;
use crate::node::redis::protocol::server_info::ServerInfo;
use crate::node::{NodeError, Reply, Request};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::Duration;
use tokio::runtime::Handle;

/// Spawns the task that drives a link, on the given runtime.
pub(crate) type Drive = fn(Arc<Link>, &Handle);

/// What senders and the driver of one server share.
pub(crate) struct Link {
    pub(crate) id: Arc<str>,
    pub(crate) ctx: Context,
    pub(crate) address: Address,
    pub(crate) login: Login,
    drive: Drive,
    state: Mutex<LinkState>,
    /// Whether an attempt to connect has ended, and none is under way that commands wait for.
    connect_done: Watched<bool>,
    /// The state that was last reported to the observers: up, down, or nothing yet.
    reported_up: Mutex<Option<bool>>,
}

impl Link {
    pub(crate) fn new(id: Arc<str>, ctx: Context, address: Address, login: Login, drive: Drive) -> Self {
        Self {
            drive,
            state: Mutex::new(LinkState::new(&ctx)),
            id,
            ctx,
            address,
            login,
            connect_done: Watched::new(false),
            reported_up: Mutex::new(None),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock()
    }

    /// Wakes the driver: there is something new for it.
    pub(crate) fn wake(&self) {
        let driver = self.lock().driver.take();
        driver.into_iter().for_each(Waker::wake);
    }

    /// Sends the command of `request`.
    #[inline]
    pub(crate) fn send(self: &Arc<Self>, request: Request) {
        let mut state = self.lock();
        let runtime = match self.start(&mut state) {
            Ok(runtime) => runtime,
            Err(cause) => {
                state.keep_unacked(request.command(), &self.ctx);
                drop(state);
                return request.answer(Reply::failed(cause));
            }
        };
        let verdict = state.accept(request, &self.ctx);
        let waker = if let Ok(true) = verdict { state.driver.take() } else { None };
        drop(state);
        self.spawn(runtime);
        waker.into_iter().for_each(Waker::wake);
        if let Err((request, cause)) = verdict {
            request.answer(Reply::failed(cause));
        }
    }

    /// Waits until there is a connection or the attempt to get one has failed.
    pub(crate) async fn wait_connected(self: &Arc<Self>) {
        let runtime = self.start(&mut self.lock());
        match runtime {
            Ok(runtime) => self.spawn(runtime),
            Err(_) => return,
        }
        self.connect_done.wait_for(|connect_done| connect_done).await;
    }

    /// The runtime on which to spawn a driver once the state is unlocked, if there is none yet.
    #[inline]
    pub(crate) fn start(&self, state: &mut LinkState) -> Result<Option<Handle>, NodeError> {
        if matches!(state.phase, Phase::Idle) { self.begin_connecting(state).map(Some) } else { Ok(None) }
    }

    #[cold]
    fn begin_connecting(&self, state: &mut LinkState) -> Result<Handle, NodeError> {
        let runtime = Handle::try_current().map_err(|_| NodeError::Abandoned)?;
        state.phase = Phase::Connecting;
        self.connect_done.set(false);
        Ok(runtime)
    }

    /// Spawns a driver. The state must not be locked: a runtime that shuts down drops the driver at once.
    pub(crate) fn spawn(self: &Arc<Self>, runtime: Option<Handle>) {
        if let Some(runtime) = runtime {
            (self.drive)(self.clone(), &runtime);
        }
    }

    /// Called when a connection is made and the handshake is done.
    pub(crate) fn on_connected(&self, greeting: &Greeting) {
        let mut state = self.lock();
        state.stats.version = Some(greeting.version.clone());
        state.outbox.hashes = greeting.hashes.clone();
        state.outbox.fast = CompareAndDelete::new(greeting.fast);
        let notice = self.record_reading(&mut state, greeting.reading.as_ref(), &greeting.clock);
        let refused = state.begin(&self.ctx);
        let wakeups: Vec<_> = state.wakeups.values().cloned().collect();
        drop(state);
        self.connect_done.set(true);
        for (request, cause) in refused {
            request.answer(Reply::failed(cause));
        }
        if self.is_change(true) {
            self.ctx.emit(&Event::NodeUp { node: self.id.clone(), version: greeting.version.clone() });
        }
        self.publish(notice);
        self.record_replicas(greeting.replicas);
        // Hints may have been missed while there was no connection.
        wakeups.iter().for_each(crate::node::Wakeup::notify);
    }

    /// Called when the connection ended, or none could be made. With `Phase::Connecting` commands wait
    /// for the next.
    pub(crate) fn on_disconnected(
        &self,
        unanswered: impl Iterator<Item = Pending>,
        phase: Phase,
        cause: &NodeError,
    ) {
        let is_down = matches!(phase, Phase::Down(_));
        let connect_done = !matches!(phase, Phase::Connecting);
        let mut state = self.lock();
        let waker = state.driver.take();
        let failed = state.end(phase, unanswered, &self.ctx);
        // Still locked, because the next driver may start before all were answered.
        self.connect_done.set(connect_done);
        drop(state);
        drop(waker);
        failed.into_iter().for_each(|pending| pending.fail(cause));
        if is_down && self.is_change(false) {
            self.ctx.emit(&Event::NodeDown { node: self.id.clone(), cause: cause.clone() });
        }
    }

    /// Records a reading of the epoch that was requested while connected.
    pub(crate) fn on_reading(&self, reading: &Reading) {
        let here = (self.ctx.clock.wall(), self.ctx.clock.now());
        let clock = ServerClock::read(reading.now, here, &self.ctx);
        let notice = self.record_reading(&mut self.lock(), Some(reading), &clock);
        self.publish(notice);
    }

    /// Records what the server is by now; an error if it can no longer be a node.
    pub(crate) fn on_server_info(&self, server_info: &ServerInfo) -> Result<(), NodeError> {
        server_info.check(self.ctx.allow_eviction)?;
        if self.login.durable {
            server_info.check_durable()?;
        }
        self.record_replicas(server_info.replicas);
        if let Some(there) = server_info.now {
            self.ctx.node_clocks.record(&self.id, there, self.ctx.clock.now());
        }
        Ok(())
    }

    /// Records how many replicas follow the server; reports them if there were none before.
    fn record_replicas(&self, replicas: u64) {
        let before = std::mem::replace(&mut self.lock().stats.replicas, replicas);
        if before == 0 && replicas > 0 {
            self.ctx.emit(&Event::NodeReplicated { node: self.id.clone(), replicas });
        }
    }

    /// Records what the server's clock shows, and its epoch if that was read.
    fn record_reading(
        &self,
        state: &mut LinkState,
        reading: Option<&Reading>,
        clock: &ServerClock,
    ) -> EpochNotice {
        let ctx = &self.ctx;
        let ahead = clock.ahead_micros;
        let was_skewed = state.stats.ahead_micros.is_some_and(is_skewed);
        let was_known = state.epoch.is_some();
        state.stats.ahead_micros = Some(ahead);
        ctx.node_clocks.record(&self.id, clock.there, clock.at);
        if let Some(reading) = reading {
            ctx.longest.record(&self.id, reading.epoch.as_ref().map(|epoch| epoch.longest));
        }
        let is_new = reading.is_some_and(|reading| state.record_epoch(reading, ctx));
        let left = match &state.voting_right {
            VotingRight::Verified { epoch, .. } => {
                ctx.identities.claim_epoch(&self.id, epoch.nonce());
                epoch.left(ctx.longest.recorded(), ctx.clock.now())
            }
            VotingRight::Unguarded | VotingRight::NoEpoch | VotingRight::Unverified => Duration::ZERO,
        };
        EpochNotice {
            forgot: is_new && was_known,
            quarantined: (is_new && !left.is_zero()).then_some(left),
            skew: (is_skewed(ahead) && !was_skewed).then_some(ahead),
        }
    }

    fn publish(&self, notice: EpochNotice) {
        if let Some(left) = notice.quarantined {
            let node = self.id.clone();
            self.ctx.emit(&Event::NodeQuarantined { node, left });
        }
        if let Some(ahead_micros) = notice.skew {
            let node = self.id.clone();
            self.ctx.emit(&Event::ClockSkew { node, ahead_micros });
        }
        if notice.forgot {
            self.ctx.recheck.raise();
        }
    }

    /// Records the state that is about to be reported; `false` if it was reported before.
    fn is_change(&self, up: bool) -> bool {
        let mut reported_up = self.reported_up.lock();
        reported_up.replace(up) != Some(up)
    }
}

/// What a reading of the epoch found that must be reported.
struct EpochNotice {
    forgot: bool,
    quarantined: Option<Duration>,
    skew: Option<i64>,
}

fn is_skewed(ahead_micros: i64) -> bool {
    Duration::from_micros(ahead_micros.unsigned_abs()) > CLOCK_TOLERANCE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::redis::pipeline::pending::PendingRelease;
    use crate::node::{Command, NodeUrl, Replies, RoundReplies, WakeThreshold};
    use quorlock_core::{Name, Token};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    /// Checks the link when it is woken.
    struct StateProbe {
        link: Arc<Link>,
        saw_unacked: AtomicBool,
    }

    impl Wake for StateProbe {
        fn wake(self: Arc<Self>) {
            assert!(self.link.connect_done.get(), "no attempt to connect is under way");
            self.saw_unacked.store(self.link.lock().work(&self.link.ctx).has_unacked, Ordering::Relaxed);
        }
    }

    /// Goal: a waiter that is woken because a connection ended with its runtime, and starts the next,
    /// finds the unacknowledged release.
    #[test]
    fn a_release_is_kept_before_its_failure_is_reported() {
        let url: NodeUrl = "redis://127.0.0.1:1".parse().unwrap();
        let (address, login) = crate::node::redis::reach(&url, &Context::default()).unwrap();
        let link = Arc::new(Link::new("a".into(), Context::default(), address, login, |_, _| {}));
        let (name, token) = (Name::new("a").unwrap(), Token::from_random([1; 16]));
        let round = RoundReplies::new(
            Command::Release {
                name,
                token,
                quiet: false,
                stored_after_token: None,
                may_be_shared: false,
                forced: false,
            }
            .into(),
            WakeThreshold::ONE,
        );
        let probe = Arc::new(StateProbe { link: link.clone(), saw_unacked: AtomicBool::new(false) });
        let waker = probe.clone().into();
        let mut taken = Replies::new();
        assert!(round.poll_take(&std::task::Context::from_waker(&waker), &mut taken).is_pending());
        let release = Pending::Release(PendingRelease::new(Request::new(&round, 0, 0)).unwrap());
        link.on_disconnected([release].into_iter(), Phase::Idle, &NodeError::Abandoned);
        assert!(probe.saw_unacked.load(Ordering::Relaxed));
    }
}
