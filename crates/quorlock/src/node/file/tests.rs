//! The file node over several processes, re-opened, damaged and at its limits.

use super::super::contract::{acquire, ask, extend, inspect, name, release, stamp};
use super::state::SLOT_BYTES;
use super::*;
use crate::clock::{Clock, SystemClock};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command as Program, Stdio};

const LONG: Duration = Duration::from_secs(600);
/// How long a test waits for what must happen, on a busy machine.
const SURELY: Duration = Duration::from_secs(60);
const ROLE: &str = "QUORLOCK_TEST_ROLE";
const DIR: &str = "QUORLOCK_TEST_DIR";

fn open(dir: &Path) -> Arc<dyn Node> {
    // Generous, as the disk of a test machine is shared with everything else that runs there.
    let around = Surroundings {
        node_timeout: Duration::from_secs(5),
        ..Surroundings::default()
    };
    Arc::new(FileNode::open(Some(dir), around).unwrap())
}

/// A process of its own that plays `role` (see [`the_other_process`]) and said that it is ready.
struct Player {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Player {
    fn start(role: &str, dir: &Path) -> Self {
        let mut child = Program::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "node::file::tests::the_other_process",
                "--nocapture",
            ])
            .env(ROLE, role)
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            stdout.any(|line| line.unwrap().contains("ready")),
            "{role} never got ready"
        );
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

/// Takes `x` and gives its fence.
async fn take(node: &Arc<dyn Node>) -> u64 {
    let me = process_number();
    loop {
        let proposal = SystemClock.wall().as_micros();
        match ask(node, &acquire("x", me, proposal, LONG, true))
            .await
            .as_str()
        {
            "raised" => return proposal,
            "taken" => tokio::time::sleep(Duration::from_micros(300)).await,
            unraised => {
                let counter: u64 = unraised.strip_prefix("unraised ").unwrap().parse().unwrap();
                assert_eq!(ask(node, &stamp("x", me, counter + 1)).await, "raised");
                return counter + 1;
            }
        }
    }
}

/// Differs between processes that run at the same time, nearly always; a clash would only fail the test.
fn process_number() -> u8 {
    std::process::id().to_le_bytes()[0]
}

/// Waits until the state of `x` is `expected`, by looking.
async fn until(node: &Arc<dyn Node>, expected: &str) {
    let looks = async {
        while inspect(node, "x").await != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SURELY, looks)
        .await
        .unwrap_or_else(|_| panic!("never {expected}"));
}

#[test]
fn processes_that_contend_lose_no_update_and_their_fences_rise() {
    let dir = tempfile::tempdir().unwrap();
    let players: Vec<_> = (0..3).map(|_| Player::start("count", dir.path())).collect();
    players.into_iter().for_each(Player::finish);
    let read = |file: &str| std::fs::read_to_string(dir.path().join(file)).unwrap();
    assert_eq!(read("number"), (3 * ROUNDS).to_string());
    let fences: Vec<u64> = read("fences")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[tokio::test]
async fn a_tied_lock_is_free_at_once_when_its_process_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let player = Player::start("tied", dir.path());
    assert_eq!(ask(&node, &acquire("x", 2, 6, LONG, false)).await, "taken");
    let bell = Bell::new();
    node.watch(&name("x"), &bell);
    drop(player);
    tokio::time::timeout(SURELY, bell.heard())
        .await
        .expect("the watch sees the death");
    assert_eq!(ask(&node, &acquire("x", 2, 7, LONG, false)).await, "raised");
}

#[tokio::test]
async fn a_killed_process_that_nobody_has_buried_yet_holds_nothing() {
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
    assert_eq!(
        ask(&node, &release("x", 1)).await,
        "done",
        "the token is enough"
    );
    drop(Player::start("short", dir.path()));
    until(&node, "free, counter 7").await;
}

#[tokio::test]
async fn a_release_in_another_process_rings() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let player = Player::start("untied", dir.path());
    let bell = Bell::new();
    node.watch(&name("x"), &bell);
    player.finish();
    tokio::time::timeout(SURELY, bell.heard())
        .await
        .expect("the watch sees the release");
    assert_eq!(ask(&node, &acquire("x", 2, 6, LONG, false)).await, "raised");
}

#[tokio::test]
async fn an_extend_ties_and_unties() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let tied = || {
        let image = lockfile::peek(&dir.path().join("x.lock")).unwrap();
        image
            .state
            .record
            .hold
            .unwrap()
            .tied
            .map(|process| process.pid)
    };
    ask(&node, &acquire("x", 1, 5, LONG, true)).await;
    assert_eq!(tied(), Some(std::process::id()));
    ask(&node, &extend("x", 1, LONG, false)).await;
    assert_eq!(tied(), None);
    ask(&node, &extend("x", 1, LONG, true)).await;
    assert_eq!(tied(), Some(std::process::id()));
}

