//! Encoded commands that the driver has not taken yet, each with its pending reply.

use crate::context::Context;
use crate::node::redis::pipeline::fence_ttl_cache::FenceTtlCache;
use crate::node::redis::pipeline::pending::{
    Pending, PendingReaders, PendingRelease, PendingUpdate, PendingVerify, PendingVote,
};
use crate::node::redis::pipeline::release_batch::{self, ReleaseBatch};
use crate::node::redis::protocol::commands::{self, UpdateCall, UpdateKind};
use crate::node::redis::protocol::compare_and_delete::{self, CompareAndDelete};
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::scripts::Hashes;
use crate::node::redis::protocol::server_info::FSYNC;
use crate::node::redis::protocol::verify::VerifyRequest;
use crate::node::{Acquire, AcquireKind, Command, FastRelease, NodeError, Request, View};
use quorlock_core::{Fence, Mode};
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// Each reading of the epoch skips another number of leading bytes, so that a reply to an earlier reading
/// is recognised. At most 15 bytes are skipped: `v2:` and the start of `run_id`, never the nonce.
const EPOCH_SKIPS: usize = 16;

/// The first call id; the scripts answer 0 and -1 themselves. It is above 1, which plain commands such as
/// `ZADD` and `EXISTS` answer, so that none of their replies is taken for that of a script.
const FIRST_CALL_ID: u64 = 2;

/// Whether plain commands do it: the vote for an exclusive hold.
fn is_plain(vote: &Acquire) -> bool {
    vote.mode == Mode::Exclusive && vote.kind == AcquireKind::Vote
}

