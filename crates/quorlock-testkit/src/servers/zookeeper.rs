//! A real ZooKeeper ensemble for one test.

use crate::eventually::until_blocking;
use crate::processes::port::Port;
use crate::processes::sigstop::{resume, stop};
use crate::processes::spawn::{find_program, spawn_bound};
use crate::servers::certs::Certs;
use crate::servers::directory;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A loaded machine may need long; a healthy one is done after a few seconds.
const LIMIT: Duration = Duration::from_secs(90);
/// Debian's package. Its own class path names most others.
const JAR: &str = "/usr/share/java/zookeeper.jar";
/// One that writes what goes wrong to the standard error, and what Debian's class path lacks for TLS.
const OTHER_JARS: &str = "/usr/share/java/slf4j-simple.jar:/usr/share/java/netty-codec.jar";

/// A running ZooKeeper ensemble on loopback, with a directory of its own. Dropping it kills its members.
#[derive(Debug)]
pub struct ZooKeeper {
    directory: TempDir,
    certs: Option<Certs>,
    /// The unit of its timeouts.
    tick: Duration,
    members: Vec<Member>,
}

/// Where a member listens for the others.
#[derive(Debug)]
pub(crate) struct PeerPorts {
    /// For its followers, if it leads.
    pub(crate) quorum: Port,
    pub(crate) election: Port,
    /// Where the others connect to: the same, or those of proxies.
    pub(crate) advertised: (u16, u16),
}

impl PeerPorts {
    fn claim() -> Self {
        let (quorum, election) = (Port::claim(), Port::claim());
        Self { advertised: (quorum.number(), election.number()), quorum, election }
    }
}

#[derive(Debug)]
struct Member {
    client: Port,
    peers: PeerPorts,
    /// `None` while it is down.
    child: Option<Child>,
}

impl ZooKeeper {
    /// Whether ZooKeeper and java are installed. Says so if not.
    pub fn is_here() -> bool {
        let is_here = find_program("java").is_some() && Path::new(JAR).is_file();
        if !is_here {
            eprintln!("skipped: no ZooKeeper here, see scripts/setup-tests");
        }
        is_here
    }

    /// Starts an ensemble of `members` members, and waits until all serve clients.
    pub fn start(members: usize) -> Self {
        let peers = (0..members).map(|_| PeerPorts::claim()).collect();
        Self::start_with(peers, Duration::from_millis(500), false)
    }

    /// The same with TLS for its clients, which must have a certificate.
    pub fn start_with_tls(members: usize) -> Self {
        let peers = (0..members).map(|_| PeerPorts::claim()).collect();
        Self::start_with(peers, Duration::from_millis(500), true)
    }

    /// The same with a member for each of `peers`, which may be behind proxies.
    pub(crate) fn start_behind(peers: Vec<PeerPorts>, tick: Duration) -> Self {
        Self::start_with(peers, tick, false)
    }

    fn start_with(peers: Vec<PeerPorts>, tick: Duration, tls: bool) -> Self {
        let directory = directory::fresh("quorlock-zookeeper-");
        let certs = tls.then(|| Certs::generate(directory.path()));
        let member = |peers| Member { client: Port::claim(), peers, child: None };
        let members = peers.into_iter().map(member).collect::<Vec<_>>();
        let count = members.len();
        let mut ensemble = Self { directory, certs, tick, members };
        (0..count).for_each(|number| ensemble.configure(number));
        (0..count).for_each(|number| ensemble.launch(number));
        (0..count).for_each(|number| ensemble.await_answer(number));
        ensemble
    }

    /// The address of the ensemble, with all members.
    pub fn url(&self) -> String {
        let hosts = self.hosts();
        match &self.certs {
            None => format!("zk://{hosts}"),
            Some(certs) => format!(
                "zks://{hosts}/?ca={}&cert={}&key={}",
                certs.ca().display(),
                certs.client_cert().display(),
                certs.client_key().display()
            ),
        }
    }

    /// Its members as `host:port,host:port`.
    pub fn hosts(&self) -> String {
        let hosts = self.members.iter().map(|member| format!("localhost:{}", member.client.number()));
        hosts.collect::<Vec<_>>().join(",")
    }

