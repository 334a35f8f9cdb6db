//! What becomes of the connection that a node had before.

use super::*;
use crate::node::redis::SessionCell;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::tests::relay::{Fate, Relay};
use crate::node::{Denied, Done};
use std::os::unix::net::UnixStream;

/// The server's numbers for the connections of nodes.
fn numbers(server: &Server) -> Vec<u64> {
    let clients = server.text("CLIENT LIST").unwrap();
    let ours = clients.lines().filter(|client| client.contains(" name=quorlock "));
    ours.map(|client| client.split([' ', '=']).nth(1).unwrap().parse().unwrap()).collect()
}

/// Sends a vote that is held up, and closes the node's half of the connection.
async fn lose_a_vote(node: &Arc<RedisNode>, relay: &Relay) -> crate::node::redis::tests::relay::Former {
    relay.hold();
    let nodes: Nodes = [node.clone()];
    let mut vote =
        TestRound::send(&nodes, NodeSet::first(1), vote("a", 1, 7), NODE_TIMEOUT, WakeThreshold::ONE);
    until("the vote is held up", || relay.holds(b"\r\nNX\r\n")).await;
    let former = relay.hang_up();
    let error = cause(vote.next().await.unwrap().1);
    assert!(matches!(error, NodeError::Disconnected { .. }), "{error}");
    former
}

/// Goal: what is still on its way on a connection that the node has left never runs behind what undoes it.
#[tokio::test]
async fn a_vote_held_up_on_a_former_connection_never_runs_after_its_undo() {
    for ctx in [calm(), guarded()] {
        let server = Server::start(&[]);
        let relay = Relay::start(&server);
        let node = connect(&relay.url(), ctx);
        node.init().await.unwrap();
        let before = numbers(&server);
        let former = lose_a_vote(&node, &relay).await;
        assert!(matches!(ask(&node, release("a", 1)).await, Reply::Denied(Denied::Gone)));
        let after = numbers(&server);
        assert_eq!((before.len(), after.len()), (1, 1), "the former connection is gone");
        assert_ne!(before, after);
        assert_eq!(former.deliver(), Fate::Refused);
        assert_eq!(server.text("EXISTS a").unwrap(), "0");
        assert!(matches!(ask(&node, vote("a", 2, 8)).await, Reply::Done(Done::Raised)));
    }
}

/// Goal: a runtime that ends leaves no connection behind on which something may run late.
#[test]
fn the_connection_of_a_runtime_that_died_is_ended_by_that_of_the_next() {
    let server = Server::start(&[]);
    let relay = Relay::start(&server);
    let node = connect(&relay.url(), calm());
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let before = first.block_on(async {
        node.wait_connected().await;
        let before = numbers(&server);
        relay.hold();
        post(&node, &vote("a", 1, 7));
        until("the vote is held up", || relay.holds(b"\r\nNX\r\n")).await;
        before
    });
    let former = relay.hang_up();
    drop(first);
    runtime().block_on(async {
        assert!(matches!(ask(&node, release("a", 1)).await, Reply::Denied(Denied::Gone)));
        let after = numbers(&server);
        assert_eq!((before.len(), after.len()), (1, 1), "the former connection is gone");
        assert_eq!(former.deliver(), Fate::Refused);
        assert_eq!(server.text("EXISTS a").unwrap(), "0");
    });
}

/// Goal: a session that an optimistic write gave up is ended by the next, so that it commits nothing late.
#[tokio::test]
async fn a_session_is_ended_by_the_one_that_is_opened_after_it() {
    let server = Server::start(&[]);
    let mut sessions = SessionCell::new(&server.url().parse().unwrap(), calm()).unwrap();
    let mut former = sessions.connect().await.unwrap();
    assert!(matches!(former.call_raw(&["SET", "x", "1"]).await, Ok(Value::Okay)));
    let mut next = sessions.connect().await.unwrap();
    assert!(former.call_raw(&["SET", "x", "2"]).await.is_err());
    assert_eq!(next.call(&["GET", "x"]).await.unwrap().text(), Some(&b"1"[..]));
}

/// A client of its own, and the server's number for it.
struct Stranger {
    stream: UnixStream,
    number: u64,
}

impl Stranger {
    fn new(server: &Server) -> Self {
        let stream = UnixStream::connect(server.socket()).unwrap();
        stream.set_read_timeout(Some(NODE_TIMEOUT)).unwrap();
        let number = server::ask(&stream, "CLIENT ID").unwrap().number().unwrap();
        Self { stream, number }
    }
}

/// Goal: a server that restarted counts its clients anew; ours of before may be the number of another
/// client now.
#[tokio::test]
async fn a_client_that_has_our_number_of_an_earlier_run_is_left_alone() {
    let mut server = Server::start(&[]);
    let door = server.socket().with_file_name("door.sock");
    std::os::unix::fs::symlink(server.socket(), &door).unwrap();
    // Enough clients that our number is reached again before the node is back.
    for _ in 0..50 {
        Stranger::new(&server);
    }
    let node = connect(&format!("unix://{}", door.display()), calm());
    node.wait_connected().await;
    let [ours] = numbers(&server)[..] else { panic!("not one connection") };
    std::fs::remove_file(&door).unwrap();
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    server.run();
    let strangers: Vec<_> = std::iter::repeat_with(|| Stranger::new(&server)).take(200).collect();
    let same =
        strangers.iter().find(|stranger| stranger.number == ours).expect("our number is reached again");
    std::os::unix::fs::symlink(server.socket(), &door).unwrap();
    until("the node is back", || node.health().trouble.is_none()).await;
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    assert_eq!(server::ask(&same.stream, "CLIENT ID").and_then(|answer| answer.number()), Some(ours));
}

/// Goal: S7. A server that returned to a snapshot of its machine has the same run and the same epoch, and
/// has forgotten.
#[tokio::test]
async fn a_server_whose_numbers_of_connections_went_back_has_forgotten() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    let before = server.text("GET quorlock:epoch").unwrap();
    node.link.lock().last_connection.as_mut().unwrap().client = Some(1 << 40);
    server.run_command("CLIENT KILL TYPE normal");
    until("it is quarantined", || matches!(node.health().trouble, Some(NodeError::Quarantined { .. }))).await;
    assert_ne!(server.text("GET quorlock:epoch").unwrap(), before);
}
