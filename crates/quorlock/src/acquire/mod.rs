//! The one loop that retries: try, find out who holds the lock, wait for a hint or a jittered poll, try
//! again.

#[cfg(feature = "simulation")]
mod any_slot;
pub(crate) mod attempt;
mod give_up;
pub(crate) mod hint_backoff;
pub(crate) mod hint_subscription;
mod local_slots;
pub(crate) mod name_queue;
pub(crate) mod reader_hold_off;
pub(crate) mod slots;
mod waiting;

use crate::acquire::attempt::{AttemptParams, Cause, Grant, Refusal, attempt};
use crate::acquire::give_up::{gave_up_reason, slots_error};
use crate::acquire::hint_subscription::HintSubscription;
use crate::acquire::name_queue::{NameQueue, NameQueues, QueueTurn};
use crate::acquire::reader_hold_off::ReaderHoldOff;
use crate::acquire::slots::{SlotChoice, SlotsError};
use crate::context::entropy;
use crate::context::event::Event;
use crate::context::options::Options;
use crate::error::AcquireError;
use crate::inspect::Inspection;
use crate::node::Wakeup;
use crate::quorum::Nodes;
use quorlock_core::{Backoff, Mode, Moment, NameSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

/// How often a waiter polls in case a hint is missed: every 100 ms at first, every 1 s at most, and when the
/// holder's ttl ends.
const POLL_FLOOR: Duration = Duration::from_millis(100);
const POLL_CAP: Duration = Duration::from_secs(1);
/// The delay after a split vote or without quorum: at least as long as the attempt took.
const RETRY_FLOOR: Duration = Duration::from_millis(2);
const RETRY_CAP: Duration = Duration::from_millis(500);

/// How often, and for how long, a single try is repeated while no client has a majority. With three
/// clients in three zones, five of six splits end with the second attempt.
const SPLIT_ATTEMPTS: u32 = 16;
const SPLIT_TIME: Duration = Duration::from_secs(5);

/// The bounds of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long it may wait; an attempt under way may exceed it by one node timeout.
    pub(crate) wait: Duration,
    /// How many attempts it may make.
    pub(crate) attempts: u32,
    /// Whether it waits for a holder to release the lock. If not, it tries again only while no client has
    /// a majority.
    pub(crate) waits: bool,
}

impl Limits {
    /// No waiting: attempts until one client has a majority.
    pub(crate) fn for_try_acquire(options: &Options) -> Self {
        Self { wait: options.ttl.validity(), attempts: SPLIT_ATTEMPTS, waits: false }
    }

    /// The limits that the options set.
    pub(crate) fn for_acquire(options: &Options) -> Self {
        Self { wait: options.wait, attempts: options.attempts, waits: options.attempts > 1 }
    }
}

/// One call that acquires a name, several names together, or permits of a semaphore.
#[derive(Debug)]
pub(crate) struct Acquirer<'a> {
    nodes: &'a Nodes,
    params: AttemptParams<'a>,
    queues: &'a NameQueues,
    queue: &'a Arc<NameQueue>,
    /// The choice of slots, if permits of a semaphore are wanted.
    slots: Option<SlotChoice<'a>>,
    limits: Limits,
    start: Moment,
    attempts: u32,
    turn: Option<QueueTurn<'a>>,
    /// Boxed apart: most calls are granted at once, and thousands may be about to try.
    retry_state: Option<Box<RetryState<'a>>>,
}

/// What a call needs once an attempt was refused.
#[derive(Debug)]
struct RetryState<'a> {
    retry: Backoff,
    poll: Backoff,
    subscription: Option<HintSubscription<'a>>,
    /// Notified by hints, unless that of the queue is.
    wakeup: Wakeup,
    hold_off: Option<ReaderHoldOff<'a>>,
    last_refusal: Option<Refusal>,
    last_inspection: Option<Vec<Inspection>>,
    inspected_at: Option<Moment>,
    /// How many hints came before and did not lead to a grant.
    missed_hints: usize,
    /// Whether the last attempt followed a hint.
    hinted: Option<Hinted>,
    /// Whether the next notification may be the second one of a release.
    awaits_majority: bool,
}

/// How much was known of a release when the attempt after its hint began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hinted {
    /// A majority of the nodes had reported it.
    ByMajority,
    /// Fewer had: the attempt may have reached the others before the release did.
    Ahead,
}

impl Default for RetryState<'_> {
    fn default() -> Self {
        Self {
            retry: Backoff::new(RETRY_FLOOR, RETRY_CAP),
            poll: Backoff::new(POLL_FLOOR, POLL_CAP),
            subscription: None,
            wakeup: Wakeup::new(),
            hold_off: None,
            last_refusal: None,
            last_inspection: None,
            inspected_at: None,
            missed_hints: 0,
            hinted: None,
            awaits_majority: false,
        }
    }
}

