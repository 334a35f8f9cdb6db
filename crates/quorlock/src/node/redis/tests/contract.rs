//! The contract of all nodes, on every kind of server, with the restart guard and without it.

use super::*;
use crate::node::contract::{Losers, Unraised, contract_without_time};
use crate::node::contract_modes::a_repair_makes_a_hold_exclusive_where_its_upgrade_was_missed;
use crate::node::{Denied, Done, Tie};
use quorlock_testkit::Binary;

async fn keeps_the_contract(binary: Binary) {
    if !binary.is_here() {
        return;
    }
    for ctx in [calm(), guarded()] {
        let server = quorlock_testkit::Server::builder().binary(binary).start();
        let node = connect(&server.url(), ctx);
        node.init().await.unwrap();
        let node: Arc<dyn Node> = node;
        contract_without_time(&node, Losers::Raise, Unraised::Alone).await;
        a_repair_makes_a_hold_exclusive_where_its_upgrade_was_missed(&node).await;
    }
}

#[tokio::test]
async fn a_redis_server_keeps_the_contract() {
    keeps_the_contract(Binary::Redis).await;
}

#[tokio::test]
async fn a_valkey_server_keeps_the_contract() {
    keeps_the_contract(Binary::Valkey).await;
}

/// Goal: the part of the contract about time, by the server's own clock.
#[tokio::test]
async fn time_ends_a_hold() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let ttl = Duration::from_millis(200);
    let hold = Command::Acquire(Acquire { ttl, ..acquire("a", 1, 5) });
    assert!(matches!(ask(&node, hold).await, Reply::Done(Done::Raised)));
    until("the hold ends", || server.text("EXISTS a").as_deref() == Some("0")).await;
    let extend = Command::Extend {
        name: name("a"),
        token: token(1),
        ttl: NODE_TIMEOUT,
        tie: Tie::Loose,
        mode: quorlock_core::Mode::Exclusive,
        may_be_shared: false,
    };
    assert!(matches!(ask(&node, extend).await, Reply::Denied(Denied::Gone)), "what is over stays over");
    assert!(matches!(ask(&node, vote("a", 2, 6)).await, Reply::Done(Done::Raised)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Denied(Denied::Taken)));
}
