//! A real Consul cluster for one test.

use crate::eventually::until_blocking;
use crate::processes::peer::deps_directory;
use crate::processes::port::Port;
use crate::processes::sigstop::{resume, stop};
use crate::processes::spawn::{find_program, spawn_bound};
use crate::servers::certs::Certs;
use crate::servers::directory;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A loaded machine may need long; a healthy one is done after a few seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A running Consul cluster on loopback, with a directory of its own. Dropping it kills its servers.
#[derive(Debug)]
pub struct Consul {
    directory: TempDir,
    certs: Option<Certs>,
    /// The token that may do everything, if rights are checked.
    master: Option<String>,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    http: Port,
    /// For raft, for gossip within and between datacenters.
    others: [Port; 3],
    /// `None` while it is down.
    child: Option<Child>,
}

impl Consul {
    /// The program, if this machine has it.
    pub fn find() -> Option<PathBuf> {
        let installed = deps_directory().join("consul/consul");
        std::env::var_os("QUORLOCK_CONSUL")
            .map(PathBuf::from)
            .or_else(|| find_program("consul"))
            .or_else(|| installed.is_file().then_some(installed))
    }

    /// Whether this machine has it. Says so on stderr if not, for tests that then skip.
    pub fn is_here() -> bool {
        let here = Self::find().is_some();
        if !here {
            eprintln!("skipped: no consul here, see scripts/setup-tests");
        }
        here
    }

    /// Starts a cluster of `servers` servers, and waits until it has a leader.
    pub fn start(servers: usize) -> Self {
        Self::start_with(servers, false, None)
    }

    /// The same with TLS for its clients.
    pub fn start_with_tls(servers: usize) -> Self {
        Self::start_with(servers, true, None)
    }

    /// The same with rights that are checked. Nobody has any without a token.
    pub fn start_with_acl(servers: usize) -> Self {
        Self::start_with(servers, false, Some("7d4fe5bd-0b0c-4d94-9c6a-b2f0a6f9a1c1".to_owned()))
    }

    fn start_with(servers: usize, tls: bool, master: Option<String>) -> Self {
        let directory = directory::fresh("quorlock-consul-");
        let certs = tls.then(|| Certs::generate(directory.path()));
        let member = |_| Member {
            http: Port::claim(),
            others: [Port::claim(), Port::claim(), Port::claim()],
            child: None,
        };
        let mut cluster = Self { directory, certs, master, members: (0..servers).map(member).collect() };
        (0..servers).for_each(|number| cluster.launch(number));
        (0..servers).for_each(|number| cluster.await_answer(number));
        cluster
    }

    /// The address of the cluster, with all servers and without a token.
    pub fn url(&self) -> String {
        self.url_of(&(0..self.members.len()).collect::<Vec<_>>(), None)
    }

    /// The address with these servers and a token.
    pub fn url_of(&self, servers: &[usize], token: Option<&str>) -> String {
        let hosts: Vec<_> = servers
            .iter()
            .map(|number| format!("localhost:{}", self.members[*number].http.number()))
            .collect();
        let token = token.map(|token| format!(":{token}@")).unwrap_or_default();
        match &self.certs {
            None => format!("consul://{token}{}", hosts.join(",")),
            Some(certs) => format!("consuls://{token}{}/?ca={}", hosts.join(","), certs.ca().display()),
        }
    }

    /// The token that may do everything.
    ///
    /// # Panics
    /// Rights are not checked.
    pub fn master_token(&self) -> &str {
        self.master.as_deref().expect("it was started with rights")
    }

    /// Makes a token with the rights that `rules` give.
    pub fn token_with(&self, rules: &str) -> String {
        let mut token = None;
        until_blocking("rights are ready", LIMIT, || {
            let name = format!(
                "p{}",
                self.try_call(0, "GET", "/v1/acl/policies", "")
                    .map_or(0, |all| { all.as_array().map_or(0, Vec::len) })
            );
            let policy = json!({ "Name": name, "Rules": rules }).to_string();
            let Ok(policy) = self.try_call(0, "PUT", "/v1/acl/policy", &policy) else { return false };
            let request = json!({ "Policies": [{ "ID": policy["ID"] }] }).to_string();
            let made = self.try_call(0, "PUT", "/v1/acl/token", &request);
            token = made.ok().and_then(|made| made["SecretID"].as_str().map(str::to_owned));
            token.is_some()
        });
        token.unwrap_or_default()
    }

    /// Where its servers listen for clients.
    pub fn client_ports(&self) -> Vec<u16> {
        self.members.iter().map(|member| member.http.number()).collect()
    }