impl<'a> Acquirer<'a> {
    pub(crate) fn new(
        nodes: &'a Nodes,
        params: AttemptParams<'a>,
        (queues, queue): (&'a NameQueues, &'a Arc<NameQueue>),
        limits: Limits,
    ) -> Self {
        Self {
            nodes,
            params,
            queues,
            queue,
            slots: None,
            limits,
            start: nodes.ctx.clock.now(),
            attempts: 0,
            turn: None,
            retry_state: None,
        }
    }

    /// Acquires slots that `choice` chooses. The queue is that of the semaphore.
    pub(crate) fn with_slots(mut self, choice: SlotChoice<'a>) -> Self {
        self.slots = Some(choice);
        self
    }

    /// Tries until the lock is granted, a limit is reached or the caller cancels.
    ///
    /// # Cancel safety
    /// Cancel safe: an attempt under way is undone on every node, and the call leaves the queue.
    pub(crate) async fn run(&mut self) -> Result<(Grant, Option<QueueTurn<'a>>), AcquireError> {
        let result = match &self.params.options.cancel {
            None => self.acquire_loop().await,
            Some(cancel) => tokio::select! {
                biased;
                () = cancel.cancelled() => Err(AcquireError::Cancelled { lock: self.subject() }),
                result = self.acquire_loop() => result,
            },
        };
        match &result {
            Ok(grant) => self.nodes.ctx.emit_each(&self.params.names, |name| Event::Acquired {
                name,
                mode: self.params.mode,
                fence: grant.lease.fence(),
                waited: grant.at.since(self.start),
                took: grant.took,
                attempts: self.attempts,
                votes: grant.votes,
                validity: self.params.options.ttl.validity(),
            }),
            Err(error) => self.nodes.ctx.emit_each(&self.subject(), |name| Event::GaveUp {
                name,
                reason: gave_up_reason(error),
                waited: self.waited(),
                attempts: self.attempts,
            }),
        }
        // The subscription ends before the next task of the queue can begin its own.
        self.retry_state = None;
        result.map(|grant| (grant, self.turn.take()))
    }

    async fn acquire_loop(&mut self) -> Result<Grant, AcquireError> {
        if !self.nodes.is_connected()
            && Box::pin(timeout(self.grace(), self.nodes.wait_connected())).await.is_err()
        {
            return Box::pin(self.give_up()).await;
        }
        let queue = self.queue;
        // A single try does not queue: it reports what is true now. Readers do not exclude each other.
        if self.takes_turns() {
            match queue.turn(|| self.left()).await {
                Ok(Some(turn)) => self.turn = Some(turn),
                Ok(None) => return Box::pin(self.give_up()).await,
                Err(waiters) => {
                    return Err(AcquireError::TooManyWaiters { lock: self.subject(), waiters });
                }
            }
        }
        loop {
            if self.takes_turns() && self.wait_for_local_holder().await.is_err() {
                return Box::pin(self.give_up()).await;
            }
            if self.turn.is_some() && self.queue.must_yield() {
                Box::pin(self.yield_to_others()).await;
            }
            // Waiting for a permit is no attempt: the time of the attempt begins after it.
            let Some(permit) = self.attempt_permit().await else {
                return Box::pin(self.give_up()).await;
            };
            let chosen = match self.slots.is_some() {
                true => Box::pin(self.choose_slots()).await?,
                false => Ok(()),
            };
            let until = self.hard_deadline();
            // Boxed: thousands of calls may wait before this point, and few reach it at the same time.
            let tried = match chosen {
                Ok(()) => Box::pin(attempt(self.nodes, &self.params, until)).await,
                Err(refusal) => Err(refusal),
            };
            drop(permit);
            if let Some(grant) = self.record_attempt(tried) {
                return Ok(grant);
            }
            if !self.limits.waits {
                Box::pin(self.back_off_if_split()).await?;
                continue;
            }
            if self.is_spent() {
                return Box::pin(self.give_up()).await;
            }
            Box::pin(self.pause()).await;
        }
    }

