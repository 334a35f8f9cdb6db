//! A real server process for one test.

mod address;
mod append_only_file;

use crate::eventually::until_blocking;
use crate::processes::port::Port;
use crate::processes::sigstop::{resume, stop};
use crate::processes::spawn::spawn_bound;
use crate::servers::builder::{ServerBuilder, TESTKIT_USER};
use crate::servers::certs::Certs;
use crate::servers::connection::{Connection, Reply};
use crate::servers::directory;
use std::fs::{self, File};
use std::io;
use std::process::Child;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A running Redis or Valkey server on loopback, with a directory of its own. Dropping it kills it.
///
/// The methods block for a few milliseconds; in tests that is simpler than awaiting them.
#[derive(Debug)]
pub struct Server {
    options: ServerBuilder,
    directory: TempDir,
    port: Port,
    tls: Option<(Port, Certs)>,
    /// `None` while the server is down.
    child: Option<Child>,
}

/// How one start went, apart from failures that no retry could fix.
enum Startup {
    Ready,
    PortTaken,
}

/// A loaded machine may need long; a healthy one is done after some 20 ms.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Fresh ports to try before a start is given up.
const START_TRIES: usize = 10;

const POLL: Duration = Duration::from_millis(2);

impl Server {
    /// Options for a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Starts a Redis server without options. Blocks for some 20 ms.
    pub fn start() -> Self {
        Self::builder().start()
    }

    pub(crate) fn start_with(options: ServerBuilder) -> Self {
        let directory = directory::fresh("quorlock-");
        let tls = options.wants_tls().then(|| (Port::claim(), Certs::generate(directory.path())));
        let mut server = Self { options, directory, port: Port::claim(), tls, child: None };
        for _ in 0..START_TRIES {
            match server.launch() {
                Startup::Ready => return server,
                Startup::PortTaken => server.change_ports(),
            }
        }
        panic!("no port for the server, tried {START_TRIES}");
    }

    /// The process.
    ///
    /// # Panics
    /// The server is down.
    pub fn pid(&self) -> u32 {
        self.running().id()
    }

    /// Ends the server as a crash would (SIGKILL). Does nothing if it is down.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have died on its own; then there is only its status to collect.
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// Starts the server again on the same port and directory, after a kill if it is up. Waits
    /// until it answers.
    pub fn restart(&mut self) {
        self.kill();
        let start = Instant::now();
        while let Startup::PortTaken = self.launch() {
            assert!(start.elapsed() < START_LIMIT, "port {} stays taken", self.port());
            std::thread::sleep(POLL);
        }
    }

    /// Stops the process (SIGSTOP): connections stay open, nothing is answered. Returns when it is
    /// stopped.
    pub fn pause(&self) {
        stop(self.running());
    }

    /// Resumes a paused process (SIGCONT). It first executes what it was sent meanwhile.
    pub fn resume(&self) {
        resume(self.running());
    }

    /// Asks the server on a connection of its own, with all rights. Answers as `redis-cli` prints
    /// into a pipe: nothing for nil, one line per element of a list, errors as text.
    ///
    /// # Panics
    /// The server is down or silent for five seconds.
    pub fn cli(&self, command: &[&str]) -> String {
        self.ask(command).to_string()
    }

    /// Like [`cli`](Self::cli), with the kind of the answer.
    ///
    /// # Panics
    /// The server is down or silent for five seconds.
    pub fn ask(&self, command: &[&str]) -> Reply {
        self.connect()
            .and_then(|mut connection| connection.ask(command))
            .unwrap_or_else(|error| panic!("{command:?}: {error}\n{}", self.log()))
    }

    /// A connection with all rights, for commands that belong together.
    ///
    /// # Errors
    /// The server is down or silent.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(&self.socket())?;
        connection.ask(&["AUTH", TESTKIT_USER, TESTKIT_USER])?;
        Ok(connection)
    }

    /// Empties the server.
    pub fn flushall(&self) {
        assert_eq!(self.cli(&["FLUSHALL"]), "OK");
    }

    /// Waits until the server answers PING.
    ///
    /// # Panics
    /// It does not within 20 seconds.
    pub fn wait_ready(&self) {
        until_blocking("the server answers", START_LIMIT, || self.answers());
    }

    /// What the server logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.directory().join("server.log")).unwrap_or_default()
    }

    fn answers(&self) -> bool {
        let pong = self.connect().and_then(|mut connection| connection.ask(&["PING"]));
        pong.is_ok_and(|reply| reply == Reply::Text("PONG".into()))
    }

    fn launch(&mut self) -> Startup {
        let config = self.directory().join("server.conf");
        let tls = self.tls.as_ref().map(|(port, certs)| (port.number(), certs));
        let text = self.options.config(self.directory(), self.port(), tls);
        fs::write(&config, text).unwrap();
        fs::write(self.directory().join("users.acl"), self.options.users()).unwrap();
        let log = File::create(self.directory().join("server.log")).unwrap();
        let child = spawn_bound(self.options.program(), |command| {
            command.arg(&config).stdin(std::process::Stdio::null());
            command.stdout(log.try_clone().unwrap()).stderr(log);
            if let Some(shim) = self.options.shim() {
                command.envs(shim.env());
            }
        })
        .unwrap();
        self.child = Some(child);
        let startup = self.await_first_answer();
        if matches!(startup, Startup::Ready) && self.options.is_cluster() {
            self.own_all_slots();
        }
        startup
    }

    /// The Unix socket answers only after the TCP ports are bound, and belongs to this server
    /// alone.
    fn await_first_answer(&mut self) -> Startup {
        let start = Instant::now();
        while !self.answers() {
            let child = self.child.as_mut().expect("just started");
            if let Some(status) = child.try_wait().unwrap() {
                let log = self.log();
                assert!(log.contains("Address already in use"), "{status}\n{log}");
                return Startup::PortTaken;
            }
            assert!(start.elapsed() < START_LIMIT, "silent\n{}", self.log());
            std::thread::sleep(POLL);
        }
        Startup::Ready
    }

    fn change_ports(&mut self) {
        self.kill();
        self.port = Port::claim();
        if let Some((port, _)) = &mut self.tls {
            *port = Port::claim();
        }
    }

    fn own_all_slots(&self) {
        // After a restart the slots are known from the cluster's own file, and adding them again is
        // refused.
        self.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        until_blocking("the cluster is whole", START_LIMIT, || {
            self.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
        });
    }

    fn running(&self) -> &Child {
        self.child.as_ref().expect("the server is up")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}
