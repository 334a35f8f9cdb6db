//! Replies that are well formed, but shifted, repeated, in pieces or cut.

use crate::forger::behind_a_forger;
use crate::net::{self, NODE_TIMEOUT, kinds, release, until_granted};
use quorlock::{Guard, Locker, RestartGuard};
use quorlock_testkit::proxy::{Fault, Proxy};
use quorlock_testkit::{Server, Servers, until};
use std::sync::atomic::Ordering;
use tokio::task::JoinHandle;

/// Goal: once a reply cannot be one to its command, nothing that follows on that connection is believed.
#[tokio::test]
async fn a_reply_of_another_shape_ends_its_connection() {
    let (servers, forger, locker) = behind_a_forger().await;
    for shifted in [":1\r\n+OK\r\n", "+OK\r\n+OK\r\n", "+OK\r\n+OK\r\n:1\r\n", "*0\r\n:1\r\n"] {
        until_granted(&locker, "a").await;
        let before = connection(&servers[0]);
        forger.forge(shifted.as_bytes(), false);
        let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
        assert_eq!(kinds(&refused), ["protocol"], "{shifted:?}");
        until("another connection", net::SOON, async || connection(&servers[0]) != before).await;
    }
}

/// The number of the lock's connection, if there is one.
fn connection(server: &Server) -> Option<String> {
    let clients = server.cli(&["CLIENT", "LIST"]);
    let ours = clients.lines().find(|line| line.contains("name=quorlock"))?;
    ours.split(' ').next().map(str::to_owned)
}

/// Goal: answers are matched by their order, as the protocol has no numbers. A middlebox that repeats one shifts all that
/// follow; what is answered by the answer to another question must not count.
#[tokio::test]
async fn an_answer_that_comes_twice_counts_once() {
    let servers = Servers::start(1);
    let proxy = Proxy::start(servers[0].port()).await;
    let builder = Locker::builder().nodes([proxy.url()]).node_timeout(NODE_TIMEOUT);
    let locker = builder.restart_guard(RestartGuard::Strict).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    let (one, other) = (locker.named("one").unwrap(), locker.named("other").unwrap());
    servers[0].cli(&["SET", "other", "taken by somebody else"]);

    proxy.set(Fault::HoldReplies).await;
    let first = in_flight(&servers[0], async move { one.try_acquire().await }).await;
    let second = in_flight(&servers[0], async move { other.try_acquire().await }).await;
    proxy.set(Fault::DuplicateReplies).await;
    let held = first.await.unwrap().unwrap();
    let stolen = second.await.unwrap();
    assert!(stolen.is_err(), "granted by another lock's vote: {stolen:?}");

    proxy.set(Fault::Pass).await;
    servers[0].cli(&["DEL", "other"]);
    let gone = until_acquired(&locker, "other").await;
    servers[0].cli(&["DEL", "other"]);
    proxy.set(Fault::HoldReplies).await;
    let first = in_flight(&servers[0], async move { held.extend().await.map(drop) }).await;
    let second = in_flight(&servers[0], async move { gone.extend().await.map(drop) }).await;
    proxy.set(Fault::DuplicateReplies).await;
    assert!(first.await.unwrap().is_ok());
    let extended = second.await.unwrap();
    assert!(extended.is_err(), "extended by another lock's answer");
}

/// Goal: a reply without a request is not taken for the reply to the next request, although both are read together.
#[tokio::test]
async fn a_second_answer_is_none_to_the_next_question() {
    let (servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    servers[0].cli(&["SET", "other", "taken by somebody else"]);
    forger.forge("+OK\r\n:1\r\n".repeat(2).as_bytes(), false);
    // A task has its turn as soon as it is answered, the test itself only now and then.
    let asked = tokio::spawn(async move {
        let _held = locker.named("one").unwrap().try_acquire().await.unwrap();
        locker.named("other").unwrap().try_acquire().await
    });
    let stolen = asked.await.unwrap();
    assert!(stolen.is_err(), "granted by another lock's vote: {stolen:?}");
}

/// Goal: a yes counts however it comes: in two reads, or with something that the server says unasked before or within it.
#[tokio::test]
async fn a_yes_in_pieces_counts() {
    const YES: &[u8] = b"+OK\r\n:1\r\n";
    const PUSH: &[u8] = b">3\r\n+message\r\n+nobody\r\n+hears it\r\n";
    let (servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    let before = connection(&servers[0]);
    let whole: &[&[u8]] = &[PUSH, YES];
    let within: &[&[u8]] = &[&YES[..5], PUSH, &YES[5..]];
    let together = [whole, within].map(|parts| vec![parts.concat()]);
    let apart = [whole, within].map(|parts| parts.iter().map(|part| part.to_vec()).collect::<Vec<_>>());
    let cut = (1..YES.len()).map(|at| vec![YES[..at].to_vec(), YES[at..].to_vec()]);
    for pieces in cut.chain(together).chain(apart) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        forger.forge_pieces(&pieces, false);
        let held = locker.named("b").unwrap().try_acquire().await;
        assert!(forger.is_done(), "{pieces:?}");
        release(held.unwrap_or_else(|refused| panic!("{pieces:?}: {refused}"))).await;
    }
    assert_eq!(connection(&servers[0]), before);
}

/// Goal: half a yes is none, neither on its own connection nor on the next.
#[tokio::test]
async fn half_a_yes_is_forgotten_with_its_connection() {
    let (servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    let before = forger.connections.load(Ordering::SeqCst);
    forger.forge(b"+OK\r\n", true);
    let half = locker.named("half").unwrap().try_acquire().await;
    assert!(half.is_err(), "{half:?}");
    servers[0].cli(&["SET", "other", "taken by somebody else"]);
    until_granted(&locker, "a").await;
    assert!(locker.named("other").unwrap().try_acquire().await.is_err());
    assert_eq!(forger.connections.load(Ordering::SeqCst), before + 1);
}

/// Goal: every caller gets the reply that arrived, although the server closed the connection after it.
#[tokio::test]
async fn all_answers_before_the_end_of_a_connection_count() {
    const LOCKS: usize = 32;
    let (_servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    forger.forge("+OK\r\n:1\r\n".repeat(LOCKS).as_bytes(), true);
    let asked: Vec<_> = (0..LOCKS)
        .map(|number| {
            let lock = locker.named(format!("lock{number}")).unwrap();
            // Each is let go at once, so that something is written between the answers.
            tokio::spawn(async move { lock.try_acquire().await.map(drop) })
        })
        .collect();
    for answer in asked {
        assert!(answer.await.unwrap().is_ok());
    }
}

/// Starts `work`, and waits until the server has answered and the answer waits in the proxy, as a chunk of its own.
async fn in_flight<T: Send + 'static>(
    server: &Server,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let before = votes_and_scripts(server);
    let work = tokio::spawn(work);
    until("the server has executed it", net::SOON, async || votes_and_scripts(server) != before).await;
    tokio::time::sleep(NODE_TIMEOUT / 20).await;
    work
}

/// What the server reports about the commands of locks that it has executed.
fn votes_and_scripts(server: &Server) -> Vec<String> {
    let stats = server.cli(&["INFO", "commandstats"]);
    let ours = stats.lines().filter(|line| line.contains("_zadd:") || line.contains("_evalsha:"));
    ours.map(str::to_owned).collect()
}

async fn until_acquired(locker: &Locker, name: &str) -> Guard {
    let mut taken = None;
    until("it is granted", net::SOON, async || {
        taken = locker.named(name).unwrap().try_acquire().await.ok();
        taken.is_some()
    })
    .await;
    taken.unwrap()
}
