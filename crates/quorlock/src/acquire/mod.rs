//! The one loop that retries: try, look who has it, wait for a hint or a jittered poll, try again.

pub(crate) mod attempt;
pub(crate) mod hint_backoff;
pub(crate) mod hint_subscription;
pub(crate) mod name_queue;

use crate::acquire::attempt::{AttemptParams, Cause, Grant, Refusal, attempt};
use crate::acquire::hint_backoff::stagger;
use crate::acquire::hint_subscription::HintSubscription;
use crate::acquire::name_queue::{NameQueue, QueueTurn};
use crate::context::entropy;
use crate::context::event::{Event, GaveUpReason};
use crate::context::options::Options;
use crate::error::{AcquireError, Holder, NodeOutcome};
use crate::inspect::{Hear, InspectError, Inspection, inspect};
use crate::quorum::Nodes;
use quorlock_core::{Backoff, Moment, backoff};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use tokio::time::{sleep, timeout};

/// The poll behind the hints: from the floor to the cap, never past the holder's remaining ttl.
const POLL_FLOOR: Duration = Duration::from_millis(100);
const POLL_CAP: Duration = Duration::from_secs(1);
/// The delay after a split vote or without quorum: at least as long as the attempt took.
const RETRY_FLOOR: Duration = Duration::from_millis(2);
const RETRY_CAP: Duration = Duration::from_millis(500);

/// How often, and for how long, a single try contends while no client has a majority. With three clients in three zones
/// five of six splits end with the second attempt.
const SPLIT_ATTEMPTS: u32 = 16;
const SPLIT_TIME: Duration = Duration::from_secs(5);

/// How long a busy line holds back, so that waiters of other processes can use the hint that they got.
const YIELD_PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));

/// Which bounds a call has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long it may wait; an attempt under way may exceed it by one node timeout.
    pub(crate) wait: Duration,
    /// How many attempts it may make.
    pub(crate) attempts: u32,
    /// Whether it waits for a holder to let go. If not, it tries again only while no client has a majority.
    pub(crate) waits: bool,
}

impl Limits {
    /// No waiting: attempts until one client has a majority.
    pub(crate) fn once(options: &Options) -> Self {
        Self { wait: options.ttl.validity(), attempts: SPLIT_ATTEMPTS, waits: false }
    }

    /// As the options say.
    pub(crate) fn of(options: &Options) -> Self {
        Self { wait: options.wait, attempts: options.attempts, waits: options.attempts > 1 }
    }
}

/// A contender for one name.
#[derive(Debug)]
pub(crate) struct Acquirer<'a> {
    nodes: &'a Nodes,
    params: AttemptParams<'a>,
    queue: &'a Arc<NameQueue>,
    limits: Limits,
    start: Moment,
    attempts: u32,
    turn: Option<QueueTurn<'a>>,
    /// Kept apart, as most are granted at once, and thousands may be about to try.
    retry_state: Option<Box<RetryState<'a>>>,
}

/// What a contender needs once an attempt was refused.
#[derive(Debug)]
struct RetryState<'a> {
    retry: Backoff,
    poll: Backoff,
    subscription: Option<HintSubscription<'a>>,
    last: Option<Refusal>,
    seen: Option<Inspection>,
    /// How many hints came so far.
    hints: usize,
    /// Whether the last attempt followed a hint.
    hinted: bool,
}

impl Default for RetryState<'_> {
    fn default() -> Self {
        Self {
            retry: Backoff::new(RETRY_FLOOR, RETRY_CAP),
            poll: Backoff::new(POLL_FLOOR, POLL_CAP),
            subscription: None,
            last: None,
            seen: None,
            hints: 0,
            hinted: false,
        }
    }
}

impl<'a> Acquirer<'a> {
    pub(crate) fn new(
        nodes: &'a Nodes,
        params: AttemptParams<'a>,
        queue: &'a Arc<NameQueue>,
        limits: Limits,
    ) -> Self {
        Self {
            nodes,
            params,
            queue,
            limits,
            start: nodes.ctx.clock.now(),
            attempts: 0,
            turn: None,
            retry_state: None,
        }
    }

