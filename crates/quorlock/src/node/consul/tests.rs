//! The Consul node on real clusters.

mod faults;
mod sessions;

use super::*;
use crate::node::consul::client::api::Consistency;
use crate::node::consul::client::txn::{Content, Entry, Op, Outcome};
use crate::node::contract::{
    Losers, TTL, Unraised, acquire, ask, contract_without_time, extend, inspect, name, release, stamp,
};
use crate::node::contract_modes::{downgrade, leave, share, upgrade};
use crate::node::url::Place;
use crate::node::{Acquire, Denied, Done, Node, NodeUrl, Wakeup, open};
use quorlock_testkit::{Consul, until};
use std::time::Duration;

/// How long a loaded machine may take for something that takes a moment.
const SOON: Duration = Duration::from_secs(60);

fn node(url: &str) -> Arc<dyn Node> {
    node_within(url, Duration::from_secs(2))
}

/// A node with `node_timeout` to answer.
fn node_within(url: &str, node_timeout: Duration) -> Arc<dyn Node> {
    open(&url.parse().unwrap(), &Context { node_timeout, ..Context::default() }).unwrap()
}

async fn store_of(url: &str) -> Store {
    let Place::Cluster(cluster) = url.parse::<NodeUrl>().unwrap().place else { panic!("{url}") };
    let limit = Duration::from_secs(20);
    let limits = Limits { caller: limit, request: limit, longest_ttl: Duration::from_secs(30) };
    let store = store(&cluster, &Context::default(), limits).unwrap();
    store.check_agents().await.unwrap();
    store
}

fn acquire_of(command: &Command) -> &Acquire {
    let Command::Acquire(acquire) = command else { panic!("no acquire") };
    acquire
}

/// What the key of an exclusive holder of `a` holds.
async fn lock_of(store: &Store) -> Option<Entry> {
    store.load(&store.keys(&name("a")), Consistency::Verified).await.unwrap().lock
}

/// Another client, which writes without reading first.
async fn write(store: &Store, key: &str, value: &str) {
    let read = store.api.read(&[key], Consistency::Verified).await.unwrap();
    let index = read.iter().find(|entry| entry.key == key).map_or(0, |entry| entry.modify_index);
    let content = Content { key, value: value.as_bytes(), flags: 0 };
    let outcome = store.api.execute(&[Op::swap(content, index)]).await.unwrap();
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
}

#[tokio::test]
async fn the_consul_node_keeps_the_contract() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    // It sends many commands at once, none of which may be given up.
    contract_without_time(&node_within(&consul.url(), SOON), Losers::LeaveIt, Unraised::WithCounter).await;
}

/// Goal: S8. The answer to an acquire was not waited for, and it comes to the cluster after its release.
#[tokio::test]
async fn an_acquire_that_arrives_after_its_undo_takes_nothing() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let store = store_of(&consul.url()).await;
    let keys = store.keys(&name("a"));
    // The name was never used, then it was; a reader goes on.
    for (late, undo) in [
        (acquire("a", 1, 5, TTL, false), release("a", 1)),
        (acquire("a", 2, 6, TTL, false), release("a", 2)),
        (share("a", 3, 7), leave("a", 3)),
    ] {
        let state = store.load(&keys, Consistency::Default).await.unwrap();
        let session = store.sessions.get(TTL).await.unwrap();
        let taking = store.taking(&keys, acquire_of(&late), &state, &session);
        let undone = store.undo(&undo).await.unwrap();
        assert!(matches!(undone, Reply::Denied(Denied::Gone)), "{undone:?}");
        let arrived = store.api.execute(&taking.ops).await.unwrap();
        assert!(matches!(arrived, Outcome::Refused(_)), "{late:?}: {arrived:?}");
        let left = store.load(&keys, Consistency::Verified).await.unwrap();
        assert_eq!(left.holders(), 0, "{late:?}");
        // Without the undo it would have taken the name.
        let state = store.load(&keys, Consistency::Default).await.unwrap();
        let taking = store.taking(&keys, acquire_of(&late), &state, &session);
        assert!(matches!(store.api.execute(&taking.ops).await.unwrap(), Outcome::Done(_)));
        store.execute(&undo).await.unwrap();
    }
}

