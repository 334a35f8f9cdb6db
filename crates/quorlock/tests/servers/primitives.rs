//! Shared locks, sets, semaphores and elections on names with other contents, and what refusals leave behind.

use crate::setting::{SOON, builder, causes, fresh};
use quorlock::{AcquireError, Holder, Locker, ReleaseOutcome, UpgradeError};
use quorlock_testkit::{Server, Servers, until};

/// Values of other programs, as commands that store them under `key`.
fn foreign(key: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["SET", key, "another program's"],
        vec!["RPUSH", key, "x"],
        vec!["HSET", key, "field", "x"],
        vec!["ZADD", key, "7", "x"],
    ]
}

/// The keys that are left on a server, without those that are kept for a while on purpose.
fn left(server: &Server) -> Vec<String> {
    let kept = ["quorlock:epoch", "quorlock:waiting", "quorlock:fence:", "quorlock:slots:"];
    let keys = server.cli(&["KEYS", "*"]);
    let keys = keys.lines().map(str::trim).filter(|key| !key.is_empty());
    keys.filter(|key| !kept.iter().any(|kept| key.starts_with(kept))).map(str::to_owned).collect()
}

async fn leaves_nothing(servers: &Servers, but: &[&str]) {
    until("nothing else is left on any server", SOON, async || {
        servers.iter().all(|server| left(server).iter().all(|key| but.contains(&key.as_str())))
    })
    .await;
}

/// Goal: whatever another program stores under a name, every kind of lock on it is refused with a holder that
/// is foreign, the value stays, and nothing else is left.
#[tokio::test]
async fn a_foreign_value_refuses_every_kind_of_lock_and_stays() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    for store in foreign("x") {
        servers.iter().for_each(|server| drop(server.cli(&store)));
        let dump = servers[0].cli(&["DUMP", "x"]);
        let is_foreign =
            |refused: &AcquireError| matches!(refused, AcquireError::Held { holder: Holder::Foreign(_), .. });
        let lock = locker.named("x").unwrap();
        for refused in [
            lock.try_acquire().await.unwrap_err(),
            lock.shared().try_acquire().await.unwrap_err(),
            locker.election("x").unwrap().with(|lock| lock.max_attempts(1)).campaign("a").await.unwrap_err(),
        ] {
            assert!(is_foreign(&refused), "{store:?}: {refused}");
        }
        let refused = locker.all(["free", "x"]).unwrap().try_acquire().await.unwrap_err();
        let AcquireError::NamesHeld { held, .. } = &refused else { panic!("{store:?}: {refused}") };
        assert!(held.len() == 1 && matches!(held[0].holder, Holder::Foreign(_)), "{store:?}: {refused}");
        leaves_nothing(&servers, &["x"]).await;
        assert_eq!(servers[0].cli(&["DUMP", "x"]), dump, "{store:?}");
        servers.iter().for_each(|server| drop(server.cli(&["DEL", "x"])));
    }
    let all = locker.all(["free", "x"]).unwrap().try_acquire().await.unwrap();
    assert!(matches!(all.release().await, ReleaseOutcome::Released));
}

#[tokio::test]
async fn a_slot_with_a_foreign_value_is_taken() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    let semaphore = locker.semaphore("gpu", 2).unwrap();
    for store in foreign("quorlock:slot:gpu:0") {
        servers.iter().for_each(|server| drop(server.cli(&store)));
        let permit = semaphore.acquire().await.unwrap();
        assert_eq!(permit.slot(), 1, "{store:?}");
        let refused = semaphore.try_acquire().await.unwrap_err();
        assert!(matches!(refused, AcquireError::NoPermit { slots: 2, .. }), "{store:?}: {refused}");
        assert!(matches!(permit.release().await, ReleaseOutcome::Released));
        leaves_nothing(&servers, &["quorlock:slot:gpu:0"]).await;
        servers.iter().for_each(|server| drop(server.cli(&["DEL", "quorlock:slot:gpu:0"])));
    }
}

