//! How long holds last, and what becomes of their sessions.

use super::*;

/// How many sessions the cluster has.
fn sessions(consul: &Consul) -> usize {
    consul.call("GET", "/v1/session/list", "").as_array().map_or(0, Vec::len)
}

/// The ttl of the session that holds `a`.
async fn session_ttl(consul: &Consul, store: &Store) -> String {
    let id = lock_of(store).await.unwrap().session;
    consul.call("GET", &format!("/v1/session/info/{id}"), "")[0]["TTL"].as_str().unwrap().to_owned()
}

/// Goal: nothing but its ttl ends a session: no health check, no delay, no machine that leaves.
#[tokio::test]
async fn a_session_depends_on_its_ttl_alone() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let store = store_of(&consul.url()).await;
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    let id = lock_of(&store).await.unwrap().session;
    let session = consul.call("GET", &format!("/v1/session/info/{id}"), "")[0].clone();
    assert_eq!(session["Node"], "quorlock", "{session}");
    assert_eq!(session["Behavior"], "delete", "{session}");
    assert_eq!(session["LockDelay"], 0, "{session}");
    assert_eq!(session["TTL"], "12500ms", "{session}");
    for checks in ["Checks", "NodeChecks", "ServiceChecks"] {
        assert!(session[checks].as_array().is_none_or(Vec::is_empty), "{session}");
    }
}

#[tokio::test]
async fn locks_share_a_session_which_ends_when_none_needs_it() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let node = node(&consul.url());
    let ttl = 30 * TTL;
    for holder in 1..=20 {
        let text = format!("n{holder}");
        assert_eq!(ask(&node, &acquire(&text, holder, 5, ttl, false)).await, "raised");
        if holder % 2 == 0 {
            assert_eq!(ask(&node, &release(&text, holder)).await, "done");
        }
    }
    assert_eq!(sessions(&consul), 1);
    drop(node);
    // A process that ends leaves the locks that it did not release.
    let store = store_of(&consul.url()).await;
    assert_eq!(store.held_names().await.unwrap().known.len(), 10);
    let other = self::node(&consul.url());
    ask(&other, &acquire("other", 1, 5, ttl, false)).await;
    ask(&other, &release("other", 1)).await;
    assert_eq!(sessions(&consul), 2);
    drop(other);
    until("its session is gone", SOON, async || sessions(&consul) == 1).await;
}

/// Goal: a hold that was given to a new session outlives the old one.
#[tokio::test]
async fn an_extension_outlives_the_session_that_it_had() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let store = store_of(&consul.url()).await;
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    let first = lock_of(&store).await.unwrap();
    let before = store.api.http.made();
    let extended = store.execute(&extend("a", 1, TTL, false)).await.unwrap();
    assert!(matches!(extended, Reply::Done(Done::Plain)), "{extended:?}");
    assert_eq!(lock_of(&store).await.unwrap().session, first.session, "it lasts long enough already");
    store.execute(&extend("a", 1, 6 * TTL, false)).await.unwrap();
    let second = lock_of(&store).await.unwrap();
    assert_ne!(second.session, first.session);
    assert_eq!(second.value, first.value);
    assert!(store.api.http.made() - before <= 5, "it need not be read");
    store.api.destroy_session(&first.session).await.unwrap();
    assert_eq!(lock_of(&store).await.unwrap(), second);
    let released = store.execute(&release("a", 1)).await.unwrap();
    assert!(matches!(released, Reply::Done(Done::Plain)), "{released:?}");
}

/// Goal: a process that knows only the token does not shorten a hold.
#[tokio::test]
async fn an_extension_by_another_process_never_shortens() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let (one, other) = (store_of(&consul.url()).await, store_of(&consul.url()).await);
    one.execute(&acquire("a", 1, 5, 30 * TTL, false)).await.unwrap();
    assert_eq!(session_ttl(&consul, &one).await, "375000ms");
    let first = lock_of(&one).await.unwrap().session;
    other.execute(&extend("a", 1, TTL, false)).await.unwrap();
    assert_eq!(session_ttl(&consul, &one).await, "375000ms");
    assert_ne!(lock_of(&one).await.unwrap().session, first);
    // The first one finds out that what it remembers is old.
    one.execute(&extend("a", 1, 60 * TTL, false)).await.unwrap();
    assert_eq!(session_ttl(&consul, &one).await, "750000ms");
    one.execute(&upgrade("a", 1, 9)).await.unwrap();
    assert_eq!(session_ttl(&consul, &one).await.len(), "750000ms".len(), "an upgrade does not shorten it");
    let released = one.execute(&release("a", 1)).await.unwrap();
    assert!(matches!(released, Reply::Done(Done::Plain)), "{released:?}");
}

/// A session that an operator destroyed takes its locks along; the next lock gets another one.
#[tokio::test]
async fn a_session_that_ended_is_replaced() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let store = store_of(&consul.url()).await;
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    let first = lock_of(&store).await.unwrap().session;
    store.api.destroy_session(&first).await.unwrap();
    let gone = store.execute(&extend("a", 1, TTL, false)).await.unwrap();
    assert!(matches!(gone, Reply::Denied(Denied::Gone)), "{gone:?}");
    let raised = store.execute(&acquire("a", 2, 6, TTL, false)).await.unwrap();
    assert!(matches!(raised, Reply::Done(Done::Raised)), "{raised:?}");
    assert_ne!(lock_of(&store).await.unwrap().session, first);
}

/// Goal: the lock of a client that died is free, after its session and not before, and its waiter is notified.
#[tokio::test]
async fn the_end_of_a_session_frees_its_locks_and_notifies() {
    if !Consul::is_here() {
        return;
    }
    let consul = Consul::start(1);
    let node = node(&consul.url());
    let start = std::time::Instant::now();
    ask(&node, &acquire("a", 1, 5, Duration::from_secs(1), false)).await;
    let wakeup = Wakeup::new();
    node.watch(&name("a"), &wakeup);
    assert!(inspect(&node, "a").await.starts_with("ann1"), "the watch came first");
    tokio::time::timeout(SOON, wakeup.notified()).await.expect("the end of a session notifies");
    assert!(start.elapsed() >= Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(inspect(&node, "a").await, "free, counter 5");
    eprintln!("a session of 10 s ended after {:?}", start.elapsed());
}