#[tokio::test]
async fn the_fence_survives_a_re_open_and_a_drop_finishes_what_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    assert_eq!(
        ask(&node, &acquire("x", 1, 50, LONG, false)).await,
        "raised"
    );
    crate::round::send_and_forget(std::slice::from_ref(&node), &release("x", 1));
    drop(node);
    let node = open(dir.path());
    until(&node, "free, counter 50").await;
    assert_eq!(
        ask(&node, &acquire("x", 1, 50, LONG, false)).await,
        "unraised 50"
    );
}

#[tokio::test]
async fn odd_names_have_files_of_their_own_and_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let node = FileNode::open(Some(dir.path()), Surroundings::default()).unwrap();
    let long = ["x".repeat(512), "x".repeat(511) + "y", "잠".repeat(170)];
    let mut names = vec!["a/b", "../a", ".", "é ü", "A", "%41"];
    names.extend(long.iter().map(String::as_str));
    let node = Arc::new(node);
    let asked: Arc<dyn Node> = node.clone();
    for text in &names {
        assert_eq!(
            ask(&asked, &acquire(text, 1, 5, LONG, false)).await,
            "raised",
            "{text}"
        );
    }
    names.sort_unstable();
    let listed = node.names().unwrap();
    assert_eq!(listed.iter().map(Name::as_str).collect::<Vec<_>>(), names);
}

#[tokio::test]
async fn a_damaged_file_fails_and_never_counts_as_free() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    ask(&node, &acquire("x", 1, 5, LONG, false)).await;
    let path = dir.path().join("x.lock");
    let intact = std::fs::read(&path).unwrap();
    let mut damaged = intact.clone();
    damaged[SLOT_BYTES + 50] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    assert_eq!(
        inspect(&node, "x").await,
        "free, counter none",
        "the state before is still there"
    );
    damaged[40] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    for command in [acquire("x", 2, 6, LONG, false), release("x", 1)] {
        let reply = ask(&node, &command).await;
        assert!(
            reply.contains("cannot understand") && reply.contains("x.lock"),
            "{reply}"
        );
    }
    assert_eq!(node.health().trouble.unwrap().kind(), "file");
    std::fs::write(&path, &intact).unwrap();
    assert_eq!(ask(&node, &release("x", 1)).await, "done");
}

#[tokio::test]
async fn a_file_of_another_name_is_never_shared() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    ask(&node, &acquire("x", 1, 5, LONG, false)).await;
    std::fs::rename(dir.path().join("x.lock"), dir.path().join("y.lock")).unwrap();
    let reply = ask(&node, &acquire("y", 2, 6, LONG, false)).await;
    assert!(reply.contains("belongs to the name `x`"), "{reply}");
}

#[tokio::test]
async fn a_lock_that_others_keep_too_long_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let around = Surroundings {
        node_timeout: Duration::from_millis(5),
        ..Surroundings::default()
    };
    let node: Arc<dyn Node> = Arc::new(FileNode::open(Some(dir.path()), around).unwrap());
    let kept = LockFile::open(dir.path(), &name("x"), Mode::Create, LONG).unwrap();
    let reply = ask(&node, &acquire("x", 1, 5, LONG, false)).await;
    assert_eq!(reply, "failed: no answer within 20ms");
    drop(kept);
    assert_eq!(ask(&node, &acquire("x", 1, 5, LONG, false)).await, "raised");
}

#[test]
fn one_directory_is_not_two_nodes_of_a_locker() {
    let dir = tempfile::tempdir().unwrap();
    let around = Surroundings::default();
    let found = dir.path().metadata().unwrap();
    let identity = format!("file {}:{}", found.dev(), found.ino());
    // As a second mount of the same directory would be.
    around
        .siblings
        .claim(&"file:/mnt".into(), &identity)
        .unwrap();
    let error = FileNode::open(Some(dir.path()), around).unwrap_err();
    assert_eq!(error.kind(), "same_server");
}

/// Prints what an acquire and release cost on this machine's disk.
#[tokio::test]
#[ignore = "a measurement, to be run alone and optimised"]
async fn measure_acquire_and_release() {
    let dir = tempfile::tempdir_in(std::env::var_os("QUORLOCK_MEASURE_DIR").unwrap_or(".".into()));
    let dir = dir.unwrap();
    let node = open(dir.path());
    let mut spans: Vec<[Duration; 3]> = Vec::new();
    for proposal in 1..=2_000 {
        let begin = SystemClock.now();
        ask(&node, &acquire("x", 1, proposal, LONG, true)).await;
        let acquired = SystemClock.now();
        ask(&node, &extend("x", 1, LONG, true)).await;
        let extended = SystemClock.now();
        ask(&node, &release("x", 1)).await;
        let released = SystemClock.now();
        spans.push([
            begin.until(acquired),
            acquired.until(extended),
            extended.until(released),
        ]);
    }
    for (part, verb) in ["acquire", "extend", "release"].iter().enumerate() {
        let mut sorted: Vec<_> = spans.iter().map(|span| span[part]).collect();
        sorted.sort();
        println!(
            "{verb}: median {:?}, 99 % {:?}, most {:?}",
            sorted[1_000], sorted[1_980], sorted[1_999]
        );
    }
}
