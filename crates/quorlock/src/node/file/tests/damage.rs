//! Files and directories that other programs remove, truncate or keep open.

use super::*;
use quorlock_core::NodeSet;

/// Goal: without a place for the state no client is granted anything, or every client would be.
#[tokio::test]
async fn a_directory_that_was_removed_grants_nothing() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("locks");
    std::fs::create_dir(&dir).unwrap();
    let (one, other) = (open(&dir), open(&dir));
    assert_eq!(ask(&one, &acquire("x", 1, 5, LONG, false)).await, "raised");
    std::fs::remove_dir_all(&dir).unwrap();
    for (node, holder) in [(&one, 2), (&other, 3)] {
        let refused = ask(node, &acquire("x", holder, 6, LONG, false)).await;
        assert!(refused.starts_with("failed: cannot create"), "{refused}");
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
    for length in (0..intact.len()).step_by(97).chain([SLOT_BYTES, 2 * SLOT_BYTES, intact.len() - 1]) {
        std::fs::write(&path, &intact[..length]).unwrap();
        let reply = ask(&node, &acquire("x", 4, 8, LONG, false)).await;
        assert!(reply.contains("cannot understand"), "cut to {length} bytes: {reply}");
    }
    std::fs::write(&path, &intact).unwrap();
    assert_eq!(ask(&node, &acquire("x", 4, 8, LONG, false)).await, "taken");
}

/// Goal: a crash or a full disk while a file is made leaves nothing that counts, and nothing that is in
/// the way.
#[tokio::test]
async fn what_a_crash_left_of_a_new_file_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    let (path, unfinished) = (dir.path().join("x.lock"), dir.path().join("x.lock.new"));
    let beginning = state::Image::beginning(&name("x"));
    for (number, length) in [0, 1, SLOT_BYTES, beginning.len()].into_iter().enumerate() {
        let _ = std::fs::remove_file(&path);
        std::fs::write(&unfinished, &beginning[..length]).unwrap();
        assert_eq!(inspect(&node, "x").await, "free, counter none");
        let holder = u8::try_from(number).unwrap();
        assert_eq!(ask(&node, &acquire("x", holder, 5, LONG, false)).await, "raised", "{length} bytes");
        assert_eq!(path.metadata().unwrap().len(), beginning.len() as u64, "{length} bytes");
        assert!(!unfinished.exists());
        assert!(node.names().await.unwrap().complete);
    }
}

/// Goal: two processes that make the same file end up with one, and none replaces what the other has locked.
#[tokio::test]
async fn a_file_that_another_process_made_first_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    assert_eq!(ask(&node, &acquire("x", 1, 5, LONG, false)).await, "raised");
    let path = dir.path().join("x.lock");
    let before = path.metadata().unwrap().ino();
    begin::begin(dir.path(), &path, &name("x"), LONG).unwrap();
    assert_eq!(path.metadata().unwrap().ino(), before);
    assert_eq!(ask(&node, &acquire("x", 2, 6, LONG, false)).await, "taken");
}

/// Goal: while one process makes a file, no other makes one of the same name.
#[tokio::test]
async fn files_are_made_by_one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let ctx = Context { node_timeout: Duration::from_millis(5), ..Context::default() };
    let node: Arc<dyn Node> = Arc::new(FileNode::open(&Directory::at(dir.path()), ctx).unwrap());
    let busy = std::fs::File::open(dir.path()).unwrap();
    busy.lock().unwrap();
    assert_eq!(ask(&node, &acquire("x", 1, 5, LONG, false)).await, "failed: no answer within 20ms");
    assert!(!dir.path().join("x.lock").exists());
    busy.unlock().unwrap();
    assert_eq!(ask(&node, &acquire("x", 1, 5, LONG, false)).await, "raised");
    let again = busy.try_lock();
    assert!(again.is_ok(), "the directory is not kept locked: {again:?}");
}

/// Goal: a lock on a file that was removed in the meantime excludes no other process, so it is not used.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_state_file_that_is_removed_while_it_is_waited_for_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let (node, other) = (open(dir.path()), open(dir.path()));
    assert_eq!(ask(&node, &acquire("x", 1, 5, LONG, false)).await, "raised");
    assert_eq!(ask(&node, &release("x", 1)).await, "done");
    let path = dir.path().join("x.lock");
    let busy = std::fs::File::open(&path).unwrap();
    busy.lock().unwrap();
    let waiting = tokio::spawn(async move { ask(&node, &acquire("x", 2, 6, LONG, false)).await });
    let both_have_it_open = async {
        while descriptors_of(&path) < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SURELY, both_have_it_open).await.expect("the node waits for the file");
    std::fs::remove_file(&path).unwrap();
    busy.unlock().unwrap();
    assert_eq!(waiting.await.unwrap(), "raised");
    assert_eq!(ask(&other, &acquire("x", 3, 7, LONG, false)).await, "taken");
}

/// How many descriptors of this process lead to `path`.
#[cfg(target_os = "linux")]
fn descriptors_of(path: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|target| target == path)).count()
}

/// Goal: a program that forks at any moment does not keep a file locked through its child.
#[tokio::test]
async fn a_descriptor_that_a_child_inherited_excludes_no_process() {
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
    // One more than fits, because the thread has taken one.
    for _ in 0..=worker::MAX_WAITING + 1 {
        crate::quorum::round::send_without_reply(
            &nodes,
            NodeSet::first(1),
            Command::Inspect { name: name("y") },
        );
    }
    assert!(inspect(&node, "y").await.contains("is full"));
    crate::quorum::round::send_without_reply(&nodes, NodeSet::first(1), release("x", 1));
    drop(kept);
    until(&node, "free, counter 5").await;
}

/// One file that was spoilt must not hide all the others.
#[tokio::test]
async fn a_damaged_file_is_left_out_of_the_list_and_the_list_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let node = open(dir.path());
    ask(&node, &acquire("x", 1, 5, LONG, false)).await;
    assert!(node.names().await.unwrap().complete);
    std::fs::write(dir.path().join("bad.lock"), [7; 12 * 1024]).unwrap();
    let names = node.names().await.unwrap();
    assert_eq!((names.known, names.complete), (vec![name("x")], false));
}
