//! What the server's replies mean for releases.

use crate::node::redis::connection::in_flight::{Flight, believable};
use crate::node::redis::link::Link;
use crate::node::redis::pipeline::pending::{Releasing, Slot};
use crate::node::redis::protocol::replies;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::{classify, is_unknown_script};
use crate::node::{Done, NodeError, Reply};

impl Flight {
    /// Takes the answer to a release without the script. Only "freed" says all: anything else is asked again by the script.
    pub(crate) fn free(&mut self, release: Releasing, answer: &Value, link: &Link) -> Result<(), NodeError> {
        match answer {
            Value::Integer(1) => self.freed.push(release),
            Value::Integer(0) => link.lock().outbox.release_again(release),
            Value::Error(text) => {
                let mut queue = link.lock();
                if !matches!(classify(text), NodeError::WrongType { .. }) {
                    queue.outbox.fast.give_up();
                }
                queue.outbox.release_again(release);
            }
            // An answer of another shape: the release fails and is owed.
            _ => return settle_release(release, &Value::Null, link),
        }
        Ok(())
    }

    /// Answers the releases that were done without the script. Any other answer than 0 may mean that somebody waits.
    pub(crate) fn settle_freed(&mut self, awaited: &Value, link: &Link) {
        let is_awaited = !matches!(awaited, Value::Integer(0));
        self.note_awaited(is_awaited, link);
        if is_awaited {
            let mut queue = link.lock();
            let told = self.freed.iter().filter(|release| !release.call.quiet);
            told.for_each(|release| queue.outbox.hint(release));
        }
        for release in self.freed.drain(..) {
            release.question.answer(Reply::Done(if is_awaited { Done::Plain } else { Done::Unawaited }));
        }
    }

    /// Notes whether somebody waits for anything.
    fn note_awaited(&mut self, is_awaited: bool, link: &Link) {
        if self.is_awaited.replace(is_awaited) != Some(is_awaited) {
            link.lock().outbox.fast.note(is_awaited);
        }
    }

    /// Answers all releases that went in one call with `first`.
    pub(crate) fn settle_run(
        &mut self,
        first: Releasing,
        answer: &Value,
        link: &Link,
    ) -> Result<(), NodeError> {
        let (count, whole) = (first.run as usize, first.whole);
        if let Some(is_awaited) = tells_awaited(answer) {
            self.note_awaited(is_awaited, link);
        }
        let (mut next, mut shape) = (Some(first), Ok(()));
        for at in 0..count {
            let Some(mut release) = next.take().or_else(|| self.pop_release()) else {
                return shape;
            };
            // An answer of another shape fails them all, and all are owed.
            let answer = match answer {
                Value::Array(answers) if answers.len() == count => &answers[at],
                other => other,
            };
            match answer {
                Value::Error(text) if is_unknown_script(text) && !whole => {
                    release.whole = true;
                    link.lock().outbox.release(release);
                }
                answer => shape = shape.and(settle_release(release, answer, link)),
            }
        }
        shape
    }

    /// The next release of a run, which always stands whole in the queue.
    fn pop_release(&mut self) -> Option<Releasing> {
        match self.pop() {
            Some(Slot::Release(release)) => Some(release),
            _ => None,
        }
    }
}

/// Whether somebody waits, as the script's answer tells if anything was freed.
fn tells_awaited(answer: &Value) -> Option<bool> {
    let Value::Array(answers) = answer else { return None };
    answers.iter().find_map(|answer| match answer {
        Value::Integer(1 | 3) => Some(true),
        Value::Integer(2) => Some(false),
        _ => None,
    })
}

/// Gives the answer to a release; one that the server refused is owed.
fn settle_release(mut release: Releasing, answer: &Value, link: &Link) -> Result<(), NodeError> {
    let reply = replies::release(answer);
    let shape = believable(&reply);
    if matches!(reply, Reply::Failed(_)) {
        let caller = release.question.split();
        link.lock().keep(release, &link.around);
        caller.answer(reply);
    } else {
        release.question.answer(reply);
    }
    shape
}
