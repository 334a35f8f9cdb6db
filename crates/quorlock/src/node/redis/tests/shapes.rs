//! Pure parts: what is encoded, remembered and accepted.

use super::*;
use crate::node::redis::pipeline::pending::PendingRelease;
use crate::node::redis::pipeline::release_batch::ReleaseBatch;
use crate::node::redis::pipeline::unacked_releases::UnackedReleases;
use crate::node::redis::protocol::commands::UpdateKind;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::{commands, compare_and_delete, replies};
use crate::node::{Done, FastRelease};

/// Goal: the encoded vote that a thread keeps for the next node is used for that very vote only.
#[test]
fn a_vote_that_differs_in_anything_is_encoded_anew() {
    let first = acquire("a", 1, 7);
    let owner = Signature::new("bob@web2", 43, None);
    let others = [
        Acquire { name: name("b"), ..first.clone() },
        Acquire { token: token(2), ..first.clone() },
        Acquire { proposal: Fence::new(8), ..first.clone() },
        Acquire { ttl: Duration::from_secs(21), ..first.clone() },
        Acquire { label: Label::new(Arc::new(owner), Wall::from_micros(1)), ..first.clone() },
    ];
    let encoded = |vote: &Acquire| {
        let mut out = Vec::new();
        commands::acquire(&mut out, vote);
        out
    };
    for other in others {
        // A thread of its own has encoded nothing before.
        let alone = std::thread::scope(|scope| scope.spawn(|| encoded(&other)).join().unwrap());
        let before = encoded(&first);
        assert_eq!(encoded(&other), alone, "{other:?}");
        assert_ne!(before, alone, "{other:?}");
    }
}

#[test]
fn the_newer_of_two_commands_that_a_server_has_is_used() {
    let (has, lacks) = (Value::Array(vec![Value::Okay]), Value::Array(Vec::new()));
    let supported = |delex: &Value, delifeq: &Value| {
        compare_and_delete::supported(&Value::Array(vec![delex.clone(), delifeq.clone()]))
    };
    for lacks in [lacks, Value::Null] {
        assert_eq!(supported(&has, &has), Some(FastRelease::Delex));
        assert_eq!(supported(&has, &lacks), Some(FastRelease::Delex));
        assert_eq!(supported(&lacks, &has), Some(FastRelease::Delifeq));
        assert_eq!(supported(&lacks, &lacks), None);
    }
    assert_eq!(compare_and_delete::supported(&Value::Error("NOPERM".into())), None);
}

#[test]
fn tokens_that_were_not_sent_are_forgotten_before_they_are_too_many() {
    let token = |number: u32| {
        let mut random = [0; 16];
        random[..4].copy_from_slice(&number.to_le_bytes());
        Token::from_random(random)
    };
    let mut unacked = UnackedReleases::default();
    (0..4096).for_each(|number| unacked.record_unsent(&name("a"), token(number)));
    assert!(unacked.is_unsent(&name("a"), token(0)) && unacked.is_unsent(&name("a"), token(4095)));
    assert!(!unacked.is_unsent(&name("b"), token(0)), "the same token for another name");
    unacked.record_unsent(&name("a"), token(4096));
    assert!(!unacked.is_unsent(&name("a"), token(0)) && unacked.is_unsent(&name("a"), token(4096)));
}

#[test]
fn a_release_that_sends_the_script_shares_no_call_with_others() {
    let release =
        |sends_script| PendingRelease { sends_script, ..PendingRelease::without_reply(name("a"), token(1)) };
    for sends_script in [true, false] {
        let mut run = ReleaseBatch::default();
        run.push(release(sends_script));
        assert!(run.fits(&release(sends_script)) && !run.fits(&release(!sends_script)));
    }
}

fn is_odd(reply: &Reply) -> bool {
    matches!(reply, Reply::Failed(cause) if matches!(**cause, NodeError::Protocol { .. }))
}

/// Goal: an answer to another extend or stamp is not believed.
#[test]
fn a_change_is_answered_by_its_own_call_id_only() {
    let (extend, stamp) = (UpdateKind::Extend, UpdateKind::Stamp);
    assert!(matches!(replies::update(&Value::Integer(5), extend, 5), Reply::Done(Done::Plain)));
    assert!(is_odd(&replies::update(&Value::Integer(4), extend, 5)));
    let stamped = |call_id| Value::Array(vec![Value::Integer(call_id), Value::Text("9".into())]);
    let reply = replies::update(&stamped(5), stamp, 5);
    assert!(matches!(reply, Reply::Done(Done::Stamped { to }) if to.get() == 9), "{reply:?}");
    assert!(is_odd(&replies::update(&stamped(4), stamp, 5)));
    assert!(is_odd(&replies::update(&stamped(5), extend, 5)));
}

/// Goal: what cannot be read is not reported as free or as another program's.
#[test]
fn an_inspection_that_was_denied_has_failed() {
    let denied = || Value::Error("NOPERM this user has no permissions".into());
    let (stored, left) = (Value::Text("".into()), Value::Integer(-2));
    for reply in [
        replies::view(&denied(), &left, &Value::Null),
        replies::view(&stored, &denied(), &Value::Null),
        replies::view(&denied(), &denied(), &denied()),
    ] {
        assert!(matches!(cause(reply), NodeError::NoPermission { .. }));
    }
}
