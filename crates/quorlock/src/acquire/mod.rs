//! The one loop that retries: try, look who has it, wait for a hint or a jittered poll, try again.

pub(crate) mod attempt;
pub(crate) mod hint_backoff;
pub(crate) mod hint_subscription;
pub(crate) mod name_queue;

use crate::acquire::attempt::{Candidate, Cause, Grant, Refusal, attempt};
use crate::acquire::hint_backoff::hold_back;
use crate::acquire::hint_subscription::Watching;
use crate::acquire::name_queue::{Line, Turn};
use crate::context::entropy;
use crate::context::event::Event;
use crate::context::options::Options;
use crate::error::{AcquireError, Holder, Said};
use crate::inspect::{Hear, InspectError, Inspection, inspect};
use crate::quorum::Voters;
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
const COURTESY: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(5));

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
pub(crate) struct Contender<'a> {
    voters: &'a Voters,
    candidate: Candidate<'a>,
    line: &'a Arc<Line>,
    limits: Limits,
    start: Moment,
    attempts: u32,
    turn: Option<Turn<'a>>,
    /// Kept apart, as most are granted at once, and thousands may be about to try.
    patience: Option<Box<Patience<'a>>>,
}

/// What a contender needs once an attempt was refused.
#[derive(Debug)]
struct Patience<'a> {
    retry: Backoff,
    poll: Backoff,
    watching: Option<Watching<'a>>,
    last: Option<Refusal>,
    seen: Option<Inspection>,
    /// How many hints came so far.
    hints: usize,
    /// Whether the last attempt followed a hint.
    hinted: bool,
}

impl Default for Patience<'_> {
    fn default() -> Self {
        Self {
            retry: Backoff::new(RETRY_FLOOR, RETRY_CAP),
            poll: Backoff::new(POLL_FLOOR, POLL_CAP),
            watching: None,
            last: None,
            seen: None,
            hints: 0,
            hinted: false,
        }
    }
}

impl<'a> Contender<'a> {
    pub(crate) fn new(
        voters: &'a Voters,
        candidate: Candidate<'a>,
        line: &'a Arc<Line>,
        limits: Limits,
    ) -> Self {
        Self {
            voters,
            candidate,
            line,
            limits,
            start: voters.around.clock.now(),
            attempts: 0,
            turn: None,
            patience: None,
        }
    }

    /// Contends until the lock is granted, a limit is reached or the caller cancels.
    ///
    /// # Cancel safety
    /// Cancel safe: an attempt under way is undone on every node, and the place in the line is given up.
    pub(crate) async fn run(&mut self) -> Result<(Grant, Option<Turn<'a>>), AcquireError> {
        let result = match &self.candidate.options.cancel {
            None => self.contend().await,
            Some(cancel) => tokio::select! {
                biased;
                () = cancel.cancelled() => Err(AcquireError::Cancelled { lock: self.candidate.name.clone() }),
                result = self.contend() => result,
            },
        };
        match &result {
            Ok(grant) => self.voters.around.emit(&Event::Acquired {
                name: self.candidate.name.clone(),
                fence: grant.lease.fence(),
                waited: grant.at.since(self.start),
                took: grant.took,
                attempts: self.attempts,
                votes: grant.votes,
                validity: self.candidate.options.ttl.validity(),
            }),
            Err(error) => self.voters.around.emit(&Event::GaveUp {
                name: self.candidate.name.clone(),
                why: error.kind(),
                waited: self.waited(),
                attempts: self.attempts,
            }),
        }
        // The subscription ends before the next in line can begin its own.
        self.patience = None;
        result.map(|grant| (grant, self.turn.take()))
    }