    /// Contends until the lock is granted, a limit is reached or the caller cancels.
    ///
    /// # Cancel safety
    /// Cancel safe: an attempt under way is undone on every node, and the place in the line is given up.
    pub(crate) async fn run(&mut self) -> Result<(Grant, Option<QueueTurn<'a>>), AcquireError> {
        let result = match &self.params.options.cancel {
            None => self.acquire_loop().await,
            Some(cancel) => tokio::select! {
                biased;
                () = cancel.cancelled() => Err(AcquireError::Cancelled { lock: self.params.name.clone() }),
                result = self.acquire_loop() => result,
            },
        };
        match &result {
            Ok(grant) => self.nodes.ctx.emit(&Event::Acquired {
                name: self.params.name.clone(),
                fence: grant.lease.fence(),
                waited: grant.at.since(self.start),
                took: grant.took,
                attempts: self.attempts,
                votes: grant.votes,
                validity: self.params.options.ttl.validity(),
            }),
            Err(error) => self.nodes.ctx.emit(&Event::GaveUp {
                name: self.params.name.clone(),
                reason: gave_up_reason(error),
                waited: self.waited(),
                attempts: self.attempts,
            }),
        }
        // The subscription ends before the next in line can begin its own.
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
        // A single try does not queue: it answers what is true now.
        if self.limits.waits {
            match queue.turn(|| self.left()).await {
                Ok(Some(turn)) => self.turn = Some(turn),
                Ok(None) => return Box::pin(self.give_up()).await,
                Err(waiters) => {
                    return Err(AcquireError::TooManyWaiters { lock: self.params.name.clone(), waiters });
                }
            }
        }
        loop {
            if self.limits.waits && self.wait_for_local_holder().await.is_err() {
                return Box::pin(self.give_up()).await;
            }
            if self.turn.is_some() && self.queue.must_yield() {
                let pause = backoff::between(YIELD_PAUSE.0, YIELD_PAUSE.1, self.random());
                sleep(pause.min(self.left())).await;
            }
            // Waiting here is no attempt, and the attempt's time begins behind it.
            let Some(permit) = self.attempt_permit().await else {
                return Box::pin(self.give_up()).await;
            };
            let until = self.start + self.limits.wait.saturating_add(self.nodes.ctx.node_timeout);
            // Thousands may wait before this, and few come here at a time.
            let tried = Box::pin(attempt(self.nodes, &self.params, until)).await;
            drop(permit);
            if let Some(grant) = self.take(tried) {
                return Ok(grant);
            }
            if !self.limits.waits {
                Box::pin(self.retry_split()).await?;
                continue;
            }
            if self.is_spent() {
                return Box::pin(self.give_up()).await;
            }
            Box::pin(self.pause()).await;
        }
    }

