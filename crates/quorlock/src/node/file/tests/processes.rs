//! The file node shared by several processes: nothing lost, nothing kept by the dead.

use super::super::*;
use crate::context::clock::{Clock, SystemClock};
use crate::node::contract::{acquire, ask, name, release, stamp};
use crate::node::file::tests::{LONG, SURELY, open, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command as Program, Stdio};

const ROLE: &str = "QUORLOCK_TEST_ROLE";
const DIR: &str = "QUORLOCK_TEST_DIR";

#[test]
fn processes_that_contend_lose_no_update_and_their_fences_rise() {
    let dir = tempfile::tempdir().unwrap();
    let mut players: Vec<_> = (0..3).map(|_| Player::start("count", dir.path())).collect();
    // All begin before the first is waited for.
    players.iter_mut().for_each(|player| drop(player.stdin.take()));
    players.into_iter().for_each(Player::finish);
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(read("number"), (3 * ROUNDS).to_string());
    let fences: Vec<u64> = read("fences").lines().map(|line| line.parse().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[tokio::test]
async fn a_tied_lock_is_free_at_once_when_its_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let player = Player::start("tied", dir.path());
    assert_eq!(ask(&node, &acquire("x", 2, 6, LONG, false)).await, "taken");
    let wakeup = Wakeup::new();
    node.watch(&name("x"), &wakeup);
    drop(player);
    tokio::time::timeout(SURELY, wakeup.notified()).await.expect("the watch sees the death");
    assert_eq!(ask(&node, &acquire("x", 2, 7, LONG, false)).await, "raised");
}

#[tokio::test]
async fn a_killed_process_that_is_a_zombie_holds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let mut player = Player::start("tied", dir.path());
    player.child.kill().unwrap();
    until(&node, "free, counter 5").await;
}

#[tokio::test]
async fn an_untied_lock_outlives_its_process_until_its_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    drop(Player::start("untied", dir.path()));
    assert_eq!(ask(&node, &acquire("x", 2, 6, LONG, false)).await, "taken");
    assert_eq!(ask(&node, &release("x", 1)).await, "done", "the token is enough");
    drop(Player::start("short", dir.path()));
    until(&node, "free, counter 7").await;
}

#[tokio::test]
async fn a_release_in_another_process_notifies() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let player = Player::start("untied", dir.path());
    let wakeup = Wakeup::new();
    node.watch(&name("x"), &wakeup);
    player.finish();
    tokio::time::timeout(SURELY, wakeup.notified()).await.expect("the watch sees the release");
    assert_eq!(ask(&node, &acquire("x", 2, 6, LONG, false)).await, "raised");
}

/// A process of its own that plays `role` (see [`the_other_process`]) and has printed that it is ready.
struct Player {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Player {
    fn start(role: &str, dir: &Path) -> Self {
        let mut child = Program::new(std::env::current_exe().unwrap())
            .args(["--exact", "node::file::tests::processes::the_other_process", "--nocapture"])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(stdout.any(|line| line.unwrap().contains("ready")), "{role} never got ready");
        // Keeps the pipe open, so that the child can go on writing.
        std::thread::spawn(move || stdout.for_each(drop));
        Self { child, stdin }
    }

    /// Lets the player go on and end.
    fn finish(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// No test of its own: what [`Player`] runs.
#[tokio::test]
async fn the_other_process() {
    let (Ok(role), Some(dir)) = (std::env::var(ROLE), std::env::var_os(DIR)) else {
        return;
    };
    let node = open(Path::new(&dir));
    match role.as_str() {
        "count" => {
            say_ready();
            wait_for_end_of_input();
            count(&node, Path::new(&dir)).await;
        }
        _ => {
            let (ttl, proposal) = match role.as_str() {
                "short" => (Duration::from_millis(300), 7),
                _ => (LONG, 5),
            };
            let command = acquire("x", 1, proposal, ttl, role == "tied");
            assert_eq!(ask(&node, &command).await, "raised");
            say_ready();
            wait_for_end_of_input();
            assert_eq!(ask(&node, &release("x", 1)).await, "done");
        }
    }
}

fn say_ready() {
    println!("ready");
    std::io::stdout().flush().unwrap();
}

fn wait_for_end_of_input() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

const ROUNDS: u64 = 40;

/// Adds one to a number in a file, and the fence to a list, as often as agreed: not atomic without the lock.
async fn count(node: &Arc<dyn Node>, dir: &Path) {
    let (number, fences) = (dir.join("number"), dir.join("fences"));
    for _ in 0..ROUNDS {
        let fence = take(node).await;
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let before: u64 = read(&number).parse().unwrap_or_default();
        let listed = format!("{}{fence}\n", read(&fences));
        std::thread::yield_now();
        std::fs::write(&number, (before + 1).to_string()).unwrap();
        std::fs::write(&fences, listed).unwrap();
        assert_eq!(ask(node, &release("x", process_number())).await, "done");
    }
}

/// Takes `x` and returns its fence.
async fn take(node: &Arc<dyn Node>) -> u64 {
    let me = process_number();
    loop {
        let proposal = quorlock_core::Wall::from(SystemClock.wall_time()).as_micros();
        match ask(node, &acquire("x", me, proposal, LONG, true)).await.as_str() {
            "raised" => return proposal,
            "taken" => tokio::time::sleep(Duration::from_micros(300)).await,
            _ => {
                let stamped = ask(node, &stamp("x", me, proposal)).await;
                return stamped.strip_prefix("stamped ").unwrap().parse().unwrap();
            }
        }
    }
}

/// Differs between processes that run at the same time, nearly always; a clash would only fail the test.
fn process_number() -> u8 {
    std::process::id().to_le_bytes()[0]
}
