//! What is left when a connection ends, and answers that no honest server gives.

use super::*;
use crate::node::redis::connection::in_flight::InFlight;
use crate::node::redis::link::state::{LinkState, Phase};
use crate::node::redis::pipeline::outbox::Outbox;
use crate::node::redis::pipeline::pending::{Pending, PendingRelease, PendingUpdate};
use crate::node::redis::protocol::commands::{UpdateCall, UpdateKind};
use crate::node::redis::protocol::compare_and_delete::CompareAndDelete;
use crate::node::redis::protocol::resp::Value;
use crate::node::{AcquireKind, FastRelease};
use std::collections::VecDeque;

fn releasing(lock: &str, by: u8) -> PendingRelease {
    PendingRelease::new(Request::without_reply(release(lock, by))).unwrap()
}

/// A release that may go without the script.
fn plain(lock: &str, by: u8) -> PendingRelease {
    let vote = acquire(lock, by, 7);
    let stored_after_token = Some((vote.proposal, vote.label));
    let command = Command::Release {
        name: vote.name,
        token: vote.token,
        quiet: false,
        stored_after_token,
        may_be_shared: false,
        forced: false,
    };
    PendingRelease::new(Request::without_reply(command)).unwrap()
}

/// Whether `text` is among `bytes`.
fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part == text.as_bytes())
}

/// A queue whose node is connected.
fn ready() -> LinkState {
    let mut state = LinkState::new(&calm());
    state.phase = Phase::Ready;
    state
}

/// Goal: what was encoded for a connection that ended is never written to the next, where it would have
/// no one to answer.
#[test]
fn nothing_that_was_encoded_outlives_its_connection() {
    let mut outbox = Outbox::default();
    outbox.command(Request::without_reply(vote("a", 1, 7)), true);
    outbox.release(releasing("b", 2));
    let left: Vec<Pending> = outbox.drain().collect();
    assert!(matches!(left.as_slice(), [Pending::Vote(_), Pending::Release(_)]), "{left:?}");
    let (mut out, mut in_flight) = (Vec::new(), VecDeque::new());
    outbox.take_over(&mut out, &mut in_flight);
    assert!(out.is_empty() && in_flight.is_empty(), "{in_flight:?}");
}

/// Goal: half a write is finished before the next begins.
#[test]
fn nothing_is_handed_over_while_something_is_still_to_be_written() {
    let mut state = ready();
    state.accept(Request::without_reply(vote("a", 1, 7)), &calm()).unwrap();
    let (mut out, mut in_flight) = (b"half".to_vec(), VecDeque::new());
    state.take_over(&mut out, &mut in_flight);
    assert_eq!((out.as_slice(), in_flight.len(), state.len()), (&b"half"[..], 0, 1));
    out.clear();
    state.take_over(&mut out, &mut in_flight);
    assert!(contains(&out, "NX") && in_flight.len() == 1);
    assert_eq!(state.len(), 1, "what is on its way counts for the limit");
    state.end(Phase::Connecting, in_flight.drain(..), &calm());
    assert_eq!(state.len(), 0);
}

#[test]
fn every_kind_of_release_is_kept_when_its_connection_ends() {
    for pending in [Pending::Release(releasing("a", 1)), Pending::CompareAndDelete(plain("a", 1))] {
        let mut state = ready();
        state.end(Phase::Connecting, [pending].into_iter(), &calm());
        assert!(state.work(&calm()).has_unacked);
    }
    let mut state = ready();
    state.accept(Request::without_reply(release("a", 1)), &calm()).unwrap();
    state.end(Phase::Connecting, std::iter::empty(), &calm());
    assert!(state.work(&calm()).has_unacked, "also one that was not handed over");
}

