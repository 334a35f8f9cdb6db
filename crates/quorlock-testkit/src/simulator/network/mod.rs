//! A client's link to a simulated server: ordered, cut and connected again, with the rules of the
//! real link.

pub(crate) mod network_conditions;
mod traffic;

use crate::rng::Rng;
use crate::simulator::InjectedBug;
use crate::simulator::event_queue::EventQueue;
use crate::simulator::machine_clock::MachineClock;
use crate::simulator::server::{Epoch, Server};
use network_conditions::NetworkConditions;
use quorlock::node::{Command, Health, Node, NodeError, Reply, Request, Wakeup};
use quorlock::{Clock, Moment, Name, Token};
use quorlock_core::Wall;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// Clock tolerance between machines, as the library has it.
pub(crate) const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);
const RECONNECT_DELAY: Duration = Duration::from_millis(300);

/// One client's view of one server.
#[derive(Clone)]
pub(crate) struct Link(Arc<Shared>);

/// What a link connects.
pub(crate) struct Endpoints {
    pub(crate) id: String,
    pub(crate) client: usize,
    pub(crate) server: Arc<Mutex<Server>>,
    /// The client's clock.
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) quarantine: Duration,
}

struct Shared {
    endpoints: Endpoints,
    events: EventQueue,
    injected_bug: Option<InjectedBug>,
    state: Mutex<State>,
}

struct State {
    rng: Rng,
    conditions: NetworkConditions,
    /// The number of the present connection; `None` while there is none.
    connection: Option<u64>,
    connections: u64,
    /// Requests and replies keep their order.
    last_request: Instant,
    last_reply: Instant,
    verified: Option<Verified>,
    pending: BTreeMap<u64, Request>,
    sent: u64,
    unacked_releases: Vec<Command>,
    wakeups: BTreeMap<Name, Wakeup>,
    /// The machine of the client is paused: no message leaves or reaches it.
    paused_until: Option<Instant>,
    /// The process is gone: no message is sent any more.
    is_dead: bool,
    /// A message was lost on this connection, so no more can pass: a stream has no holes.
    is_broken: bool,
    /// Since when no fault disturbs this link.
    undisturbed_since: Instant,
    /// When each token was released over the present connection.
    released: BTreeMap<String, Instant>,
}

#[derive(Clone, Copy)]
struct Verified {
    nonce: u64,
    eligible_at: Moment,
}

