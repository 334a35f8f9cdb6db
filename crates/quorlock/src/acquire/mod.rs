//! The one loop that retries: try, find out who holds the lock, wait for a hint or a jittered poll, try
//! again.

pub(crate) mod attempt;
pub(crate) mod hint_backoff;
pub(crate) mod hint_subscription;
pub(crate) mod name_queue;
pub(crate) mod reader_hold_off;
pub(crate) mod slots;

use crate::acquire::attempt::{AttemptParams, Cause, Grant, Refusal, attempt};
use crate::acquire::hint_backoff::stagger;
use crate::acquire::hint_subscription::HintSubscription;
use crate::acquire::name_queue::{NameQueue, NameQueues, QueueTurn};
use crate::acquire::reader_hold_off::ReaderHoldOff;
use crate::acquire::slots::{SlotChoice, SlotsError};
use crate::context::entropy;
use crate::context::event::{Event, GaveUpReason};
use crate::context::injected_bug::InjectedBug;
use crate::context::options::Options;
use crate::error::{AcquireError, HeldName, Holder, NodeOutcome};
use crate::inspect::{Answers, InspectError, Inspection, inspect_all};
use crate::node::Wakeup;
use crate::quorum::Nodes;
use quorlock_core::{Backoff, Mode, Moment, NameSet, backoff};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio::time::{sleep, timeout};

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

