//! The file node re-opened, damaged and at its limits.

mod damage;
mod processes;

use super::*;
use crate::context::clock::{Clock, SystemClock};
use crate::node::contract::{acquire, ask, extend, inspect, name, release, token};
use crate::node::file::lockfile::{LockFile, Mode};
use crate::node::file::state::SLOT_BYTES;
use crate::node::{Command, Tie};
use quorlock_core::NodeSet;

const LONG: Duration = Duration::from_secs(600);
/// How long a test waits for what must happen, on a busy machine.
const SURELY: Duration = Duration::from_secs(60);

fn open(dir: &Path) -> Arc<dyn Node> {
    // Generous, because the disk of a test machine is shared with everything else that runs there.
    let ctx = Context { node_timeout: Duration::from_secs(5), ..Context::default() };
    Arc::new(FileNode::open(&Directory::at(dir), ctx).unwrap())
}

/// Waits until the state of `x` is `expected`, by polling.
async fn until(node: &Arc<dyn Node>, expected: &str) {
    let polls = async {
        while inspect(node, "x").await != expected {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SURELY, polls).await.unwrap_or_else(|_| panic!("never {expected}"));
}

#[tokio::test]
async fn an_extend_ties_unties_or_leaves_it() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let tied = || {
        let image = lockfile::peek(&dir.path().join("x.lock")).unwrap();
        image.state.record.holds[0].tied.map(|process| process.pid)
    };
    ask(&node, &acquire("x", 1, 5, LONG, true)).await;
    assert_eq!(tied(), Some(std::process::id()));
    ask(&node, &extend("x", 1, LONG, false)).await;
    assert_eq!(tied(), None);
    let (name, token) = (name("x"), token(1));
    let keep = Command::Extend {
        name,
        token,
        ttl: LONG,
        tie: Tie::AsBefore,
        mode: quorlock_core::Mode::Exclusive,
        may_be_shared: false,
    };
    ask(&node, &keep).await;
    assert_eq!(tied(), None);
    ask(&node, &extend("x", 1, LONG, true)).await;
    ask(&node, &keep).await;
    assert_eq!(tied(), Some(std::process::id()));
}

#[tokio::test]
async fn the_fence_survives_a_re_open_and_a_drop_finishes_what_was_sent() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    assert_eq!(ask(&node, &acquire("x", 1, 50, LONG, false)).await, "raised");
    crate::quorum::round::send_without_reply(std::slice::from_ref(&node), NodeSet::first(1), release("x", 1));
    drop(node);
    let node = open(dir.path());
    until(&node, "free, counter 50").await;
    assert_eq!(ask(&node, &acquire("x", 1, 50, LONG, false)).await, "unraised 50");
}

/// Goal: S8. No caller learns of a release that a dropped guard sent and the node could not execute: the
/// node must try again.
#[tokio::test]
async fn a_release_that_failed_is_executed_once_it_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = Context { node_timeout: Duration::from_millis(10), ..Context::default() };
    let node: Arc<dyn Node> = Arc::new(FileNode::open(&Directory::at(dir.path()), ctx).unwrap());
    let other = open(dir.path());
    assert_eq!(ask(&other, &acquire("x", 1, 50, LONG, false)).await, "raised");
    let busy = std::fs::File::open(dir.path().join("x.lock")).unwrap();
    busy.lock().unwrap();
    assert!(ask(&node, &release("x", 1)).await.contains("no answer"), "the file is locked");
    assert_eq!(inspect(&node, "y").await, "free, counter none");
    assert!(node.health().trouble.is_some(), "an inspection that succeeds does not clear it");
    // Each further try that fails is seen after a change that succeeded.
    for proposal in [1, 2] {
        assert_eq!(ask(&node, &acquire("y", 1, proposal, LONG, false)).await, "raised");
        assert_eq!(ask(&node, &release("y", 1)).await, "done");
        let tried_again = async {
            while node.health().trouble.is_none() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(SURELY, tried_again).await.expect("it is tried again");
    }
    busy.unlock().unwrap();
    until(&other, "free, counter 50").await;
}

#[tokio::test]
async fn odd_names_have_files_of_their_own_and_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let node = FileNode::open(&Directory::at(dir.path()), Context::default()).unwrap();
    let long = ["x".repeat(512), "x".repeat(511) + "y", "잠".repeat(170)];
    let mut names = vec!["a/b", "../a", ".", "é ü", "A", "%41"];
    names.extend(long.iter().map(String::as_str));
    let node = Arc::new(node);
    let other: Arc<dyn Node> = node.clone();
    for text in &names {
        assert_eq!(ask(&other, &acquire(text, 1, 5, LONG, false)).await, "raised", "{text}");
    }
    names.sort_unstable();
    let listed = node.names().await.unwrap();
    assert!(listed.complete);
    assert_eq!(listed.known.iter().map(Name::as_str).collect::<Vec<_>>(), names);
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
    assert_eq!(inspect(&node, "x").await, "free, counter none", "the state before is still there");
    damaged[40] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    for command in [acquire("x", 2, 6, LONG, false), release("x", 1)] {
        let reply = ask(&node, &command).await;
        assert!(reply.contains("cannot understand") && reply.contains("x.lock"), "{reply}");
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
    let ctx = Context { node_timeout: Duration::from_millis(5), ..Context::default() };
    let node: Arc<dyn Node> = Arc::new(FileNode::open(&Directory::at(dir.path()), ctx).unwrap());
    let kept = LockFile::open(dir.path(), &name("x"), Mode::Create, LONG).unwrap();
    let reply = ask(&node, &acquire("x", 1, 5, LONG, false)).await;
    assert_eq!(reply, "failed: no answer within 20ms");
    drop(kept);
    assert_eq!(ask(&node, &acquire("x", 1, 5, LONG, false)).await, "raised");
}

#[test]
fn one_directory_is_not_two_nodes_of_a_locker() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = Context::default();
    let found = dir.path().metadata().unwrap();
    let identity = format!("file {}:{}", found.dev(), found.ino());
    // As a second mount of the same directory would be.
    ctx.identities.claim(&"file:/mnt".into(), &identity).unwrap();
    let error = FileNode::open(&Directory::at(dir.path()), ctx).unwrap_err();
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
        spans.push([begin.until(acquired), acquired.until(extended), extended.until(released)]);
    }
    for (part, verb) in ["acquire", "extend", "release"].iter().enumerate() {
        let mut sorted: Vec<_> = spans.iter().map(|span| span[part]).collect();
        sorted.sort();
        println!("{verb}: median {:?}, 99 % {:?}, most {:?}", sorted[1_000], sorted[1_980], sorted[1_999]);
    }
}