/// The answer to an upgrade was not waited for, and it comes to the cluster after its downgrade or release.
#[tokio::test]
async fn an_upgrade_between_whose_read_and_write_it_was_undone_fails() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (one, other) = (store_of(&consul.url()).await, store_of(&consul.url()).await);
    for undo in [downgrade("a", 1, (5, u64::MAX)), leave("a", 1)] {
        one.execute(&share("a", 1, 5)).await.unwrap();
        for pause in 0..40 {
            let up = upgrade("a", 1, 100);
            let (raised, _) = tokio::join!(one.execute(&up), async {
                tokio::time::sleep(Duration::from_micros(100 * pause)).await;
                other.execute(&undo).await.unwrap()
            });
            // Whichever came first, the undo is last if it was executed behind an upgrade that it found.
            let undone = other.execute(&undo).await.unwrap();
            assert!(matches!(undone, Reply::Done(_) | Reply::Denied(_)), "{raised:?} {undone:?}");
            assert!(lock_of(&one).await.is_none(), "after {pause}: {raised:?}");
        }
        one.execute(&leave("a", 1)).await.unwrap();
    }
}

#[tokio::test]
async fn two_upgraders_at_once_never_both_succeed() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (one, other) = (store_of(&consul.url()).await, store_of(&consul.url()).await);
    let is_raised = |reply: Reply| matches!(reply, Reply::Done(_));
    for round in 0..20_u64 {
        let fence = 10 * round + 10;
        one.execute(&share("a", 1, fence)).await.unwrap();
        other.execute(&share("a", 2, fence + 1)).await.unwrap();
        let both = (upgrade("a", 1, fence + 2), upgrade("a", 2, fence + 3));
        let (first, second) = tokio::join!(one.execute(&both.0), other.execute(&both.1));
        assert!(!is_raised(first.unwrap()) && !is_raised(second.unwrap()), "both share it");
        // The second gives up its hold and comes back while the first upgrades.
        let (first, second) = tokio::join!(one.execute(&both.0), async {
            tokio::time::sleep(Duration::from_micros(200 * round)).await;
            other.execute(&leave("a", 2)).await.unwrap();
            other.execute(&share("a", 3, fence + 4)).await.unwrap();
            other.execute(&upgrade("a", 3, fence + 5)).await
        });
        let raised = usize::from(is_raised(first.unwrap())) + usize::from(is_raised(second.unwrap()));
        assert!(raised <= 1, "in round {round}");
        assert_eq!(lock_of(&one).await.is_some(), raised == 1, "in round {round}");
        one.execute(&leave("a", 1)).await.unwrap();
        other.execute(&leave("a", 3)).await.unwrap();
    }
}

/// Another process takes the lock away while its holder extends it.
#[tokio::test]
async fn an_extension_brings_nothing_back_that_was_released() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (holder, other) = (store_of(&consul.url()).await, store_of(&consul.url()).await);
    for round in 0..40 {
        holder.execute(&acquire("a", round, 5 + u64::from(round), TTL, false)).await.unwrap();
        let (extension, taken) = (extend("a", round, 2 * TTL, false), release("a", round));
        let (_, released) = tokio::join!(holder.execute(&extension), async {
            tokio::time::sleep(Duration::from_micros(100 * u64::from(round))).await;
            other.execute(&taken).await.unwrap()
        });
        assert!(matches!(released, Reply::Done(_)), "{released:?}");
        assert_eq!(lock_of(&holder).await, None, "in round {round}");
        let again = holder.execute(&extension).await.unwrap();
        assert!(matches!(again, Reply::Denied(Denied::Gone)), "{again:?}");
    }
}

#[tokio::test]
async fn names_of_two_prefixes_are_apart_and_listed_apart() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (one, other) = (node(&consul.url()), node(&format!("{}/team", consul.url())));
    assert_eq!(ask(&one, &acquire("a/b", 1, 5, TTL, false)).await, "raised");
    assert_eq!(ask(&other, &acquire("a/b", 2, 4, TTL, false)).await, "raised");
    assert_eq!(ask(&other, &share("größe 50%", 2, 4)).await, "raised");
    assert_eq!(ask(&other, &acquire("free", 2, 4, TTL, false)).await, "raised");
    assert_eq!(ask(&other, &release("free", 2)).await, "done");
    assert_eq!(one.names().await.unwrap(), Names::new([name("a/b")]));
    assert_eq!(other.names().await.unwrap(), Names::new([name("a/b"), name("größe 50%")]));
}

