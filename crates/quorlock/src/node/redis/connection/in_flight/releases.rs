//! The dispatch of replies to releases.

use crate::context::injected_bug::InjectedBug;
use crate::node::redis::connection::in_flight::{InFlight, check_shape, is_missing_script};
use crate::node::redis::link::Link;
use crate::node::redis::pipeline::pending::{Pending, PendingRelease};
use crate::node::redis::protocol::replies;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::classify;
use crate::node::{Done, NodeError, Reply};

impl InFlight {
    /// Handles the answer to a release without the script. Only "freed" is conclusive: anything else is
    /// sent again by the script.
    pub(crate) fn free(
        &mut self,
        release: PendingRelease,
        answer: &Value,
        link: &Link,
    ) -> Result<(), NodeError> {
        match answer {
            Value::Integer(1) => self.freed_unconfirmed.push(release),
            Value::Integer(0) if link.ctx.injected.is_on(InjectedBug::FastReleaseBlind) => {
                self.freed_unconfirmed.push(release);
            }
            Value::Integer(0) => link.lock().outbox.release_again(release),
            Value::Error(text) => {
                let mut state = link.lock();
                if !matches!(classify(text), NodeError::WrongType { .. }) {
                    state.outbox.fast.give_up();
                }
                state.outbox.release_again(release);
            }
            // An answer of another shape: the release fails and is kept to be sent again.
            _ => return dispatch_release(release, &Value::Null, link),
        }
        Ok(())
    }

    /// Answers the releases that were done without the script. Any other answer than 0 may mean that
    /// there are waiters.
    pub(crate) fn dispatch_freed(&mut self, waiters: &Value, link: &Link) {
        let has_waiters = !matches!(waiters, Value::Integer(0));
        self.set_has_waiters(has_waiters, link);
        if has_waiters {
            let mut state = link.lock();
            let with_hint = self.freed_unconfirmed.iter().filter(|release| !release.call.quiet);
            with_hint.for_each(|release| state.outbox.hint(release));
        }
        for release in self.freed_unconfirmed.drain(..) {
            release.request.answer(Reply::Done(if has_waiters { Done::Plain } else { Done::Unawaited }));
        }
    }

    /// Records whether any client waits for any name.
    fn set_has_waiters(&mut self, has_waiters: bool, link: &Link) {
        if self.has_waiters.replace(has_waiters) != Some(has_waiters) {
            link.lock().outbox.fast.set_has_waiters(has_waiters);
        }
    }

    /// Answers all releases that went in one call with `first`.
    pub(crate) fn dispatch_batch(
        &mut self,
        first: PendingRelease,
        answer: &Value,
        link: &Link,
    ) -> Result<(), NodeError> {
        let (count, sends_script) = (first.batch as usize, first.sends_script);
        if let Some(has_waiters) = waiters_in(answer) {
            self.set_has_waiters(has_waiters, link);
        }
        let (mut next, mut shape) = (Some(first), Ok(()));
        for at in 0..count {
            let Some(mut release) = next.take().or_else(|| self.pop_release()) else {
                return shape;
            };
            // An answer of another shape fails them all, and all are kept to be sent again.
            let answer = match answer {
                Value::Array(answers) if answers.len() == count => &answers[at],
                other => other,
            };
            match answer {
                Value::Error(text) if is_missing_script(text, link) && !sends_script => {
                    release.sends_script = true;
                    link.lock().outbox.release(release);
                }
                answer => shape = shape.and(dispatch_release(release, answer, link)),
            }
        }
        shape
    }

    /// The next release of a batch, whose entries always follow each other in the queue.
    fn pop_release(&mut self) -> Option<PendingRelease> {
        match self.pop() {
            Some(Pending::Release(release)) => Some(release),
            _ => None,
        }
    }
}

/// Whether there are waiters, which the script's answer says if anything was freed.
fn waiters_in(answer: &Value) -> Option<bool> {
    let Value::Array(answers) = answer else { return None };
    answers.iter().find_map(|answer| match answer {
        Value::Integer(1 | 3) => Some(true),
        Value::Integer(2) => Some(false),
        _ => None,
    })
}

/// Answers a release; one that the server refused is kept to be sent again.
fn dispatch_release(mut release: PendingRelease, answer: &Value, link: &Link) -> Result<(), NodeError> {
    let reply = replies::release(answer);
    let shape = check_shape(&reply);
    if matches!(reply, Reply::Failed(_)) {
        let caller = release.request.take_responder();
        link.lock().keep(release, &link.ctx);
        caller.answer(reply);
    } else {
        release.request.answer(reply);
    }
    shape
}
