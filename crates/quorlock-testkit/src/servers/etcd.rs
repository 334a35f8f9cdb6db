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
    security: Security,
    options: EtcdOptions,
    members: Vec<Member>,
    version: EtcdVersion,
}

/// Which release of etcd runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdVersion {
    /// The one of the system.
    Installed,
    /// 3.5, as `scripts/setup-tests` builds it.
    V3_5,
    /// 3.6, as `scripts/setup-tests` builds it.
    V3_6,
}

impl EtcdVersion {
    /// The program of this version, if it is there.
    fn program(self) -> Option<PathBuf> {
        let built = |name: &str| {
            let deps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop/.deps");
            Some(deps.join(name)).filter(|program| program.exists())
        };
        match self {
            EtcdVersion::Installed => find_program("etcd"),
            EtcdVersion::V3_5 => built("etcd-3.5"),
            EtcdVersion::V3_6 => built("etcd-3.6"),
        }
    }

    /// Whether this version is installed or built.
    pub fn is_here(self) -> bool {
        self.program().is_some()
    }
}

/// What clients must bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    Plain,
    Tls,
    /// TLS, and a certificate of the client.
    ClientCerts,
}

/// How fast members notice that their leader is gone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EtcdOptions {
    pub(crate) heartbeat: Duration,
    pub(crate) election_timeout: Duration,
}

impl Default for EtcdOptions {
    /// As etcd comes.
    fn default() -> Self {
        Self { heartbeat: Duration::from_millis(100), election_timeout: Duration::from_secs(1) }
    }
}

/// Where a member listens for the others.
#[derive(Debug)]
pub(crate) struct PeerPort {
    pub(crate) port: Port,
    /// Where the others connect to: the same, or that of a proxy.
    pub(crate) advertised: u16,
}

impl PeerPort {
    fn claim() -> Self {
        let port = Port::claim();
        Self { advertised: port.number(), port }
    }
}

#[derive(Debug)]
struct Member {
    client: Port,
    peer: PeerPort,
    /// `None` while it is down.
    child: Option<Child>,
}

impl Member {
    /// Where the others reach it.
    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer.advertised)
    }
}

impl Etcd {
    /// What the cluster ids of these clusters follow from, together with the addresses of their
    /// members.
    pub const TOKEN: &str = "quorlock-test";

    /// Whether etcd is installed.
    pub fn is_here() -> bool {
        EtcdVersion::Installed.is_here()
    }

    /// Starts a cluster of `members` members, and waits until it has a leader.
    pub fn start(members: usize) -> Self {
        Self::start_version(EtcdVersion::Installed, members)
    }

    /// The same with another release of etcd.
    pub fn start_version(version: EtcdVersion, members: usize) -> Self {
        let peers = (0..members).map(|_| PeerPort::claim()).collect();
        Self::start_with(peers, EtcdOptions::default(), Security::Plain, version)
    }

    /// The same with TLS for its clients.
    pub fn start_with_tls(members: usize) -> Self {
        let peers = (0..members).map(|_| PeerPort::claim()).collect();
        Self::start_with(peers, EtcdOptions::default(), Security::Tls, EtcdVersion::Installed)
    }

    /// One member with TLS that asks its clients for certificates, and knows users by their common name.
    pub fn start_with_client_certs(version: EtcdVersion) -> Self {
        Self::start_with(vec![PeerPort::claim()], EtcdOptions::default(), Security::ClientCerts, version)
    }

    /// The same with a member for each of `peers`, which may be behind proxies.
    pub(crate) fn start_behind(peers: Vec<PeerPort>, options: EtcdOptions) -> Self {
        Self::start_with(peers, options, Security::Plain, EtcdVersion::Installed)
    }