#[tokio::test]
async fn what_others_wrote_is_foreign_and_stays() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (node, store) = (node(&consul.url()), store_of(&consul.url()).await);
    write(&store, "quorlock/lock/a/lock", "mine").await;
    assert_eq!(inspect(&node, "a").await, "foreign mine");
    assert_eq!(ask(&node, &acquire("a", 1, 5, TTL, false)).await, "taken");
    assert_eq!(ask(&node, &release("a", 1)).await, "taken");
    write(&store, "quorlock/lock/b/record", "zz").await;
    let failed = ask(&node, &acquire("b", 1, 5, TTL, false)).await;
    assert!(failed.contains("quorlock/lock/b/record"), "{failed}");
}

/// Goal: an uncontended cycle costs two requests, as few as possible.
#[tokio::test]
async fn a_lock_that_no_other_client_uses_costs_two_requests() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let store = store_of(&consul.url()).await;
    let mut made = Vec::new();
    for round in 1..=4 {
        let before = store.api.http.made();
        let reply = store.execute(&acquire("a", round, 10 + u64::from(round), TTL, false)).await.unwrap();
        assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
        store.execute(&release("a", round)).await.unwrap();
        made.push(store.api.http.made() - before);
    }
    assert_eq!(made[1..], [2, 2, 2], "after the first one: {made:?}");
}

/// Goal: a record that a client remembers does not hide a reader, a writer or a higher counter of another one.
#[tokio::test]
async fn a_remembered_record_that_is_old_is_read_again() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (one, other) = (store_of(&consul.url()).await, store_of(&consul.url()).await);
    let warm_up = async |by: u8, fence| {
        one.execute(&acquire("a", by, fence, TTL, false)).await.unwrap();
        one.execute(&release("a", by)).await.unwrap();
    };
    warm_up(1, 10).await;
    other.execute(&share("a", 2, 20)).await.unwrap();
    let refused = one.execute(&acquire("a", 3, 30, TTL, false)).await.unwrap();
    assert!(matches!(refused, Reply::Denied(Denied::Taken)), "{refused:?}");
    other.execute(&leave("a", 2)).await.unwrap();
    let unraised = one.execute(&acquire("a", 4, 15, TTL, false)).await.unwrap();
    let Reply::Done(Done::Unraised { counter: Some(counter) }) = unraised else { panic!("{unraised:?}") };
    assert_eq!(counter.get(), 20);
    let stamped = one.execute(&stamp("a", 4, 15)).await.unwrap();
    assert!(matches!(stamped, Reply::Done(Done::Stamped { to }) if to.get() == 21), "{stamped:?}");
    one.execute(&release("a", 4)).await.unwrap();
}

/// Goal: counters of names that nobody uses do not pile up, and no other record is removed.
#[tokio::test]
async fn only_idle_records_are_removed() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let store = store_of(&consul.url()).await;
    for (text, holder) in [("idle", 1), ("held", 2), ("read", 3)] {
        store.execute(&share(text, holder, 5)).await.unwrap();
    }
    store.execute(&leave("idle", 1)).await.unwrap();
    let all = consul.keys("quorlock/lock/");
    let now = store.clock.wall().as_micros() / 1_000_000;
    assert_eq!(store.sweeper.remove_idle(&all, now + 14 * 86_400).await.unwrap(), 0, "not yet");
    assert_eq!(store.sweeper.remove_idle(&all, now + 16 * 86_400).await.unwrap(), 1);
    let left = consul.keys("quorlock/lock/");
    assert!(!left.iter().any(|key| key.contains("idle")) && left.len() == all.len() - 1, "{left:?}");
    // A sweep by the clocks removes nothing, and is made once a day.
    assert_eq!(store.sweeper.sweep().await.unwrap(), 0);
    assert!(consul.keys("quorlock/").contains(&"quorlock/swept".to_owned()));
}
