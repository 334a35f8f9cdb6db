//! What senders and the driver share: what is to be sent, and what is known about the server.

use crate::context::{RestartGuard, Surroundings};
use crate::node::redis::link::concurrency::Company;
use crate::node::redis::link::epoch::{Reading, Standing, Verified};
use crate::node::redis::link::greeting::{Login, Visit};
use crate::node::redis::link::server_stats::Learnt;
use crate::node::redis::pipeline::outbox::Outbox;
use crate::node::redis::pipeline::pending::{Releasing, Slot, Verify};
use crate::node::redis::pipeline::unacked_releases::Owed;
use crate::node::redis::protocol::verify::{Syncs, VerifyRequest};
use crate::node::{Bell, Command, NodeError, Question};
use quorlock_core::Moment;
use std::collections::{BTreeMap, VecDeque};
use std::task::Waker;
use std::time::Duration;

/// The most commands that wait for a server.
pub(crate) const QUEUE_LIMIT: usize = 16 * 1024;
/// So many more releases may wait, so that an undo finds room where its acquire did.
const RELEASE_HEADROOM: usize = 4 * 1024;
/// How often a server in quarantine is asked whether it was lifted.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How the link stands.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Nobody drives it.
    Idle,
    /// A connection is being made; commands wait for it.
    Connecting,
    Ready,
    /// There is no connection; commands fail at once with the cause.
    Down(NodeError),
}

/// What must be looked at now and then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chores {
    /// Releases are owed.
    pub(crate) unpaid: bool,
    /// Somebody waits for hints.
    pub(crate) watched: bool,
    /// The server has no epoch, or one that records less than those of others.
    pub(crate) unmarked: bool,
}

/// A command that came while the connection was being made.
#[derive(Debug)]
struct Waiting {
    question: Question,
    since: Moment,
}

/// The shared state of one link.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) phase: Phase,
    /// Whether the node is gone, and the link ends once everything is sent.
    pub(crate) closing: bool,
    pub(crate) standing: Standing,
    /// The last epoch that was verified, also while it is in doubt.
    pub(crate) epoch: Option<Verified>,
    pub(crate) facts: Learnt,
    pub(crate) outbox: Outbox,
    pub(crate) owed: Owed,
    /// Who watches which name; as many as there are names that somebody in this process waits for.
    pub(crate) bells: BTreeMap<String, Bell>,
    /// The connection made last, by whichever driver: the next one ends it in case the server still has it.
    pub(crate) last_visit: Option<Visit>,
    /// Wakes the driver, once: it leaves this here in each of its turns.
    pub(crate) driver: Option<Waker>,
    waiting: VecDeque<Waiting>,
    /// How many slots the driver holds.
    in_flight: usize,
    company: Company,
    looked: Option<Moment>,
}

impl Queue {
    pub(crate) fn new(around: &Surroundings) -> Self {
        Self {
            phase: Phase::Idle,
            closing: false,
            standing: match around.guard {
                RestartGuard::Strict => Standing::Unverified,
                RestartGuard::Off => Standing::Unguarded,
            },
            epoch: None,
            facts: Learnt::default(),
            outbox: Outbox::default(),
            owed: Owed::default(),
            bells: BTreeMap::new(),
            last_visit: None,
            driver: None,
            waiting: VecDeque::new(),
            in_flight: 0,
            company: Company::default(),
            looked: None,
        }
    }

    /// How many commands wait for an answer.
    pub(crate) fn len(&self) -> usize {
        self.in_flight + self.outbox.len() + self.waiting.len()
    }

    /// Takes a command in; `true` if the driver must be woken for it. A question that is refused comes back.
    pub(crate) fn accept(
        &mut self,
        question: Question,
        around: &Surroundings,
    ) -> Result<bool, (Question, NodeError)> {
        if let Err(cause) = self.admit(question.command(), around) {
            self.owe(question.command(), around);
            return Err((question, cause));
        }
        if matches!(self.phase, Phase::Ready) {
            self.encode(question);
            return Ok(self.outbox.len() == 1);
        }
        self.waiting.push_back(Waiting { question, since: around.clock.now() });
        Ok(false)
    }

