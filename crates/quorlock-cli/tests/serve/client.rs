//! A sidecar that runs, and curl to ask it.

use crate::harness::{Answer, Home, Running};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A loaded machine may need long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A sidecar that runs. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) running: Running,
    /// How curl reaches it.
    reach: Vec<String>,
    pub(crate) url: String,
}

impl Sidecar {
    /// Starts one on a free port.
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        Self::of(home.start(&[&["serve", "--listen", "127.0.0.1:0"], args].concat()))
    }

    pub(crate) fn of(mut running: Running) -> Self {
        let line = running.answers("\n");
        let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { running, reach: Vec::new(), url }
    }

    /// Gives curl these arguments with each request.
    pub(crate) fn reached_by(mut self, args: &[&str]) -> Self {
        self.reach = args.iter().map(ToString::to_string).collect();
        self
    }

    /// curl with these arguments and the path.
    pub(crate) fn curl(&self, args: &[&str], path: &str) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60"])
            .args(&self.reach)
            .args(args)
            .arg(format!("{}{path}", self.url))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        curl
    }

    /// What was answered, with its status.
    pub(crate) fn ask(&self, args: &[&str], path: &str) -> (u16, String) {
        let output = self.curl(&[args, &["--write-out", "\n%{http_code}"]].concat(), path).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (body, status) = text.rsplit_once('\n').unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        (status.parse().unwrap_or_else(|_| panic!("{text} {words}")), body.to_owned())
    }

    pub(crate) fn get(&self, path: &str) -> (u16, Value) {
        json(self.ask(&[], path))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> (u16, Value) {
        json(self.ask(&["--header", "content-type: application/json", "--data", body], path))
    }

    /// Takes `name` and answers its token.
    pub(crate) fn take(&self, name: &str, body: &str) -> String {
        let (status, lease) = self.post(&format!("/v1/locks/{name}/acquire"), body);
        assert_eq!(status, 200, "{lease}");
        lease["token"].as_str().unwrap().to_owned()
    }

    /// Extends `name`; the status.
    pub(crate) fn extend(&self, name: &str, token: &str) -> u16 {
        self.post(&format!("/v1/locks/{name}/extend"), &format!("{{\"token\": \"{token}\"}}")).0
    }

    /// Releases `name`; the status.
    pub(crate) fn release(&self, name: &str, token: &str) -> u16 {
        self.post(&format!("/v1/locks/{name}/release"), &format!("{{\"token\": \"{token}\"}}")).0
    }

    /// Holds `name` in the background, from the moment that it is held.
    pub(crate) fn hold(&self, name: &str) -> Running {
        let mut holding =
            Running::new(&mut self.curl(&["--no-buffer"], &format!("/v1/locks/{name}/hold?ttl_ms=30000")));
        holding.answers("event: held\n");
        holding
    }

    /// Ends it as an init system does.
    pub(crate) fn stop(mut self) -> Answer {
        self.running.signal(rustix::process::Signal::TERM);
        self.running.end()
    }
}

fn json((status, text): (u16, String)) -> (u16, Value) {
    let value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON with {status}: {text}"));
    (status, value)
}

/// Whether any client holds `name`, as another command sees it.
pub(crate) fn is_held(home: &Home, name: &str) -> bool {
    home.run(&["status", name, "--json"]).exits(0).json()["held"] == true
}
