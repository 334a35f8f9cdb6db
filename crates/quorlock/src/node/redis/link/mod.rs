//! One server's link as everybody else sees it: commands in, states and events out.

pub(crate) mod concurrency;
pub(crate) mod epoch;
pub(crate) mod greeting;
pub(crate) mod server_stats;
pub(crate) mod state;

use crate::context::event::Event;
use crate::context::mutex::Mutex;
use crate::context::{CLOCK_TOLERANCE, Context};
use crate::node::net::stream::Address;
use crate::node::redis::link::epoch::{Reading, VotingRight};
use crate::node::redis::link::greeting::{Greeting, Login, ServerClock};
use crate::node::redis::link::state::{LinkState, Phase};
use crate::node::redis::pipeline::pending::Pending;
use crate::node::redis::protocol::compare_and_delete::CompareAndDelete;
use crate::node::redis::protocol::server_info::ServerInfo;
use crate::node::{NodeError, Reply, Request};
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;

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
    /// Whether an attempt to connect has come to an end, and none is under way that commands wait for.
    settled: watch::Sender<bool>,
    /// What the observers were told last: up, down, or nothing yet.
    announced: Mutex<Option<bool>>,
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
            settled: watch::Sender::new(false),
            announced: Mutex::new(None),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock()
    }

    /// Wakes the driver, as there is something new for it.
    pub(crate) fn wake(&self) {
        let driver = self.lock().driver.take();
        driver.into_iter().for_each(Waker::wake);
    }

    /// Sends the command of `request`.
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
        let mut settled = self.settled.subscribe();
        let runtime = self.start(&mut self.lock());
        match runtime {
            Ok(runtime) => self.spawn(runtime),
            Err(_) => return,
        }
        // The sender lives as long as we do, so this cannot fail.
        let _ = settled.wait_for(|settled| *settled).await;
    }

    /// The runtime on which a driver is to be spawned once the queue is unlocked, if there is none yet.
    pub(crate) fn start(&self, state: &mut LinkState) -> Result<Option<Handle>, NodeError> {
        if !matches!(state.phase, Phase::Idle) {
            return Ok(None);
        }
        let runtime = Handle::try_current().map_err(|_| NodeError::Abandoned)?;
        state.phase = Phase::Connecting;
        self.settled.send_replace(false);
        Ok(Some(runtime))
    }

    /// Spawns a driver. The queue must not be locked: a runtime that shuts down drops the driver at once.
    pub(crate) fn spawn(self: &Arc<Self>, runtime: Option<Handle>) {
        if let Some(runtime) = runtime {
            (self.drive)(self.clone(), &runtime);
        }
    }

    /// A connection stands.
    pub(crate) fn ready(&self, greeting: &Greeting) {
        let mut state = self.lock();
        state.facts.version = Some(greeting.version.clone());
        state.outbox.hashes = greeting.hashes.clone();
        state.outbox.fast = CompareAndDelete::new(greeting.fast);
        let notice = self.learn(&mut state, greeting.reading.as_ref(), &greeting.clock);
        let refused = state.begin(&self.ctx);
        let wakeups: Vec<_> = state.wakeups.values().cloned().collect();
        drop(state);
        self.settled.send_replace(true);
        for (request, cause) in refused {
            request.answer(Reply::failed(cause));
        }
        if self.announces(true) {
            self.ctx.emit(&Event::NodeUp { node: self.id.clone(), version: greeting.version.clone() });
        }
        self.publish(notice);
        self.followed_by(greeting.replicas);
        // Subscribe may have been missed while there was no connection.
        wakeups.iter().for_each(crate::node::Wakeup::notify);
    }

    /// The connection is gone, or none could be made. `Phase::Connecting` lets commands wait for the next.
    pub(crate) fn gone(&self, unanswered: impl Iterator<Item = Pending>, phase: Phase, cause: &NodeError) {
        let is_down = matches!(phase, Phase::Down(_));
        let settled = !matches!(phase, Phase::Connecting);
        let mut state = self.lock();
        let waker = state.driver.take();
        let failed = state.end(phase, unanswered, &self.ctx);
        // While it is locked, as the next driver may start before all were answered.
        self.settled.send_replace(settled);
        drop(state);
        drop(waker);
        failed.into_iter().for_each(|pending| pending.fail(cause));
        if is_down && self.announces(false) {
            self.ctx.emit(&Event::NodeDown { node: self.id.clone(), cause: cause.clone() });
        }
    }

    /// Takes a reading of the epoch that was asked for while connected.
    pub(crate) fn verified(&self, reading: &Reading) {
        let here = (self.ctx.clock.wall(), self.ctx.clock.now());
        let clock = ServerClock::read(reading.now, here, &self.ctx);
        let notice = self.learn(&mut self.lock(), Some(reading), &clock);
        self.publish(notice);
    }

    /// Takes in what the server is by now; an error if it can no longer be a node.
    pub(crate) fn on_server_info(&self, server_info: &ServerInfo) -> Result<(), NodeError> {
        server_info.check(self.ctx.allow_eviction)?;
        if self.login.durable {
            server_info.check_durable()?;
        }
        self.followed_by(server_info.replicas);
        if let Some(there) = server_info.now {
            self.ctx.node_clocks.heard(&self.id, there, self.ctx.clock.now());
        }
        Ok(())
    }

    /// Takes in how many replicas follow the server, and tells if there were none before.
    fn followed_by(&self, replicas: u64) {
        let before = std::mem::replace(&mut self.lock().facts.replicas, replicas);
        if before == 0 && replicas > 0 {
            self.ctx.emit(&Event::NodeReplicated { node: self.id.clone(), replicas });
        }
    }

    /// Takes in what the server's clock shows, and its epoch if that was read.
    fn learn(&self, state: &mut LinkState, reading: Option<&Reading>, clock: &ServerClock) -> EpochNotice {
        let ctx = &self.ctx;
        let ahead = clock.ahead_micros;
        let was_skewed = state.facts.ahead_micros.is_some_and(is_skewed);
        let was_known = state.epoch.is_some();
        state.facts.ahead_micros = Some(ahead);
        ctx.node_clocks.heard(&self.id, clock.there, clock.at);
        if let Some(reading) = reading {
            ctx.longest.heard(&self.id, reading.epoch.as_ref().map(|epoch| epoch.longest));
        }
        let is_new = reading.is_some_and(|reading| state.learn(reading, ctx));
        let left = match &state.voting_right {
            VotingRight::Verified { epoch, .. } => {
                ctx.identities.claim_epoch(&self.id, epoch.nonce());
                epoch.left(ctx.longest.recorded(), ctx.clock.now())
            }
            VotingRight::Unguarded | VotingRight::Unmarked | VotingRight::Unverified => Duration::ZERO,
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

    /// Notes what the observers are about to be told; `false` if they know.
    fn announces(&self, up: bool) -> bool {
        let mut announced = self.announced.lock();
        announced.replace(up) != Some(up)
    }
}

/// What a reading of the epoch has to be told about.
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
    use crate::node::{Command, NodeUrl, RoundReplies, WakeThreshold};
    use quorlock_core::{Name, Token};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    /// Looks at the link when it is woken.
    struct Onlooker {
        link: Arc<Link>,
        saw_it_owed: AtomicBool,
    }

    impl Wake for Onlooker {
        fn wake(self: Arc<Self>) {
            assert!(*self.link.settled.borrow(), "nobody connects");
            self.saw_it_owed.store(self.link.lock().work(&self.link.ctx).has_unacked, Ordering::Relaxed);
        }
    }

    /// Goal: whoever is told that a connection ended with its runtime, and starts the next, finds what is owed.
    #[test]
    fn a_release_is_owed_before_its_failure_is_told() {
        let url: NodeUrl = "redis://127.0.0.1:1".parse().unwrap();
        let (address, login) = crate::node::redis::reach(&url, &Context::default()).unwrap();
        let link = Arc::new(Link::new("a".into(), Context::default(), address, login, |_, _| {}));
        let (name, token) = (Name::new("a").unwrap(), Token::from_random([1; 16]));
        let round = RoundReplies::new(
            Command::Release { name, token, quiet: false, behind: None, forced: false },
            WakeThreshold::ONE,
        );
        let onlooker = Arc::new(Onlooker { link: link.clone(), saw_it_owed: AtomicBool::new(false) });
        let waker = onlooker.clone().into();
        assert!(round.poll_take(&std::task::Context::from_waker(&waker)).is_pending());
        let release = Pending::Release(PendingRelease::new(Request::new(&round, 0), token, false));
        link.gone([release].into_iter(), Phase::Idle, &NodeError::Abandoned);
        assert!(onlooker.saw_it_owed.load(Ordering::Relaxed));
    }
}