    async fn contend(&mut self) -> Result<Grant, AcquireError> {
        if !self.voters.is_settled() && Box::pin(timeout(self.grace(), self.voters.settle())).await.is_err() {
            return Box::pin(self.give_up()).await;
        }
        let line = self.line;
        // A single try does not queue: it answers what is true now.
        if self.limits.waits {
            match line.turn(|| self.left()).await {
                Ok(Some(turn)) => self.turn = Some(turn),
                Ok(None) => return Box::pin(self.give_up()).await,
                Err(waiters) => {
                    return Err(AcquireError::Crowded { lock: self.candidate.name.clone(), waiters });
                }
            }
        }
        loop {
            if self.limits.waits && self.wait_for_neighbour().await.is_err() {
                return Box::pin(self.give_up()).await;
            }
            if self.turn.is_some() && self.line.owes_a_turn() {
                let pause = backoff::between(COURTESY.0, COURTESY.1, self.random());
                sleep(pause.min(self.left())).await;
            }
            // Waiting here is no attempt, and the attempt's time begins behind it.
            let Some(permit) = self.attempt_permit().await else {
                return Box::pin(self.give_up()).await;
            };
            let until = self.start + self.limits.wait.saturating_add(self.voters.around.node_timeout);
            // Thousands may wait before this, and few come here at a time.
            let tried = Box::pin(attempt(self.voters, &self.candidate, until)).await;
            drop(permit);
            if let Some(grant) = self.take(tried) {
                return Ok(grant);
            }
            if !self.limits.waits {
                Box::pin(self.settle_split()).await?;
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
        let attempts = &self.voters.attempts;
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
    async fn settle_split(&mut self) -> Result<(), AcquireError> {
        if self.attempts <= 1 {
            self.limits.wait = self.limits.wait.min(self.waited() + SPLIT_TIME);
        }
        let is_spent = self.is_spent();
        let error = self.reason().await;
        if is_spent || !matches!(error, AcquireError::Contended { .. }) {
            return Err(error);
        }
        self.hold_off().await;
        Ok(())
    }

    /// While a guard of this very process has the lock, there is no need to ask any node.
    async fn wait_for_neighbour(&self) -> Result<(), OutOfTime> {
        while let Some(left) = self.line.held_for() {
            if self.left().is_zero() {
                return Err(OutOfTime);
            }
            let _ = timeout(left.min(self.left()), self.line.bell().heard()).await;
        }
        Ok(())
    }

    /// Takes note of how an attempt went; gives the grant, if it is one.
    fn take(&mut self, tried: Result<Grant, Refusal>) -> Option<Grant> {
        match tried {
            Ok(grant) => {
                self.attempts += 1;
                self.line.note(true);
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
        self.voters.around.emit(&Event::Refused {
            name: self.candidate.name.clone(),
            attempt: self.attempts,
            votes: refusal.votes,
            denied: refusal.denied,
            missing: refusal.missing,
        });
        self.line.note(false);
        let longest = self.voters.around.node_timeout * 3;
        let patience = self.patience.get_or_insert_default();
        patience.retry.raise_floor(refusal.took.min(longest));
        patience.last = Some(refusal);
    }

    /// Waits as long as makes sense after a refusal.
    async fn pause(&mut self) {
        let patience = self.patience.get_or_insert_default();
        let was_hinted = std::mem::take(&mut patience.hinted);
        let Some(refusal) = patience.last.as_ref().filter(|refusal| refusal.cause == Cause::Held) else {
            return self.hold_off().await;
        };
        // Others used the hint first, and their release will be heard: no need to look who it is.
        let is_taken = was_hinted && refusal.votes == 0 && patience.watching.is_some();
        let mut ends = POLL_CAP;
        if !is_taken {
            // Subscribed before the look: a release between the two rings the bell.
            let (voters, name, line) = (self.voters, self.candidate.name, self.line);
            patience.watching.get_or_insert_with(|| Watching::start(voters, name, line));
            let Some(seen) = self.look().await.filter(|seen| seen.is_held()) else {
                // Nobody has a majority: several contend, or it was just released.
                return self.hold_off().await;
            };
            ends = seen.left.map_or(POLL_CAP, |left| left + Duration::from_millis(1));
        }
        let random = self.random();
        let delay = self.patience.get_or_insert_default().poll.next(random).min(ends).min(self.left());
        if timeout(delay, self.line.bell().heard()).await.is_ok() {
            self.follow_hint().await;
        }
    }

    /// Waits for those who contend to be through.
    async fn hold_off(&mut self) {
        let random = self.random();
        let delay = self.patience.get_or_insert_default().retry.next(random);
        sleep(delay.min(self.left())).await;
    }

    /// Holds back after a hint as long as others should go first.
    async fn follow_hint(&mut self) {
        let random = self.random();
        let patience = self.patience.get_or_insert_default();
        patience.poll.reset();
        let delay = hold_back(self.line.bell().crowd(), patience.hints, random);
        patience.hints += 1;
        patience.hinted = true;
        if !delay.is_zero() {
            sleep(delay.min(self.left())).await;
        }
    }

    /// Asks who has the lock, for the wait and for the error; tells what was seen last.
    async fn look(&mut self) -> Option<&Inspection> {
        let look = inspect(self.voters, self.candidate.name, Hear::Majority);
        if let Ok(seen) = timeout(self.left(), look).await {
            let holder = seen.as_ref().ok().filter(|seen| seen.is_held());
            if let Some(seen) = holder {
                self.tell_of(seen);
            }
            self.patience.get_or_insert_default().seen = seen.ok();
        }
        self.patience.as_ref()?.seen.as_ref()
    }

    fn tell_of(&self, seen: &Inspection) {
        let holder = match &seen.holder {
            Holder::Owner { owner, .. } => Some(owner.clone()),
            Holder::Foreign(_) | Holder::Nobody => None,
        };
        let name = self.candidate.name.clone();
        self.voters.around.emit(&Event::Waiting { name, holder, left: seen.left });
    }

    async fn give_up(&mut self) -> Result<Grant, AcquireError> {
        Err(self.reason().await)
    }

    /// The error that says why, from the last attempt, or from a look if there was none.
    async fn reason(&mut self) -> AcquireError {
        let lock = self.candidate.name.clone();
        match self.patience.as_mut().and_then(|patience| patience.last.take()) {
            Some(refusal) if refusal.cause == Cause::NoQuorum => AcquireError::NoQuorum {
                lock,
                quorum: self.voters.quorum,
                answered: refusal.votes + refusal.denied,
                nodes: refusal.nodes,
            },
            Some(refusal) if refusal.cause == Cause::TooSlow => {
                AcquireError::TooSlow { lock, took: refusal.took, ttl: self.candidate.options.ttl.span() }
            }
            last => self.held_or_unreachable(last.is_some()).await,
        }
    }

    /// Looks which client has it. `was_refused` if the last attempt was refused by nodes that could vote.
    async fn held_or_unreachable(&mut self, was_refused: bool) -> AcquireError {
        let (lock, quorum) = (self.candidate.name.clone(), self.voters.quorum);
        // What is left of the limit bounds this last look, too.
        let look = inspect(self.voters, self.candidate.name, Hear::Majority);
        let seen = match timeout(self.grace(), look).await {
            Ok(Ok(seen)) => Some(seen),
            Ok(Err(InspectError { nodes, .. })) => {
                let answered = nodes.iter().filter(|report| matches!(report.said, Said::Yes)).count();
                return AcquireError::NoQuorum { lock, quorum, answered, nodes };
            }
            Err(_) => self.patience.as_mut().and_then(|patience| patience.seen.take()),
        };
        let waited = self.waited();
        match seen {
            Some(seen) if seen.is_held() => {
                AcquireError::Held { lock, holder: seen.holder, left: seen.left, waited }
            }
            Some(_) => AcquireError::Contended { lock, attempts: self.attempts, waited },
            None if was_refused => AcquireError::Held { lock, holder: Holder::Nobody, left: None, waited },
            None => AcquireError::NoQuorum { lock, quorum, answered: 0, nodes: self.voters.troubles() },
        }
    }

    fn waited(&self) -> Duration {
        self.voters.around.clock.now().since(self.start)
    }

    fn left(&self) -> Duration {
        self.limits.wait.saturating_sub(self.waited())
    }

    /// What is left for an attempt: the wait limit is kept to within one node timeout.
    fn grace(&self) -> Duration {
        self.limits.wait.saturating_add(self.voters.around.node_timeout).saturating_sub(self.waited())
    }

    fn random(&self) -> u64 {
        entropy::number(self.voters.around.entropy.as_ref())
    }
}

struct OutOfTime;
