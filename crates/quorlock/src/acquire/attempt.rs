//! One attempt to hold names on the nodes: vote, stamp if needed, undo if refused.

use crate::context::entropy;
use crate::context::injected_bug::InjectedBug;
use crate::context::mutex::Mutex;
use crate::context::options::Options;
use crate::error::NodeReport;
use crate::node::{Acquire, AcquireKind, Command, Commands, Done, Reply, Tie};
use crate::quorum::Nodes;
use crate::quorum::round::Round;
use crate::quorum::votes::Votes;
use quorlock_core::attempt::StampReply;
use quorlock_core::{
    Attempt, Ballot, Fence, FenceClock, Label, LeaseTerms, Mode, Moment, NameSet, Step, Token, Wall,
};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What an attempt needs besides the nodes.
#[derive(Clone, Debug)]
pub(crate) struct AttemptParams<'a> {
    pub(crate) names: NameSet,
    pub(crate) mode: Mode,
    pub(crate) options: &'a Options,
    pub(crate) fences: &'a Mutex<FenceClock>,
}

/// A lock that was granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) lease: LeaseTerms,
    pub(crate) votes: usize,
    pub(crate) took: Duration,
    /// When its attempt began, before the first send.
    pub(crate) start: (Moment, Wall),
    /// When it was granted.
    pub(crate) at: Moment,
    /// What the nodes store about the owner.
    pub(crate) label: Label,
}

/// Why an attempt was refused. Everything that it may have set is being undone.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) cause: Cause,
    pub(crate) votes: usize,
    pub(crate) denied: usize,
    pub(crate) missing: usize,
    pub(crate) nodes: Vec<NodeReport>,
    pub(crate) took: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Another client has it, or several contend.
    Held,
    /// Too few nodes could vote.
    NoQuorum,
    /// A majority agreed after the deadline.
    TooSlow,
}

/// Makes one attempt with a token of its own, which ends at `until` at the latest: nodes that have not
/// answered by then count as silent.
///
/// # Cancel safety
/// Cancel safe: dropped half-way, it releases on every node to which it sent a command.
pub(crate) async fn attempt(
    nodes: &Nodes,
    params: &AttemptParams<'_>,
    until: Moment,
) -> Result<Grant, Refusal> {
    let token = entropy::token(nodes.ctx.entropy.as_ref());
    let undo = Undo::armed(nodes, params, token);
    vote_and_stamp(nodes, params, until, (token, AcquireKind::Vote), undo, &HighestFence::default()).await
}

/// The highest fence that an attempt has asked for so far.
#[derive(Debug, Default)]
pub(crate) struct HighestFence(AtomicU64);

impl HighestFence {
    pub(crate) fn new(fence: Fence) -> Self {
        Self(AtomicU64::new(fence.get()))
    }

    pub(crate) fn get(&self) -> Fence {
        Fence::new(self.0.load(Ordering::Relaxed))
    }

    fn raise(&self, fence: Fence) {
        self.0.fetch_max(fence.get(), Ordering::Relaxed);
    }
}

/// Makes one attempt to hold exclusively what is held shared with `token`, with a fence above `highest`,
/// which it raises to each that it asks for. If it is refused, the caller must downgrade again.
///
/// # Cancel safety
/// Cancel safe, if the caller downgrades.
pub(crate) async fn upgrade(
    nodes: &Nodes,
    params: &AttemptParams<'_>,
    until: Moment,
    token: Token,
    highest: &HighestFence,
) -> Result<Grant, Refusal> {
    let undo = Undo::nothing(nodes, params, token);
    vote_and_stamp(nodes, params, until, (token, AcquireKind::Upgrade), undo, highest).await
}