impl Link {
    pub(crate) fn new(
        endpoints: Endpoints,
        events: EventQueue,
        injected_bug: Option<InjectedBug>,
        rng: Rng,
    ) -> Self {
        let now = Instant::now();
        let state = State {
            rng,
            conditions: NetworkConditions::HEALTHY,
            connection: None,
            connections: 0,
            last_request: now,
            last_reply: now,
            verified: None,
            pending: BTreeMap::new(),
            sent: 0,
            unacked_releases: Vec::new(),
            wakeups: BTreeMap::new(),
            paused_until: None,
            is_dead: false,
            is_broken: false,
            undisturbed_since: now,
            released: BTreeMap::new(),
        };
        let link = Self(Arc::new(Shared { endpoints, events, injected_bug, state: Mutex::new(state) }));
        link.connect();
        link
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    pub(crate) fn set_conditions(&self, conditions: NetworkConditions) {
        let was_broken = {
            let mut state = self.state();
            state.conditions = conditions;
            state.undisturbed_since = state.undisturbed_since.max(Instant::now());
            state.is_broken
        };
        if was_broken {
            self.cut();
        }
    }

    /// Whether the server should have released `token` by now: the release was sent over
    /// `connection` long ago, and no fault has disturbed the link since.
    pub(crate) fn should_be_gone(&self, token: &str, connection: u64, server_undisturbed: Instant) -> bool {
        let state = self.state();
        let is_healthy = state.conditions.is_healthy() && state.connection == Some(connection);
        let Some(released) = state.released.get(token).filter(|_| is_healthy) else { return false };
        let since = state.undisturbed_since.max(server_undisturbed).max(*released);
        Instant::now().saturating_duration_since(since) > Duration::from_millis(700)
    }

    pub(crate) fn conditions(&self) -> NetworkConditions {
        self.state().conditions
    }

    pub(crate) fn pause(&self, until: Instant) {
        let mut state = self.state();
        state.paused_until = Some(until);
        state.undisturbed_since = state.undisturbed_since.max(until);
    }

    /// The process of the client died.
    pub(crate) fn kill(&self) {
        self.state().is_dead = true;
        self.cut();
    }

    /// Breaks the connection. Requests in flight may still arrive, or not: that was decided when
    /// they were sent.
    pub(crate) fn cut(&self) {
        let (failed, server) = {
            let mut state = self.state();
            state.connection = None;
            state.is_broken = false;
            (std::mem::take(&mut state.pending), self.0.endpoints.server.clone())
        };
        server.lock().unwrap().watches.retain(|(_, client), _| *client != self.0.endpoints.client);
        for pending in failed.into_values() {
            if matches!(pending.command(), Command::Release { .. }) {
                self.state().unacked_releases.push(pending.command().clone());
            }
            let source = Arc::new(io::Error::from(io::ErrorKind::ConnectionReset));
            pending.answer(Reply::failed(NodeError::Disconnected { source }));
        }
        let link = self.clone();
        self.0.events.schedule(Instant::now() + RECONNECT_DELAY, move || link.connect());
    }

    /// Tries to connect and to verify the epoch, in one step if the server can be reached.
    fn connect(&self) {
        let reachable = {
            let server = self.0.endpoints.server.lock().unwrap();
            let state = self.state();
            let paused = state.paused_until.is_some_and(|until| until > Instant::now());
            server.is_up
                && !server.is_stopped
                && !paused
                && !state.conditions.no_requests
                && !state.conditions.no_replies
        };
        if self.state().connection.is_some() || self.state().is_dead {
            return;
        }
        if !reachable {
            let link = self.clone();
            self.0.events.schedule(Instant::now() + RECONNECT_DELAY, move || link.connect());
            return;
        }
        let (epoch, now) = self.0.endpoints.server.lock().unwrap().verify();
        let unacked_releases = {
            let mut state = self.state();
            state.connections += 1;
            state.connection = Some(state.connections);
            state.undisturbed_since = state.undisturbed_since.max(Instant::now());
            state.released.clear();
            self.learn(&mut state, epoch, now);
            let mut server = self.0.endpoints.server.lock().unwrap();
            for (name, wakeup) in &state.wakeups {
                server.watches.insert((name.clone(), self.0.endpoints.client), wakeup.clone());
                wakeup.notify();
            }
            std::mem::take(&mut state.unacked_releases)
        };
        for release in unacked_releases {
            self.send(Request::without_reply(release));
        }
    }

    fn learn(&self, state: &mut State, epoch: Epoch, now: Wall) {
        let mut eligible_at =
            self.0.endpoints.clock.now() + self.0.endpoints.quarantine.saturating_sub(epoch.age(now));
        if let Some(before) = state.verified.filter(|before| before.nonce == epoch.nonce) {
            eligible_at = eligible_at.max(before.eligible_at);
        }
        state.verified = Some(Verified { nonce: epoch.nonce, eligible_at });
    }

    fn admit(&self, state: &State) -> Result<(), NodeError> {
        if state.connection.is_none() {
            let source = Arc::new(io::Error::from(io::ErrorKind::ConnectionRefused));
            return Err(NodeError::Unreachable { source });
        }
        Ok(())
    }

    /// Whether a vote counts that a server in quarantine may have given.
    fn counts(&self, state: &State, command: &Command) -> Result<(), NodeError> {
        let (Command::Acquire(vote), Some(verified)) = (command, state.verified) else {
            return Ok(());
        };
        let left = self.0.endpoints.clock.now().until(verified.eligible_at);
        let is_guarded = self.0.injected_bug != Some(InjectedBug::NoRestartGuard);
        if is_guarded && !vote.repair && !left.is_zero() {
            return Err(NodeError::Quarantined { left });
        }
        Ok(())
    }

    /// Injected bug: whether this release undoes an unanswered acquire, and is not sent.
    fn is_skipped(&self, state: &State, token: Token) -> bool {
        let is_unanswered =
            |pending: &Request| matches!(pending.command(), Command::Acquire(vote) if vote.token == token);
        self.0.injected_bug == Some(InjectedBug::LazyRelease) && state.pending.values().any(is_unanswered)
    }
}

impl Node for Link {
    fn id(&self) -> &str {
        &self.0.endpoints.id
    }

    fn send(&self, request: Request) {
        let command = request.command().clone();
        let mut state = self.state();
        if let Err(cause) = self.admit(&state) {
            if matches!(command, Command::Release { .. }) {
                state.unacked_releases.push(command);
            }
            drop(state);
            return request.answer(Reply::failed(cause));
        }
        if let Command::Release { token, .. } = &command {
            state.released.insert(token.to_string(), Instant::now());
            if self.is_skipped(&state, *token) {
                drop(state);
                return request.answer(Reply::failed(NodeError::Abandoned));
            }
        }
        if let Command::Acquire(vote) = &command {
            // Only an injected bug uses a token again; what was released is then not the same lock.
            state.released.remove(vote.token.as_str());
        }
        let Some(connection) = state.connection else { return };
        state.sent += 1;
        let number = state.sent;
        state.pending.insert(number, request);
        drop(state);
        self.dispatch(number, connection, command);
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        let connected = {
            let mut state = self.state();
            state.wakeups.insert(name.clone(), wakeup.clone());
            state.connection.is_some()
        };
        if connected {
            let mut server = self.0.endpoints.server.lock().unwrap();
            server.watches.insert((name.clone(), self.0.endpoints.client), wakeup.clone());
        }
    }

    fn unwatch(&self, name: &Name) {
        self.state().wakeups.remove(name);
        self.0.endpoints.server.lock().unwrap().watches.remove(&(name.clone(), self.0.endpoints.client));
    }

    fn health(&self) -> Health {
        Health::default()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.endpoints.id)
    }
}
