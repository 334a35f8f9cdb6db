//! A real PostgreSQL server for one test, and PgBouncer in front of it.

use crate::eventually::until_blocking;
use crate::processes::port::Port;
use crate::processes::sigstop::{resume, stop};
use crate::processes::spawn::{find_program, spawn_bound};
use crate::servers::certs::Certs;
use crate::servers::directory;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A loaded machine may need long; a healthy one is done after a second or two.
const LIMIT: Duration = Duration::from_secs(60);
/// The server refuses to run as root.
const NOBODY: &str = "65534";

/// A running server on loopback, with a directory of its own. Dropping it kills it.
#[derive(Debug)]
pub struct Postgres {
    directory: TempDir,
    port: Port,
    /// For TLS, with the directory that holds them.
    certs: Option<(TempDir, Certs)>,
    /// `None` while it is down.
    child: Option<Child>,
}

impl Postgres {
    /// Whether PostgreSQL is installed.
    pub fn is_here() -> bool {
        program("initdb").is_some()
    }

    /// Starts a server with the user and database `postgres`, which needs no password.
    ///
    /// It syncs its writes, because locks need that; its files are in memory where there is room.
    pub fn start() -> Self {
        Self::start_with("host all all all trust", None, &[])
    }

    /// The same with further settings, such as `synchronous_commit=off`.
    pub fn start_set(settings: &[&str]) -> Self {
        Self::start_with("host all all all trust", None, settings)
    }

    /// The same with TLS, and the line `hba` that says who may log in.
    pub fn start_with_tls(hba: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let certs = Certs::generate(directory.path());
        Self::start_with(hba, Some((directory, certs)), &[])
    }

    fn start_with(hba: &str, tls: Option<(TempDir, Certs)>, settings: &[&str]) -> Self {
        let directory = directory::fresh("quorlock-postgres-");
        own(directory.path());
        let mut server = Self { directory, port: Port::claim(), certs: None, child: None };
        server.run("initdb", &["-D", &text(&server.data()), "-U", "postgres", "-A", "trust", "--no-sync"]);
        let mut lines = vec![
            "listen_addresses = '127.0.0.1'".to_owned(),
            format!("unix_socket_directories = '{}'", server.directory.path().display()),
            "max_connections = 300".to_owned(),
            "wal_level = replica".to_owned(),
            "log_min_messages = warning".to_owned(),
        ];
        if let Some((certs_directory, _)) = &tls {
            let path = server.directory.path().display();
            let files =
                [("ssl_cert_file", "server.pem"), ("ssl_key_file", "server.key"), ("ssl_ca_file", "ca.pem")];
            lines.push("ssl = on".to_owned());
            for (setting, file) in files {
                let copy = server.directory.path().join(file);
                fs::copy(certs_directory.path().join(file), &copy).unwrap();
                own(&copy);
                lines.push(format!("{setting} = '{path}/{file}'"));
            }
        }
        lines.extend(settings.iter().map(|&setting| setting.to_owned()));
        append(&server.data().join("postgresql.conf"), &lines.join("\n"));
        let local = "local all all trust\nhost replication all 127.0.0.1/32 trust";
        fs::write(server.data().join("pg_hba.conf"), format!("{local}\n{hba}\n")).unwrap();
        server.certs = tls;
        server.launch();
        server
    }

    /// Its address, with the user and database `postgres`.
    pub fn url(&self) -> String {
        self.url_at(self.port.number())
    }