    fn admit(&mut self, command: &Command, around: &Surroundings) -> Result<(), NodeError> {
        let limit = match command {
            Command::Release { .. } => QUEUE_LIMIT + RELEASE_HEADROOM,
            _ => QUEUE_LIMIT,
        };
        if self.len() >= limit {
            return Err(NodeError::QueueFull { limit });
        }
        match (&self.phase, command) {
            (Phase::Down(cause), _) => Err(cause.clone()),
            (Phase::Ready, Command::Acquire(vote)) => {
                self.check_ttl(vote.ttl)?;
                let admitted = self.standing.admit(around.longest.recorded(), || around.clock.now());
                match admitted {
                    // It is kept there and not counted: clients that do not know of quarantines see that the name is taken.
                    Err(NodeError::Quarantined { .. }) => Ok(()),
                    Err(_) if vote.top_up => Ok(()),
                    admitted => admitted,
                }
            }
            (Phase::Ready, Command::Extend { ttl, .. }) => self.check_ttl(*ttl),
            _ => Ok(()),
        }
    }

    /// A ttl above what the server has recorded might outlast a quarantine of it.
    fn check_ttl(&self, ttl: Duration) -> Result<(), NodeError> {
        match self.standing.longest() {
            Some(longest) if ttl > longest => Err(NodeError::TtlNotRecorded { ttl, longest }),
            _ => Ok(()),
        }
    }

    fn encode(&mut self, question: Question) {
        let guarded = !matches!(self.standing, Standing::Unguarded);
        self.outbox.command(question, guarded);
    }

    /// Keeps a release that cannot be sent now, unless the acquire before it was not sent either.
    pub(crate) fn owe(&mut self, command: &Command, around: &Surroundings) {
        match command {
            Command::Release { name, token, forced, .. } if *forced || !self.owed.is_unsent(*token) => {
                let mut release = Releasing::unheard(name.clone(), *token);
                release.call.forced = *forced;
                self.keep(release, around);
            }
            // The token of a refill is that of a lock which the server may hold already.
            Command::Acquire(vote) if !vote.top_up && !matches!(self.phase, Phase::Ready) => {
                self.owed.note_unsent(vote.token);
            }
            _ => {}
        }
    }

    /// Keeps a release that was not acknowledged.
    pub(crate) fn keep(&mut self, release: Releasing, around: &Surroundings) {
        let keep = around.longest_ttl.max(around.longest.recorded());
        self.owed.add(release, around.clock.now(), keep);
    }

    /// Sends what is owed, as far as there is room for it.
    pub(crate) fn pay(&mut self, now: Moment) {
        while self.len() < QUEUE_LIMIT + RELEASE_HEADROOM {
            match self.owed.take(now) {
                Some(release) => self.outbox.release(release),
                None => break,
            }
        }
    }

    /// Asks the server for its epoch, and gives it one if it has none and that may be.
    pub(crate) fn verify(&mut self, verify: Verify, around: &Surroundings, login: &Login) {
        // What was found on connecting is looked at again by every survey.
        let syncs = if login.durable { Syncs::Always } else { Syncs::Unknown };
        self.outbox.verify(verify, &VerifyRequest::new(around, login.db, syncs), around);
    }

    /// Asks a server in quarantine for its epoch, now and then: somebody may have declared it fresh.
    /// `true` if the driver must be woken for it.
    pub(crate) fn look_again(&mut self, around: &Surroundings, login: &Login) -> bool {
        let now = around.clock.now();
        let is_due = self.looked.is_none_or(|looked| now.since(looked) >= LOOK_AGAIN);
        if !is_due || !matches!(self.phase, Phase::Ready) {
            return false;
        }
        self.looked = Some(now);
        self.verify(Verify::default(), around, login);
        true
    }

    /// Takes a reading of the epoch; `true` if it is not the epoch known before.
    pub(crate) fn learn(&mut self, reading: &Reading, around: &Surroundings) -> bool {
        let before = self.epoch.as_ref();
        let now = around.clock.now();
        let Some(epoch) = &reading.epoch else {
            self.standing = Standing::Unmarked;
            return false;
        };
        let epoch = Verified::new((epoch, reading.now), before, now);
        let is_new = before.is_none_or(|before| before.nonce() != epoch.nonce());
        if is_new {
            self.outbox.fence_ttls.clear(now);
        }
        if !matches!(self.standing, Standing::Unguarded) {
            self.standing = Standing::Verified { epoch: epoch.clone(), mature: None };
        }
        self.epoch = Some(epoch);
        is_new
    }

    /// Whether the server lacks an epoch, or one that records what other nodes have, and may get it now.
    pub(crate) fn is_unmarked(&self, around: &Surroundings) -> bool {
        let lacks = match &self.standing {
            Standing::Unguarded | Standing::Unverified => false,
            Standing::Unmarked => true,
            Standing::Verified { epoch, .. } => epoch.longest() < around.longest.recorded(),
        };
        lacks && around.begins_epochs && matches!(self.phase, Phase::Ready)
    }

