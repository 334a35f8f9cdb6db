//! Shared holds, upgrades and downgrades on real clusters.

use super::*;
use crate::node::contract_modes::{downgrade, leave, share};

fn with_ttl(command: Command, ttl: Duration) -> Command {
    let Command::Acquire(acquire) = command else { panic!("no acquire") };
    Command::Acquire(crate::node::Acquire { ttl, ..acquire })
}

/// What `command` would store.
fn value(command: &Command) -> Vec<u8> {
    let Command::Acquire(acquire) = command else { panic!("no acquire") };
    acquire.value().into_bytes()
}

async fn stored(store: &Store, key: &[u8]) -> Option<json::Entry> {
    store.api.read(key).await.unwrap()
}

/// The key of the shared hold of a client on `a`.
fn shared(store: &Store, holder: u8) -> Vec<u8> {
    store.keys(&name("a")).shared(&token(holder))
}

/// The answer to a shared acquire was not waited for, and it comes to the cluster after its release.
#[tokio::test]
async fn a_shared_acquire_that_is_still_on_its_way_when_it_was_undone_leaves_nothing() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.execute(&share("a", 2, 4)).await.unwrap();
    let lease = store.keys(&name("a")).lease(&token(1));
    store.api.grant(lease, TTL).await.unwrap();
    let reply = store.execute(&leave("a", 1)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Gone)), "{reply:?}");
    let late = json::put(&shared(&store, 1), &value(&share("a", 1, 5)), lease);
    let refused = store.api.execute(&json::Txn::default().then(late)).await.unwrap_err();
    assert!(refused.to_string().contains("lease not found"), "{refused}");
    assert_eq!(stored(&store, &shared(&store, 1)).await, None);
    assert!(stored(&store, &shared(&store, 2)).await.is_some(), "other readers go on");
}

#[tokio::test]
async fn a_reader_whose_lease_ended_is_gone_for_a_writer() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let wakeup = Wakeup::new();
    // Long enough for the watch to begin before it is over.
    assert_eq!(ask(&node, &with_ttl(share("a", 1, 5), Duration::from_secs(6))).await, "raised");
    assert_eq!(ask(&node, &acquire("a", 2, 6, TTL, false)).await, "taken");
    node.watch(&name("a"), &wakeup);
    assert!(inspect(&node, "a").await.starts_with("shared by ann1@web"), "the watch came first");
    tokio::time::timeout(SOON, wakeup.notified()).await.expect("the end of a reader's lease notifies");
    assert_eq!(ask(&node, &acquire("a", 3, 7, TTL, false)).await, "raised");
    node.unwatch(&name("a"));
}

/// Goal: each of two upgraders waits for the other one, so neither may have the lock.
#[tokio::test]
async fn two_upgraders_at_once_never_both_succeed() {
    let etcd = Etcd::start(1);
    let (one, other) = (store(&etcd.url()), store(&etcd.url()));
    let is_raised = |reply: Reply| matches!(reply, Reply::Done(_));
    for round in 0..40_u64 {
        let fence = 10 * round + 10;
        one.execute(&share("a", 1, fence)).await.unwrap();
        other.execute(&share("a", 2, fence + 1)).await.unwrap();
        let both = (upgrade("a", 1, fence + 2), upgrade("a", 2, fence + 3));
        let (first, second) = tokio::join!(one.execute(&both.0), other.execute(&both.1));
        assert!(!is_raised(first.unwrap()) && !is_raised(second.unwrap()), "both share it");
        // The second gives up its hold and comes back while the first upgrades.
        let (first, second) = tokio::join!(one.execute(&both.0), async {
            tokio::time::sleep(Duration::from_micros(100 * round)).await;
            other.execute(&leave("a", 2)).await.unwrap();
            other.execute(&share("a", 3, fence + 4)).await.unwrap();
            other.execute(&upgrade("a", 3, fence + 5)).await
        });
        let raised = usize::from(is_raised(first.unwrap())) + usize::from(is_raised(second.unwrap()));
        assert!(raised <= 1, "in round {round}");
        let held = stored(&one, &one.keys(&name("a")).lock).await;
        assert_eq!(held.is_some(), raised == 1, "in round {round}");
        one.execute(&leave("a", 1)).await.unwrap();
        other.execute(&leave("a", 3)).await.unwrap();
    }
}

