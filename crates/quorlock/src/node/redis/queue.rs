//! What is to be sent and what is known about the server: the state that senders and the driver share.

use super::commands;
use super::epoch::{Reading, Standing, Verified};
use super::handshake::encode_verify;
use super::owed::Owed;
use super::resp::Value;
use super::script::Hashes;
use super::slot::{Change, ChangeKind, Releasing, Slot, Verify, Vote};
use crate::node::{Answer, Bell, Command, NodeError};
use crate::surroundings::{RestartGuard, Surroundings};
use bytes::BytesMut;
use quorlock_core::{Moment, Name};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// The most commands that wait for a server.
pub(super) const QUEUE_LIMIT: usize = 16 * 1024;
/// So many more releases may wait, so that an undo finds room where its acquire did.
const RELEASE_HEADROOM: usize = 4 * 1024;
/// The most releases in one script call: a script blocks the server.
const RUN_LIMIT: usize = 64;

/// How the link stands.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// Nobody drives it.
    Idle,
    /// A connection is being made; commands wait for it.
    Connecting,
    Ready,
    /// There is no connection; commands fail at once with the cause.
    Down(NodeError),
}

/// A command that came while the connection was being made.
#[derive(Debug)]
struct Waiting {
    command: Command,
    answer: Answer,
    since: Moment,
}

/// What was learnt about the server on the way.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) version: Option<Arc<str>>,
    pub(super) ahead_micros: Option<i64>,
    pub(super) round_trip: Option<Duration>,
}

/// The shared state of one link.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) phase: Phase,
    /// Whether the node is gone, and the link ends once everything is sent.
    pub(super) closing: bool,
    pub(super) standing: Standing,
    /// The last epoch that was verified, also while it is in doubt.
    pub(super) epoch: Option<Verified>,
    pub(super) facts: Facts,
    pub(super) bells: BTreeMap<String, Bell>,
    pub(super) owed: Owed,
    pub(super) hashes: Hashes,
    durable: bool,
    /// Encoded commands, and what waits for their answers in the same order.
    out: BytesMut,
    slots: VecDeque<Slot>,
    /// Releases at the end of `slots`, not encoded yet as more may join them in one call.
    run: Vec<Releasing>,
    waiting: VecDeque<Waiting>,
    /// Whether a vote was encoded after the last reading of the epoch.
    open_votes: bool,
    /// How many slots the driver holds.
    in_flight: usize,
}

impl Queue {
    pub(super) fn new(guard: RestartGuard, durable: bool) -> Self {
        Self {
            phase: Phase::Idle,
            closing: false,
            standing: match guard {
                RestartGuard::Strict => Standing::Unverified,
                RestartGuard::Off => Standing::Unguarded,
            },
            epoch: None,
            facts: Facts::default(),
            bells: BTreeMap::new(),
            owed: Owed::default(),
            hashes: Hashes::default(),
            durable,
            out: BytesMut::new(),
            slots: VecDeque::new(),
            run: Vec::with_capacity(RUN_LIMIT),
            waiting: VecDeque::new(),
            open_votes: false,
            in_flight: 0,
        }
    }

    /// How many commands wait for an answer.
    pub(super) fn len(&self) -> usize {
        self.in_flight + self.slots.len() + self.run.len() + self.waiting.len()
    }