    /// The keys that begin with `prefix`, asked of the servers one after the other until one answers.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let mut found = None;
        until_blocking("a server lists keys", LIMIT, || {
            let path = format!("/v1/kv/{prefix}?keys&consistent");
            let running = (0..self.members.len()).filter(|number| self.members[*number].child.is_some());
            found = running.filter_map(|number| self.try_call(number, "GET", &path, "").ok()).next();
            found.is_some()
        });
        let keys = found.as_ref().and_then(Value::as_array).into_iter().flatten();
        keys.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Ends a server as a crash would (SIGKILL).
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            let _ = child.kill();
            child.wait().unwrap();
        }
    }

    /// Starts a server again, on what it kept. Waits until it answers.
    pub fn restart(&mut self, number: usize) {
        self.kill(number);
        self.launch(number);
        self.await_answer(number);
    }

    /// Starts a server again without its data.
    pub fn restart_empty(&mut self, number: usize) {
        self.kill(number);
        fs::remove_dir_all(self.data_path(number)).unwrap();
        self.restart(number);
    }

    /// Stops a server (SIGSTOP): its connections stay open, nothing is answered.
    pub fn pause(&self, number: usize) {
        stop(self.members[number].child.as_ref().expect("it is up"));
    }

    /// Resumes a paused server.
    pub fn resume(&self, number: usize) {
        resume(self.members[number].child.as_ref().expect("it is up"));
    }

    /// Which server leads. Waits until one does.
    pub fn leader(&self) -> usize {
        let mut leader = None;
        until_blocking("a server leads", LIMIT, || {
            let running = (0..self.members.len()).filter(|number| self.members[*number].child.is_some());
            let said =
                running.filter_map(|number| self.try_call(number, "GET", "/v1/status/leader", "").ok());
            leader = said.filter_map(|said| self.member_at(said.as_str()?)).next();
            leader.is_some()
        });
        leader.unwrap_or_default()
    }

    /// The server that others reach at `address`.
    fn member_at(&self, address: &str) -> Option<usize> {
        let port: u16 = address.rsplit_once(':')?.1.parse().ok()?;
        self.members.iter().position(|member| member.others[0].number() == port)
    }

    /// Asks the first server through its HTTP interface. Not for clusters with TLS.
    ///
    /// # Panics
    /// It does not answer.
    pub fn call(&self, method: &str, path: &str, body: &str) -> Value {
        self.try_call(0, method, path, body).unwrap()
    }

    fn try_call(&self, number: usize, method: &str, path: &str, body: &str) -> io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.members[number].http.number()))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let token =
            self.master.as_ref().map(|token| format!("X-Consul-Token: {token}\r\n")).unwrap_or_default();
        let length = body.len();
        write!(stream, "{method} {path} HTTP/1.0\r\n{token}Content-Length: {length}\r\n\r\n{body}")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        match head.split_whitespace().nth(1) {
            Some("200") => {
                serde_json::from_str(body).map_err(|error| io::Error::other(format!("{error}: {answer}")))
            }
            Some("404") => Ok(Value::Null),
            _ => Err(io::Error::other(answer)),
        }
    }

    fn launch(&mut self, number: usize) {
        let config = self.write_config(number);
        let log = File::options().create(true).append(true).open(self.log_path(number)).unwrap();
        let program = Self::find().expect("consul is installed, see scripts/setup-tests");
        let child = spawn_bound(program, |command| {
            command.args(["agent", "-server", "-config-file"]).arg(config);
            command.arg("-data-dir").arg(self.data_path(number));
            command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        })
        .expect("consul starts");
        self.members[number].child = Some(child);
    }

    fn write_config(&self, number: usize) -> PathBuf {
        let member = &self.members[number];
        let peers: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.others[1].number())).collect();
        let http = member.http.number();
        let (plain, tls) = if self.certs.is_some() { (-1, i32::from(http)) } else { (i32::from(http), -1) };
        let mut config = json!({
            "node_name": format!("s{number}"),
            "bind_addr": "127.0.0.1",
            "client_addr": "127.0.0.1",
            "bootstrap_expect": self.members.len(),
            "retry_join": peers,
            "retry_interval": "1s",
            "log_level": "WARN",
            "disable_update_check": true,
            // Servers that crash come back under the same name.
            "skip_leave_on_interrupt": true,
            // Below the default of 5, and long enough for a loaded machine.
            "performance": { "raft_multiplier": 3 },
            "ports": {
                "http": plain, "https": tls, "dns": -1, "grpc": -1,
                "server": member.others[0].number(),
                "serf_lan": member.others[1].number(),
                "serf_wan": member.others[2].number(),
            },
        });
        if let Some(certs) = &self.certs {
            config["cert_file"] = json!(certs.server_cert());
            config["key_file"] = json!(certs.server_key());
            config["ca_file"] = json!(certs.ca());
        }
        if let Some(master) = &self.master {
            config["acl"] = json!({
                "enabled": true, "default_policy": "deny", "tokens": { "master": master, "agent": master },
            });
            config["primary_datacenter"] = json!("dc1");
        }
        let path = self.directory.path().join(format!("s{number}.json"));
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    fn await_answer(&mut self, number: usize) {
        // Without a certificate of ours a server with TLS does not answer who leads.
        let is_tls = self.certs.is_some();
        until_blocking("consul answers", LIMIT, || {
            let child = self.members[number].child.as_mut().expect("it was started");
            if let Some(status) = child.try_wait().unwrap() {
                panic!("{status}\n{}", fs::read_to_string(self.log_path(number)).unwrap_or_default());
            }
            if is_tls {
                return TcpStream::connect(("127.0.0.1", self.members[number].http.number())).is_ok();
            }
            // A read that only a leader answers.
            self.try_call(number, "GET", "/v1/kv/quorlock?keys&consistent", "").is_ok()
        });
    }

    fn data_path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("s{number}"))
    }

    fn log_path(&self, number: usize) -> PathBuf {
        self.directory.path().join(format!("s{number}.log"))
    }
}

impl Drop for Consul {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|number| self.kill(number));
    }
}