/// What the next write will carry.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Encoded commands; `pending` has their expected replies in the same order.
    out: Vec<u8>,
    pending: VecDeque<Pending>,
    /// Releases that go out after all of `pending`.
    batch: ReleaseBatch,
    pub(crate) fence_ttls: FenceTtlCache,
    /// Whether a vote or a repair was encoded after the last reading of the epoch.
    open_votes: bool,
    /// How many updates got a call id.
    calls: u64,
    /// How much of the epoch was skipped when it was last read.
    skip: usize,
    /// The hashes by which the server knows our scripts.
    pub(crate) hashes: Hashes,
    /// Which releases may go without the script.
    pub(crate) fast: CompareAndDelete,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.batch.is_empty()
    }

    /// How many replies its commands wait for.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pending.len() + self.batch.len()
    }

    /// Encodes the command of `request`; a vote that is `guarded` counts only with the epoch after it.
    #[inline]
    pub(crate) fn command(&mut self, request: Request, guarded: bool) {
        match *request.command() {
            Command::Release { .. } => {
                if let Ok(release) = PendingRelease::new(request) {
                    self.release(release);
                }
            }
            // A server that lost the lock may have lost everything: the epoch shows that.
            Command::Acquire(ref acquire) if acquire.is_repair() => {
                self.update(request, UpdateKind::Repair, guarded);
            }
            Command::Acquire(ref vote) if is_plain(vote) => {
                let raises = vote.proposal != Fence::NONE;
                if self.batch.contains(&vote.name) {
                    self.encode_batch();
                }
                commands::acquire(&mut self.out, vote);
                self.open_votes |= guarded;
                self.pending.push_back(Pending::Vote(PendingVote { request, raises }));
            }
            Command::Acquire(_) => self.update(request, UpdateKind::Vote, guarded),
            Command::Stamp { .. } => self.update(request, UpdateKind::Stamp, false),
            Command::Extend { .. } => self.update(request, UpdateKind::Extend, false),
            Command::Downgrade { .. } => self.update(request, UpdateKind::Downgrade, false),
            Command::Slots { .. } => {
                self.encode_batch();
                self.update(request, UpdateKind::Slots, false);
            }
            Command::HoldOffReaders { ref name, ttl } => {
                commands::hold_off_readers(&mut self.out, name, ttl);
                self.pending.push_back(Pending::Plain(request));
            }
            Command::Inspect { ref name } => {
                self.encode_batch();
                commands::inspect(&mut self.out, name);
                self.pending.push_back(Pending::Inspect(request));
            }
        }
    }

    fn update(&mut self, request: Request, kind: UpdateKind, is_guarded: bool) {
        let call = self.next_call(kind, request.command());
        self.push_update(PendingUpdate { request, call, is_guarded });
    }

    fn next_call(&mut self, kind: UpdateKind, command: &Command) -> UpdateCall {
        let call_id = FIRST_CALL_ID + self.calls;
        self.calls += 1;
        let sends_script = commands::script_of(command).is_some_and(|script| self.hashes.must_send(script));
        UpdateCall { kind, call_id, sends_script }
    }

    /// Records that the server has forgotten the script that executes `command`.
    pub(crate) fn forget_script(&mut self, command: &Command) {
        if let Some(script) = commands::script_of(command) {
            self.hashes.forget(script);
        }
    }

    /// Encodes a command that a script of its own executes.
    pub(crate) fn push_update(&mut self, update: PendingUpdate) {
        self.encode_update(&update);
        self.open_votes |= update.is_guarded;
        self.pending.push_back(Pending::Update(update));
    }

    fn encode_update(&mut self, update: &PendingUpdate) {
        if self.batch.contains(update.request.command().name()) {
            self.encode_batch();
        }
        commands::update(&mut self.out, &self.hashes, update.request.command(), &update.call);
    }

    /// Asks for the shared holders of a name, to complete the inspection `request`, which found `view`.
    pub(crate) fn readers(&mut self, request: Request, view: View) {
        let call = self.next_call(UpdateKind::Readers, request.command());
        let update = PendingUpdate { request, call, is_guarded: false };
        self.push_readers(Box::new(PendingReaders { update, view }));
    }

    pub(crate) fn push_readers(&mut self, readers: Box<PendingReaders>) {
        self.encode_update(&readers.update);
        self.pending.push_back(Pending::Readers(readers));
    }

    /// Adds a release to the batch.
    #[inline]
    pub(crate) fn release(&mut self, mut release: PendingRelease) {
        if !self.batch.fits(&release) {
            self.encode_batch();
        }
        release.call.renews_fence_ttl |= self.fence_ttls.needs_expire(release.name());
        self.batch.push(release);
    }

    /// Encodes the releases that were waiting for more of their kind.
    fn encode_batch(&mut self) {
        if let Some(command) = self.fast.command() {
            self.encode_fast(command);
        }
        let count = self.batch.len();
        let releases = self.batch.as_mut_slice();
        let Some(first) = releases.first_mut() else {
            // Clears the name bits, too.
            self.batch.clear();
            return;
        };
        first.batch = count as u32;
        let sends_script = first.sends_script;
        commands::releases(
            &mut self.out,
            &self.hashes,
            releases.iter().map(PendingRelease::as_call),
            sends_script,
        );
        self.pending.extend(self.batch.take().map(Pending::Release));
    }

    /// Encodes the releases of the batch that need no script, then checks for waiters: the check finds
    /// every waiter that registered before its name was freed.
    fn encode_fast(&mut self, command: FastRelease) {
        let (batch, out) = (&mut self.batch, &mut self.out);
        let before = self.pending.len();
        let is_encoded = |release: &mut PendingRelease| {
            release.is_fast
                && !release.call.renews_fence_ttl
                && compare_and_delete::encode(out, command, release.request.command())
        };
        self.pending.extend(batch.extract(is_encoded).map(Pending::CompareAndDelete));
        if self.pending.len() > before {
            compare_and_delete::encode_waiters_check(&mut self.out);
            self.pending.push_back(Pending::HasWaiters);
        }
    }

    /// Adds `release` again, with the script, because the server's own compare-and-delete did not do it.
    pub(crate) fn release_again(&mut self, mut release: PendingRelease) {
        release.is_fast = false;
        self.release(release);
    }

    /// Encodes a hint of `release` to the waiters.
    pub(crate) fn hint(&mut self, release: &PendingRelease) {
        compare_and_delete::hint(&mut self.out, release.name(), &release.call.token);
        self.pending.push_back(Pending::Hint);
    }

    /// Encodes a request for the server's epoch.
    pub(crate) fn verify(&mut self, verify: PendingVerify, request: &VerifyRequest, ctx: &Context) {
        self.encode_batch();
        let hashes = (!verify.sends_script).then_some(&self.hashes);
        request.encode(&mut self.out, hashes, ctx);
        self.pending.push_back(Pending::Verify(verify));
    }

    /// Encodes a request for `INFO`: the server's settings and role may change while we are connected.
    pub(crate) fn request_info(&mut self, durable: bool) {
        self.encode_batch();
        commands::raw(&mut self.out, &[b"INFO"]);
        self.pending.push_back(Pending::ServerInfo);
        if durable {
            commands::raw(&mut self.out, &FSYNC);
            self.pending.push_back(Pending::Sync);
        }
    }

    /// Encodes a command of any kind.
    pub(crate) fn call(&mut self, args: &[&[u8]], caller: oneshot::Sender<Result<Value, NodeError>>) {
        self.encode_batch();
        commands::raw(&mut self.out, args);
        self.pending.push_back(Pending::Call(caller));
    }

    /// Encodes a subscription to hints about `name`, or its end.
    pub(crate) fn set_hints(&mut self, name: &str, wanted: bool) {
        self.encode_batch();
        commands::hints(&mut self.out, name, wanted);
        self.pending.push_back(Pending::Subscribe);
        if wanted {
            self.announce_waiting();
        }
    }

    /// Encodes the record on the server that a client waits for some name, so that releases send hints.
    pub(crate) fn announce_waiting(&mut self) {
        commands::waiting(&mut self.out);
        self.pending.push_back(Pending::Waiting);
    }

    /// Hands everything over. `out` must be empty: the buffers are exchanged, so that neither is ever
    /// allocated anew.
    pub(crate) fn take_over(&mut self, out: &mut Vec<u8>, in_flight: &mut VecDeque<Pending>) {
        self.encode_batch();
        if std::mem::take(&mut self.open_votes) {
            self.skip = (self.skip + 1) % EPOCH_SKIPS;
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

    /// Encodes every release that the driver has not taken into `out`: the last write of a connection that
    /// ends.
    pub(crate) fn encode_releases(&mut self, out: &mut Vec<u8>) {
        self.encode_batch();
        let releases: Vec<&PendingRelease> = self.pending.iter().filter_map(Pending::as_release).collect();
        for batch in releases.chunks(release_batch::MAX_BATCH) {
            commands::releases(out, &self.hashes, batch.iter().map(|release| release.as_call()), false);
        }
    }

    /// Drops what was encoded and returns the replies that were expected.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Pending> {
        self.out.clear();
        self.open_votes = false;
        let batch = self.batch.take().map(Pending::Release);
        self.pending.drain(..).chain(batch)
    }
}
