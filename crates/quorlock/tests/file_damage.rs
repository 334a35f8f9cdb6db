//! What others do to the directory of a file node: no lock is granted twice, and nothing hangs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use quorlock::{AcquireError, Locker};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::timeout;

/// How long a test waits for what must happen, on a busy machine.
const SURELY: Duration = Duration::from_secs(60);

fn locker(dir: &Path) -> Locker {
    let url = format!("file:{}", dir.display());
    // Generous, as the disk of a test machine is shared with everything else that runs there.
    Locker::builder().nodes([url]).node_timeout(Duration::from_secs(2)).build().unwrap()
}

async fn refusal(locker: &Locker, name: &str) -> String {
    let lock = locker.named(name).unwrap();
    let refused = timeout(SURELY, lock.try_acquire()).await.expect("an answer");
    match refused {
        Err(error @ AcquireError::NoQuorum { .. }) => error.to_string(),
        other => panic!("{name}: {other:?}"),
    }
}

/// Goal: emptying the file of a held lock does not free it.
#[tokio::test]
async fn a_state_file_that_was_cut_short_is_damaged_and_not_new() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (locker(dir.path()), locker(dir.path()));
    let guard = one.named("x").unwrap().watchdog(false).acquire().await.unwrap();
    let path = dir.path().join("x.lock");
    let intact = std::fs::read(&path).unwrap();
    for length in [0, 1, 60, 96, 4096, 8192, intact.len() - 1] {
        std::fs::write(&path, &intact[..length]).unwrap();
        let refused = refusal(&other, "x").await;
        assert!(refused.contains("x.lock") && refused.contains("cut short"), "{length}: {refused}");
        assert!(other.named("x").unwrap().inspect().await.is_err(), "{length} bytes are not a free lock");
        assert!(!other.list().await.unwrap().complete, "{length} bytes");
    }
    std::fs::write(&path, vec![0; intact.len()]).unwrap();
    assert!(refusal(&other, "x").await.contains("no valid state"));
    std::fs::write(&path, &intact).unwrap();
    let refused = other.named("x").unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::Held { .. })), "{refused:?}");
    guard.extend().await.unwrap();
}

/// Puts something else where the state file of a name would be.
struct Strange {
    path: PathBuf,
    fifo: bool,
}

impl Strange {
    /// Links lead to the state file of the same name in `elsewhere`.
    fn put(dir: &Path, elsewhere: &Path, what: &str) -> Self {
        let path = dir.join(format!("{what}.lock"));
        let other = elsewhere.join(format!("{what}.lock"));
        match what {
            "pipe" => mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap(),
            "socket" => drop(std::os::unix::net::UnixListener::bind(&path).unwrap()),
            "directory" => std::fs::create_dir(&path).unwrap(),
            "symlink" => symlink(&other, &path).unwrap(),
            "dangling" => symlink(dir.join("nowhere.lock"), &path).unwrap(),
            "hardlink" => std::fs::hard_link(&other, &path).unwrap(),
            _ => unreachable!(),
        }
        Self { path, fifo: what == "pipe" }
    }
}

impl Drop for Strange {
    fn drop(&mut self) {
        if self.fifo {
            // Frees a thread that waits for a writer, so that a test that fails does not hang.
            drop(rustix::fs::open(&self.path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()));
        }
        let _ = std::fs::remove_file(&self.path).or_else(|_| std::fs::remove_dir(&self.path));
    }
}

/// Goal: only a regular file with one name is a state file; what else is found there is refused at once and harms no other
/// lock.
#[tokio::test]
async fn what_is_no_plain_file_is_refused_and_blocks_nothing() {
    for what in ["pipe", "socket", "directory", "symlink", "dangling", "hardlink"] {
        let dir = tempfile::tempdir().unwrap();
        let locker = locker(dir.path());
        drop(locker.named("other").unwrap().acquire().await.unwrap());
        let elsewhere = tempfile::tempdir().unwrap();
        drop(self::locker(elsewhere.path()).named(what).unwrap().acquire().await.unwrap());
        let strange = Strange::put(dir.path(), elsewhere.path(), what);
        let looked = timeout(SURELY, locker.list()).await.expect("a list").unwrap();
        assert!(!looked.complete, "{what}");
        let inspected = timeout(SURELY, locker.named(what).unwrap().inspect()).await.expect("an answer");
        assert!(inspected.is_err(), "{what}: {inspected:?}");
        let refused = refusal(&locker, what).await;
        assert!(refused.contains(strange.path.file_name().unwrap().to_str().unwrap()), "{refused}");
        assert!(strange.path.symlink_metadata().is_ok(), "{what} is left as it is");
        assert!(!dir.path().join("nowhere.lock").exists());
        drop(strange);
        drop(locker.named("other").unwrap().acquire().await.unwrap());
        drop(locker.named(what).unwrap().acquire().await.unwrap());
    }
}

/// Goal: a directory that disappeared with locks in it is not made again by the next process, which would find them free.
#[test]
fn a_directory_that_was_named_must_exist() {
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("locks");
    let url = format!("file:{}", dir.display());
    let refused = Locker::builder().nodes([url]).build().unwrap_err().to_string();
    let command = format!("install -d -m 700 {}", dir.display());
    assert!(refused.contains(&command), "{refused}");
    assert!(!dir.exists());
}

/// Goal: only file systems that are known to be local are trusted. Those of the kernel itself are on every machine.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_on_another_file_system_needs_the_word_of_the_user() {
    let build = |url: &str| Locker::builder().nodes([url]).build();
    let refused = build("file:/sys/kernel").unwrap_err().to_string();
    for word in ["/sys/kernel", "0x62656572", "?filesystem=any"] {
        assert!(refused.contains(word), "{refused}");
    }
    if rustix::process::geteuid().is_root() {
        build("file:/sys/kernel?filesystem=any").unwrap();
    } else {
        println!("the override was not tried: only root may write there");
    }
}
