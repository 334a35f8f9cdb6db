//! Servers that are gone, mute or back again.

use super::*;
use crate::node::WakeThreshold;
use crate::node::redis::protocol::resp::Value;
use crate::node::{Denied, Done};
use quorlock_core::NodeSet;
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;
use std::time::Instant;

#[tokio::test]
async fn a_dead_server_costs_nothing_and_is_announced_once() {
    let mut server = Server::start(&[]);
    server.kill();
    let diary = Diary::default();
    let node = connect(&server.url(), diary.observe(calm()));
    let error = cause(ask(&node, vote("a", 1, 7)).await);
    assert!(matches!(error, NodeError::Unreachable { .. }), "{error}");
    let start = Instant::now();
    for _ in 0..1000 {
        assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Failed(_)));
    }
    assert!(start.elapsed() < Duration::from_secs(1));
    server.run();
    until("the node is up", || node.health().trouble.is_none()).await;
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    assert_eq!(diary.count(|e| matches!(e, Event::NodeDown { .. })), 1);
    let up = |e: &Event| matches!(e, Event::NodeUp { version, .. } if version.starts_with("redis "));
    assert_eq!(diary.count(up), 1);
}

#[tokio::test]
async fn a_release_that_found_the_server_down_is_sent_when_it_is_back() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    assert!(matches!(ask(&node, vote("b", 1, 7)).await, Reply::Done(Done::Raised)));
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    let reply = ask(&node, release("a", 1)).await;
    assert!(matches!(reply, Reply::Failed(_)), "{reply:?}");
    server.run();
    until("the release arrives", || server.text("EXISTS a").as_deref() == Some("0")).await;
    assert_eq!(server.text("EXISTS b").unwrap(), "1");
}

#[tokio::test]
async fn a_connection_that_the_server_closes_is_replaced_without_an_event() {
    let server = Server::start(&[]);
    let diary = Diary::default();
    let node = connect(&server.url(), diary.observe(calm()));
    node.wait_connected().await;
    server.run_command("CLIENT KILL TYPE normal SKIPME yes");
    until("it votes again", || node.health().trouble.is_none()).await;
    let mut replies = Vec::new();
    for _ in 0..3 {
        replies.push(ask(&node, vote("a", 1, 7)).await);
    }
    assert!(replies.iter().any(|r| matches!(r, Reply::Done(_))), "{replies:?}");
    assert_eq!(diary.count(|e| matches!(e, Event::NodeDown { .. })), 0);
}

#[tokio::test]
async fn a_mute_server_is_given_up_and_its_late_acquires_are_undone() {
    let server = Server::start(&[]);
    let ctx = Context {
        node_timeout: Duration::from_millis(50),
        connect_timeout: Duration::from_millis(300),
        ..calm()
    };
    let node = connect(&server.url(), ctx);
    node.wait_connected().await;
    server.signal(Signal::STOP);
    let nodes: Nodes = [node.clone()];
    for number in 0..50 {
        let lock = format!("n{number}");
        let mut round = TestRound::send(
            &nodes,
            NodeSet::first(1),
            vote(&lock, 1, 7),
            Duration::from_millis(5),
            WakeThreshold::ONE,
        );
        let reply = round.next().await.unwrap().1;
        assert!(
            matches!(&reply, Reply::Failed(cause) if matches!(**cause, NodeError::Timeout { .. })),
            "{reply:?}"
        );
        post(&node, &release(&lock, 1));
    }
    until("it is given up", || node.health().trouble.is_some()).await;
    assert_eq!(node.health().queued, 0);
    server.signal(Signal::CONT);
    until("it is back", || node.health().trouble.is_none()).await;
    until("nothing is left", || {
        (0..50).all(|n| server.text(&format!("EXISTS n{n}")).as_deref() == Some("0"))
    })
    .await;
}

/// Goal: a server that never stops talking is given up like a mute one if it does not answer.
#[tokio::test]
async fn a_server_that_babbles_and_does_not_answer_is_given_up() {
    let server = Server::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let ctx = Context { node_timeout: Duration::from_millis(50), ..calm() };
    let node = connect(&babble_over(&server, &directory.path().join("socket")), ctx);
    // A vote that waits for the connection longer than a node timeout is not sent.
    node.wait_connected().await;
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    let error = cause(ask(&node, vote("b", 1, 7)).await);
    assert!(matches!(error, NodeError::Disconnected { .. }), "{error}");
}

/// Leads from `socket` to `server` until that has answered a vote; after that, it sends pushes without
/// end and meaning. Returns its URL.
fn babble_over(server: &Server, socket: &Path) -> String {
    let listener = UnixListener::bind(socket).unwrap();
    let mut server = UnixStream::connect(server.socket()).unwrap();
    thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut buffer = [0; 16 * 1024];
        loop {
            let asked = client.read(&mut buffer).unwrap();
            server.write_all(&buffer[..asked]).unwrap();
            let is_vote = buffer[..asked].windows(6).any(|word| word == b"\r\nNX\r\n");
            // Few answers come whole.
            let answered = server.read(&mut buffer).unwrap();
            client.write_all(&buffer[..answered]).unwrap();
            if is_vote {
                break;
            }
        }
        let babble = b">2\r\n+pong\r\n+pong\r\n".repeat(10_000);
        // Until it is given up.
        while client.write_all(&babble).is_ok() {}
    });
    format!("unix://{}", socket.display())
}

