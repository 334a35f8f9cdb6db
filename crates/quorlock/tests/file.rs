//! The file node through the locker: one machine, many hands on one directory.
#![allow(clippy::unwrap_used)]

use quorlock::{AcquireError, ExtendError, LockHandle, Locker, LossReason, ReleaseOutcome, Token};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn locker(dir: &Path) -> Locker {
    let url = format!("file:{}", dir.display());
    // Generous, as the disk of a test machine is shared with everything else that runs there.
    Locker::builder().nodes([url]).node_timeout(Duration::from_secs(2)).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lockers_of_one_process_exclude_each_other_also_through_a_link_to_the_directory() {
    let base = tempfile::tempdir().unwrap();
    let (real, link) = (base.path().join("real"), base.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let lockers = [locker(&real), locker(&link), locker(&real.join("../real"))];
    let inside = Arc::new(AtomicUsize::new(0));
    let work = lockers.into_iter().map(|locker| {
        let inside = inside.clone();
        tokio::spawn(async move {
            for _ in 0..20 {
                let lock = locker.named("one").unwrap().wait_timeout(Duration::from_secs(60));
                let guard = lock.acquire().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(guard);
            }
        })
    });
    for worker in work.collect::<Vec<_>>() {
        worker.await.unwrap();
    }
}

#[tokio::test]
async fn names_that_only_look_alike_are_different_locks() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (locker(dir.path()), locker(dir.path()));
    let alike =
        ["Job", "job", "JOB", "caf\u{e9}", "cafe\u{301}", "job ", " job", "job.lock", "job%20", "./job"];
    let mut guards = Vec::new();
    for name in alike {
        guards.push(one.named(name).unwrap().try_acquire().await.unwrap());
    }
    for name in alike {
        let refused = other.named(name).unwrap().try_acquire().await;
        assert!(matches!(refused, Err(AcquireError::Held { .. })), "{name:?}");
    }
}

/// Goal: an operator who clears the directory under running programs makes them fail, not share.
#[tokio::test]
async fn a_directory_that_disappears_is_an_error_and_no_lock() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("locks");
    std::fs::create_dir(&dir).unwrap();
    let (one, other) = (locker(&dir), locker(&dir));
    let guard = one.named("a").unwrap().watchdog(false).acquire().await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    for locker in [&one, &other] {
        let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
        assert!(matches!(refused, AcquireError::NoQuorum { .. }), "{refused}");
        assert!(refused.to_string().contains("locks/a.lock"), "{refused}");
    }
    assert!(guard.extend().await.is_err());
    assert!(!dir.exists(), "what somebody removed is not made again");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_is_started_inherits_no_state_file() {
    let dir = tempfile::tempdir().unwrap();
    let locker = locker(dir.path());
    let done = Arc::new(AtomicUsize::new(0));
    let stop = done.clone();
    let busy = tokio::spawn(async move {
        for number in 0.. {
            if stop.load(Ordering::SeqCst) > 0 {
                return;
            }
            drop(locker.named(format!("n{}", number % 5)).unwrap().acquire().await.unwrap());
        }
    });
    for _ in 0..30 {
        let ls = tokio::process::Command::new("ls").args(["-l", "/proc/self/fd"]).output().await.unwrap();
        let open = String::from_utf8_lossy(&ls.stdout).into_owned();
        assert!(!open.contains(".lock") && !open.contains("inotify"), "{open}");
    }
    done.store(1, Ordering::SeqCst);
    busy.await.unwrap();
}

/// Goal: a lock that was given away no longer ends with the process that gave it.
#[tokio::test]
async fn a_handle_outlives_the_process_that_gave_it() {
    let dir = tempfile::tempdir().unwrap();
    let locker = locker(dir.path());
    let giver = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_giver", "--nocapture"])
        .env(GIVES, dir.path())
        .output()
        .unwrap();
    let outcome = String::from_utf8(giver.stdout).unwrap();
    let handle = outcome.lines().find_map(|line| line.strip_prefix("handle="));
    let handle: LockHandle = serde_json::from_str(handle.unwrap_or_else(|| panic!("{outcome}"))).unwrap();
    let lock = locker.named("x").unwrap();
    let refused = lock.try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "its process is gone: {refused:?}");
    let guard = locker.adopt(&handle).await.unwrap();
    assert_eq!(guard.fence(), handle.fence());
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    drop(lock.try_acquire().await.unwrap());
}

const GIVES: &str = "QUORLOCK_TEST_GIVES";

/// No test of its own: what [`a_handle_outlives_the_process_that_gave_it`] runs.
#[tokio::test]
async fn the_giver() {
    let Some(dir) = std::env::var_os(GIVES) else { return };
    let guard = locker(Path::new(&dir)).named("x").unwrap().acquire().await.unwrap();
    println!("\nhandle={}", serde_json::to_string(&guard.into_handle().await.unwrap()).unwrap());
}

const DIR: &str = "QUORLOCK_TEST_DIR";
const OUTLIVES: &str = "QUORLOCK_TEST_OUTLIVES";

/// Another process that holds the lock `x` of `dir` for a minute without extending it; and its token.
fn other_holder(dir: &Path, outlives: bool) -> (Child, Token) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_process", "--nocapture"])
        .env(DIR, dir)
        .env(OUTLIVES, outlives.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut outcome = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = outcome.find_map(|line| Some(line.split_once("token=")?.1.parse().unwrap())).unwrap();
    (child, told)
}

/// No test of its own: what [`other_holder`] runs.
#[tokio::test]
async fn the_other_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let outlives = std::env::var(OUTLIVES).unwrap() == "true";
    let lock = locker(Path::new(&dir)).named("x").unwrap().outlives_process(outlives).watchdog(false);
    let guard = lock.acquire().await.unwrap();
    println!("token={}", guard.token());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn a_lock_of_another_process_is_extended_by_its_token_and_stays_tied_to_that_process() {
    let dir = tempfile::tempdir().unwrap();
    let lock = locker(dir.path()).named("x").unwrap();
    let minute = Duration::from_secs(30);
    for outlives in [false, true] {
        let (child, token) = other_holder(dir.path(), outlives);
        let extended = lock.extend_token(token, minute).await.unwrap();
        assert!(extended.left > minute / 2 && extended.fence.is_some(), "{extended:?}");
        end(child);
        assert_eq!(lock.inspect().await.unwrap().is_held(), outlives, "as it was before");
        let again = lock.extend_token(token, minute).await;
        match again {
            Ok(_) => assert!(outlives),
            Err(ExtendError::Lost(lost)) => assert!(!outlives && lost.reason == LossReason::Taken),
            Err(other) => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_lock_of_another_process_is_released_by_its_token() {
    let dir = tempfile::tempdir().unwrap();
    let lock = locker(dir.path()).named("x").unwrap();
    for outlives in [false, true] {
        let (child, token) = other_holder(dir.path(), outlives);
        assert!(matches!(
            lock.force_release("0".repeat(32).parse().unwrap()).await,
            ReleaseOutcome::AlreadyGone
        ));
        assert!(lock.inspect().await.unwrap().is_held());
        assert!(matches!(lock.force_release(token).await, ReleaseOutcome::Released));
        assert!(matches!(lock.force_release(token).await, ReleaseOutcome::AlreadyGone));
        drop(lock.try_acquire().await.unwrap());
        end(child);
    }
}