    /// Waits until few enough attempts of the locker are under way; `None` if the time of the call ends
    /// first.
    ///
    /// An attempt waits only for nodes, and for each of them at most one node timeout, so every permit
    /// comes back.
    async fn attempt_permit(&self) -> Option<SemaphorePermit<'a>> {
        let attempts = &self.nodes.attempts;
        let names = match &self.slots {
            Some(slots) => slots.permits(),
            None => self.params.names.iter().len(),
        };
        // At most as many as a set has, which is far below all permits.
        let votes = u32::try_from(names).unwrap_or(1);
        match attempts.try_acquire_many(votes) {
            Ok(permit) => Some(permit),
            Err(_) => timeout(self.left(), attempts.acquire_many(votes)).await.ok()?.ok(),
        }
    }

    /// The names that the last attempt asked for.
    pub(crate) fn names(&self) -> &NameSet {
        &self.params.names
    }

    fn takes_turns(&self) -> bool {
        self.limits.waits && self.params.mode == Mode::Exclusive
    }

    /// What errors and events are about: the names, or the semaphore.
    fn subject(&self) -> NameSet {
        match &self.slots {
            Some(slots) => slots.semaphore().clone().into(),
            None => self.params.names.clone(),
        }
    }

    /// Chooses the slots of the next attempt. It is refused before it begins if too few nodes answer.
    async fn choose_slots(&mut self) -> Result<Result<(), Refusal>, AcquireError> {
        let (random, limit, start) = (self.random(), self.grace(), self.nodes.ctx.clock.now());
        let Some(slots) = &mut self.slots else { return Ok(Ok(())) };
        let (answered, nodes) = match timeout(limit, slots.choose(self.nodes, random)).await {
            Ok(Ok(names)) => {
                self.params.names = names;
                return Ok(Ok(()));
            }
            Ok(Err(SlotsError::NoQuorum { answered, nodes })) => (answered, nodes),
            Ok(Err(error)) => {
                let semaphore = slots.semaphore().clone().into();
                return Err(slots_error(semaphore, self.nodes, error));
            }
            Err(_) => (0, self.nodes.troubles()),
        };
        let took = self.nodes.ctx.clock.now().since(start);
        let (denied, missing) = (answered, nodes.len().saturating_sub(answered));
        Ok(Err(Refusal { cause: Cause::NoQuorum, votes: 0, denied, missing, nodes, took }))
    }

    fn is_spent(&self) -> bool {
        self.attempts >= self.limits.attempts || self.left().is_zero()
    }

    /// After a single try was refused: waits before the next attempt if no client has a majority.
    ///
    /// Several clients that try at the same moment may get one vote each, and all are refused. None of
    /// them may mistake that for a lock that is held, or no client does the work. An inspection that finds
    /// one token on a majority proves that the lock is held: each attempt has its own token, and a client
    /// undoes a granted token only if it is cancelled, fails or retries. Our own undo reaches every node
    /// before the inspection does.
    async fn back_off_if_split(&mut self) -> Result<(), AcquireError> {
        if self.attempts <= 1 {
            self.limits.wait = self.limits.wait.min(self.waited() + SPLIT_TIME);
        }
        let is_spent = self.is_spent();
        let error = self.reason().await;
        if is_spent || !matches!(error, AcquireError::Contended { .. }) {
            return Err(error);
        }
        self.back_off().await;
        Ok(())
    }

    /// Waits while a guard of this locker holds the lock, or guards hold all slots: until then no node needs to
    /// be asked.
    async fn wait_for_local_holder(&self) -> Result<(), OutOfTime> {
        // A guard that lost its slot may not know that, so the nodes are asked from time to time.
        while self.slots.as_ref().is_some_and(SlotChoice::are_too_many_held_here) {
            if self.left().is_zero() {
                return Err(OutOfTime);
            }
            if timeout(POLL_CAP.min(self.left()), self.queue.wakeup().notified()).await.is_err() {
                break;
            }
        }
        while let Some(left) = self.queue.held_for() {
            if self.left().is_zero() {
                return Err(OutOfTime);
            }
            let _ = timeout(left.min(self.left()), self.queue.wakeup().notified()).await;
        }
        Ok(())
    }

    /// Records how an attempt went; returns the grant, if it is one.
    fn record_attempt(&mut self, tried: Result<Grant, Refusal>) -> Option<Grant> {
        match tried {
            Ok(grant) => {
                self.attempts += 1;
                if self.params.mode == Mode::Exclusive {
                    self.queue.record_attempt(true);
                }
                return Some(grant);
            }
            // This attempt was cut short by the time limit, so nodes without an answer may be healthy: it
            // does not count.
            Err(refusal) if refusal.cause == Cause::NoQuorum && self.grace().is_zero() => {}
            Err(refusal) => self.record_refusal(refusal),
        }
        None
    }

    fn record_refusal(&mut self, refusal: Refusal) {
        self.attempts += 1;
        self.nodes.ctx.emit_each(&self.params.names, |name| Event::Refused {
            name,
            attempt: self.attempts,
            votes: refusal.votes,
            denied: refusal.denied,
            missing: refusal.missing,
        });
        if self.params.mode == Mode::Exclusive {
            self.queue.record_attempt(false);
        }
        let longest = self.nodes.ctx.node_timeout * 3;
        let retry_state = self.retry_state.get_or_insert_default();
        retry_state.retry.raise_floor(refusal.took.min(longest));
        retry_state.last_refusal = Some(refusal);
    }

    async fn give_up(&mut self) -> Result<Grant, AcquireError> {
        Err(self.reason().await)
    }

    fn waited(&self) -> Duration {
        self.nodes.ctx.clock.now().since(self.start)
    }

    fn left(&self) -> Duration {
        self.limits.wait.saturating_sub(self.waited())
    }

    /// When the call ends at the latest: it exceeds its wait limit by one node timeout at most.
    fn hard_deadline(&self) -> Moment {
        self.start + self.limits.wait.saturating_add(self.nodes.ctx.node_timeout)
    }

    /// What is left until the hard deadline.
    fn grace(&self) -> Duration {
        self.nodes.ctx.clock.now().until(self.hard_deadline())
    }

    fn random(&self) -> u64 {
        entropy::number(self.nodes.ctx.entropy.as_ref())
    }
}

struct OutOfTime;
