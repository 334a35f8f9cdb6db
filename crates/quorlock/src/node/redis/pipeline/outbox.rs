//! Commands that are encoded and not handed over yet, each with what waits for its answer.

use crate::context::Context;
use crate::node::redis::pipeline::fence_ttl_cache::FenceTtlCache;
use crate::node::redis::pipeline::pending::{Pending, PendingRelease, PendingUpdate, Verify, Vote};
use crate::node::redis::pipeline::release_batch::{self, ReleaseBatch};
use crate::node::redis::protocol::commands::{self, UpdateCall, UpdateKind};
use crate::node::redis::protocol::compare_and_delete::{self, CompareAndDelete};
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::scripts::Hashes;
use crate::node::redis::protocol::server_info::FSYNC;
use crate::node::redis::protocol::verify::VerifyRequest;
use crate::node::{Command, FastRelease, NodeError, Request};
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
    pending: VecDeque<Pending>,
    /// Releases that go out after all of `pending`.
    run: ReleaseBatch,
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
    pub(crate) fast: CompareAndDelete,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.run.is_empty()
    }

    /// How many things in it wait for an answer.
    pub(crate) fn len(&self) -> usize {
        self.pending.len() + self.run.len()
    }

    /// Encodes the command of `request`; a vote that is `guarded` counts only with the epoch after it.
    pub(crate) fn command(&mut self, request: Request, guarded: bool) {
        match *request.command() {
            Command::Release { token, quiet, .. } => self.release(PendingRelease::new(request, token, quiet)),
            Command::Acquire(ref refill) if refill.repair => {
                let token = refill.token;
                self.change(request, token, UpdateKind::Refill);
                // A server that lost the lock may have lost everything: the epoch says so.
                self.open_votes |= guarded;
            }
            Command::Acquire(ref vote) => {
                let raises = vote.proposal != Fence::NONE;
                if self.run.contains(&vote.name) {
                    self.end_run();
                }
                commands::acquire(&mut self.out, vote);
                self.open_votes |= guarded;
                self.pending.push_back(Pending::Vote(Vote { request, raises }));
            }
            Command::Stamp { token, at_least, .. } => {
                self.change(request, token, UpdateKind::Stamp { at_least });
            }
            Command::Extend { token, ttl, .. } => self.change(request, token, UpdateKind::Extend { ttl }),
            Command::Inspect { ref name } => {
                self.end_run();
                commands::inspect(&mut self.out, name);
                self.pending.push_back(Pending::Inspect(request));
            }
        }
    }

    fn change(&mut self, request: Request, token: Token, kind: UpdateKind) {
        let mark = FIRST_MARK + self.marked;
        self.marked += 1;
        let call = UpdateCall { token, kind, mark, whole: false };
        self.push_update(PendingUpdate { request, call });
    }

    /// Sends an extend or a stamp.
    pub(crate) fn push_update(&mut self, change: PendingUpdate) {
        if self.run.contains(change.request.command().name()) {
            self.end_run();
        }
        commands::update(&mut self.out, &self.hashes, change.request.command(), &change.call);
        self.pending.push_back(Pending::PendingUpdate(change));
    }

    /// Sends a release, in one call with others.
    pub(crate) fn release(&mut self, mut release: PendingRelease) {
        if !self.run.fits(&release) {
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
        commands::releases(&mut self.out, &self.hashes, releases.iter().map(PendingRelease::as_call), whole);
        self.pending.extend(self.run.take().map(Pending::Release));
    }

    /// Encodes those among them that need no script, and asks whether somebody waits after all: whoever came before its
    /// name was freed is seen by that.
    fn end_fast(&mut self, command: FastRelease) {
        let (run, out) = (&mut self.run, &mut self.out);
        let before = self.pending.len();
        let is_encoded = |release: &mut PendingRelease| {
            release.is_fast
                && !release.call.keeps
                && compare_and_delete::encode(out, command, release.request.command())
        };
        self.pending.extend(run.extract(is_encoded).map(Pending::CompareAndDelete));
        if self.pending.len() > before {
            compare_and_delete::ask_for_waiters(&mut self.out);
            self.pending.push_back(Pending::HasWaiters);
        }
    }

    /// Sends a release by the script that the server's own command could not do.
    pub(crate) fn release_again(&mut self, mut release: PendingRelease) {
        release.is_fast = false;
        self.release(release);
    }

    /// Tells those who wait that `release` was done.
    pub(crate) fn hint(&mut self, release: &PendingRelease) {
        compare_and_delete::hint(&mut self.out, release.name(), &release.call.token);
        self.pending.push_back(Pending::Hint);
    }

    /// Asks the server for its epoch.
    pub(crate) fn verify(&mut self, verify: Verify, request: &VerifyRequest, ctx: &Context) {
        self.end_run();
        let hashes = (!verify.whole).then_some(&self.hashes);
        request.encode(&mut self.out, hashes, ctx);
        self.pending.push_back(Pending::Verify(verify));
    }

    /// Asks what the server is now; its settings and role may change under us.
    pub(crate) fn server_info(&mut self, durable: bool) {
        self.end_run();
        commands::raw(&mut self.out, &[b"INFO"]);
        self.pending.push_back(Pending::ServerInfo);
        if durable {
            commands::raw(&mut self.out, &FSYNC);
            self.pending.push_back(Pending::Sync);
        }
    }

    /// Sends a command of any kind.
    pub(crate) fn call(&mut self, args: &[&[u8]], caller: oneshot::Sender<Result<Value, NodeError>>) {
        self.end_run();
        commands::raw(&mut self.out, args);
        self.pending.push_back(Pending::Call(caller));
    }

    /// Asks for hints about `name`, or for no more of them.
    pub(crate) fn hints(&mut self, name: &str, wanted: bool) {
        self.end_run();
        commands::hints(&mut self.out, name, wanted);
        self.pending.push_back(Pending::Subscribe);
        if wanted {
            self.announce_waiting();
        }
    }

    /// Lets those who release know that somebody waits for something.
    pub(crate) fn announce_waiting(&mut self) {
        commands::waiting(&mut self.out);
        self.pending.push_back(Pending::Waiting);
    }

    /// Hands everything over. `out` must be empty: the buffers are exchanged, so that neither is ever allocated anew.
    pub(crate) fn take_over(&mut self, out: &mut Vec<u8>, in_flight: &mut VecDeque<Pending>) {
        self.end_run();
        if std::mem::take(&mut self.open_votes) {
            self.skip = (self.skip + 1) % READINGS;
            commands::epoch(&mut self.out, self.skip);
            self.pending.push_back(Pending::Epoch { skip: self.skip });
        }
        std::mem::swap(&mut self.out, out);
        if in_flight.is_empty() {
            std::mem::swap(&mut self.pending, in_flight);
        } else {
            in_flight.append(&mut self.pending);
        }
    }

    /// Encodes the releases among what was not handed over once more, for a connection that is given up.
    pub(crate) fn encode_releases(&mut self, out: &mut Vec<u8>) {
        self.end_run();
        let releases: Vec<&PendingRelease> = self.pending.iter().filter_map(Pending::as_release).collect();
        for run in releases.chunks(release_batch::MOST) {
            commands::releases(out, &self.hashes, run.iter().map(|release| release.as_call()), false);
        }
    }

    /// Forgets what was encoded and gives back what waited for answers.
    pub(crate) fn empty(&mut self) -> impl Iterator<Item = Pending> {
        self.out.clear();
        self.open_votes = false;
        let run = self.run.take().map(Pending::Release);
        self.pending.drain(..).chain(run)
    }
}
