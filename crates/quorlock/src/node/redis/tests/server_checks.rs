//! How a connected server is checked: whether it can still be a node, and whether it still answers.

use super::*;
use crate::node::redis::connection::activity::Activity;
use crate::node::redis::protocol::resp::Value;
use crate::node::{Done, Wakeup};

fn at(seconds: u64) -> Moment {
    Moment::from_boot(Duration::from_secs(seconds))
}

/// Goal: a server that begins to evict, or to follow another, while we are connected is given up by the
/// next commands.
#[tokio::test]
async fn a_server_that_can_no_longer_be_a_node_is_given_up() {
    for (change, kind) in
        [("CONFIG SET maxmemory-policy allkeys-lru", "evicts"), ("REPLICAOF 127.0.0.1 1", "replica")]
    {
        let server = Server::start(&[]);
        let clock = Arc::new(Ahead::default());
        let node = connect(&server.url(), Context { clock: clock.clone(), ..calm() });
        assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
        server.run_command(change);
        // The next command makes the node check, because its last check was long ago.
        clock.set(60);
        ask(&node, inspect("a")).await;
        until("it is given up", || node.health().trouble.is_some_and(|cause| cause.kind() == kind)).await;
    }
}

/// Goal: a waiter that gets nothing for long keeps its connection, and other clients still know that it
/// waits.
#[tokio::test]
async fn an_idle_connection_that_watches_is_kept_and_announces_again_that_it_waits() {
    let server = Server::start(&[]);
    let clock = Arc::new(Ahead::default());
    let node = connect(&server.url(), Context { clock: clock.clone(), ..calm() });
    node.wait_connected().await;
    node.watch(&name("a"), &Wakeup::new());
    until("it waits openly", || server.text("EXISTS quorlock:waiting").as_deref() == Some("1")).await;
    until("all is answered", || node.health().queued == 0).await;
    let number = || {
        let clients = server.text("CLIENT LIST").unwrap();
        let ours = clients.lines().find(|client| client.contains(" name=quorlock ")).unwrap();
        ours.split(' ').next().unwrap().to_owned()
    };
    let before = number();
    server.run_command("DEL quorlock:waiting");
    clock.set(600);
    until("it is announced again", || server.text("EXISTS quorlock:waiting").as_deref() == Some("1")).await;
    assert_eq!(number(), before, "another connection");
}

#[test]
fn the_last_reply_is_when_the_server_last_answered() {
    let mut watch = Activity::new(at(10));
    watch.probe = Some((3, at(12)));
    watch.answered(2, at(13));
    assert_eq!((watch.last_reply, watch.round_trip), (at(13), None));
    watch.answered(3, at(14));
    assert_eq!((watch.last_reply, watch.round_trip), (at(14), Some(Duration::from_secs(2))));
    assert!(watch.probe.is_none(), "the next command is timed anew");
}

/// A clock that goes on by ten seconds whenever it is read.
#[derive(Debug, Default)]
struct Hurried(AtomicU64);

impl crate::Clock for Hurried {
    fn now(&self) -> Moment {
        at(self.0.fetch_add(10, Ordering::Relaxed))
    }

    fn wall_time(&self) -> std::time::SystemTime {
        crate::SystemClock.wall_time()
    }
}

/// Goal: a server with very many keys does not keep a list waiting without end.
#[tokio::test]
async fn a_list_that_takes_too_long_is_cut_and_says_so() {
    let server = Server::start(&[]);
    let keys: String = (0..5000).map(|key| format!(" key:{key} 1")).collect();
    assert_eq!(server.run_command(&format!("MSET{keys}")), Value::Okay);
    assert!(connect(&server.url(), calm()).names().await.unwrap().complete);
    let hurried = Context { clock: Arc::new(Hurried::default()), ..calm() };
    assert!(!connect(&server.url(), hurried).names().await.unwrap().complete);
}

/// Goal: a server without commands for long is not taken for mute with the first command that it takes a
/// while to answer.
#[tokio::test]
async fn the_time_in_which_nothing_was_asked_does_not_count_as_silence() {
    let server = Server::start(&[]);
    let clock = Arc::new(Ahead::default());
    let node = connect(&server.url(), Context { clock: clock.clone(), ..calm() });
    ask(&node, inspect("a")).await;
    clock.set(600);
    server.signal(rustix::process::Signal::STOP);
    let slow = tokio::spawn({
        let node = node.clone();
        async move { ask(&node, inspect("a")).await }
    });
    // Longer than it takes the driver to check a connection that has answers pending, which leaves no
    // trace.
    tokio::time::sleep(Duration::from_millis(600)).await;
    server.signal(rustix::process::Signal::CONT);
    let reply = slow.await.unwrap();
    assert!(matches!(reply, Reply::Done(Done::Seen(_))), "{reply:?}");
}

/// Goal: a dropped node with a release for a server that stays away does not try for ever.
#[tokio::test]
async fn a_dropped_node_gives_up_releases_for_a_server_that_stays_away() {
    let mut server = Server::start(&[]);
    let ctx = Context { connect_timeout: Duration::from_millis(200), ..calm() };
    let node = connect(&server.url(), ctx);
    node.wait_connected().await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    post(&node, &release("a", 1));
    let link = Arc::downgrade(&node.link);
    drop(node);
    until("the driver ends", || link.strong_count() == 0).await;
}