/// Goal: a record of slots that no client wrote is replaced, or refused as what it is. No number makes a
/// client ask for more slots than there can be.
#[tokio::test]
async fn a_record_of_slots_that_no_client_wrote_is_replaced_or_refused() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    let record = "quorlock:slots:{gpu}";
    for text in ["none", "", "0", "-3", "1025", "4294967295", "99999999999999999999", "2 x y", "2 3"] {
        servers.iter().for_each(|server| drop(server.cli(&["SET", record, text])));
        let permit = locker.semaphore("gpu", 2).unwrap().try_acquire().await;
        let permit = permit.unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(servers[0].cli(&["GET", record]).trim(), "2", "{text:?}");
        assert!(matches!(permit.release().await, ReleaseOutcome::Released));
    }
    servers.iter().for_each(|server| drop(server.cli(&["DEL", record])));
    servers.iter().for_each(|server| drop(server.cli(&["RPUSH", record, "2"])));
    let refused = locker.semaphore("gpu", 2).unwrap().try_acquire().await.unwrap_err();
    assert!(causes(refused).iter().all(|cause| cause.kind() == "wrong_type"));
    leaves_nothing(&servers, &[]).await;
}

/// Goal: a reader that the server cannot label is refused, and its name is free for others.
#[tokio::test]
async fn readers_whose_labels_cannot_be_stored_are_refused_and_leave_no_lock() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    let labels = "quorlock:readers:{x}";
    servers.iter().for_each(|server| drop(server.cli(&["SET", labels, "another program's"])));
    let refused = locker.named("x").unwrap().shared().try_acquire().await.unwrap_err();
    assert!(causes(refused).iter().all(|cause| cause.kind() == "wrong_type"));
    leaves_nothing(&servers, &[labels]).await;
    let guard = locker.named("x").unwrap().try_acquire().await.unwrap();
    assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    leaves_nothing(&servers, &[labels]).await;
}

#[tokio::test]
async fn refused_upgrades_sets_and_permits_leave_nothing_behind() {
    let servers = Servers::start(3);
    let (one, other) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let shared = |locker: &Locker| locker.named("r").unwrap().shared();
    let (first, second) = (shared(&one).acquire().await.unwrap(), shared(&other).acquire().await.unwrap());
    let (mine, theirs) = tokio::join!(first.try_upgrade(), second.try_upgrade());
    for refused in [mine, theirs] {
        assert!(matches!(refused, Err(UpgradeError::Shared { .. })), "{refused:?}");
    }
    let refused = other.all(["free", "r"]).unwrap().try_acquire().await;
    assert!(matches!(refused, Err(AcquireError::NamesHeld { .. })), "{refused:?}");
    let permit = one.semaphore("gpu", 1).unwrap().acquire().await.unwrap();
    for slots in [1, 2] {
        assert!(other.semaphore("gpu", slots).unwrap().try_acquire().await.is_err());
    }
    for guard in [first, second, permit.into_guard()] {
        assert!(matches!(guard.release().await, ReleaseOutcome::Released));
    }
    leaves_nothing(&servers, &[]).await;
}

/// Goal: a client whose number of slots was replaced while it held none learns that, although it had verified
/// the number before.
#[tokio::test]
async fn a_client_whose_number_of_slots_was_replaced_is_refused_soon() {
    let servers = Servers::start(3);
    let (one, other) = (fresh(&servers).await, builder(&servers).build().unwrap());
    let former = one.semaphore("gpu", 2).unwrap();
    assert!(matches!(former.acquire().await.unwrap().release().await, ReleaseOutcome::Released));
    let _permit = other.semaphore("gpu", 1).unwrap().acquire().await.unwrap();
    until("the former number is refused", SOON, async || {
        matches!(former.try_acquire().await, Err(AcquireError::SlotsDiffer { recorded: 1, .. }))
    })
    .await;
}
