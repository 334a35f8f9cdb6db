//! What the server's replies mean for releases.

use crate::node::redis::connection::in_flight::{InFlight, believable};
use crate::node::redis::link::Link;
use crate::node::redis::pipeline::pending::{Pending, PendingRelease};
use crate::node::redis::protocol::replies;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::{classify, is_unknown_script};
use crate::node::{Done, NodeError, Reply};

impl InFlight {
    /// Takes the answer to a release without the script. Only "freed" says all: anything else is asked again by the script.
    pub(crate) fn free(
        &mut self,
        release: PendingRelease,
        answer: &Value,
        link: &Link,
    ) -> Result<(), NodeError> {
        match answer {
            Value::Integer(1) => self.freed_unconfirmed.push(release),
            Value::Integer(0) => link.lock().outbox.release_again(release),
            Value::Error(text) => {
                let mut state = link.lock();
                if !matches!(classify(text), NodeError::WrongType { .. }) {
                    state.outbox.fast.give_up();
                }
                state.outbox.release_again(release);
            }
            // An answer of another shape: the release fails and is owed.
            _ => return dispatch_release(release, &Value::Null, link),
        }
        Ok(())
    }

    /// Answers the releases that were done without the script. Any other answer than 0 may mean that somebody waits.
    pub(crate) fn dispatch_freed(&mut self, ask_for_waiters: &Value, link: &Link) {
        let has_waiters = !matches!(ask_for_waiters, Value::Integer(0));
        self.set_has_waiters(has_waiters, link);
        if has_waiters {
            let mut state = link.lock();
            let told = self.freed_unconfirmed.iter().filter(|release| !release.call.quiet);
            told.for_each(|release| state.outbox.hint(release));
        }
        for release in self.freed_unconfirmed.drain(..) {
            release.request.answer(Reply::Done(if has_waiters { Done::Plain } else { Done::Unawaited }));
        }
    }

    /// Notes whether somebody waits for anything.
    fn set_has_waiters(&mut self, has_waiters: bool, link: &Link) {
        if self.has_waiters.replace(has_waiters) != Some(has_waiters) {
            link.lock().outbox.fast.note(has_waiters);
        }
    }

    /// Answers all releases that went in one call with `first`.
    pub(crate) fn dispatch_batch(
        &mut self,
        first: PendingRelease,
        answer: &Value,
        link: &Link,
    ) -> Result<(), NodeError> {
        let (count, whole) = (first.run as usize, first.whole);
        if let Some(has_waiters) = tells_awaited(answer) {
            self.set_has_waiters(has_waiters, link);
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
                answer => shape = shape.and(dispatch_release(release, answer, link)),
            }
        }
        shape
    }

    /// The next release of a run, which always stands whole in the queue.
    fn pop_release(&mut self) -> Option<PendingRelease> {
        match self.pop() {
            Some(Pending::Release(release)) => Some(release),
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
fn dispatch_release(mut release: PendingRelease, answer: &Value, link: &Link) -> Result<(), NodeError> {
    let reply = replies::release(answer);
    let shape = believable(&reply);
    if matches!(reply, Reply::Failed(_)) {
        let caller = release.request.take_responder();
        link.lock().keep(release, &link.ctx);
        caller.answer(reply);
    } else {
        release.request.answer(reply);
    }
    shape
}
