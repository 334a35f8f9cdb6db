//! The commands of an exclusive lock on a healthy server.

use super::*;
use crate::node::WakeThreshold;
use crate::node::redis::protocol::resp::Value;
use crate::node::{Denied, Done, Tie};
use quorlock_core::NodeSet;

#[tokio::test]
async fn a_free_name_is_voted_for_once() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let first = ask(&node, vote("a", 1, 1_763_240_000_000_001)).await;
    assert!(matches!(first, Reply::Done(Done::Raised)), "{first:?}");
    let second = ask(&node, vote("a", 2, 1_763_240_000_000_002)).await;
    assert!(matches!(second, Reply::Denied(Denied::Taken)), "{second:?}");
    let view = view(&node, "a").await;
    let Content::Lock(stored) = view.content else {
        panic!("{view:?}");
    };
    assert_eq!(stored.token, token(1));
    assert_eq!(stored.fence, Fence::new(1_763_240_000_000_001));
    assert_eq!(view.counter, Some(Fence::new(1_763_240_000_000_002)), "losers raise it, too");
    assert!(view.left.is_some_and(|left| left <= Duration::from_secs(20)));
}

#[tokio::test]
async fn a_counter_ahead_of_the_proposal_is_not_raised() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    ask(&node, vote("a", 1, 100)).await;
    ask(&node, release("a", 1)).await;
    let reply = ask(&node, vote("a", 2, 100)).await;
    assert!(matches!(reply, Reply::Done(Done::Unraised { counter: None })), "{reply:?}");
}

#[tokio::test]
async fn a_stamp_raises_above_the_counter_and_rewrites_the_fence() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let big = (1 << 53) - 10;
    ask(&node, vote("a", 1, big)).await;
    let stamp = |by, fence| Command::Stamp { name: name("a"), token: token(by), at_least: Fence::new(fence) };
    let stamped = |reply: Reply| {
        if let Reply::Done(Done::Stamped { to }) = reply { to.get() } else { panic!("{reply:?}") }
    };
    assert_eq!(stamped(ask(&node, stamp(1, 7)).await), big + 1, "strictly above what was there");
    assert_eq!(stamped(ask(&node, stamp(1, big + 4)).await), big + 4, "at least what was asked");
    assert!(matches!(ask(&node, stamp(2, big + 5)).await, Reply::Denied(Denied::Taken)));
    let view = view(&node, "a").await;
    assert_eq!(view.counter, Some(Fence::new(big + 4)));
    let Content::Lock(stored) = view.content else {
        panic!("no lock");
    };
    assert_eq!(stored.fence, Fence::new(big + 4));
    assert_eq!(stored.owner.reason.as_deref(), Some("testing"));
    assert!(view.left.is_some_and(|left| left > Duration::from_secs(10)));
    ask(&node, release("a", 1)).await;
    assert!(matches!(ask(&node, stamp(1, big + 6)).await, Reply::Denied(Denied::Gone)));
}

#[tokio::test]
async fn an_extend_lengthens_and_never_shortens() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    ask(&node, vote("a", 1, 1)).await;
    let extend = |by, seconds| Command::Extend {
        name: name("a"),
        token: token(by),
        ttl: Duration::from_secs(seconds),
        tie: Tie::Loose,
        mode: quorlock_core::Mode::Exclusive,
        may_be_shared: false,
    };
    assert!(matches!(ask(&node, extend(1, 1)).await, Reply::Done(Done::Plain)));
    assert!(view(&node, "a").await.left.unwrap() > Duration::from_secs(10));
    assert!(matches!(ask(&node, extend(1, 100)).await, Reply::Done(Done::Plain)));
    assert!(view(&node, "a").await.left.unwrap() > Duration::from_secs(90));
    assert!(matches!(ask(&node, extend(2, 200)).await, Reply::Denied(Denied::Taken)));
    ask(&node, release("a", 1)).await;
    assert!(matches!(ask(&node, extend(1, 200)).await, Reply::Denied(Denied::Gone)));
}

#[tokio::test]
async fn a_release_frees_its_own_and_lets_the_counter_expire() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    ask(&node, vote("a", 1, 5)).await;
    assert!(matches!(ask(&node, release("a", 2)).await, Reply::Denied(Denied::Taken)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(Done::Plain | Done::Unawaited)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Denied(Denied::Gone)));
    assert_eq!(view(&node, "a").await.content, Content::Free);
    let left = server.run_command("TTL quorlock:fence:{a}").number().unwrap();
    assert!((604_000..=604_800).contains(&left), "{left}");
}