/// Goal: whatever comes between the read and the write of a command, no reader and no writer hold a name
/// at once.
#[tokio::test]
async fn a_holder_that_comes_between_look_and_change_excludes_the_other_kind() {
    let (writer, reader) = (acquire("a", 2, 7, TTL, false), share("a", 2, 7));
    let reader_key = format!("quorlock/lock/a\t{}", token(2));
    let table = [
        (false, share("a", 1, 9), "quorlock/lock/a", value(&writer)),
        (false, share("a", 1, 9), "quorlock/writer/a", Vec::new()),
        (false, acquire("a", 1, 9, TTL, false), reader_key.as_str(), value(&reader)),
        (true, upgrade("a", 1, 9), reader_key.as_str(), value(&reader)),
        (true, upgrade("a", 1, 9), "quorlock/lock/a", value(&writer)),
    ];
    for (is_held, command, key, theirs) in table {
        let etcd = Arc::new(Etcd::start(1));
        let direct = store(&etcd.url());
        if is_held {
            direct.execute(&with_ttl(share("a", 1, 5), 30 * TTL)).await.unwrap();
        }
        let (there, text) = (etcd.clone(), String::from_utf8(theirs.clone()).unwrap());
        let at = key.to_owned();
        let store = store(&meddled(&etcd, move || write(&there, &at, &text)).await);
        let reply = store.execute(&command).await.unwrap();
        assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{command:?}: {reply:?}");
        assert_eq!(stored(&direct, key.as_bytes()).await.unwrap().value, theirs, "{command:?}");
        let ours = stored(&direct, &shared(&direct, 1)).await.map(|ours| ours.value);
        assert_eq!(ours, is_held.then(|| value(&share("a", 1, 5))), "as before: {command:?}");
        assert_eq!(store.was_refused(&name("a"), &token(1)), !is_held, "{command:?}");
        // That of the counter, and that of the hold.
        let leases_left = 1 + usize::from(is_held);
        until("the lease of the attempt is gone", SOON, async || leases(&etcd) == leases_left).await;
    }
}

/// The answer to an upgrade was not waited for, and it comes to the cluster after its downgrade.
#[tokio::test]
async fn a_downgrade_ends_an_upgrade_that_is_still_on_its_way() {
    let etcd = Etcd::start(1);
    let direct = store(&etcd.url());
    direct.execute(&share("a", 1, 5)).await.unwrap();
    let url = etcd.url();
    let undo = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply =
            runtime.block_on(async { store(&url).execute(&downgrade("a", 1, u64::MAX)).await.unwrap() });
        assert!(matches!(reply, Reply::Done(Done::Plain)), "{reply:?}");
    };
    let store = store(&meddled(&etcd, || std::thread::spawn(undo).join().unwrap()).await);
    let reply = store.execute(&upgrade("a", 1, 9)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    assert_eq!(stored(&direct, &direct.keys(&name("a")).lock).await, None);
    assert_eq!(stored(&direct, &shared(&direct, 1)).await.unwrap().value, value(&share("a", 1, 5)));
}

/// Goal: a client that asks for several names with one token releases those that it got.
#[tokio::test]
async fn a_refusal_of_one_name_says_nothing_about_the_others() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    ask(&node, &acquire("a", 2, 5, 30 * TTL, false)).await;
    assert_eq!(ask(&node, &acquire("a", 1, 6, 30 * TTL, false)).await, "taken");
    assert_eq!(ask(&node, &acquire("b", 1, 6, 30 * TTL, false)).await, "raised");
    assert_eq!(ask(&node, &release("a", 1)).await, "taken");
    assert_eq!(ask(&node, &release("b", 1)).await, "done");
    assert_eq!(inspect(&node, "b").await, "free, counter 6");
}

#[tokio::test]
async fn an_upgrade_that_was_refused_leaves_a_hold_that_can_be_released() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    ask(&node, &share("a", 1, 5)).await;
    ask(&node, &share("a", 2, 6)).await;
    assert_eq!(ask(&node, &upgrade("a", 1, 7)).await, "taken");
    assert_eq!(ask(&node, &downgrade("a", 1, u64::MAX)).await, "done", "as it is undone");
    assert_eq!(ask(&node, &leave("a", 1)).await, "done");
}