/// How long a busy queue pauses, so that waiters of other clients can use the hint that they got.
const YIELD_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));

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
                let pause = backoff::between(YIELD_PAUSE.0, YIELD_PAUSE.1, self.random());
                sleep(pause.min(self.left())).await;
            }
            // Waiting for a permit is no attempt: the time of the attempt begins after it.
            let Some(permit) = self.attempt_permit().await else {
                return Box::pin(self.give_up()).await;
            };
            if self.slots.is_some() {
                Box::pin(self.choose_slots()).await?;
            }
            let until = self.hard_deadline();
            // Boxed: thousands of calls may wait before this point, and few reach it at the same time.
            let tried = Box::pin(attempt(self.nodes, &self.params, until)).await;
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
        match attempts.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => timeout(self.left(), attempts.acquire()).await.ok()?.ok(),
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

    /// Chooses the slots of the next attempt.
    async fn choose_slots(&mut self) -> Result<(), AcquireError> {
        let random = self.random();
        let limit = self.grace();
        let Some(slots) = &mut self.slots else { return Ok(()) };
        let semaphore: NameSet = slots.semaphore().clone().into();
        match timeout(limit, slots.choose(self.nodes, random)).await {
            Ok(Ok(names)) => {
                self.params.names = names;
                Ok(())
            }
            Ok(Err(error)) => Err(slots_error(semaphore, self.nodes, error)),
            Err(_) => Err(AcquireError::NoQuorum {
                lock: semaphore,
                quorum: self.nodes.quorum,
                answered: 0,
                nodes: self.nodes.troubles(),
            }),
        }
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

    /// Waits while a guard of this locker holds the lock: until then no node needs to be asked.
    async fn wait_for_local_holder(&self) -> Result<(), OutOfTime> {
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

    /// Waits before the next attempt: for a hint or the next poll while another client holds the lock,
    /// else a short delay.
    async fn pause(&mut self) {
        let retry_state = self.retry_state.get_or_insert_default();
        let hinted = retry_state.hinted.take();
        let Some(refusal) = retry_state.last_refusal.as_ref().filter(|refusal| refusal.cause == Cause::Held)
        else {
            return self.back_off().await;
        };
        // Another client used the hint first, and its release will send the next one: no need to inspect.
        let is_taken = hinted.is_some() && refusal.votes == 0 && retry_state.subscription.is_some();
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
                // No client has a majority: several contend, or the lock was just released.
                return self.back_off().await;
            };
            ends = left;
            if subscribes_late {
                self.subscribe();
            }
        }
        let random = self.random();
        let delay = self.retry_state.get_or_insert_default().poll.next(random).min(ends).min(self.left());
        if timeout(delay, self.wakeup().notified()).await.is_ok() {
            self.after_hint().await;
        }
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
    async fn back_off(&mut self) {
        let random = self.random();
        let delay = self.retry_state.get_or_insert_default().retry.next(random);
        sleep(delay.min(self.left())).await;
    }

    /// After a hint, waits while clients that have waited longer should try first.
    async fn after_hint(&mut self) {
        let (random, majority) = (self.random(), self.nodes.quorum.needed());
        let wakeup = self.wakeup().clone();
        // Readers that try at the same moment do not disturb each other.
        let subscribers = if self.params.mode == Mode::Shared { 1 } else { wakeup.subscribers() };
        let retry_state = self.retry_state.get_or_insert_default();
        retry_state.poll.reset();
        let mut delay = stagger(subscribers, retry_state.missed_hints, random);
        if !self.params.names.is_single() {
            // Clients that want several names disturb each other even where neither gets all of its names.
            delay += retry_state.retry.next(random);
        }
        // The second notification of a release is no other hint.
        let is_second = std::mem::take(&mut retry_state.awaits_majority) && wakeup.has_hints(majority);
        retry_state.missed_hints += usize::from(!is_second);
        if !delay.is_zero() {
            let left = self.left();
            sleep(delay.min(left)).await;
        }
        let is_known = wakeup.has_hints(majority);
        let hinted = if is_known { Hinted::ByMajority } else { Hinted::Ahead };
        self.retry_state.get_or_insert_default().hinted = Some(hinted);
    }

    /// Asks the nodes who holds the lock, for the wait and for the error. Returns when the next poll is due
    /// at the latest; `None` if no client is known to keep it from us.
    async fn inspect_holders(&mut self) -> Option<Duration> {
        let random = self.random();
        if let Some(slots) = &mut self.slots {
            let limit = self.limits.wait.saturating_sub(self.nodes.ctx.clock.now().since(self.start));
            let looked = timeout(limit, slots.look(self.nodes, random)).await;
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
        let found = self.retry_state.as_ref()?.last_inspection.as_ref()?;
        let lefts = found.iter().filter(|found| found.is_held()).map(|found| found.left);
        lefts.map(|left| left.map_or(POLL_CAP, |left| left + Duration::from_millis(1))).max()
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

    async fn give_up(&mut self) -> Result<Grant, AcquireError> {
        Err(self.reason().await)
    }

    /// The error of the call: from the last attempt, or from an inspection if there was none.
    async fn reason(&mut self) -> AcquireError {
        let lock = self.subject();
        match self.retry_state.as_mut().and_then(|retry_state| retry_state.last_refusal.take()) {
            Some(refusal) if refusal.cause == Cause::NoQuorum => AcquireError::NoQuorum {
                lock,
                quorum: self.nodes.quorum,
                answered: refusal.votes + refusal.denied,
                nodes: refusal.nodes,
            },
            Some(refusal) if refusal.cause == Cause::TooSlow => {
                AcquireError::TooSlow { lock, took: refusal.took, ttl: self.params.options.ttl.span() }
            }
            last => self.held_or_unreachable(last.is_some()).await,
        }
    }

    /// Inspects the lock to choose the error. `was_refused`: nodes that could vote refused the last attempt.
    async fn held_or_unreachable(&mut self, was_refused: bool) -> AcquireError {
        let (lock, quorum) = (self.subject(), self.nodes.quorum);
        if self.slots.is_some() {
            return self.full_or_unreachable().await;
        }
        // The rest of the time limit bounds this last inspection, too.
        let inspection = inspect_all(self.nodes, &self.params.names, Answers::Majority);
        let found = match timeout(self.grace(), inspection).await {
            Ok(Ok(found)) => Some(found),
            Ok(Err(InspectError { nodes, .. })) => {
                let answered =
                    nodes.iter().filter(|report| matches!(report.outcome, NodeOutcome::Yes)).count();
                return AcquireError::NoQuorum { lock, quorum, answered, nodes };
            }
            Err(_) => self.retry_state.as_mut().and_then(|retry_state| retry_state.last_inspection.take()),
        };
        let waited = self.waited();
        match found {
            Some(found) if found.iter().any(Inspection::is_held) => self.held(found),
            Some(_) => AcquireError::Contended { lock, attempts: self.attempts, waited },
            None if was_refused => AcquireError::Held { lock, holder: Holder::Unknown, left: None, waited },
            None => AcquireError::NoQuorum { lock, quorum, answered: 0, nodes: self.nodes.troubles() },
        }
    }

    /// The error that names each holder.
    fn held(&self, found: Vec<Inspection>) -> AcquireError {
        let (lock, waited) = (self.subject(), self.waited());
        let is_shared = self.params.mode == Mode::Shared;
        let held = found.into_iter().filter(Inspection::is_held).map(|found| HeldName {
            name: found.name,
            // Readers keep no reader out: a client that waits to write does.
            holder: match found.holder {
                Holder::Shared { .. } if is_shared => Holder::Waiting,
                holder => holder,
            },
            left: found.left,
        });
        let mut held: Vec<HeldName> = held.collect();
        if lock.is_single() && held.len() == 1 {
            let HeldName { holder, left, .. } = held.remove(0);
            return AcquireError::Held { lock, holder, left, waited };
        }
        AcquireError::NamesHeld { lock, held, waited }
    }

    /// Looks at the slots to choose the error.
    async fn full_or_unreachable(&mut self) -> AcquireError {
        let (lock, limit, random, waited) = (self.subject(), self.grace(), self.random(), self.waited());
        let (nodes, attempts) = (self.nodes, self.attempts);
        let Some(slots) = &mut self.slots else {
            return AcquireError::Contended { lock, attempts, waited };
        };
        match timeout(limit, slots.look(nodes, random)).await {
            Ok(Ok(true)) => AcquireError::Contended { lock, attempts, waited },
            Ok(Err(error)) => slots_error(lock, nodes, error),
            Ok(Ok(false)) | Err(_) => AcquireError::NoPermit { lock, slots: slots.count(), waited },
        }
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

/// Why no slot of `semaphore` could be chosen.
fn slots_error(semaphore: NameSet, nodes: &Nodes, error: SlotsError) -> AcquireError {
    let (lock, quorum) = (semaphore, nodes.quorum);
    match error {
        SlotsError::NoQuorum { answered, nodes } => AcquireError::NoQuorum { lock, quorum, answered, nodes },
        SlotsError::Differ { recorded } => AcquireError::SlotsDiffer { lock, recorded },
    }
}

fn gave_up_reason(error: &AcquireError) -> GaveUpReason {
    match error {
        AcquireError::Held { .. } | AcquireError::NamesHeld { .. } | AcquireError::NoPermit { .. } => {
            GaveUpReason::Held
        }
        AcquireError::SlotsDiffer { .. } => GaveUpReason::Config,
        AcquireError::Contended { .. } => GaveUpReason::Contended,
        AcquireError::NoQuorum { .. } => GaveUpReason::NoQuorum,
        AcquireError::TooSlow { .. } => GaveUpReason::TooSlow,
        AcquireError::Cancelled { .. } => GaveUpReason::Cancelled,
        AcquireError::TooManyWaiters { .. } => GaveUpReason::TooManyWaiters,
        AcquireError::Config { .. } => GaveUpReason::Config,
    }
}

struct OutOfTime;
