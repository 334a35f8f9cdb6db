//! A relay between a node and its server that can hold up what one connection sends, and close the node's
//! half alone.

use crate::context::mutex::Mutex;
use crate::node::redis::tests::{NODE_TIMEOUT, Server};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

/// Leads from a socket of its own to a server. Its threads end with their connections or with the test.
pub(crate) struct Relay {
    directory: tempfile::TempDir,
    connections: Arc<Mutex<Vec<Arc<Connection>>>>,
}

/// One connection through the relay.
struct Connection {
    node: UnixStream,
    server: UnixStream,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holds: bool,
    /// What the node sent while the relay held it up.
    held: Vec<u8>,
    /// How many bytes the server answered.
    answered: usize,
    /// Whether the server ended the connection.
    ended: bool,
}

/// What a server did with bytes that came late.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    /// It had ended the connection before.
    Refused,
}

impl Relay {
    pub(crate) fn start(server: &Server) -> Self {
        let relay = Self { directory: tempfile::tempdir().unwrap(), connections: Arc::default() };
        let listener = UnixListener::bind(relay.directory.path().join("socket")).unwrap();
        let (connections, target) = (relay.connections.clone(), server.socket());
        thread::spawn(move || {
            while let Ok((node, _)) = listener.accept() {
                // A server that is down closes the connection.
                let Some(connection) = Connection::open(node, &target) else { continue };
                connections.lock().push(connection);
            }
        });
        relay
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}/socket", self.directory.path().display())
    }

    /// Holds up what nodes send on the newest connection from now on.
    pub(crate) fn hold(&self) {
        self.newest().state().holds = true;
    }

    /// Whether `bytes` are among what the newest connection holds up.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        self.newest().state().held.windows(bytes.len()).any(|held| held == bytes)
    }

    /// Closes the node's half. The server does not see it. Returns what is left of the connection.
    pub(crate) fn hang_up(&self) -> Former {
        let connection = self.newest();
        connection.node.shutdown(Shutdown::Both).unwrap();
        Former(connection)
    }

    fn newest(&self) -> Arc<Connection> {
        self.connections.lock().last().unwrap().clone()
    }
}

/// The server's half of a connection that the node has left.
pub(crate) struct Former(Arc<Connection>);

impl Former {
    /// Delivers what was held up, and waits for what becomes of it.
    pub(crate) fn deliver(self) -> Fate {
        let connection = self.0;
        let (held, answered) = {
            let mut state = connection.state();
            (std::mem::take(&mut state.held), state.answered)
        };
        assert!(!held.is_empty(), "nothing was held up");
        if (&connection.server).write_all(&held).is_err() {
            return Fate::Refused;
        }
        let end = Instant::now() + NODE_TIMEOUT;
        loop {
            let state = connection.state();
            if state.answered > answered {
                return Fate::Answered;
            }
            if state.ended {
                return Fate::Refused;
            }
            drop(state);
            assert!(Instant::now() < end, "the server neither answers nor closes the connection");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Connection {
    fn open(node: UnixStream, target: &Path) -> Option<Arc<Self>> {
        let server = UnixStream::connect(target).ok()?;
        let connection = Arc::new(Self { node, server, state: Mutex::default() });
        let (requests, replies) = (connection.clone(), connection.clone());
        thread::spawn(move || requests.carry_requests());
        thread::spawn(move || replies.carry_replies());
        Some(connection)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The end of the node's half is not passed on to the server.
    fn carry_requests(&self) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = (&self.node).read(&mut buffer) {
            let mut state = self.state();
            if state.holds {
                state.held.extend_from_slice(&buffer[..length]);
            } else if (&self.server).write_all(&buffer[..length]).is_err() {
                return;
            }
        }
    }

    fn carry_replies(&self) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(length @ 1..) = (&self.server).read(&mut buffer) {
            self.state().answered += length;
            // The node may have closed its half.
            let _ = (&self.node).write_all(&buffer[..length]);
        }
        self.state().ended = true;
        let _ = self.node.shutdown(Shutdown::Both);
    }
}