    /// Waits until few enough attempts of the locker are under way; `None` if that takes too long.
    ///
    /// An attempt waits for nodes alone, each for a node timeout at most, so every permit comes back.
    async fn attempt_permit(&self) -> Option<SemaphorePermit<'a>> {
        let attempts = &self.nodes.attempts;
        match attempts.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => Box::pin(timeout(self.left(), attempts.acquire())).await.ok()?.ok(),
        }
    }

    fn is_spent(&self) -> bool {
        self.attempts >= self.limits.attempts || self.left().is_zero()
    }

    /// After a single try was refused: waits before the next attempt if no client has a majority.
    ///
    /// Several clients that try at the same moment may get one vote each, and all are refused. None of them may take that
    /// for a lock that is held, or none does the work. A look that finds one token on a majority is proof: each attempt
    /// has a token of its own, and one that a majority granted is undone only by a client that is cancelled, reports an
    /// error or tries again. Our own undo reaches every node before the look does.
    async fn retry_split(&mut self) -> Result<(), AcquireError> {
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

    /// While a guard of this very process has the lock, there is no need to ask any node.
    async fn wait_for_local_holder(&self) -> Result<(), OutOfTime> {
        while let Some(left) = self.queue.held_for() {
            if self.left().is_zero() {
                return Err(OutOfTime);
            }
            let _ = timeout(left.min(self.left()), self.queue.wakeup().notified()).await;
        }
        Ok(())
    }

    /// Takes note of how an attempt went; gives the grant, if it is one.
    fn take(&mut self, tried: Result<Grant, Refusal>) -> Option<Grant> {
        match tried {
            Ok(grant) => {
                self.attempts += 1;
                self.queue.note(true);
                return Some(grant);
            }
            // Nodes whose time was cut short may be well.
            Err(refusal) if refusal.cause == Cause::NoQuorum && self.grace().is_zero() => {}
            Err(refusal) => self.note(refusal),
        }
        None
    }

    fn note(&mut self, refusal: Refusal) {
        self.attempts += 1;
        self.nodes.ctx.emit(&Event::Refused {
            name: self.params.name.clone(),
            attempt: self.attempts,
            votes: refusal.votes,
            denied: refusal.denied,
            missing: refusal.missing,
        });
        self.queue.note(false);
        let longest = self.nodes.ctx.node_timeout * 3;
        let retry_state = self.retry_state.get_or_insert_default();
        retry_state.retry.raise_floor(refusal.took.min(longest));
        retry_state.last = Some(refusal);
    }

    /// Waits as long as makes sense after a refusal.
    async fn pause(&mut self) {
        let retry_state = self.retry_state.get_or_insert_default();
        let was_hinted = std::mem::take(&mut retry_state.hinted);
        let Some(refusal) = retry_state.last.as_ref().filter(|refusal| refusal.cause == Cause::Held) else {
            return self.back_off().await;
        };
        // Others used the hint first, and their release will be heard: no need to look who it is.
        let is_taken = was_hinted && refusal.votes == 0 && retry_state.subscription.is_some();
        let mut ends = POLL_CAP;
        if !is_taken {
            // Subscribed before the look: a release between the two rings the bell.
            let (nodes, name, queue) = (self.nodes, self.params.name, self.queue);
            retry_state.subscription.get_or_insert_with(|| HintSubscription::start(nodes, name, queue));
            let Some(seen) = self.inspect_holder().await.filter(|seen| seen.is_held()) else {
                // Nobody has a majority: several contend, or it was just released.
                return self.back_off().await;
            };
            ends = seen.left.map_or(POLL_CAP, |left| left + Duration::from_millis(1));
        }
        let random = self.random();
        let delay = self.retry_state.get_or_insert_default().poll.next(random).min(ends).min(self.left());
        if timeout(delay, self.queue.wakeup().notified()).await.is_ok() {
            self.after_hint().await;
        }
    }

    /// Waits for those who contend to be through.
    async fn back_off(&mut self) {
        let random = self.random();
        let delay = self.retry_state.get_or_insert_default().retry.next(random);
        sleep(delay.min(self.left())).await;
    }

    /// Holds back after a hint as long as others should go first.
    async fn after_hint(&mut self) {
        let random = self.random();
        let retry_state = self.retry_state.get_or_insert_default();
        retry_state.poll.reset();
        let delay = stagger(self.queue.wakeup().subscribers(), retry_state.hints, random);
        retry_state.hints += 1;
        retry_state.hinted = true;
        if !delay.is_zero() {
            sleep(delay.min(self.left())).await;
        }
    }

    /// Asks who has the lock, for the wait and for the error; tells what was seen last.
    async fn inspect_holder(&mut self) -> Option<&Inspection> {
        let inspection = inspect(self.nodes, self.params.name, Hear::Majority);
        if let Ok(seen) = timeout(self.left(), inspection).await {
            let holder = seen.as_ref().ok().filter(|seen| seen.is_held());
            if let Some(seen) = holder {
                self.emit_waiting(seen);
            }
            self.retry_state.get_or_insert_default().seen = seen.ok();
        }
        self.retry_state.as_ref()?.seen.as_ref()
    }

    fn emit_waiting(&self, seen: &Inspection) {
        let holder = match &seen.holder {
            Holder::Owner { owner, .. } => Some(owner.clone()),
            Holder::Foreign(_) | Holder::Nobody => None,
        };
        let name = self.params.name.clone();
        self.nodes.ctx.emit(&Event::Waiting { name, holder, left: seen.left });
    }

    async fn give_up(&mut self) -> Result<Grant, AcquireError> {
        Err(self.reason().await)
    }

    /// The error that says why, from the last attempt, or from a look if there was none.
    async fn reason(&mut self) -> AcquireError {
        let lock = self.params.name.clone();
        match self.retry_state.as_mut().and_then(|retry_state| retry_state.last.take()) {
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

    /// Looks which client has it. `was_refused` if the last attempt was refused by nodes that could vote.
    async fn held_or_unreachable(&mut self, was_refused: bool) -> AcquireError {
        let (lock, quorum) = (self.params.name.clone(), self.nodes.quorum);
        // What is left of the limit bounds this last look, too.
        let inspection = inspect(self.nodes, self.params.name, Hear::Majority);
        let seen = match timeout(self.grace(), inspection).await {
            Ok(Ok(seen)) => Some(seen),
            Ok(Err(InspectError { nodes, .. })) => {
                let answered =
                    nodes.iter().filter(|report| matches!(report.outcome, NodeOutcome::Yes)).count();
                return AcquireError::NoQuorum { lock, quorum, answered, nodes };
            }
            Err(_) => self.retry_state.as_mut().and_then(|retry_state| retry_state.seen.take()),
        };
        let waited = self.waited();
        match seen {
            Some(seen) if seen.is_held() => {
                AcquireError::Held { lock, holder: seen.holder, left: seen.left, waited }
            }
            Some(_) => AcquireError::Contended { lock, attempts: self.attempts, waited },
            None if was_refused => AcquireError::Held { lock, holder: Holder::Nobody, left: None, waited },
            None => AcquireError::NoQuorum { lock, quorum, answered: 0, nodes: self.nodes.troubles() },
        }
    }

    fn waited(&self) -> Duration {
        self.nodes.ctx.clock.now().since(self.start)
    }

    fn left(&self) -> Duration {
        self.limits.wait.saturating_sub(self.waited())
    }

    /// What is left for an attempt: the wait limit is kept to within one node timeout.
    fn grace(&self) -> Duration {
        self.limits.wait.saturating_add(self.nodes.ctx.node_timeout).saturating_sub(self.waited())
    }

    fn random(&self) -> u64 {
        entropy::number(self.nodes.ctx.entropy.as_ref())
    }
}

fn gave_up_reason(error: &AcquireError) -> GaveUpReason {
    match error {
        AcquireError::Held { .. } => GaveUpReason::Held,
        AcquireError::Contended { .. } => GaveUpReason::Contended,
        AcquireError::NoQuorum { .. } => GaveUpReason::NoQuorum,
        AcquireError::TooSlow { .. } => GaveUpReason::TooSlow,
        AcquireError::Cancelled { .. } => GaveUpReason::Cancelled,
        AcquireError::TooManyWaiters { .. } => GaveUpReason::TooManyWaiters,
        AcquireError::Config { .. } => GaveUpReason::Config,
    }
}

struct OutOfTime;
