//! Files and directories that others remove, cut short or keep open.

use super::*;
use quorlock_core::NodeSet;

/// Goal: without a place for the state nobody is granted anything, or everybody would be.
#[tokio::test]
async fn a_directory_that_was_removed_grants_nothing() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("locks");
    let (one, other) = (open(&dir), open(&dir));
    assert_eq!(ask(&one, &acquire("x", 1, 5, LONG, false)).await, "raised");
    std::fs::remove_dir_all(&dir).unwrap();
    for (node, holder) in [(&one, 2), (&other, 3)] {
        let refused = ask(node, &acquire("x", holder, 6, LONG, false)).await;
        assert!(refused.starts_with("failed: cannot open"), "{refused}");
    }
    assert_eq!(ask(&one, &extend("x", 1, LONG, false)).await, "gone");
    assert_eq!(ask(&one, &release("x", 1)).await, "gone");
    std::fs::create_dir(&dir).unwrap();
    assert_eq!(ask(&one, &acquire("x", 2, 7, LONG, false)).await, "raised");
    assert_eq!(ask(&other, &acquire("x", 3, 8, LONG, false)).await, "taken");
}

/// Goal: a file that was cut short never gives an older state for the newest one.
#[tokio::test]
async fn a_file_of_any_shorter_length_grants_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    for (holder, proposal) in [(1, 5), (2, 6), (3, 7)] {
        assert_eq!(ask(&node, &acquire("x", holder, proposal, LONG, false)).await, "raised");
        if holder < 3 {
            assert_eq!(ask(&node, &release("x", holder)).await, "done");
        }
    }
    let path = dir.path().join("x.lock");
    let intact = std::fs::read(&path).unwrap();
    // Of the first few bytes nobody can tell whether more ever stood there.
    for length in (97..intact.len()).step_by(97).chain([SLOT_BYTES, 2 * SLOT_BYTES, intact.len() - 1]) {
        std::fs::write(&path, &intact[..length]).unwrap();
        let reply = ask(&node, &acquire("x", 4, 8, LONG, false)).await;
        assert!(reply.contains("cannot understand"), "cut to {length} bytes: {reply}");
    }
    std::fs::write(&path, &intact).unwrap();
    assert_eq!(ask(&node, &acquire("x", 4, 8, LONG, false)).await, "taken");
}

#[tokio::test]
async fn what_a_full_disk_left_of_a_beginning_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let beginning = state::Image::beginning(&name("x"));
    for (number, length) in [0, 1, 60, SLOT_BYTES, SLOT_BYTES + 1, beginning.len()].into_iter().enumerate() {
        let path = dir.path().join("x.lock");
        std::fs::write(&path, &beginning[..length]).unwrap();
        let holder = u8::try_from(number).unwrap();
        assert_eq!(ask(&node, &acquire("x", holder, 5, LONG, false)).await, "raised", "{length} bytes");
        assert_eq!(path.metadata().unwrap().len(), beginning.len() as u64, "{length} bytes");
        assert_eq!(ask(&node, &release("x", holder)).await, "done");
    }
}

/// Goal: a program that forks at any moment does not keep a file locked through its child.
#[tokio::test]
async fn a_descriptor_that_a_child_inherited_locks_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let held = LockFile::open(dir.path(), &name("x"), Mode::Create, LONG).unwrap().unwrap();
    // A forked child has the same open file.
    let inherited = held.inherit();
    drop(held);
    let again = LockFile::open(dir.path(), &name("x"), Mode::Create, Duration::ZERO);
    assert!(again.is_ok(), "{again:?}");
    drop(inherited);
}

#[tokio::test]
async fn a_full_queue_still_takes_releases() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    assert_eq!(ask(&node, &acquire("x", 1, 5, LONG, false)).await, "raised");
    let kept = LockFile::open(dir.path(), &name("y"), Mode::Create, LONG).unwrap();
    let nodes = [node.clone()];
    // One more than fits, as the thread has taken one.
    for _ in 0..=worker::MOST_WAITING + 1 {
        crate::round::send_and_forget(&nodes, NodeSet::first(1), Command::Inspect { name: name("y") });
    }
    assert!(inspect(&node, "y").await.contains("is full"));
    crate::round::send_and_forget(&nodes, NodeSet::first(1), release("x", 1));
    drop(kept);
    until(&node, "free, counter 5").await;
}

/// One file that was spoilt must not hide all the others.
#[tokio::test]
async fn a_damaged_file_is_left_out_of_the_list_and_that_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    ask(&node, &acquire("x", 1, 5, LONG, false)).await;
    assert!(node.names().await.unwrap().complete);
    std::fs::write(dir.path().join("bad.lock"), [7; 12 * 1024]).unwrap();
    let names = node.names().await.unwrap();
    assert_eq!((names.known, names.complete), (vec![name("x")], false));
}
