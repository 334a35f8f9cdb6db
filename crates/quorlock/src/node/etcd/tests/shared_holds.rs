//! Shared holds, upgrades and downgrades on real clusters.

use super::*;
use crate::node::contract_modes::{downgrade, leave, share, upgrade};

fn with_ttl(command: Command, ttl: Duration) -> Command {
    let Command::Acquire(acquire) = command else { panic!("no acquire") };
    Command::Acquire(crate::node::Acquire { ttl, ..acquire })
}

/// What `command` would store.
fn value(command: &Command) -> Vec<u8> {
    let Command::Acquire(acquire) = command else { panic!("no acquire") };
    acquire.value().into_bytes()
}

/// The key of the shared hold of a client on `a`.
fn shared(store: &Store, holder: u8) -> Vec<u8> {
    store.keys(&name("a")).hold(Mode::Shared, &token(holder))
}

/// Goal: S8. The answer to a shared acquire was lost, and it comes to the cluster after its release.
#[tokio::test]
async fn a_shared_acquire_that_arrives_after_it_was_undone_leaves_nothing() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.execute(&share("a", 2, 4)).await.unwrap();
    let reply = store.undo(&leave("a", 1)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Gone)), "{reply:?}");
    let reply = store.execute(&share("a", 1, 5)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
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
        let holds = [1, 3].map(|holder| held(&one, holder));
        let held = stored(&one, &holds[0]).await.or(stored(&one, &holds[1]).await);
        assert_eq!(held.is_some(), raised == 1, "in round {round}");
        one.execute(&leave("a", 1)).await.unwrap();
        other.execute(&leave("a", 3)).await.unwrap();
    }
}

/// Goal: whatever comes between the read and the write of an upgrade, no reader and no writer hold a name at
/// once.
#[tokio::test]
async fn a_reader_that_comes_between_look_and_upgrade_stays() {
    let etcd = Arc::new(Etcd::start(1));
    let direct = store(&etcd.url());
    direct.execute(&with_ttl(share("a", 1, 5), 30 * TTL)).await.unwrap();
    let url = etcd.url();
    let meddle = move || {
        blocking(async move {
            store(&url).execute(&share("a", 2, 7)).await.unwrap();
        });
    };
    let store = store(&meddled(&etcd, meddle).await);
    let reply = store.execute(&upgrade("a", 1, 9)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    assert_eq!(stored(&direct, &shared(&direct, 2)).await.unwrap().value, value(&share("a", 2, 7)));
    assert_eq!(stored(&direct, &shared(&direct, 1)).await.unwrap().value, value(&share("a", 1, 5)));
    assert_eq!(stored(&direct, &held(&direct, 1)).await, None);
}

/// The answer to an upgrade was not waited for, and it comes to the cluster after its downgrade.
#[tokio::test]
async fn a_downgrade_ends_an_upgrade_that_is_still_on_its_way() {
    let etcd = Etcd::start(1);
    let direct = store(&etcd.url());
    direct.execute(&share("a", 1, 5)).await.unwrap();
    let url = etcd.url();
    let undo = move || {
        blocking(async move {
            let reply = store(&url).execute(&downgrade("a", 1, (5, u64::MAX))).await.unwrap();
            assert!(matches!(reply, Reply::Done(Done::Plain)), "{reply:?}");
        });
    };
    let store = store(&meddled(&etcd, undo).await);
    let reply = store.execute(&upgrade("a", 1, 9)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    assert_eq!(stored(&direct, &held(&direct, 1)).await, None);
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
    assert_eq!(ask(&node, &downgrade("a", 1, (5, u64::MAX))).await, "done", "as it is undone");
    assert_eq!(ask(&node, &leave("a", 1)).await, "done");
}

#[tokio::test]
async fn many_readers_are_listed_as_one_name_and_shown_up_to_the_bound() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let readers = (0..=crate::node::View::MAX_READERS as u8).map(|number| (number, share("a", number, 5)));
    let txn = readers.fold(txn::Txn::default(), |txn, (number, reader)| {
        txn.then(txn::put(&shared(&store, number), &value(&reader), 0))
    });
    store.api.execute(txn).await.unwrap();
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
        etcd.put("other", "");
        let Command::Release { token, quiet, stored_after_token, may_be_shared, forced, .. } =
            release("x", 1)
        else {
            unreachable!()
        };
        let freed = Command::Release { name: held, token, quiet, stored_after_token, may_be_shared, forced };
        store.execute(&freed).await.unwrap();
        let (wakeup, watched) = (Wakeup::new(), name(watched));
        let hints = Hints::to(&wakeup);
        tokio::select! {
            () = store.follow(&watched, since, hints) => panic!("it ended"),
            notified = tokio::time::timeout(SOON / 6, wakeup.notified()) => {
                notified.expect("it happened after the watch was asked for");
            }
        }
    }
}

/// Goal: one stream serves all waiters of a client, and each hears of its own name.
#[tokio::test]
async fn watches_of_many_names_are_apart() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let names: Vec<String> = (0..20).map(|number| format!("w{number}")).collect();
    let wakeups: Vec<Wakeup> = names.iter().map(|_| Wakeup::new()).collect();
    for (text, wakeup) in names.iter().zip(&wakeups) {
        assert_eq!(ask(&node, &acquire(text, 1, 5, 30 * TTL, false)).await, "raised");
        node.watch(&name(text), wakeup);
    }
    for number in [7, 3] {
        ask(&node, &release(&names[number], 1)).await;
        tokio::time::timeout(SOON, wakeups[number].notified()).await.expect("a release notifies");
    }
    node.unwatch(&name("w3"));
    for (number, wakeup) in wakeups.iter().enumerate() {
        let heard = tokio::time::timeout(Duration::from_millis(1), wakeup.notified()).await.is_ok();
        assert!(!heard, "w{number} was not released");
    }
}