    fn start_with(
        peers: Vec<PeerPort>,
        options: EtcdOptions,
        security: Security,
        version: EtcdVersion,
    ) -> Self {
        let directory = directory::fresh("quorlock-etcd-");
        let certs = (security != Security::Plain).then(|| Certs::generate(directory.path()));
        let member = |peer| Member { client: Port::claim(), peer, child: None };
        let members = peers.len();
        let mut cluster = Self {
            directory,
            certs,
            security,
            options,
            members: peers.into_iter().map(member).collect(),
            version,
        };
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

    /// The same with the certificate of a client, whose common name is [`Etcd::CERTIFIED_USER`].
    ///
    /// # Panics
    /// The cluster is without TLS.
    pub fn url_with_certificate(&self) -> String {
        let certs = self.certs.as_ref().expect("a cluster with TLS");
        format!("{}&cert={}&key={}", self.url(), certs.client_cert().display(), certs.client_key().display())
    }

    /// The common name in the certificate of clients.
    pub const CERTIFIED_USER: &str = "quorlock test client";

    /// Runs `etcdctl` on the first member, which asks for certificates.
    ///
    /// # Panics
    /// It fails, or the cluster is without TLS.
    pub fn etcdctl_with_certificate(&self, args: &[&str]) {
        let certs = self.certs.as_ref().expect("a cluster with TLS");
        etcdctl(|command| {
            command.args(["--endpoints", &format!("https://localhost:{}", self.members[0].client.number())]);
            command.arg("--cacert").arg(certs.ca()).arg("--cert").arg(certs.client_cert());
            command.arg("--key").arg(certs.client_key()).args(args);
        });
    }

    /// Where its members listen for clients.
    pub(crate) fn client_ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.client.number()).collect()
    }

    /// Raises or ends the alarm that the cluster has no space left: it then refuses to store
    /// anything. Waits until the cluster has agreed.
    pub(crate) fn set_space_alarm(&self, on: bool) {
        let action = if on { "ACTIVATE" } else { "DEACTIVATE" };
        let leader = self.leader();
        let id = self.try_post(leader, "/v3/maintenance/status", "{}");
        let id = id.map_or_else(|_| "0".to_owned(), |status| status["header"]["member_id"].to_string());
        let body = format!(r#"{{"action":"{action}","memberID":{id},"alarm":"NOSPACE"}}"#);
        until_blocking("the cluster agrees on an alarm", LIMIT, || {
            let answers =
                (0..self.members.len()).map(|number| self.try_post(number, "/v3/maintenance/alarm", &body));
            answers.flatten().any(|answer| answer.get("error").is_none())
        });
    }

    /// Writes a key without a lease, as another program does. Not for clusters with TLS.
    pub fn put(&self, key: &str, value: &str) {
        let (key, value) = (base64(key.as_bytes()), base64(value.as_bytes()));
        self.post("/v3/kv/put", &format!(r#"{{"key":"{key}","value":"{value}"}}"#));
    }

    /// How many leases the cluster has. Not for clusters with TLS.
    pub fn count_leases(&self) -> usize {
        self.post("/v3/lease/leases", "{}")["leases"].as_array().map_or(0, Vec::len)
    }

    /// How many keys begin with `prefix`, which is ASCII.
    pub fn count_keys(&self, prefix: &str) -> usize {
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().expect("a prefix") += 1;
        let (key, end) = (base64(prefix.as_bytes()), base64(&end));
        let body = format!(r#"{{"key":"{key}","range_end":"{end}","count_only":true}}"#);
        // JSON has no 64-bit numbers, so etcd writes them as texts, and leaves a zero out.
        self.post("/v3/kv/range", &body)["count"].as_str().map_or(0, |count| count.parse().unwrap())
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
        let (peer, advertised) =
            (format!("http://127.0.0.1:{}", member.peer.port.number()), member.peer_url());
        let log = File::options().create(true).append(true).open(self.log_path(number)).unwrap();
        let program = self.version.program().expect("etcd is installed: apt-get install etcd-server");
        let child = spawn_bound(program, |command| {
            command.args(["--name", &format!("m{number}")]);
            command.arg("--data-dir").arg(self.data_path(number));
            command.args(["--listen-client-urls", &listen, "--advertise-client-urls", &client]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &advertised]);
            command.args(["--initial-cluster", &peers, "--initial-cluster-token", Self::TOKEN]);
            command.args(["--logger", "zap", "--log-level", "warn"]);
            let EtcdOptions { heartbeat, election_timeout } = self.options;
            command.args(["--heartbeat-interval", &heartbeat.as_millis().to_string()]);
            command.args(["--election-timeout", &election_timeout.as_millis().to_string()]);
            if let Some(certs) = &self.certs {
                command.arg("--cert-file").arg(certs.server_cert());
                command.arg("--key-file").arg(certs.server_key());
                if self.security == Security::ClientCerts {
                    command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(certs.ca());
                }
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

/// etcd's JSON interface has keys in base64.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit = |at: usize| match at <= chunk.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * at) & 63) as usize]),
            false => '=',
        };
        [0, 1, 2, 3].map(digit)
    };
    bytes.chunks(3).flat_map(group).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_encoded_with_and_without_padding() {
        let encoded = ["quorlock/lock/", "quorlock/lock0", "abc", "a"].map(|text| base64(text.as_bytes()));
        assert_eq!(encoded, ["cXVvcmxvY2svbG9jay8=", "cXVvcmxvY2svbG9jazA=", "YWJj", "YQ=="]);
    }

    #[test]
    fn keys_of_a_prefix_are_counted() {
        if !Etcd::is_here() {
            eprintln!("skipped: no etcd here: apt-get install etcd-server");
            return;
        }
        let etcd = Etcd::start(1);
        for key in ["one/a", "one/b", "two/a"] {
            etcd.post("/v3/kv/put", &format!(r#"{{"key":"{}","value":""}}"#, base64(key.as_bytes())));
        }
        assert_eq!([etcd.count_keys("one/"), etcd.count_keys("three/")], [2, 0]);
    }
}