    /// The same at another port, such as that of a proxy.
    pub fn url_at(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    /// The same by its Unix socket.
    pub fn unix_url(&self) -> String {
        let directory = self.directory.path().display();
        format!("postgres:///postgres?user=postgres&host={directory}&port={}", self.port.number())
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The certificates of a server with TLS.
    pub fn certs(&self) -> &Certs {
        &self.certs.as_ref().expect("it has TLS").1
    }

    /// Executes statements as the user `postgres`, each in a transaction of its own, and returns what they
    /// print.
    ///
    /// # Panics
    /// One fails.
    pub fn sql(&self, statements: &str) -> String {
        self.try_sql(statements).unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// The same; an error if one fails.
    pub fn try_sql(&self, statements: &str) -> Result<String, String> {
        let done = self.psql().arg("-c").arg(statements).output().expect("psql is installed");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
    }

    /// A `psql` for this server, which prints bare values.
    pub fn psql(&self) -> Command {
        let mut command = Command::new("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", "postgres"]);
        command.arg("-h").arg(self.directory.path()).args(["-p", &self.port.number().to_string()]);
        command
    }

    /// Ends it as a crash would (SIGKILL to all its processes).
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal_children(&child, Signal::KILL);
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// Starts it again, on what it kept. Waits until it answers.
    pub fn restart(&mut self) {
        self.kill();
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
        self.launch();
    }

    /// Stops all its processes (SIGSTOP): connections stay open, nothing is answered.
    pub fn pause(&self) {
        let child = self.child.as_ref().expect("it is up");
        stop(child);
        signal_children(child, Signal::STOP);
    }

    /// Resumes it.
    pub fn resume(&self) {
        let child = self.child.as_ref().expect("it is up");
        signal_children(child, Signal::CONT);
        resume(child);
    }

    /// Starts a standby that follows this server.
    pub fn start_standby(&self) -> Self {
        let directory = directory::fresh("quorlock-postgres-");
        own(directory.path());
        let mut standby = Self { directory, port: Port::claim(), certs: None, child: None };
        standby.follow(self);
        standby
    }

    /// Forgets everything, and becomes a standby that follows `primary`.
    pub(crate) fn follow(&mut self, primary: &Self) {
        self.kill();
        let _ = fs::remove_dir_all(self.data());
        let (port, data) = (primary.port.number().to_string(), text(&self.data()));
        let from = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
        self.run("pg_basebackup", &[&from[..], &["-D", &data, "-R", "-c", "fast", "--no-sync"]].concat());
        let socket = format!("unix_socket_directories = '{}'", self.directory.path().display());
        append(&self.data().join("postgresql.conf"), &socket);
        self.launch();
    }

    /// Waits until `standby` has everything that this server has.
    pub fn await_standby(&self, standby: &Self) {
        let written = self.sql("SELECT pg_current_wal_flush_lsn()");
        until_blocking("the standby has caught up", LIMIT, || {
            standby.try_sql(&format!("SELECT pg_last_wal_replay_lsn() >= '{written}'")).as_deref() == Ok("t")
        });
    }

    /// Makes a standby a server of its own. Waits until it accepts writes.
    pub fn promote(&self) {
        // What a standby replays may end any statement there.
        until_blocking("the standby is promoted", LIMIT, || {
            let is_standby = self.try_sql("SELECT pg_is_in_recovery()");
            if is_standby.as_deref() == Ok("t") {
                let _ = self.try_sql("SELECT pg_promote(false)");
            }
            is_standby.as_deref() == Ok("f")
        });
    }

    fn launch(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let postgres = program("postgres").expect("PostgreSQL is installed: apt-get install postgresql");
        let (data, port) = (self.data(), self.port.number().to_string());
        let child = spawn_as_nobody(&postgres, |command| {
            command.arg("-D").arg(data).args(["-p", &port]);
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        });
        self.child = Some(child);
        until_blocking("postgres answers", LIMIT, || {
            if let Some(status) = self.child.as_mut().expect("it was started").try_wait().unwrap() {
                panic!("{status}\n{}", fs::read_to_string(self.log()).unwrap_or_default());
            }
            self.try_sql("SELECT 1").is_ok()
        });
    }

    /// Runs a program of PostgreSQL to its end.
    fn run(&self, name: &str, arguments: &[&str]) {
        let program = program(name).expect("PostgreSQL is installed: apt-get install postgresql");
        let mut command = as_nobody(&program);
        let done = command.args(arguments).current_dir(self.directory.path()).output().unwrap();
        assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.directory.path().join("log")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A running PgBouncer on loopback in front of a server. Dropping it kills it.
#[derive(Debug)]
pub struct PgBouncer {
    _directory: TempDir,
    port: Port,
    child: Child,
}

impl PgBouncer {
    /// Whether PgBouncer and PostgreSQL are installed.
    pub fn is_here() -> bool {
        find_program("pgbouncer").is_some() && Postgres::is_here()
    }

    /// Starts one with `mode` (`transaction`, `statement` or `session`) and four connections to `server`.
    pub fn start(server: &Postgres, mode: &str) -> Self {
        let directory = directory::fresh("quorlock-pgbouncer-");
        let port = Port::claim();
        let (path, own_port, target) = (directory.path().display(), port.number(), server.port());
        fs::write(directory.path().join("users"), "\"postgres\" \"\"\n").unwrap();
        let ini = format!(
            "[databases]\n* = host=127.0.0.1 port={target} user=postgres\n[pgbouncer]\n\
             listen_addr = 127.0.0.1\nlisten_port = {own_port}\nunix_socket_dir = {path}\n\
             auth_type = trust\nauth_file = {path}/users\npool_mode = {mode}\ndefault_pool_size = 4\n\
             max_client_conn = 500\n"
        );
        fs::write(directory.path().join("ini"), ini).unwrap();
        own(directory.path());
        let log = File::create(directory.path().join("log")).unwrap();
        let pgbouncer = find_program("pgbouncer").expect("PgBouncer is installed: apt-get install pgbouncer");
        let child = spawn_as_nobody(&pgbouncer, |command| {
            command.arg(directory.path().join("ini"));
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        });
        let number = port.number();
        let bouncer = Self { _directory: directory, port, child };
        until_blocking("pgbouncer answers", LIMIT, || TcpStream::connect(("127.0.0.1", number)).is_ok());
        bouncer
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.number()
    }
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program of PostgreSQL. Debian keeps them apart by their version.
fn program(name: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<_> = versions.map(|version| version.path().join("bin").join(name)).collect();
    found.retain(|path| path.is_file());
    found.sort();
    found.pop().or_else(|| find_program(name))
}

fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// Gives `path` to the user that servers run as.
fn own(path: &Path) {
    if is_root() {
        let done = Command::new("chown").args(["-R", NOBODY]).arg(path).status().unwrap();
        assert!(done.success());
    }
    if path.is_file() {
        let done = Command::new("chmod").arg("600").arg(path).status().unwrap();
        assert!(done.success());
    }
}

const AS_NOBODY: [&str; 5] = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];

fn as_nobody(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(AS_NOBODY).arg(program);
    command
}

/// Starts a program that ends with this process, in a process group of its own.
fn spawn_as_nobody(program: &Path, prepare: impl FnOnce(&mut Command)) -> Child {
    use std::os::unix::process::CommandExt;
    let prepare = |command: &mut Command| {
        command.process_group(0);
        prepare(command);
    };
    let started = if is_root() {
        // The kernel forgets the bond to the parent when the user changes, so that comes first.
        spawn_bound("setpriv", |command| {
            command.args(AS_NOBODY).args(["--pdeathsig", "KILL", "--"]).arg(program);
            prepare(command);
        })
    } else {
        spawn_bound(program, prepare)
    };
    started.expect("a server is started")
}

/// Sends a signal to the children of `parent`: each backend is a process group of its own.
fn signal_children(parent: &Child, signal: Signal) {
    let parent = parent.id();
    let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
        // It may have ended.
        let _ = kill_process(child, signal);
    }
}

fn append(path: &Path, text: &str) {
    let before = fs::read_to_string(path).unwrap_or_default();
    fs::write(path, format!("{before}\n{text}\n")).unwrap();
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