#[tokio::test]
async fn holds_and_hold_offs_leave_one_lease_each_and_none_when_they_are_over() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let hold_off = |ttl| Command::HoldOffReaders { name: name("a"), ttl };
    ask(&node, &with_ttl(share("a", 1, 5), 30 * TTL)).await;
    for _ in 0..3 {
        assert_eq!(ask(&node, &hold_off(TTL)).await, "done");
    }
    until("counter, hold and hold-off", Duration::from_secs(8), async || leases(&etcd) == 3).await;
    assert_eq!(ask(&node, &hold_off(Duration::ZERO)).await, "done");
    assert_eq!(ask(&node, &with_ttl(upgrade("a", 1, 6), 30 * TTL)).await, "raised");
    until("counter and hold", Duration::from_secs(8), async || leases(&etcd) == 2).await;
    assert_eq!(ask(&node, &downgrade("a", 1, u64::MAX)).await, "done");
    assert_eq!(leases(&etcd), 2, "it keeps its lease");
    assert_eq!(ask(&node, &leave("a", 1)).await, "done");
    until("the counter", SOON, async || leases(&etcd) == 1).await;
}

#[tokio::test]
async fn many_readers_are_listed_as_one_name_and_shown_up_to_the_bound() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let readers = (0..=crate::node::View::MAX_READERS as u8).map(|number| (number, share("a", number, 5)));
    let txn = readers.fold(json::Txn::default(), |txn, (number, reader)| {
        txn.then(json::put(&shared(&store, number), &value(&reader), 0))
    });
    store.api.execute(&txn).await.unwrap();
    assert_eq!(store.names().await.unwrap(), Names::new([name("a")]));
    let reply = store.execute(&Command::Inspect { name: name("a") }).await.unwrap();
    let Reply::Done(Done::Seen(view)) = reply else { panic!("{reply:?}") };
    let crate::node::Content::Shared(readers) = view.content else { panic!("{view:?}") };
    assert_eq!(readers.len(), crate::node::View::MAX_READERS);
}

/// Goal: readers are shown by the end of their holds, not by their beginning.
#[tokio::test]
async fn readers_that_end_first_are_shown_first() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    for (holder, ttls) in [(1, 3), (2, 1), (3, 2)] {
        ask(&node, &with_ttl(share("a", holder, u64::from(holder)), ttls * 10 * TTL)).await;
    }
    let shown = inspect(&node, "a").await;
    assert_eq!(shown, "shared by ann2@web fence 2, ann3@web fence 3, ann1@web fence 1 counter 3");
}

/// Goal: a release between the request of a watch and its beginning is a hint, too: a slot has another queue
/// than its semaphore.
#[tokio::test]
async fn a_watch_reports_what_happened_before_it_began() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let slot = Name::of_slot(&name("gpu"), 1);
    for (held, watched) in [(slot, "gpu"), (name("a"), "a")] {
        let Command::Acquire(permit) = acquire("x", 1, 5, TTL, false) else { unreachable!() };
        let permit = Command::Acquire(crate::node::Acquire { name: held.clone(), ..permit });
        store.execute(&permit).await.unwrap();
        let since = store.api.cluster.revision();
        write(&etcd, "other", "");
        let Command::Release { token, quiet, stored_after_token, may_be_shared, forced, .. } =
            release("x", 1)
        else {
            unreachable!()
        };
        let freed = Command::Release { name: held, token, quiet, stored_after_token, may_be_shared, forced };
        store.execute(&freed).await.unwrap();
        let (wakeup, watched) = (Wakeup::new(), name(watched));
        let watch = watch::Watch::begin(&store, &watched, since, SOON).await.unwrap();
        let notify = watch::notify(Some(watch), store.clone(), watched, wakeup.clone(), SOON);
        tokio::select! {
            () = notify => {}
            notified = tokio::time::timeout(SOON / 6, wakeup.notified()) => {
                notified.expect("it happened after the watch was asked for");
            }
        }
    }
}
