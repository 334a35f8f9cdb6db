//! A real etcd cluster for one test.

use crate::eventually::until_blocking;
use crate::processes::port::Port;
use crate::processes::sigstop::{resume, stop};
use crate::processes::spawn::{find_program, spawn_bound};
use crate::servers::certs::Certs;
use crate::servers::directory;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A loaded machine may need long; a healthy one is done after a second or two.
const LIMIT: Duration = Duration::from_secs(60);

/// A running etcd cluster on loopback, with a directory of its own. Dropping it kills its members.
#[derive(Debug)]
pub struct Etcd {
    directory: TempDir,
    certs: Option<Certs>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    client: Port,
    peer: Port,
    /// `None` while it is down.
    child: Option<Child>,
}

impl Member {
    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer.number())
    }
}

impl Etcd {
    /// What the cluster ids of these clusters follow from, together with the addresses of their
    /// members.
    pub const TOKEN: &str = "quorlock-test";

    /// Whether etcd is installed.
    pub fn is_here() -> bool {
        find_program("etcd").is_some()
    }

    /// Starts a cluster of `members` members, and waits until it has a leader.
    pub fn start(members: usize) -> Self {
        Self::start_with(members, false)
    }

    /// The same with TLS for its clients.
    pub fn start_with_tls(members: usize) -> Self {
        Self::start_with(members, true)
    }

    fn start_with(members: usize, tls: bool) -> Self {
        let directory = directory::fresh("quorlock-etcd-");
        let certs = tls.then(|| Certs::generate(directory.path()));
        let member = |_| Member { client: Port::claim(), peer: Port::claim(), child: None };
        let mut cluster = Self { directory, certs, members: (0..members).map(member).collect() };
        (0..members).for_each(|number| cluster.launch(number));
        (0..members).for_each(|number| cluster.await_answer(number));
        cluster
    }

    /// The address of the cluster, with all members.
    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            self.members.iter().map(|member| format!("localhost:{}", member.client.number())).collect();
        match &self.certs {
            None => format!("etcd://{}", hosts.join(",")),
            Some(certs) => format!("etcds://{}/?ca={}", hosts.join(","), certs.ca().display()),
        }
    }

    /// Ends a member as a crash would (SIGKILL).
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// Starts a member again, on what it kept. Waits until it answers.
    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        self.launch(number);
        self.await_answer(number);
    }

    /// Writes what the first member keeps into a file. Not for clusters with TLS.
    pub fn snapshot(&self) -> PathBuf {
        let file = self.directory.path().join("snapshot");
        let first = format!("http://127.0.0.1:{}", self.members[0].client.number());
        etcdctl(|command| {
            command.args(["--endpoints", &first, "snapshot", "save"]).arg(&file);
        });
        file
    }

    /// Starts all members on what `snapshot` has, as an operator does after a disaster. The cluster
    /// is another one if `token` is: [`Etcd::TOKEN`] gives the same cluster id as before.
    pub fn restore(&mut self, snapshot: &Path, token: &str) {
        for number in 0..self.members.len() {
            self.kill(number);
            fs::remove_dir_all(self.data_path(number)).unwrap();
            etcdctl(|command| {
                command.args(["snapshot", "restore"]).arg(snapshot);
                command.args(["--name", &format!("m{number}"), "--initial-cluster", &self.peers()]);
                command.args(["--initial-cluster-token", token]);
                command.args(["--initial-advertise-peer-urls", &self.members[number].peer_url()]);
                command.arg("--data-dir").arg(self.data_path(number));
            });
        }
        (0..self.members.len()).for_each(|number| self.launch(number));
        (0..self.members.len()).for_each(|number| self.await_answer(number));
    }

    /// Stops a member (SIGSTOP): its connections stay open, nothing is answered.
    pub fn pause(&self, number: usize) {
        stop(self.members[number].child.as_ref().expect("it is up"));
    }

    /// Resumes a paused member.
    pub fn resume(&self, number: usize) {
        resume(self.members[number].child.as_ref().expect("it is up"));
    }

    /// Which member leads. Waits until one does.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        until_blocking("a member leads", LIMIT, || {
            leader = (0..self.members.len()).find(|number| self.leads(*number));
            leader.is_some()
        });
        leader.unwrap_or_default()
    }

    fn leads(&self, number: usize) -> bool {
        self.members[number].child.is_some()
            && self
                .try_post(number, "/v3/maintenance/status", "{}")
                .is_ok_and(|status| status["header"]["member_id"] == status["leader"])
    }

    /// Asks the first member through its JSON interface. Not for clusters with TLS.
    ///
    /// # Panics
    /// It does not answer.
    pub fn post(&self, path: &str, body: &str) -> Value {
        self.try_post(0, path, body).unwrap()
    }

    fn try_post(&self, number: usize, path: &str, body: &str) -> io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.members[number].client.number()))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).map_err(|error| io::Error::other(format!("{error}: {answer}")))
    }

    fn launch(&mut self, number: usize) {
        let scheme = if self.certs.is_some() { "https" } else { "http" };
        let peers = self.peers();
        let member = &self.members[number];
        let client = format!("{scheme}://localhost:{}", member.client.number());
        let listen = format!("{scheme}://127.0.0.1:{}", member.client.number());
        let peer = member.peer_url();
        let log = File::options().create(true).append(true).open(self.log_path(number)).unwrap();
        let child = spawn_bound("etcd", |command| {
            command.args(["--name", &format!("m{number}")]);
            command.arg("--data-dir").arg(self.data_path(number));
            command.args(["--listen-client-urls", &listen, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &peers, "--initial-cluster-token", Self::TOKEN]);
            command.args(["--logger", "zap", "--log-level", "warn"]);
            if let Some(certs) = &self.certs {
                command.arg("--cert-file").arg(certs.server_cert());
                command.arg("--key-file").arg(certs.server_key());
            }
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        })
        .expect("etcd is installed: apt-get install etcd-server");
        self.members[number].child = Some(child);
    }

    fn await_answer(&mut self, number: usize) {
        // Without a certificate of ours a member with TLS does not answer who leads.
        let is_tls = self.certs.is_some();
        until_blocking("etcd answers", LIMIT, || {
            let child = self.members[number].child.as_mut().expect("it was started");
            if let Some(status) = child.try_wait().unwrap() {
                panic!("{status}\n{}", fs::read_to_string(self.log_path(number)).unwrap_or_default());
            }
            if is_tls {
                return TcpStream::connect(("127.0.0.1", self.members[number].client.number())).is_ok();
            }
            self.try_post(number, "/v3/maintenance/status", "{}")
                .is_ok_and(|status| status["leader"].as_str().is_some_and(|leader| leader != "0"))
        });
    }

    /// All members, each with the address at which the others reach it.
    fn peers(&self) -> String {
        let named = |(number, member): (usize, &Member)| format!("m{number}={}", member.peer_url());
        self.members.iter().enumerate().map(named).collect::<Vec<_>>().join(",")
    }

    fn data_path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("m{number}"))
    }

    fn log_path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("m{number}.log"))
    }
}

/// Runs `etcdctl` to its end.
///
/// # Panics
/// It is not installed, or fails.
fn etcdctl(prepare: impl FnOnce(&mut Command)) {
    let mut command = Command::new("etcdctl");
    command.env("ETCDCTL_API", "3");
    prepare(&mut command);
    let done = command.output().expect("etcdctl is installed: apt-get install etcd-client");
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|number| self.kill(number));
    }
}