    /// Takes a command in; `Ok(true)` if the driver must be woken for it. A refused command's answer comes back.
    pub(super) fn accept(
        &mut self,
        command: &Command,
        answer: Answer,
        around: &Surroundings,
    ) -> Result<bool, (Answer, NodeError)> {
        match self.admit(command, around) {
            Err(cause) => {
                self.owe(command, around);
                return Err((answer, cause));
            }
            Ok(()) if matches!(self.phase, Phase::Ready) => {}
            Ok(()) => {
                self.waiting.push_back(Waiting {
                    command: command.clone(),
                    answer,
                    since: around.clock.now(),
                });
                return Ok(false);
            }
        }
        let was_empty = self.out.is_empty() && self.run.is_empty();
        self.encode(command, answer);
        Ok(was_empty)
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
            (Phase::Ready, Command::Acquire(vote)) if !vote.top_up => {
                self.standing.admit(|| around.clock.now())
            }
            _ => Ok(()),
        }
    }

    /// Keeps a release that cannot be sent now.
    pub(super) fn owe(&mut self, command: &Command, around: &Surroundings) {
        if let Command::Release { name, token } = command {
            let release = Releasing::new(name.clone(), *token, None);
            self.keep(release, around);
        }
    }

    pub(super) fn keep(&mut self, release: Releasing, around: &Surroundings) {
        self.owed.add(release, around.clock.now(), around.longest_ttl);
    }

    /// Encodes a command that was admitted.
    fn encode(&mut self, command: &Command, answer: Answer) {
        if let Command::Release { name, token } = command {
            self.release(Releasing::new(name.clone(), *token, Some(answer)));
            return;
        }
        self.end_run();
        let slot = match command {
            Command::Acquire(vote) => {
                commands::acquire(&mut self.out, vote);
                self.open_votes = !matches!(self.standing, Standing::Unguarded);
                Slot::Vote(Vote { name: vote.name.clone(), token: vote.token, top_up: vote.top_up, answer })
            }
            Command::Stamp { name, token, fence } => {
                let kind = ChangeKind::Stamp { fence: *fence };
                self.changed(name, *token, kind, answer)
            }
            Command::Extend { name, token, ttl, .. } => {
                let kind = ChangeKind::Extend { ttl: *ttl };
                self.changed(name, *token, kind, answer)
            }
            Command::Inspect { name } => {
                commands::inspect(&mut self.out, name);
                Slot::Inspect(answer)
            }
            Command::Release { .. } => return,
        };
        self.slots.push_back(slot);
    }

    fn changed(
        &mut self,
        name: &Name,
        token: quorlock_core::Token,
        kind: ChangeKind,
        answer: Answer,
    ) -> Slot {
        let change = Change { name: name.clone(), token, kind, answer, whole: false };
        commands::change(&mut self.out, &self.hashes, &change);
        Slot::Change(change)
    }

    /// Sends a release, in one call with those just before it.
    pub(super) fn release(&mut self, release: Releasing) {
        let differs = self.run.first().is_some_and(|first| first.whole != release.whole);
        if differs || self.run.len() == RUN_LIMIT {
            self.end_run();
        }
        self.run.push(release);
    }

    /// Sends an extend or stamp again with the whole script.
    pub(super) fn change_whole(&mut self, mut change: Change) {
        self.end_run();
        change.whole = true;
        commands::change(&mut self.out, &self.hashes, &change);
        self.slots.push_back(Slot::Change(change));
    }

    /// Encodes the releases that were waiting for more of their kind.
    fn end_run(&mut self) {
        let count = self.run.len();
        let Some(first) = self.run.first_mut() else {
            return;
        };
        first.run = count;
        let whole = first.whole;
        commands::releases(&mut self.out, &self.hashes, self.run.iter(), whole);
        self.slots.extend(self.run.drain(..).map(Slot::Release));
    }

    /// Asks the server for its epoch again; nobody votes there until it answers.
    pub(super) fn verify(&mut self, verify: Verify, around: &Surroundings) {
        self.end_run();
        let hashes = (!verify.whole).then_some(&self.hashes);
        let longest = self.longest_seen();
        encode_verify(&mut self.out, hashes, around, self.durable, longest);
        self.slots.push_back(Slot::Verify(verify));
    }

    /// The longest ttl that the server was seen to be built for.
    pub(super) fn longest_seen(&self) -> Duration {
        self.epoch.as_ref().map_or(Duration::ZERO, |epoch| epoch.longest)
    }

    /// Takes a reading of the epoch; `true` if it is not the epoch known before.
    pub(super) fn learn(&mut self, reading: &Reading, around: &Surroundings) -> bool {
        let now = around.clock.now();
        let epoch = Verified::new(reading, self.epoch.as_ref(), around.longest_ttl, now);
        let is_new = self.epoch.as_ref().is_none_or(|before| before.nonce() != epoch.nonce());
        if !matches!(self.standing, Standing::Unguarded) {
            self.standing = Standing::Verified { epoch: epoch.clone(), mature: false };
        }
        self.epoch = Some(epoch);
        is_new
    }

    /// Sends a command of any kind; `true` if the driver must be woken for it.
    pub(super) fn call(&mut self, args: &[&[u8]], caller: oneshot::Sender<Result<Value, NodeError>>) -> bool {
        let was_empty = self.out.is_empty() && self.run.is_empty();
        self.end_run();
        commands::raw(&mut self.out, args);
        self.slots.push_back(Slot::Call(caller));
        was_empty
    }

    /// Asks for hints about `name`, or for no more. Without a connection the bells alone remember it.
    pub(super) fn hints(&mut self, name: &str, wanted: bool) {
        if matches!(self.phase, Phase::Ready) {
            self.end_run();
            commands::hints(&mut self.out, name, wanted);
            self.slots.push_back(Slot::Hints);
        }
    }

    /// Sends what is owed, as far as there is room for it.
    pub(super) fn pay(&mut self, now: Moment) {
        while self.len() < QUEUE_LIMIT + RELEASE_HEADROOM {
            match self.owed.take(now) {
                Some(release) => self.release(release),
                None => break,
            }
        }
    }

    /// Begins a new connection: first what is owed, then hints, then what waited. Too late is too late for
    /// everything but releases: an acquire whose caller has gone would take the name for nobody.
    pub(super) fn begin(&mut self, around: &Surroundings, refused: &mut Vec<(Answer, NodeError)>) {
        let now = around.clock.now();
        self.phase = Phase::Ready;
        self.pay(now);
        let watched: Vec<String> = self.bells.keys().cloned().collect();
        for name in watched {
            self.hints(&name, true);
        }
        for waiting in std::mem::take(&mut self.waiting) {
            let is_release = matches!(waiting.command, Command::Release { .. });
            let verdict = if now.since(waiting.since) > around.node_timeout && !is_release {
                Err(NodeError::Timeout { after: around.node_timeout })
            } else {
                self.admit(&waiting.command, around)
            };
            match verdict {
                Ok(()) => self.encode(&waiting.command, waiting.answer),
                Err(cause) => refused.push((waiting.answer, cause)),
            }
        }
    }

    /// Hands everything to be written over to the driver. `out` must be empty; the buffers are exchanged.
    pub(super) fn hand_over(&mut self, out: &mut BytesMut, flight: &mut VecDeque<Slot>) {
        self.end_run();
        if std::mem::take(&mut self.open_votes) {
            commands::epoch(&mut self.out);
            self.slots.push_back(Slot::Epoch);
        }
        std::mem::swap(&mut self.out, out);
        flight.append(&mut self.slots);
        self.in_flight = flight.len();
    }

    /// Notes how many slots the driver still holds.
    pub(super) fn set_in_flight(&mut self, count: usize) {
        self.in_flight = count;
    }

    /// Empties the queue for `phase`; what was in it fails, and releases are owed.
    pub(super) fn end(&mut self, phase: Phase, flight: impl Iterator<Item = Slot>) -> Vec<Slot> {
        self.end_run();
        self.out.clear();
        self.open_votes = false;
        self.in_flight = 0;
        let mut failed: Vec<Slot> = flight.chain(self.slots.drain(..)).collect();
        if !matches!(phase, Phase::Connecting) {
            for Waiting { command, answer, .. } in self.waiting.drain(..) {
                failed.push(match command {
                    Command::Release { name, token } => {
                        Slot::Release(Releasing::new(name, token, Some(answer)))
                    }
                    // Only the answer is needed to fail it.
                    _ => Slot::Inspect(answer),
                });
            }
        }
        self.phase = phase;
        failed
    }
}