    /// Asks for hints about `name`, or for no more. Without a connection the bells alone remember it, and where the
    /// queue is full they are done without: they cost time, never safety.
    pub(crate) fn hints(&mut self, name: &str, wanted: bool) {
        if matches!(self.phase, Phase::Ready) && self.len() < QUEUE_LIMIT {
            self.outbox.hints(name, wanted);
        }
    }

    /// Begins a new connection: first what is owed, then hints, then what waited. Too late is too late for
    /// everything but releases: an acquire whose caller has gone would take the name for nobody.
    pub(crate) fn begin(&mut self, around: &Surroundings) -> Vec<(Question, NodeError)> {
        let now = around.clock.now();
        self.phase = Phase::Ready;
        // The server may have restarted and forgotten.
        self.outbox.fence_ttls.clear(now);
        self.owed.forget_unsent();
        self.pay(now);
        for name in self.bells.keys() {
            self.outbox.hints(name, true);
        }
        let mut refused = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let question = waiting.question;
            let is_release = matches!(question.command(), Command::Release { .. });
            let verdict = if now.since(waiting.since) > around.node_timeout && !is_release {
                Err(NodeError::Timeout { after: around.node_timeout })
            } else {
                self.admit(question.command(), around)
            };
            match verdict {
                Ok(()) => self.encode(question),
                Err(cause) => {
                    self.owe(question.command(), around);
                    refused.push((question, cause));
                }
            }
        }
        refused
    }

    /// Takes note of whom to wake when there is something new.
    pub(crate) fn expect(&mut self, driver: &Waker) {
        if !self.driver.as_ref().is_some_and(|known| known.will_wake(driver)) {
            self.driver = Some(driver.clone());
        }
    }

    /// Whether there is something to be written, and others may be about to add to it. A lone client is not kept waiting.
    pub(crate) fn may_grow(&self) -> bool {
        !self.outbox.is_empty() && !self.company.is_alone()
    }

    /// What the driver must look at now and then.
    pub(crate) fn chores(&self, around: &Surroundings) -> Chores {
        let unmarked = self.is_unmarked(around);
        Chores { unpaid: !self.owed.is_empty(), watched: !self.bells.is_empty(), unmarked }
    }

    /// Hands everything to be written over to the driver, if `out` has room for it.
    pub(crate) fn hand_over(&mut self, out: &mut Vec<u8>, flight: &mut VecDeque<Slot>) {
        if out.is_empty() {
            self.outbox.hand_over(out, flight);
        }
        self.in_flight = flight.len();
        self.company.note(self.in_flight);
    }

    /// Ends the connection, keeps the releases that it leaves owed, and gives back what is to be failed. Commands go on waiting
    /// while another is made.
    pub(crate) fn end(
        &mut self,
        phase: Phase,
        flight: impl Iterator<Item = Slot>,
        around: &Surroundings,
    ) -> Vec<Slot> {
        self.in_flight = 0;
        let mut failed: Vec<Slot> = flight.chain(self.outbox.empty()).collect();
        if !matches!(phase, Phase::Connecting) {
            for waiting in self.waiting.drain(..) {
                if let Command::Acquire(vote) = waiting.question.command()
                    && !vote.top_up
                {
                    self.owed.note_unsent(vote.token);
                }
                failed.push(waiting.into_slot());
            }
        }
        self.phase = phase;
        let keep = |slot: Slot| {
            let (slot, owed) = slot.owed();
            owed.into_iter().for_each(|release| self.keep(release, around));
            slot
        };
        failed.into_iter().map(keep).collect()
    }
}

impl Waiting {
    /// What is to be failed in its place.
    fn into_slot(self) -> Slot {
        match *self.question.command() {
            Command::Release { token, quiet, .. } => {
                Slot::Release(Releasing::new(self.question, token, quiet))
            }
            // Of other commands only the answer matters now.
            _ => Slot::Inspect(self.question),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::{Name, Token};

    #[test]
    fn only_the_first_command_of_a_write_wakes_the_driver() {
        let around = Surroundings::default();
        let mut queue = Queue { phase: Phase::Ready, ..Queue::new(&around) };
        let name = Name::new("a").unwrap();
        let accept = |queue: &mut Queue| {
            let token = Token::from_random([1; 16]);
            let release =
                Command::Release { name: name.clone(), token, quiet: false, behind: None, forced: false };
            queue.accept(Question::unheard(release), &around).unwrap()
        };
        for _ in 0..3 {
            assert!(accept(&mut queue));
            assert!(!accept(&mut queue));
            queue.hand_over(&mut Vec::new(), &mut VecDeque::new());
        }
    }
}