async fn vote_and_stamp(
    nodes: &Nodes,
    params: &AttemptParams<'_>,
    until: Moment,
    (token, kind): (Token, AcquireKind),
    undo: Undo<'_>,
    highest: &HighestFence,
) -> Result<Grant, Refusal> {
    let ctx = &nodes.ctx;
    // Read before the first byte is sent: the lease counts from here.
    let (start, wall) = (ctx.clock.now(), ctx.clock.wall());
    let recorded = ctx.longest.recorded();
    let proposal = params.propose_above(highest, ctx.fence_clock(start));
    let label = Label::new(params.options.signature.clone(), wall);
    let state = Attempt::new(nodes.quorum, proposal);
    let mut rounds = AttemptRounds { nodes, params, token, until, state, highest };

    let mut votes = Votes::new(nodes);
    let vote = params.vote((token, kind), proposal, &label);
    let mut round = pin!(nodes.ask_within(vote, rounds.limit(start)));
    let mut step = rounds.vote(&mut votes, round.as_mut()).await;
    #[cfg(feature = "simulation")]
    if step == Step::Refused && ctx.injected.is_on(InjectedBug::AnyFreeSlot) {
        step = Box::pin(rounds.vote_for_any_slot(proposal, &label)).await;
    }
    let mut now = ctx.clock.now();
    if step == Step::Stamp || rounds.must_confirm(step, now.since(start)) {
        step = Box::pin(rounds.ask_voters_again(step)).await;
        now = ctx.clock.now();
    }
    step = ctx.injected.decision(step, &rounds.state, proposal);
    if ctx.longest.recorded() > recorded && matches!(step, Step::Granted(_)) {
        // A node that had forgotten may have voted before another node reported how long it must not.
        step = Step::Refused;
    }
    let start = ctx.injected.lease_start(start, || now);
    let took = now.since(start);
    match step {
        Step::Granted(fence) => {
            let (ttl, max_hold) = (params.options.ttl, params.options.max_hold);
            let lease = LeaseTerms::new(token, fence, ttl, max_hold, start, wall);
            if now >= lease.deadline() {
                return Err(Refusal::new(Cause::TooSlow, votes, took));
            }
            undo.disarm();
            Ok(Grant { lease, votes: votes.yes(), took, start: (start, wall), at: now, label })
        }
        _ if rounds.state.lacks_quorum() => {
            drop(undo);
            let votes = Box::pin(collect_remaining(votes, round)).await;
            Err(Refusal::new(Cause::NoQuorum, votes, took))
        }
        _ => {
            undo.without_hint();
            Err(Refusal::new(Cause::Held, votes, took))
        }
    }
}

/// Waits for the nodes that have not answered yet, so that the error can name each one's cause.
async fn collect_remaining<'a>(mut votes: Votes<'a>, mut round: Pin<&mut Round>) -> Votes<'a> {
    while let Some((node, reply)) = round.as_mut().next().await {
        votes.record(node, &reply);
    }
    votes
}

impl Refusal {
    fn new(cause: Cause, votes: Votes<'_>, took: Duration) -> Self {
        let (yes, denied, missing) = (votes.yes(), votes.no(), votes.failed());
        Self { cause, votes: yes, denied, missing, nodes: votes.into_report(), took }
    }
}

impl AttemptParams<'_> {
    pub(super) fn vote(
        &self,
        (token, kind): (Token, AcquireKind),
        proposal: Fence,
        label: &Label,
    ) -> Commands {
        Commands::each(&self.names, |name| {
            Command::Acquire(Acquire {
                name: name.clone(),
                token,
                proposal,
                label: label.clone(),
                ttl: self.options.ttl.span(),
                tied: self.options.tied,
                mode: self.mode,
                kind,
            })
        })
    }

    /// One fence for all names.
    fn propose(&self, wall: Wall) -> Fence {
        if !self.options.fences {
            return Fence::NONE;
        }
        let fences = self.fences.lock();
        self.names.iter().map(|name| fences.propose(name, wall)).max().unwrap_or_default()
    }

    /// The proposal, above `highest`, which it raises.
    fn propose_above(&self, highest: &HighestFence, wall: Wall) -> Fence {
        let proposal = self.propose(wall);
        let least = match highest.get() {
            Fence::NONE => proposal,
            highest => highest.next().unwrap_or(highest),
        };
        let proposal = if proposal == Fence::NONE { proposal } else { proposal.max(least) };
        highest.raise(proposal);
        proposal
    }

    fn record_counter(&self, counter: Fence, wall: Wall) {
        let mut fences = self.fences.lock();
        self.names.iter().for_each(|name| fences.saw(name, counter, wall));
    }
}

/// The rounds of one attempt: one to vote, then one to confirm, or at most two to stamp, if needed.
pub(super) struct AttemptRounds<'a> {
    pub(super) nodes: &'a Nodes,
    pub(super) params: &'a AttemptParams<'a>,
    pub(super) token: Token,
    until: Moment,
    pub(super) state: Attempt,
    highest: &'a HighestFence,
}