/// Goal: a release that a server did, and of which it is not known yet whether a client waits, is not
/// forgotten.
#[tokio::test]
async fn a_release_without_the_script_that_was_done_is_among_what_is_left() {
    let node = connect("redis://127.0.0.1:1", calm());
    let mut in_flight = InFlight::default();
    in_flight.pending.extend([Pending::CompareAndDelete(plain("a", 1)), Pending::HasWaiters]);
    in_flight.on_value(Value::Integer(1), &node.link).unwrap();
    let left: Vec<Pending> = in_flight.drain(crate::context::injected_bug::InjectedBugs::default()).collect();
    assert!(matches!(left.as_slice(), [Pending::Release(_), Pending::HasWaiters]), "{left:?}");
}

/// Goal: a program that ends right after its guard still frees the lock, by whatever command.
#[test]
fn the_last_write_carries_releases_of_every_kind_and_nothing_else() {
    let mut outbox = Outbox::default();
    outbox.fast = CompareAndDelete::new(Some(FastRelease::Delifeq));
    outbox.fast.set_has_waiters(false);
    // The first release of a name takes the script.
    outbox.release(plain("a", 1));
    outbox.take_over(&mut Vec::new(), &mut VecDeque::new());
    outbox.command(Request::without_reply(vote("v", 4, 7)), false);
    outbox.release(plain("a", 2));
    outbox.release(releasing("b", 3));
    let mut out = Vec::new();
    outbox.encode_releases(&mut out);
    assert!(contains(&out, token(2).as_str()) && contains(&out, token(3).as_str()));
    assert!(!contains(&out, token(4).as_str()) && !contains(&out, "DELIFEQ"));
}

/// Goal: a server that reports that it lacks a script that was sent whole does not get it again and
/// again.
#[tokio::test]
async fn a_script_that_was_sent_whole_is_not_sent_again() {
    let unknown = || Value::Error("NOSCRIPT No matching script. Please use EVAL.".into());
    let node = connect("redis://127.0.0.1:1", calm());
    let mut in_flight = InFlight::default();
    let release = PendingRelease { sends_script: true, batch: 1, ..releasing("a", 1) };
    in_flight.pending.push_back(Pending::Release(release));
    in_flight.on_value(unknown(), &node.link).unwrap();
    assert!(node.link.lock().outbox.is_empty());
    assert!(node.link.lock().work(&node.link.ctx).has_unacked, "it is kept as any that failed");

    let extend = Command::Extend {
        name: name("a"),
        token: token(1),
        ttl: NODE_TIMEOUT,
        tie: crate::node::Tie::Loose,
        mode: quorlock_core::Mode::Exclusive,
        may_be_shared: false,
    };
    let kind = UpdateKind::Extend;
    let call = UpdateCall { kind, call_id: 2, sends_script: true };
    let change = PendingUpdate { request: Request::without_reply(extend), call, is_guarded: false };
    in_flight.pending.push_back(Pending::Update(change));
    in_flight.on_value(unknown(), &node.link).unwrap();
    assert!(node.link.lock().outbox.is_empty());
}

/// Goal: a repair that is sent again is not executed behind the release that was sent after it. Votes of
/// scripts are not sent again either.
#[tokio::test]
async fn what_stores_a_lock_is_not_sent_again_when_the_server_lacks_its_script() {
    for kind in [UpdateKind::Repair, UpdateKind::Vote] {
        let node = connect("redis://127.0.0.1:1", calm());
        let mut in_flight = InFlight::default();
        let Command::Acquire(mut acquire) = vote("a", 1, 7) else { panic!("no vote") };
        acquire.kind = AcquireKind::Repair;
        let (request, reply) = Request::channel(Command::Acquire(acquire));
        let call = UpdateCall { kind, call_id: 2, sends_script: false };
        in_flight.pending.push_back(Pending::Update(PendingUpdate { request, call, is_guarded: true }));
        let unknown = Value::Error("NOSCRIPT No matching script. Please use EVAL.".into());
        in_flight.on_value(unknown, &node.link).unwrap();
        assert!(node.link.lock().outbox.is_empty(), "{kind:?}");
        assert!(matches!(reply.await, Reply::Failed(_)));
    }
}

