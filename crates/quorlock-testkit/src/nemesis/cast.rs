//! Who takes part in a storm: servers, clients, the proxies between them.

use super::fault::{Counts, Fault};
use super::history::History;
use super::{NODE_TIMEOUT, Setting, TTL, WAIT};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::server_config::{Binary, Fsync};
use crate::world::{Plant, plant_in};
use quorlock::{Event, Locker, RestartGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Semaphore;

/// Everybody, cheap to clone.
#[derive(Clone)]
pub(super) struct Cast(Arc<Members>);

struct Members {
    voters: Vec<Voter>,
    lives: Mutex<Vec<Life>>,
    /// Clients that shall stand still in their next turn.
    pauses: Vec<AtomicBool>,
    history: Arc<Mutex<History>>,
    faults: Mutex<Counts>,
    plant: Option<Plant>,
}

/// A server.
pub(super) struct Voter {
    pub(super) server: Arc<Mutex<Server>>,
    /// Whether it remembers everything over a restart.
    pub(super) is_durable: bool,
    /// One trouble at a time.
    pub(super) turn: Arc<Semaphore>,
    port: u16,
}

/// A client from its start to its crash.
struct Life {
    number: u64,
    locker: Locker,
    gates: Vec<Arc<Gate>>,
}

/// The way from one client to one server.
pub(super) struct Gate {
    pub(super) proxy: Proxy,
    /// One trouble at a time.
    pub(super) turn: Arc<Semaphore>,
}

impl Cast {
    /// Starts the servers, every second one without a memory that outlives it, and the clients.
    pub(super) async fn assemble(setting: &Setting) -> Self {
        let voters = (0..setting.nodes).map(|number| Voter::start(setting.binary, number % 2 == 0)).collect();
        let members = Members {
            voters,
            lives: Mutex::default(),
            pauses: (0..setting.clients).map(|_| AtomicBool::new(false)).collect(),
            history: Arc::new(Mutex::new(History::new(setting.clients))),
            faults: Mutex::default(),
            plant: setting.plant,
        };
        let cast = Self(Arc::new(members));
        for client in 0..setting.clients {
            let life = cast.be_born(0).await;
            if client == 0 {
                for (node, result) in life.locker.init_fresh_nodes().await {
                    result.unwrap_or_else(|error| panic!("{node}: {error}"));
                }
            }
            cast.0.lives.lock().unwrap().push(life);
        }
        cast
    }

    pub(super) fn voters(&self) -> &[Voter] {
        &self.0.voters
    }

    pub(super) fn clients(&self) -> usize {
        self.0.pauses.len()
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.0.history.lock().unwrap()
    }

    pub(super) fn count(&self, fault: Fault) {
        *self.0.faults.lock().unwrap().entry(fault).or_default() += 1;
    }

    pub(super) fn faults(&self) -> Counts {
        self.0.faults.lock().unwrap().clone()
    }

    /// What a client works with, and which of its lives this is.
    pub(super) fn life(&self, client: usize) -> (Locker, u64) {
        let lives = self.0.lives.lock().unwrap();
        (lives[client].locker.clone(), lives[client].number)
    }

    pub(super) fn gates(&self, client: usize) -> Vec<Arc<Gate>> {
        self.0.lives.lock().unwrap()[client].gates.clone()
    }

    pub(super) fn ask_for_pause(&self, client: usize) {
        self.0.pauses[client].store(true, Ordering::Relaxed);
    }

    /// Whether this client shall stand still now. Asking takes the order away.
    pub(super) fn take_pause(&self, client: usize) -> bool {
        self.0.pauses[client].swap(false, Ordering::Relaxed)
    }

    /// Ends a client at once, whatever it holds, and starts another in its place. No byte of the old one reaches a
    /// server any more: its proxies are gone and their ports with them.
    pub(super) async fn crash(&self, client: usize) {
        let next = self.life(client).1 + 1;
        let born = self.be_born(next).await;
        let dead = {
            let mut lives = self.0.lives.lock().unwrap();
            self.history().crashed(client, next);
            std::mem::replace(&mut lives[client], born)
        };
        drop(dead);
    }

    async fn be_born(&self, number: u64) -> Life {
        let (mut gates, mut urls) = (Vec::new(), Vec::new());
        for voter in &self.0.voters {
            let proxy = Proxy::start(voter.port).await;
            let durable = if voter.is_durable { "/?durable=yes" } else { "" };
            urls.push(format!("{}{durable}", proxy.url()));
            gates.push(Arc::new(Gate { proxy, turn: Arc::new(Semaphore::new(1)) }));
        }
        let history = self.0.history.clone();
        let builder = Locker::builder().nodes(urls).ttl(TTL).longest_ttl(TTL).wait(WAIT);
        let builder = match self.0.plant {
            Some(Plant::NoRestartGuard) => builder.restart_guard(RestartGuard::Off),
            plant => plant_in(builder, plant),
        };
        let locker = builder
            .node_timeout(NODE_TIMEOUT)
            .observe(move |event: &Event| {
                if matches!(event, Event::Extended { .. }) {
                    history.lock().unwrap().extended();
                }
            })
            .build();
        Life { number, locker: locker.expect("a good configuration"), gates }
    }
}

impl Voter {
    fn start(binary: Binary, is_durable: bool) -> Self {
        let options = Server::builder().binary(binary);
        let options = if is_durable { options.aof(Fsync::Always) } else { options };
        let server = options.start();
        let port = server.port();
        Self { server: Arc::new(Mutex::new(server)), is_durable, turn: Arc::new(Semaphore::new(1)), port }
    }
}
