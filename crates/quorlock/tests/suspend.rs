//! A machine that sleeps, as a process sees it: the boot clock goes on, the timers do not.
#![allow(clippy::unwrap_used)]

use quorlock::{LeaseState, Locker};
use quorlock_testkit::{ClockShim, Servers, within};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const CHILD: &str = "QUORLOCK_SUSPEND_CHILD";

/// Goal: with the shipped clock code and real servers, a suspend longer than the ttl ends the lease at once, and
/// the loss is announced as such.
#[test]
fn a_suspended_clock_ends_a_lease() {
    let servers = Servers::start(3);
    let shim = ClockShim::new();
    let mut holder = Holder::start(&shim, &servers.urls());
    assert_eq!(holder.line(), "held");
    assert_eq!(holder.ask("standing"), "held");
    shim.suspend(Duration::from_secs(60));
    assert_eq!(holder.ask("standing"), "lost Expired", "seen by the first look at the clock");
    assert_eq!(holder.ask("reason"), "lock `a` was lost: the machine was suspended past its end");
}

#[test]
fn a_short_suspend_does_not_end_a_lease() {
    let servers = Servers::start(3);
    let shim = ClockShim::new();
    let mut holder = Holder::start(&shim, &servers.urls());
    assert_eq!(holder.line(), "held");
    shim.suspend(Duration::from_secs(4));
    assert_eq!(holder.ask("standing"), "held");
    assert_eq!(holder.ask("extend"), "extended");
}

/// This very test program as a child under the shim.
struct Holder {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Holder {
    fn start(shim: &ClockShim, urls: &[String]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "as_the_child", "--nocapture", "--quiet"])
            .env(CHILD, urls.join(","))
            .envs(shim.env())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next line that the child says itself; the test harness of the child talks, too.
    fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the child is gone");
            if let Some(outcome) = line.split("child: ").nth(1) {
                return outcome.trim_end().to_owned();
            }
        }
    }

    fn ask(&mut self, request: &str) -> String {
        writeln!(self.child.stdin.as_ref().unwrap(), "{request}").unwrap();
        self.line()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_the_child() {
    let Ok(urls) = std::env::var(CHILD) else { return };
    let locker =
        Locker::builder().nodes(urls.split(',')).node_timeout(Duration::from_millis(300)).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    println!("child: held");
    for request in std::io::stdin().lock().lines() {
        match request.unwrap().as_str() {
            "standing" => match guard.state() {
                LeaseState::Held { .. } => println!("child: held"),
                LeaseState::Unverified => println!("child: unverified"),
                LeaseState::Lost(loss) => println!("child: lost {loss:?}"),
            },
            // The parent waits for a line as long as this process lives.
            "reason" => {
                println!("child: {}", within("the loss", Duration::from_secs(60), guard.lost()).await)
            }
            "extend" => match guard.extend().await {
                Ok(_) => println!("child: extended"),
                Err(error) => println!("child: {error}"),
            },
            other => panic!("{other}"),
        }
    }
}
