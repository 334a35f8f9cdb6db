//! Runtimes that end, and threads without one.

use crate::setting::{SOON, builder, fresh, secs};
use quorlock::ReleaseOutcome;
use quorlock_testkit::{Servers, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_can_be_dropped_on_a_thread_without_a_runtime() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    std::thread::spawn(move || drop(guard)).join().unwrap();
    for server in servers.iter() {
        until("it is released", SOON, async || server.cli(&["EXISTS", "a"]) == "0").await;
    }
}

/// Goal: `fn main` may end right after the guard. The runtime is shut down before its tasks have had a turn.
#[test]
fn a_guard_dropped_just_before_its_runtime_ends_still_releases() {
    let servers = Servers::start(3);
    for round in 0..20 {
        let mut kind = match round % 2 {
            0 => tokio::runtime::Builder::new_current_thread(),
            _ => tokio::runtime::Builder::new_multi_thread(),
        };
        let runtime = kind.enable_all().build().unwrap();
        runtime.block_on(async {
            let locker = fresh(&servers).await;
            drop(locker.named(format!("n{round}")).unwrap().acquire().await.unwrap());
        });
        drop(runtime);
    }
    quorlock_testkit::until_blocking("all are released", secs(2), || {
        servers.iter().all(|server| (0..20).all(|round| server.cli(&["EXISTS", &format!("n{round}")]) == "0"))
    });
}

#[test]
fn a_locker_can_be_used_from_one_runtime_after_another() {
    let servers = Servers::start(3);
    let locker = builder(&servers).build().unwrap();
    for round in 0..5 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            if round == 0 {
                quorlock_testkit::init_nodes(&locker).await;
            }
            let guard = locker.named("a").unwrap().acquire().await.unwrap();
            assert!(matches!(guard.release().await, ReleaseOutcome::Released));
        });
    }
}