#[tokio::test]
async fn a_full_queue_fails_commands_and_still_takes_releases() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    node.wait_connected().await;
    server.signal(Signal::STOP);
    for _ in 0..crate::node::redis::link::state::QUEUE_LIMIT {
        post(&node, &inspect("a"));
    }
    let error = cause(ask(&node, inspect("a")).await);
    assert!(matches!(error, NodeError::QueueFull { .. }), "{error}");
    let queued = node.health().queued;
    post(&node, &release("a", 1));
    assert_eq!(node.health().queued, queued + 1);
    server.signal(Signal::CONT);
    until("all is answered", || node.health().queued == 0).await;
}

#[tokio::test]
async fn commands_that_waited_too_long_for_the_connection_are_not_sent() {
    let server = Server::start(&[]);
    let ctx = Context { node_timeout: Duration::from_millis(20), ..calm() };
    server.run_command(&format!("SET b {}", token(1)));
    server.signal(Signal::STOP);
    let node = connect(&server.url(), ctx);
    let nodes: Nodes = [node.clone()];
    let mut late =
        TestRound::send(&nodes, NodeSet::first(1), vote("a", 1, 7), NODE_TIMEOUT, WakeThreshold::ONE);
    let mut freed_unconfirmed =
        TestRound::send(&nodes, NodeSet::first(1), release("b", 1), NODE_TIMEOUT, WakeThreshold::ONE);
    tokio::time::sleep(Duration::from_millis(60)).await;
    server.signal(Signal::CONT);
    let reply = late.next().await.unwrap().1;
    assert!(
        matches!(&reply, Reply::Failed(cause) if matches!(**cause, NodeError::Timeout { .. })),
        "{reply:?}"
    );
    assert!(matches!(freed_unconfirmed.next().await.unwrap().1, Reply::Done(Done::Plain | Done::Unawaited)));
    assert!(
        matches!(ask(&node, inspect("a")).await, Reply::Done(Done::Seen(view)) if view.content == Content::Free)
    );
}

#[tokio::test]
async fn a_dropped_node_flushes_what_was_sent() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    for number in 0..200 {
        ask(&node, vote(&format!("n{number}"), 1, 7)).await;
    }
    for number in 0..200 {
        post(&node, &release(&format!("n{number}"), 1));
    }
    drop(node);
    until("all is released", || server.text("DBSIZE").as_deref() == Some("200")).await;
    until("the connection ends", || {
        let clients = server.text("CLIENT LIST").unwrap();
        !clients.contains("name=quorlock")
    })
    .await;
}

#[tokio::test]
async fn a_node_dropped_before_it_connected_still_sends() {
    let server = Server::start(&[]);
    server.run_command(&format!("SET a {}", token(1)));
    let node = connect(&server.url(), calm());
    post(&node, &release("a", 1));
    drop(node);
    until("it is released", || server.text("EXISTS a").as_deref() == Some("0")).await;
}

#[tokio::test]
async fn a_busy_server_is_reported_and_its_releases_follow() {
    let server = Server::start(&["--busy-reply-threshold", "20"]);
    let node = connect(&server.url(), calm());
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    let socket = server.socket();
    let blocker = thread::spawn(move || {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.write_all(b"EVAL \"while true do end\" 0\r\n").unwrap();
        let _ = stream.read(&mut [0; 64]);
    });
    until("it is busy", || matches!(server.run_command("PING"), Value::Error(_))).await;
    let error = cause(ask(&node, vote("b", 1, 7)).await);
    assert!(matches!(error, NodeError::Busy), "{error}");
    let error = cause(ask(&node, release("a", 1)).await);
    assert!(matches!(error, NodeError::Busy), "{error}");
    server.run_command("SCRIPT KILL");
    blocker.join().unwrap();
    until("the release is sent again", || server.text("EXISTS a").as_deref() == Some("0")).await;
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Denied(Denied::Gone)));
}

/// Goal: connections that break at any moment lose no answer and leave no lock behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_at_any_moment_lose_no_answer_and_no_release() {
    let server = Arc::new(Server::start(&[]));
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    let clients: Vec<_> = (0..50u8)
        .map(|client| {
            let node = node.clone();
            tokio::spawn(async move {
                let mut done = 0;
                for cycle in 0..200 {
                    let mut random = [client; 16];
                    random[0] = cycle;
                    let attempt =
                        Acquire { token: Token::from_random(random), ..acquire(&format!("n{client}"), 0, 7) };
                    let release = Command::Release {
                        name: attempt.name.clone(),
                        token: attempt.token,
                        quiet: false,
                        stored_after_token: None,
                        may_be_shared: false,
                        forced: false,
                    };
                    if let Reply::Done(_) = ask(&node, Command::Acquire(attempt)).await {
                        done += 1;
                    }
                    if cycle % 2 == 0 {
                        ask(&node, release).await;
                    } else {
                        post(&node, &release);
                    }
                    tokio::task::yield_now().await;
                }
                done
            })
        })
        .collect();
    for _ in 0..20 {
        server.run_command("CLIENT KILL TYPE normal SKIPME yes");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut done = 0;
    for client in clients {
        done += client.await.unwrap();
    }
    assert!(done > 0, "nothing worked at all");
    until("nothing is left", || {
        (0..50).all(|n| server.text(&format!("EXISTS n{n}")).as_deref() == Some("0"))
    })
    .await;
    assert_eq!(node.health().queued, 0);
}
