//! Releases by a server's own compare-and-delete (`DELIFEQ` of Valkey 9), against real servers.

#![allow(clippy::unwrap_used)]

use quorlock::{Locker, ReleaseOutcome};
use quorlock_testkit::{Binary, Server, until};
use std::time::Duration;

/// A server that has such a command, or `None` where there is none to be had.
fn start() -> Option<Server> {
    if !Binary::Valkey.is_here() {
        eprintln!("skipped: no valkey-server here");
        return None;
    }
    let server = Server::builder().binary(Binary::Valkey).start();
    if server.cli(&["COMMAND", "INFO", "DELIFEQ"]).trim().is_empty() {
        eprintln!("skipped: this valkey-server has no DELIFEQ");
        return None;
    }
    Some(server)
}

fn locker(url: String) -> Locker {
    Locker::builder().nodes([url]).build().unwrap()
}

/// How often the server was asked to do `command`, and how often it refused.
fn calls(server: &Server, command: &str) -> (u64, u64) {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:")));
    let number = |field: &str| {
        line.into_iter()
            .flat_map(|line| line.trim().split(','))
            .find_map(|pair| pair.strip_prefix(field)?.strip_prefix('='))
            .map_or(0, |number| number.parse().unwrap())
    };
    (number("calls"), number("rejected_calls"))
}

async fn cycles(locker: &Locker, count: usize) {
    for _ in 0..count {
        let guard = locker.named("a").unwrap().acquire().await.unwrap();
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    }
}

#[tokio::test]
async fn releases_go_without_the_script_while_nobody_waits() {
    let Some(server) = start() else { return };
    cycles(&locker(server.url()), 20).await;
    let (scripts, (done, refused)) = (calls(&server, "evalsha").0, calls(&server, "delifeq"));
    // The first one sets the expiry of the counter.
    assert_eq!((scripts, done, refused), (1, 19, 0));
    assert_eq!(server.cli(&["EXISTS", "a"]).trim(), "0");
    let left: i64 = server.cli(&["TTL", "quorlock:fence:{a}"]).trim().parse().unwrap();
    assert!(left > 600_000, "the counter is kept for {left} s");
}

#[tokio::test]
async fn many_names_released_together_are_all_freed() {
    let Some(server) = start() else { return };
    let locker = locker(server.url());
    for _ in 0..3 {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..100 {
            let lock = locker.named(format!("n{number}")).unwrap();
            tasks.spawn(async move { lock.acquire().await.unwrap().release().await });
        }
        assert!(tasks.join_all().await.iter().all(|outcome| matches!(outcome, ReleaseOutcome::Released)));
    }
    assert!(calls(&server, "delifeq").0 >= 150, "{:?}", calls(&server, "delifeq"));
    assert_eq!(server.cli(&["KEYS", "n*"]).trim(), "");
}

/// Goal: every waiter gets its hint, even if the release was a plain command.
#[tokio::test]
async fn who_has_begun_to_wait_is_told_and_from_then_on_the_script_tells() {
    let Some(server) = start() else { return };
    let (ours, theirs) = (locker(server.url()), locker(server.url()));
    cycles(&ours, 2).await;
    let guard = ours.named("a").unwrap().acquire().await.unwrap();
    let waiter = tokio::spawn(async move { theirs.named("a").unwrap().acquire().await.unwrap() });
    until("it waits", Duration::from_secs(20), async || {
        server.cli(&["PUBSUB", "NUMSUB", "quorlock:free:{a}"]).lines().nth(1).unwrap().trim() != "0"
    })
    .await;
    assert_eq!(calls(&server, "publish").0, 0);
    let before = calls(&server, "delifeq").0;
    let _ = guard.release().await;
    let taken = waiter.await.unwrap();
    assert_eq!(calls(&server, "delifeq").0, before + 1);
    assert_eq!(calls(&server, "publish").0, 1, "the waiter was told");
    drop(taken);
    cycles(&ours, 3).await;
    assert!(calls(&server, "delifeq").0 <= before + 2, "others wait, so the script releases");
}

#[tokio::test]
async fn a_lock_whose_value_is_not_as_expected_is_released_and_one_of_others_is_not() {
    let Some(server) = start() else { return };
    let locker = locker(server.url());
    cycles(&locker, 2).await;

    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let value = format!("{} 1 somebody@else 1 1", guard.token());
    server.cli(&["SET", "a", &value, "KEEPTTL"]);
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    assert_eq!(server.cli(&["EXISTS", "a"]).trim(), "0");

    cycles(&locker, 1).await;
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    server.cli(&["SET", "a", "theirs"]);
    assert!(matches!(guard.release().await, ReleaseOutcome::AlreadyGone));
    assert_eq!(server.cli(&["GET", "a"]).trim(), "theirs");

    server.cli(&["DEL", "a"]);
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    server.cli(&["DEL", "a"]);
    server.cli(&["LPUSH", "a", "theirs"]);
    assert!(matches!(guard.release().await, ReleaseOutcome::AlreadyGone));
    assert_eq!(server.cli(&["LLEN", "a"]).trim(), "1");
}

/// The nodes store the label of the client that gave the lock away.
#[tokio::test]
async fn a_lock_that_was_adopted_is_released_by_the_script_in_one_step() {
    let Some(server) = start() else { return };
    let (giver, taker) = (locker(server.url()), locker(server.url()));
    cycles(&taker, 2).await;
    let before = calls(&server, "delifeq").0;
    let handle = giver.named("a").unwrap().acquire().await.unwrap().into_handle().await.unwrap();
    let adopted = taker.adopt(&handle).await.unwrap();
    assert!(matches!(adopted.release().await, ReleaseOutcome::Released));
    assert_eq!(calls(&server, "delifeq").0, before);
    assert_eq!(server.cli(&["EXISTS", "a"]).trim(), "0");
}

#[tokio::test]
async fn where_the_command_is_forbidden_the_script_does() {
    let Some(server) = start() else { return };
    server.cli(&["ACL", "SETUSER", "ann", "on", ">pw", "~*", "&*", "+@all", "-delifeq"]);
    cycles(&locker(server.url().replace("redis://", "redis://ann:pw@")), 10).await;
    let (done, refused) = calls(&server, "delifeq");
    assert_eq!((done, refused), (0, 1), "it is tried once");
    assert_eq!(server.cli(&["EXISTS", "a"]).trim(), "0");
}