    /// Where its members listen for clients.
    pub fn client_ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.client.number()).collect()
    }

    /// Ends a member as a crash would (SIGKILL).
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// Starts a member again, on what it kept. Waits until it serves clients.
    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        self.launch(number);
        self.await_answer(number);
    }

    /// Starts all members again, without anything that they kept.
    pub fn restart_empty(&mut self) {
        for number in 0..self.members.len() {
            self.kill(number);
            fs::remove_dir_all(self.data_path(number)).unwrap();
            self.configure(number);
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
        let leads = |mode: String| mode == "leader" || mode == "standalone";
        until_blocking("a member leads", LIMIT, || {
            leader = (0..self.members.len()).find(|number| self.mode(*number).is_some_and(leads));
            leader.is_some()
        });
        leader.unwrap_or_default()
    }

    /// What a member says that it is, if it serves clients. Not with TLS.
    fn mode(&self, number: usize) -> Option<String> {
        self.members[number].child.as_ref()?;
        let answer = self.ask(number, "srvr").ok()?;
        answer.lines().find_map(|line| line.strip_prefix("Mode: ")).map(str::to_owned)
    }

    /// Asks a member a four-letter word.
    fn ask(&self, number: usize, word: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.members[number].client.number()))?;
        stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        stream.write_all(word.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Writes the settings of a member. Each sees itself at its own ports and the others where they are
    /// advertised.
    fn configure(&self, number: usize) {
        let data = self.data_path(number);
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("myid"), (number + 1).to_string()).unwrap();
        let (client, tick) = (self.members[number].client.number(), self.tick.as_millis());
        let mut settings = format!(
            "tickTime={tick}\ninitLimit=20\nsyncLimit=4\ndataDir={}\n\
             admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=srvr\n",
            data.display()
        );
        match &self.certs {
            None => put(&mut settings, format_args!("clientPort={client}\nclientPortAddress=127.0.0.1")),
            Some(certs) => {
                let pem = |file: &str, parts: &[PathBuf]| {
                    let path = self.directory.path().join(file);
                    let parts = parts.iter().map(|part| fs::read_to_string(part).unwrap());
                    fs::write(&path, parts.collect::<String>()).unwrap();
                    path.display().to_string()
                };
                let keys = pem("server-key-and-cert.pem", &[certs.server_key(), certs.server_cert()]);
                let authorities = pem("authorities.pem", &[certs.ca()]);
                put(
                    &mut settings,
                    format_args!(
                        "secureClientPort={client}\nsecureClientPortAddress=127.0.0.1\n\
                         serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                         ssl.keyStore.type=PEM\nssl.keyStore.location={keys}\n\
                         ssl.trustStore.type=PEM\nssl.trustStore.location={authorities}\nssl.clientAuth=need\n\
                         ssl.hostnameVerification=false"
                    ),
                );
            }
        }
        // One member alone is no ensemble.
        for (at, member) in self.members.iter().enumerate().filter(|_| self.members.len() > 1) {
            let own = (member.peers.quorum.number(), member.peers.election.number());
            let (quorum, election) = if at == number { own } else { member.peers.advertised };
            put(&mut settings, format_args!("server.{}=127.0.0.1:{quorum}:{election}", at + 1));
        }
        fs::write(self.settings_path(number), settings).unwrap();
    }

    fn launch(&mut self, number: usize) {
        let log = File::options().create(true).append(true).open(self.log_path(number)).unwrap();
        let child = spawn_bound("java", |command| {
            command.args(["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]);
            command.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn");
            // 64 MB for each log would fill a directory in memory.
            command.arg("-Dzookeeper.preAllocSize=64");
            command.args(["-cp", &format!("{OTHER_JARS}:{JAR}")]);
            command.arg("org.apache.zookeeper.server.quorum.QuorumPeerMain").arg(self.settings_path(number));
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        })
        .expect("java is installed: apt-get install default-jre-headless");
        self.members[number].child = Some(child);
    }

    fn await_answer(&mut self, number: usize) {
        // Without a certificate of ours a member with TLS does not answer.
        let is_tls = self.certs.is_some();
        until_blocking("ZooKeeper answers", LIMIT, || {
            let child = self.members[number].child.as_mut().expect("it was started");
            if let Some(status) = child.try_wait().unwrap() {
                panic!("{status}\n{}", fs::read_to_string(self.log_path(number)).unwrap_or_default());
            }
            if is_tls {
                return TcpStream::connect(("127.0.0.1", self.members[number].client.number())).is_ok();
            }
            self.mode(number).is_some()
        });
    }

    fn data_path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("m{number}"))
    }

    fn settings_path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("m{number}.cfg"))
    }

    fn log_path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("m{number}.log"))
    }
}

fn put(settings: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(settings, "{line}");
}

impl Drop for ZooKeeper {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|number| self.kill(number));
    }
}
