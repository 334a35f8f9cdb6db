//! Commands that are encoded and not handed over yet, each with what waits for its answer.

use crate::context::Surroundings;
use crate::node::redis::pipeline::fence_ttl_cache::FenceTtlCache;
use crate::node::redis::pipeline::pending::{Change, Releasing, Slot, Verify, Vote};
use crate::node::redis::pipeline::release_batch::{self, Run};
use crate::node::redis::protocol::commands::{self, UpdateCall, UpdateKind};
use crate::node::redis::protocol::compare_and_delete::{self, Fast};
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::scripts::Hashes;
use crate::node::redis::protocol::server_info::FSYNC;
use crate::node::redis::protocol::verify::VerifyRequest;
use crate::node::{Command, FastRelease, NodeError, Question};
use quorlock_core::{Fence, Token};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// In how many ways the epoch is read in turn. What is skipped is part of the server's `run_id`, never of the nonce.
const READINGS: usize = 16;

/// The first mark; those below are answers of their own.
const FIRST_MARK: u64 = 2;

/// What the next write will carry.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Encoded commands, and what waits for their answers in the same order.
    out: Vec<u8>,
    slots: VecDeque<Slot>,
    /// Releases that go out after all of `slots`.
    run: Run,
    pub(crate) fence_ttls: FenceTtlCache,
    /// Whether a vote or a refill was encoded after the last reading of the epoch.
    open_votes: bool,
    /// How many extends and stamps were marked.
    marked: u64,
    /// How much of the epoch was skipped when it was last read.
    skip: usize,
    /// What the server calls our scripts.
    pub(crate) hashes: Hashes,
    /// Which releases may go without them.
    pub(crate) fast: Fast,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.run.is_empty()
    }

    /// How many things in it wait for an answer.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() + self.run.len()
    }

    /// Encodes the command of `question`; a vote that is `guarded` counts only with the epoch after it.
    pub(crate) fn command(&mut self, question: Question, guarded: bool) {
        match *question.command() {
            Command::Release { token, quiet, .. } => self.release(Releasing::new(question, token, quiet)),
            Command::Acquire(ref refill) if refill.top_up => {
                let token = refill.token;
                self.change(question, token, UpdateKind::Refill);
                // A server that lost the lock may have lost everything: the epoch says so.
                self.open_votes |= guarded;
            }
            Command::Acquire(ref vote) => {
                let raises = vote.proposal != Fence::NONE;
                if self.run.concerns(&vote.name) {
                    self.end_run();
                }
                commands::acquire(&mut self.out, vote);
                self.open_votes |= guarded;
                self.slots.push_back(Slot::Vote(Vote { question, raises }));
            }
            Command::Stamp { token, at_least, .. } => {
                self.change(question, token, UpdateKind::Stamp { at_least });
            }
            Command::Extend { token, ttl, .. } => self.change(question, token, UpdateKind::Extend { ttl }),
            Command::Inspect { ref name } => {
                self.end_run();
                commands::inspect(&mut self.out, name);
                self.slots.push_back(Slot::Inspect(question));
            }
        }
    }

    fn change(&mut self, question: Question, token: Token, kind: UpdateKind) {
        let mark = FIRST_MARK + self.marked;
        self.marked += 1;
        let call = UpdateCall { token, kind, mark, whole: false };
        self.push_change(Change { question, call });
    }

    /// Sends an extend or a stamp.
    pub(crate) fn push_change(&mut self, change: Change) {
        if self.run.concerns(change.question.command().name()) {
            self.end_run();
        }
        commands::update(&mut self.out, &self.hashes, change.question.command(), &change.call);
        self.slots.push_back(Slot::Change(change));
    }

    /// Sends a release, in one call with others.
    pub(crate) fn release(&mut self, mut release: Releasing) {
        if !self.run.takes(&release) {
            self.end_run();
        }
        release.call.keeps |= self.fence_ttls.needs_expire(release.name());
        self.run.push(release);
    }

    /// Encodes the releases that were waiting for more of their kind.
    fn end_run(&mut self) {
        if let Some(command) = self.fast.command() {
            self.end_fast(command);
        }
        let count = self.run.len();
        let releases = self.run.as_mut_slice();
        let Some(first) = releases.first_mut() else {
            // Also forgets the names of those that went without the script.
            drop(self.run.take());
            return;
        };
        first.run = count as u32;
        let whole = first.whole;
        commands::releases(&mut self.out, &self.hashes, releases.iter().map(Releasing::as_call), whole);
        self.slots.extend(self.run.take().map(Slot::Release));
    }

    /// Encodes those among them that need no script, and asks whether somebody waits after all: whoever came before its
    /// name was freed is seen by that.
    fn end_fast(&mut self, command: FastRelease) {
        let (run, out) = (&mut self.run, &mut self.out);
        let before = self.slots.len();
        let is_encoded = |release: &mut Releasing| {
            release.is_fast
                && !release.call.keeps
                && compare_and_delete::encode(out, command, release.question.command())
        };
        self.slots.extend(run.extract(is_encoded).map(Slot::Fast));
        if self.slots.len() > before {
            compare_and_delete::awaited(&mut self.out);
            self.slots.push_back(Slot::Awaited);
        }
    }

    /// Sends a release by the script that the server's own command could not do.
    pub(crate) fn release_again(&mut self, mut release: Releasing) {
        release.is_fast = false;
        self.release(release);
    }

    /// Tells those who wait that `release` was done.
    pub(crate) fn hint(&mut self, release: &Releasing) {
        compare_and_delete::hint(&mut self.out, release.name(), &release.call.token);
        self.slots.push_back(Slot::Hinted);
    }

    /// Asks the server for its epoch.
    pub(crate) fn verify(&mut self, verify: Verify, request: &VerifyRequest, around: &Surroundings) {
        self.end_run();
        let hashes = (!verify.whole).then_some(&self.hashes);
        request.encode(&mut self.out, hashes, around);
        self.slots.push_back(Slot::Verify(verify));
    }

    /// Asks what the server is now; its settings and role may change under us.
    pub(crate) fn survey(&mut self, durable: bool) {
        self.end_run();
        commands::raw(&mut self.out, &[b"INFO"]);
        self.slots.push_back(Slot::Survey);
        if durable {
            commands::raw(&mut self.out, &FSYNC);
            self.slots.push_back(Slot::Sync);
        }
    }

    /// Sends a command of any kind.
    pub(crate) fn call(&mut self, args: &[&[u8]], caller: oneshot::Sender<Result<Value, NodeError>>) {
        self.end_run();
        commands::raw(&mut self.out, args);
        self.slots.push_back(Slot::Call(caller));
    }

    /// Asks for hints about `name`, or for no more of them.
    pub(crate) fn hints(&mut self, name: &str, wanted: bool) {
        self.end_run();
        commands::hints(&mut self.out, name, wanted);
        self.slots.push_back(Slot::Hints);
        if wanted {
            self.wait_openly();
        }
    }

    /// Lets those who release know that somebody waits for something.
    pub(crate) fn wait_openly(&mut self) {
        commands::waiting(&mut self.out);
        self.slots.push_back(Slot::Waiting);
    }

    /// Hands everything over. `out` must be empty: the buffers are exchanged, so that neither is ever allocated anew.
    pub(crate) fn hand_over(&mut self, out: &mut Vec<u8>, flight: &mut VecDeque<Slot>) {
        self.end_run();
        if std::mem::take(&mut self.open_votes) {
            self.skip = (self.skip + 1) % READINGS;
            commands::epoch(&mut self.out, self.skip);
            self.slots.push_back(Slot::Epoch { skip: self.skip });
        }
        std::mem::swap(&mut self.out, out);
        if flight.is_empty() {
            std::mem::swap(&mut self.slots, flight);
        } else {
            flight.append(&mut self.slots);
        }
    }

    /// Encodes the releases among what was not handed over once more, for a connection that is given up.
    pub(crate) fn last_words(&mut self, out: &mut Vec<u8>) {
        self.end_run();
        let releases: Vec<&Releasing> = self.slots.iter().filter_map(Slot::as_release).collect();
        for run in releases.chunks(release_batch::MOST) {
            commands::releases(out, &self.hashes, run.iter().map(|release| release.as_call()), false);
        }
    }

    /// Forgets what was encoded and gives back what waited for answers.
    pub(crate) fn empty(&mut self) -> impl Iterator<Item = Slot> {
        self.out.clear();
        self.open_votes = false;
        let run = self.run.take().map(Slot::Release);
        self.slots.drain(..).chain(run)
    }
}