#[tokio::test]
async fn what_other_programs_stored_is_never_touched() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    server.run_command("SET text b3f1c2d4e5f60718");
    server.run_command("RPUSH list x");
    server.run_command(&format!("SET large {}", "x".repeat(200_000)));
    server.run_command(&format!("SET close {}", &token(1).as_str()[..31]));
    for lock in ["text", "list", "large", "close"] {
        let commands = [
            vote(lock, 1, 7),
            release(lock, 1),
            Command::Extend {
                name: name(lock),
                token: token(1),
                ttl: NODE_TIMEOUT,
                tie: Tie::Loose,
                mode: quorlock_core::Mode::Exclusive,
                may_be_shared: false,
            },
            Command::Stamp { name: name(lock), token: token(1), at_least: Fence::new(9) },
        ];
        for command in commands {
            let reply = ask(&node, command).await;
            assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{lock}: {reply:?}");
        }
        assert!(matches!(view(&node, lock).await.content, Content::Foreign(_)), "{lock}");
        assert_eq!(server.text(&format!("PTTL {lock}")).unwrap(), "-1");
    }
    assert_eq!(view(&node, "list").await.content, Content::Foreign("(another type)".into()));
}

#[tokio::test]
async fn a_spoilt_fence_key_fails_the_vote_although_the_name_was_taken() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    server.run_command("SET quorlock:fence:{a} x");
    let reply = ask(&node, vote("a", 1, 7)).await;
    assert!(matches!(cause(reply), NodeError::WrongType { .. }));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(Done::Plain | Done::Unawaited)));
}

#[tokio::test]
async fn many_commands_at_once_are_each_answered_by_their_own_reply() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    let nodes: Nodes = [node.clone()];
    let mut rounds = Vec::new();
    for number in 0..300 {
        let lock = format!("n{number}");
        rounds.push((
            TestRound::send(&nodes, NodeSet::first(1), vote(&lock, 1, 7), NODE_TIMEOUT, WakeThreshold::ONE),
            'v',
        ));
        if number % 3 == 0 {
            rounds.push((
                TestRound::send(
                    &nodes,
                    NodeSet::first(1),
                    release(&lock, 2),
                    NODE_TIMEOUT,
                    WakeThreshold::ONE,
                ),
                't',
            ));
        }
        rounds.push((
            TestRound::send(&nodes, NodeSet::first(1), release(&lock, 1), NODE_TIMEOUT, WakeThreshold::ONE),
            'r',
        ));
        if number % 7 == 0 {
            rounds.push((
                TestRound::send(
                    &nodes,
                    NodeSet::first(1),
                    release(&lock, 1),
                    NODE_TIMEOUT,
                    WakeThreshold::ONE,
                ),
                'g',
            ));
        }
    }
    for (mut round, kind) in rounds {
        let reply = round.next().await.unwrap().1;
        let fits = match kind {
            'v' => matches!(reply, Reply::Done(Done::Raised)),
            't' => matches!(reply, Reply::Denied(Denied::Taken)),
            'r' => matches!(reply, Reply::Done(Done::Plain | Done::Unawaited)),
            _ => matches!(reply, Reply::Denied(Denied::Gone)),
        };
        assert!(fits, "{kind}: {reply:?}");
    }
    assert_eq!(node.health().queued, 0);
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    for lock in ["a", "b", "c"] {
        ask(&node, vote(lock, 1, 7)).await;
    }
    server.run_command("SCRIPT FLUSH");
    let extend = Command::Extend {
        name: name("a"),
        token: token(1),
        ttl: NODE_TIMEOUT,
        tie: Tie::Loose,
        mode: quorlock_core::Mode::Exclusive,
        may_be_shared: false,
    };
    assert!(matches!(ask(&node, extend).await, Reply::Done(Done::Plain)));
    server.run_command("SCRIPT FLUSH");
    let nodes: Nodes = [node.clone()];
    let rounds = ["a", "b", "c"].map(|lock| {
        TestRound::send(&nodes, NodeSet::first(1), release(lock, 1), NODE_TIMEOUT, WakeThreshold::ONE)
    });
    for mut round in rounds {
        let reply = round.next().await.unwrap().1;
        assert!(matches!(reply, Reply::Done(Done::Plain | Done::Unawaited)), "{reply:?}");
    }
    server.run_command("SCRIPT FLUSH");
    node.init().await.unwrap();
}