#[tokio::test]
async fn an_answer_of_another_shape_to_a_release_ends_the_connection_and_the_release_is_kept() {
    for answer in [Value::Okay, Value::Array(vec![Value::Okay]), Value::Array(vec![Value::Integer(1); 2])] {
        let node = connect("redis://127.0.0.1:1", calm());
        let mut in_flight = InFlight::default();
        in_flight.pending.push_back(Pending::Release(PendingRelease { batch: 1, ..releasing("a", 1) }));
        assert!(in_flight.on_value(answer.clone(), &node.link).is_err(), "{answer:?}");
        assert!(node.link.lock().work(&node.link.ctx).has_unacked, "{answer:?}");
    }
    let node = connect("redis://127.0.0.1:1", calm());
    let mut in_flight = InFlight::default();
    in_flight.pending.push_back(Pending::CompareAndDelete(plain("a", 1)));
    assert!(in_flight.on_value(Value::Okay, &node.link).is_err());
    assert!(node.link.lock().work(&node.link.ctx).has_unacked);
}

#[tokio::test]
async fn a_confirmation_that_was_not_asked_for_answers_nothing() {
    let node = connect("redis://127.0.0.1:1", calm());
    let mut in_flight = InFlight::default();
    in_flight.pending.push_back(Pending::Inspect(Request::without_reply(inspect("a"))));
    for word in ["subscribe", "unsubscribe", "message", "other"] {
        in_flight.on_value(Value::Push(vec![Value::Text(word.into())]), &node.link).unwrap();
        assert_eq!((in_flight.pending.len(), in_flight.answered), (1, 0), "{word}");
    }
}

/// Goal: an epoch that was read for other votes ends the connection, because all answers on it may be
/// shifted.
#[tokio::test]
async fn an_epoch_read_for_other_votes_ends_the_connection() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    let epoch = server.text("GET quorlock:epoch").unwrap();
    let mut in_flight = InFlight::default();
    for (skip, is_ours) in [(4, true), (3, false), (5, false)] {
        in_flight.pending.push_back(Pending::Epoch { skip: 4 });
        let answer = Value::Text(epoch[skip..].to_owned().into());
        assert_eq!(in_flight.on_value(answer, &node.link).is_ok(), is_ours, "{skip}");
    }
}

/// Goal: an answer that belongs to another command ends the connection, because those behind it may be
/// shifted as well.
#[tokio::test]
async fn an_answer_of_another_shape_to_any_question_ends_the_connection() {
    let node = connect("redis://127.0.0.1:1", calm());
    let kind = UpdateKind::Extend;
    let extend = Command::Extend {
        name: name("a"),
        token: token(1),
        ttl: NODE_TIMEOUT,
        tie: crate::node::Tie::Loose,
        mode: quorlock_core::Mode::Exclusive,
        may_be_shared: false,
    };
    let call = UpdateCall { kind, call_id: 7, sends_script: false };
    let change = PendingUpdate { request: Request::without_reply(extend), call, is_guarded: false };
    let mut in_flight = InFlight::default();
    in_flight.pending.push_back(Pending::Update(change));
    assert!(in_flight.on_value(Value::Integer(6), &node.link).is_err(), "another extend's");
    in_flight.pending.push_back(Pending::Inspect(Request::without_reply(inspect("a"))));
    in_flight.on_value(Value::Integer(1), &node.link).unwrap();
    in_flight.on_value(Value::Integer(-2), &node.link).unwrap();
    assert!(in_flight.on_value(Value::Null, &node.link).is_err(), "no value is a number");
    for pending in [Pending::HasWaiters, Pending::Hint, Pending::Subscribe, Pending::Waiting] {
        in_flight.pending.push_back(pending);
        assert!(in_flight.on_value(Value::Array(Vec::new()), &node.link).is_err());
    }
    assert!(in_flight.on_value(Value::Okay, &node.link).is_err(), "nothing was asked");
}