impl AttemptRounds<'_> {
    /// How long the nodes may take from `now` on.
    fn limit(&self, now: Moment) -> Duration {
        self.nodes.ctx.node_timeout.min(now.until(self.until))
    }

    async fn vote(&mut self, votes: &mut Votes<'_>, mut round: Pin<&mut Round>) -> Step {
        let mut step = Step::Refused;
        while let Some((node, reply)) = round.as_mut().next().await {
            votes.record(node, &reply);
            step = self.state.on_ballot(node, ballot_of(&reply));
            if step != Step::Wait {
                break;
            }
        }
        step
    }

    /// Whether the votes that decided on `step` are too far apart to count together.
    ///
    /// A node may have voted, lost its memory and be repaired by a holder whose lock expired on another
    /// node, which voted last.
    fn must_confirm(&self, step: Step, took: Duration) -> bool {
        matches!(step, Step::Granted(_))
            && took > self.params.options.ttl.vote_window()
            && took < self.params.options.ttl.validity()
            && self.nodes.quorum.nodes() > 1
            && !self.nodes.ctx.injected.is_on(InjectedBug::SlowVotesCount)
    }

    /// Stamps, or confirms that the voters still have the name. A majority that does had it when this
    /// round started, all at the same moment.
    async fn ask_voters_again(&mut self, mut step: Step) -> Step {
        if matches!(step, Step::Granted(_)) {
            return if self.confirm().await { step } else { Step::Refused };
        }
        while step == Step::Stamp {
            step = self.stamp().await;
        }
        step
    }

    /// Whether a majority still has the name.
    async fn confirm(&self) -> bool {
        let extends = Commands::each(&self.params.names, |name| Command::Extend {
            name: name.clone(),
            token: self.token,
            ttl: self.params.options.ttl.span(),
            tie: Tie::AsBefore,
            mode: self.params.mode,
            may_be_shared: true,
        });
        let limit = self.limit(self.nodes.ctx.clock.now());
        let mut round = pin!(self.nodes.ask_some(self.state.voters(), extends, limit));
        let mut confirmed = 0;
        while let Some((_, reply)) = round.as_mut().next().await {
            confirmed += usize::from(matches!(reply, Reply::Done(_)));
            if confirmed >= self.nodes.quorum.needed() {
                return true;
            }
        }
        false
    }

    async fn stamp(&mut self) -> Step {
        let ctx = &self.nodes.ctx;
        let now = ctx.clock.now();
        let wall = ctx.fence_clock(now);
        let Some(at_least) = self.state.stamp(self.params.propose_above(self.highest, wall)) else {
            return Step::Refused;
        };
        self.highest.raise(at_least);
        let token = self.token;
        let stamps =
            Commands::each(&self.params.names, |name| Command::Stamp { name: name.clone(), token, at_least });
        let mut round = pin!(self.nodes.ask_some(self.state.voters(), stamps, self.limit(now)));
        let mut step = Step::Refused;
        while let Some((_, reply)) = round.as_mut().next().await {
            step = self.state.on_stamp_reply(stamp_reply_of(&reply));
            if step != Step::Wait {
                break;
            }
        }
        self.highest.raise(self.state.highest());
        self.params.record_counter(self.state.highest(), wall);
        step
    }
}

pub(super) fn ballot_of(reply: &Reply) -> Ballot {
    match reply {
        Reply::Done(Done::Raised) => Ballot::Raised,
        Reply::Done(Done::Unraised { counter }) => Ballot::Unraised { counter: *counter },
        Reply::Denied(_) => Ballot::Denied,
        Reply::Done(_) | Reply::Failed(_) => Ballot::Missing,
    }
}

fn stamp_reply_of(reply: &Reply) -> StampReply {
    match reply {
        Reply::Done(Done::Stamped { to }) => StampReply::Stamped { to: *to },
        Reply::Done(Done::StampedUnevenly { highest }) => StampReply::Uneven { highest: *highest },
        Reply::Denied(_) => StampReply::NotHeld,
        Reply::Done(_) | Reply::Failed(_) => StampReply::Missing,
    }
}

/// Releases on every node when dropped, even on those that did not answer, unless it was disarmed.
struct Undo<'a> {
    nodes: &'a Nodes,
    params: &'a AttemptParams<'a>,
    token: Token,
    is_armed: bool,
    /// Whether waiters get no hint.
    quiet: bool,
}

impl<'a> Undo<'a> {
    fn armed(nodes: &'a Nodes, params: &'a AttemptParams<'a>, token: Token) -> Self {
        Self { nodes, params, token, is_armed: true, quiet: false }
    }

    /// For an upgrade, whose caller undoes it.
    fn nothing(nodes: &'a Nodes, params: &'a AttemptParams<'a>, token: Token) -> Self {
        Self { nodes, params, token, is_armed: false, quiet: false }
    }

    fn disarm(mut self) {
        self.is_armed = false;
    }

    /// Undoes without a hint: another client has the lock, and its release sends one.
    fn without_hint(mut self) {
        self.quiet = true;
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if !self.is_armed || self.nodes.ctx.injected.is_on(InjectedBug::LazyRelease) {
            return;
        }
        for name in &self.params.names {
            self.nodes.send(Command::Release {
                name: name.clone(),
                token: self.token,
                quiet: self.quiet,
                stored_after_token: None,
                may_be_shared: self.params.mode == Mode::Shared,
                forced: false,
            });
        }
    }
}