#[tokio::test]
async fn any_command_can_be_called() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    assert_eq!(node.call(&[b"ECHO", b"hi"]).await.unwrap().text(), Some(&b"hi"[..]));
    assert!(matches!(node.call(&[b"NONSENSE"]).await, Err(NodeError::Server { .. })));
    assert_eq!(node.call(&[b"INCR", b"n"]).await.unwrap(), Value::Integer(1));
    assert!(node.health().round_trip.is_some());
}

#[test]
fn without_a_runtime_a_command_is_abandoned() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let (request, reply) = Request::channel(vote("a", 1, 7));
    node.send(request);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let reply = std::pin::pin!(reply).poll(&mut context);
    assert!(
        matches!(&reply, std::task::Poll::Ready(Reply::Failed(cause)) if matches!(**cause, NodeError::Abandoned))
    );
}

#[test]
fn a_new_runtime_takes_over_from_one_that_died() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    for round in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reply = runtime.block_on(ask(&node, vote(&format!("n{round}"), 1, 7)));
        assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    }
}

#[tokio::test]
async fn what_is_sent_together_shares_one_epoch_and_one_script_call() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    server.run_command("CONFIG RESETSTAT");
    let nodes: Nodes = [node.clone()];
    let send = |command: Command| {
        TestRound::send(&nodes, NodeSet::first(1), command, NODE_TIMEOUT, WakeThreshold::ONE)
    };
    let locks: Vec<String> = (0..130).map(|number| format!("n{number}")).collect();
    let votes: Vec<_> = locks.iter().map(|lock| send(vote(lock, 1, 7))).collect();
    let releases: Vec<_> = locks.iter().map(|lock| send(release(lock, 1))).collect();
    for mut round in votes.into_iter().chain(releases) {
        assert!(matches!(round.next().await, Some((0, Reply::Done(_)))));
    }
    let calls = server.text("INFO commandstats").unwrap();
    assert!(calls.contains("cmdstat_set:calls=130,"), "{calls}");
    // One reading of the epoch, and one reading of each name by the three release scripts.
    assert!(calls.contains("cmdstat_getrange:calls=1,"), "{calls}");
    assert!(calls.contains("cmdstat_get:calls=130,"), "{calls}");
    assert!(calls.contains("cmdstat_evalsha:calls=3,"), "{calls}");
}

/// Goal: the commands of callers that were answered together are written together. One after another,
/// they would need a write each.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_many_clients_send_goes_in_few_writes() {
    const CLIENTS: usize = 50;
    const ROUNDS: usize = 20;
    for is_single in [true, false] {
        let server = Server::start(&[]);
        let node = connect(&server.url(), Context { is_single, ..guarded() });
        node.init().await.unwrap();
        server.run_command("CONFIG RESETSTAT");
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let node = node.clone();
                tokio::spawn(async move {
                    let lock = format!("n{number}");
                    for round in 1..=ROUNDS {
                        let reply = ask(&node, vote(&lock, 1, round as u64)).await;
                        assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
                        assert!(matches!(ask(&node, release(&lock, 1)).await, Reply::Done(_)));
                    }
                })
            })
            .collect();
        for task in clients {
            task.await.unwrap();
        }
        // Every write with a vote in it reads the epoch once.
        let calls = server.text("INFO commandstats").unwrap();
        let line = calls.lines().find_map(|line| line.strip_prefix("cmdstat_getrange:calls=")).unwrap();
        let writes: usize = line.split(',').next().unwrap().parse().unwrap();
        assert!(writes < CLIENTS * ROUNDS / 7, "{writes} writes");
    }
}

/// Goal: names that another client holds, of which there may be ever new ones, do not fill the server.
#[tokio::test]
async fn the_counter_of_a_name_that_was_never_ours_expires_after_the_undo() {
    let server = Server::start(&[]);
    server.run_command("SET theirs another");
    let node = connect(&server.url(), calm());
    assert!(matches!(ask(&node, vote("theirs", 1, 7)).await, Reply::Denied(Denied::Taken)));
    assert_eq!(server.text("EXISTS quorlock:fence:{theirs}").unwrap(), "1");
    assert!(matches!(ask(&node, release("theirs", 1)).await, Reply::Denied(Denied::Taken)));
    let left: i64 = server.text("TTL quorlock:fence:{theirs}").unwrap().parse().unwrap();
    assert!(left > 600_000, "{left}");
}