/// What becomes of one release without the script: its reply, and whether something is sent behind it.
async fn freed_unconfirmed(quiet: bool, answers: [Value; 2]) -> (Reply, bool) {
    let node = connect("redis://127.0.0.1:1", calm());
    let vote = acquire("a", 1, 7);
    let stored_after_token = Some((vote.proposal, vote.label));
    let command = Command::Release {
        name: vote.name,
        token: vote.token,
        quiet,
        stored_after_token,
        may_be_shared: false,
        forced: false,
    };
    let (request, reply) = Request::channel(command);
    let mut in_flight = InFlight::default();
    in_flight
        .pending
        .extend([Pending::CompareAndDelete(PendingRelease::new(request).unwrap()), Pending::HasWaiters]);
    for answer in answers {
        in_flight.on_value(answer, &node.link).unwrap();
    }
    let reply = tokio::time::timeout(NODE_TIMEOUT, reply).await.expect("it is answered");
    let is_hinted = !node.link.lock().outbox.is_empty();
    (reply, is_hinted)
}

/// Goal: a release without the script wakes waiters if there may be any, and reports if there are none.
#[tokio::test]
async fn a_release_without_the_script_gives_a_hint_unless_no_client_waits() {
    let done = Value::Integer(1);
    let (reply, is_hinted) = freed_unconfirmed(false, [done.clone(), Value::Integer(0)]).await;
    assert!(matches!(reply, Reply::Done(crate::node::Done::Unawaited)) && !is_hinted, "{reply:?}");
    for ask_for_waiters in [Value::Integer(1), Value::Error("NOPERM".into())] {
        let (reply, is_hinted) = freed_unconfirmed(false, [done.clone(), ask_for_waiters.clone()]).await;
        assert!(matches!(reply, Reply::Done(crate::node::Done::Plain)) && is_hinted, "{ask_for_waiters:?}");
        let (reply, is_hinted) = freed_unconfirmed(true, [done.clone(), ask_for_waiters]).await;
        assert!(matches!(reply, Reply::Done(crate::node::Done::Plain)) && !is_hinted, "a quiet one");
    }
}

/// Goal: a server's own command is given up where it is refused, and not for another program's value.
#[tokio::test]
async fn the_servers_own_command_is_given_up_only_where_it_is_refused() {
    for (answer, is_kept) in
        [("WRONGTYPE Operation against a key", true), ("NOPERM no permissions to run", false)]
    {
        let node = connect("redis://127.0.0.1:1", calm());
        node.link.lock().outbox.fast = CompareAndDelete::new(Some(FastRelease::Delifeq));
        node.link.lock().outbox.fast.set_has_waiters(false);
        let mut in_flight = InFlight::default();
        in_flight.pending.push_back(Pending::CompareAndDelete(plain("a", 1)));
        in_flight.on_value(Value::Error(answer.into()), &node.link).unwrap();
        assert_eq!(node.link.lock().outbox.fast.command().is_some(), is_kept, "{answer}");
        assert_eq!(node.link.lock().outbox.len(), 1, "the script is asked");
    }
}

/// Goal: the server's own command keeps no counter, so the first release of a name takes the script.
#[test]
fn the_first_release_of_a_name_takes_the_script_and_the_next_does_not() {
    let mut outbox = Outbox::default();
    outbox.fast = CompareAndDelete::new(Some(FastRelease::Delifeq));
    outbox.fast.set_has_waiters(false);
    for is_script in [true, false, false] {
        let mut out = Vec::new();
        outbox.release(plain("a", 1));
        outbox.take_over(&mut out, &mut VecDeque::new());
        assert_eq!((contains(&out, "EVALSHA"), contains(&out, "DELIFEQ")), (is_script, !is_script));
    }
}
