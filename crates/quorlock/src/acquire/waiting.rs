//! What an acquire call does between two attempts: it finds out who holds the lock, and waits for a hint or the
//! next poll.

use crate::acquire::attempt::Cause;
use crate::acquire::hint_backoff::stagger;
use crate::acquire::hint_subscription::HintSubscription;
use crate::acquire::reader_hold_off::ReaderHoldOff;
use crate::acquire::slots::SlotChoice;
use crate::acquire::{Acquirer, Hinted, POLL_CAP};
use crate::context::event::Event;
use crate::context::injected_bug::InjectedBug;
use crate::error::Holder;
use crate::inspect::{Answers, Inspection, inspect_all};
use crate::node::Wakeup;
use quorlock_core::{Mode, backoff};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// How long a busy queue pauses, so that waiters of other clients can use the hint that they got: those that
/// do not take turns use it at once.
const YIELD_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));

impl Acquirer<'_> {
    /// Waits before the next attempt: for a hint or the next poll while another client holds the lock,
    /// else a short delay.
    pub(super) async fn pause(&mut self) {
        let retry_state = self.retry_state.get_or_insert_default();
        let hinted = retry_state.hinted.take();
        let Some(refusal) = retry_state.last_refusal.as_ref().filter(|refusal| refusal.cause == Cause::Held)
        else {
            return self.back_off().await;
        };
        // Another client used the hint first, and its release will send the next one: no need to inspect. Unless
        // readers come and go, each with a hint: only an inspection finds them, and keeps further ones out. If
        // fewer nodes denied the lock than can refuse it, it may be that they had not executed the release yet,
        // and that the others cannot vote.
        let now = self.nodes.ctx.clock.now();
        let is_known = retry_state.inspected_at.is_some_and(|at| now.since(at) < POLL_CAP);
        let is_taken = hinted.is_some()
            && refusal.votes == 0
            && refusal.denied > self.nodes.quorum.spare()
            && retry_state.subscription.is_some()
            && is_known;
        if hinted == Some(Hinted::Ahead) {
            // Tries once more when a majority has executed the release.
            let (majority, wakeup) = (self.nodes.quorum.needed(), self.wakeup().clone());
            let retry_state = self.retry_state.get_or_insert_default();
            if wakeup.has_hints(majority) {
                retry_state.hinted = Some(Hinted::ByMajority);
                return;
            }
            retry_state.awaits_majority = true;
            wakeup.notify_at(majority);
        }
        let mut ends = POLL_CAP;
        if !is_taken || self.slots.is_some() {
            // Subscribed before the inspection: a release between the two sends a hint.
            let subscribes_late = self.nodes.ctx.injected.is_on(InjectedBug::HintsAfterLook);
            if !subscribes_late {
                self.subscribe();
            }
            let Some(left) = self.inspect_holders().await else {
                if self.slots.as_ref().is_some_and(SlotChoice::has_news) {
                    return;
                }
                // No client has a majority: several contend, or the lock was just released.
                return self.back_off().await;
            };
            ends = left;
            if subscribes_late {
                self.subscribe();
            }
        }
        self.await_hint(ends).await;
    }

    /// Subscribes to the hints of all nodes, once.
    fn subscribe(&mut self) {
        let (nodes, queues, queue) = (self.nodes, self.queues, self.queue);
        let is_queued = self.is_woken_by_queue();
        let retry_state = self.retry_state.get_or_insert_default();
        let wakeup = &retry_state.wakeup;
        retry_state.subscription.get_or_insert_with(|| match is_queued {
            true => HintSubscription::of_queue(nodes, queue),
            false => HintSubscription::of_names(nodes, queues, &self.params.names, wakeup),
        });
    }

    /// Whether hints reach this call by the wakeup of its queue. Tasks that do not take turns, and those
    /// that want several names, have wakeups of their own.
    fn is_woken_by_queue(&self) -> bool {
        self.params.mode == Mode::Exclusive && (self.params.names.is_single() || self.slots.is_some())
    }

    /// What notifies this call of hints.
    fn wakeup(&self) -> &Wakeup {
        match &self.retry_state {
            Some(retry_state) if !self.is_woken_by_queue() => &retry_state.wakeup,
            _ => self.queue.wakeup(),
        }
    }

    /// Waits until the clients that contend should be done.
    pub(super) async fn back_off(&mut self) {
        let random = self.random();
        let delay = self.retry_state.get_or_insert_default().retry.next(random);
        sleep(delay.min(self.left())).await;
    }

    /// Waits for a hint, at most until the next poll or until the holder's time `ends`.
    async fn await_hint(&mut self, ends: Duration) {
        let random = self.random();
        let delay = self.retry_state.get_or_insert_default().poll.next(random).min(ends).min(self.left());
        if timeout(delay, self.wakeup().notified()).await.is_ok() {
            self.after_hint().await;
        }
    }

    /// Waits after many handovers in a row, so that other clients can use the hint that they got.
    pub(super) async fn yield_to_others(&mut self) {
        match self.queue.yields_turn() {
            true => self.wait_behind_others().await,
            false => {
                let pause = backoff::between(YIELD_PAUSE.0, YIELD_PAUSE.1, self.random());
                sleep(pause.min(self.left())).await;
            }
        }
        self.queue.record_yield();
    }

    /// Waits about as long as a client that came last: this locker has just had the lock.
    async fn wait_behind_others(&mut self) {
        // The handover to this task is no hint.
        self.wakeup().clear();
        self.subscribe();
        let random = self.random();
        let longest = stagger(usize::MAX, 0, random).min(self.left());
        if timeout(longest, self.wakeup().notified()).await.is_ok() {
            return self.after_hint().await;
        }
        // An attempt now might come just before that of the client whose turn is next.
        if let Some(ends) = self.inspect_holders().await {
            self.await_hint(ends).await;
        }
    }

    /// After a hint, waits while clients that have waited longer should try first, for [`POLL_CAP`] at most.
    async fn after_hint(&mut self) {
        let limit = POLL_CAP.min(self.left());
        // A further hint means that another client had the lock in the meantime.
        let _ = timeout(limit, async { while self.stagger().await {} }).await;
        let is_known = self.wakeup().has_hints(self.nodes.quorum.needed());
        let hinted = if is_known { Hinted::ByMajority } else { Hinted::Ahead };
        self.retry_state.get_or_insert_default().hinted = Some(hinted);
    }

    /// Counts a hint, and waits while clients that have missed more of them should try. Whether a further
    /// hint came first.
    async fn stagger(&mut self) -> bool {
        let (random, majority) = (self.random(), self.nodes.quorum.needed());
        let wakeup = self.wakeup().clone();
        // Readers that try at the same moment do not disturb each other.
        let subscribers = if self.params.mode == Mode::Shared { 1 } else { wakeup.subscribers() };
        let retry_state = self.retry_state.get_or_insert_default();
        retry_state.poll.reset();
        let delay = stagger(subscribers, retry_state.missed_hints, random);
        // The second notification of a release is no other hint.
        let is_second = std::mem::take(&mut retry_state.awaits_majority) && wakeup.has_hints(majority);
        retry_state.missed_hints += usize::from(!is_second);
        if wakeup.has_hints(1) {
            self.queue.record_counted_hint();
        }
        if !self.params.names.is_single() {
            // Clients that want several names disturb each other even where neither gets all of its names.
            sleep(delay + retry_state.retry.next(random)).await;
            return false;
        }
        // Split votes before this release say nothing about the clients that contend for it.
        retry_state.retry.reset();
        !delay.is_zero() && timeout(delay, wakeup.notified()).await.is_ok()
    }

    /// Asks the nodes who holds the lock, for the wait and for the error. Returns when the next poll is due
    /// at the latest; `None` if no client is known to keep it from us.
    async fn inspect_holders(&mut self) -> Option<Duration> {
        let random = self.random();
        self.retry_state.get_or_insert_default().inspected_at = Some(self.nodes.ctx.clock.now());
        if let Some(slots) = &mut self.slots {
            let limit = self.limits.wait.saturating_sub(self.nodes.ctx.clock.now().since(self.start));
            let looked = timeout(limit, slots.look(self.nodes)).await;
            return matches!(looked, Ok(Ok(false))).then_some(POLL_CAP);
        }
        let inspection = inspect_all(self.nodes, &self.params.names, Answers::Majority);
        if let Ok(found) = timeout(self.left(), inspection).await {
            let found = found.ok();
            for held in found.iter().flatten().filter(|found| found.is_held()) {
                self.emit_waiting(held);
            }
            self.hold_off_readers(found.as_deref().unwrap_or_default());
            self.retry_state.get_or_insert_default().last_inspection = found;
        }
        let retry_state = self.retry_state.as_mut()?;
        let found = retry_state.last_inspection.as_ref()?;
        let lefts = found.iter().filter(|found| found.is_held()).map(|found| found.left);
        let ends = lefts.map(|left| left.map_or(POLL_CAP, |left| left + Duration::from_millis(1))).max()?;
        let is_shared =
            |found: &Inspection| matches!(found.holder, Holder::Shared { .. }) || !found.is_held();
        if self.params.mode == Mode::Shared && found.iter().all(is_shared) {
            // Readers keep no reader out. Either a client that waits to write does, and its release sends a
            // hint, or the writer that refused us has just become a reader, and sends none.
            return Some(ends.min(retry_state.retry.next(random)));
        }
        Some(ends)
    }

    /// While this call waits to hold names exclusively that others share, no further client may share them.
    fn hold_off_readers(&mut self, found: &[Inspection]) {
        let is_shared = found.iter().any(|found| matches!(found.holder, Holder::Shared { .. }));
        if is_shared && self.takes_turns() {
            let (nodes, names) = (self.nodes, self.params.names.clone());
            let retry_state = self.retry_state.get_or_insert_default();
            retry_state.hold_off.get_or_insert_with(|| ReaderHoldOff::new(nodes, names)).renew();
        }
    }

    fn emit_waiting(&self, held: &Inspection) {
        let holder = match &held.holder {
            Holder::Owner { owner, .. } => Some(owner.clone()),
            Holder::Shared { readers } => readers.first().map(|reader| reader.owner.clone()),
            Holder::Foreign(_) | Holder::Nobody | Holder::Unknown | Holder::Waiting => None,
        };
        self.nodes.ctx.emit(&Event::Waiting { name: held.name.clone(), holder, left: held.left });
    }
}
