//! One attempt to take a lock on the nodes: vote, stamp if needed, undo if refused.

use crate::context::entropy;
use crate::context::injected_bug::Planted;
use crate::context::options::Options;
use crate::error::NodeReport;
use crate::node::{Acquire, Command, Done, Reply};
use crate::quorum::Voters;
use crate::quorum::round::Hearing;
use crate::quorum::votes::Poll;
use quorlock_core::attempt::Mark;
use quorlock_core::{Attempt, Ballot, Fence, FenceClock, Label, Lease, Moment, Name, Step, Token, Wall};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What an attempt needs besides the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a Name,
    pub(crate) options: &'a Options,
    pub(crate) fences: &'a Mutex<FenceClock>,
}

/// A lock that was granted.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) lease: Lease,
    pub(crate) votes: usize,
    pub(crate) took: Duration,
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
    /// Somebody else has it, or several contend.
    Held,
    /// Too few nodes could vote.
    NoQuorum,
    /// A majority agreed after the deadline.
    TooSlow,
}

/// Makes one attempt with a token of its own, which ends at `until` at the latest: nodes that have not answered by then
/// count as silent.
///
/// # Cancel safety
/// Cancel safe: dropped half-way, it releases on every node that it asked.
pub(crate) async fn attempt(
    voters: &Voters,
    candidate: &Candidate<'_>,
    until: Moment,
) -> Result<Grant, Refusal> {
    let clock = &voters.around.clock;
    // Read before the first byte is sent: the lease counts from here.
    let (start, wall) = (clock.now(), clock.wall());
    let recorded = voters.around.longest.recorded();
    let token = entropy::token(voters.around.entropy.as_ref());
    let proposal = candidate.propose(voters.around.fence_clock(start));
    let label = Label::new(candidate.options.signature.clone(), wall);
    let ballot = Command::Acquire(Acquire {
        name: candidate.name.clone(),
        token,
        proposal,
        label: label.clone(),
        ttl: candidate.options.ttl.span(),
        tied: candidate.options.tied,
        top_up: false,
    });
    let undo = Undo::armed(voters, candidate.name, token);
    let mut ask = Ask { voters, candidate, token, until, state: Attempt::new(voters.quorum, proposal) };

    let mut poll = Poll::new(voters);
    let mut round = pin!(voters.hear_within(ballot, ask.limit(start)));
    let mut step = ask.vote(&mut poll, round.as_mut()).await;
    while step == Step::Stamp {
        step = Box::pin(ask.stamp()).await;
    }
    let now = clock.now();
    let is_favoured = ask.state.votes().yes() > ask.state.votes().no();
    if step == Step::Refused && is_favoured && voters.around.is_planted(Planted::ReachableMajority) {
        step = Step::Granted(proposal);
    }
    let start = if voters.around.is_planted(Planted::LateDeadline) { now } else { start };
    if matches!(step, Step::Granted(_)) && voters.around.longest.recorded() > recorded {
        // A node that had forgotten may have voted before another one said how long it must not.
        step = Step::Refused;
    }
    match step {
        Step::Granted(fence) => {
            let options = candidate.options;
            let lease = Lease::new(token, fence, options.ttl, options.max_hold, start, wall);
            if now < lease.deadline() {
                undo.disarm();
                let votes = ask.state.votes().yes();
                return Ok(Grant { lease, votes, took: now.since(start), at: now, label });
            }
            Err(Refusal::new(Cause::TooSlow, poll, now.since(start)))
        }
        _ if ask.state.lacks_quorum() => {
            drop(undo);
            let poll = Box::pin(hear_out(poll, round)).await;
            Err(Refusal::new(Cause::NoQuorum, poll, now.since(start)))
        }
        _ => {
            undo.quietly();
            Err(Refusal::new(Cause::Held, poll, now.since(start)))
        }
    }
}

/// Hears the nodes that have not answered yet, so that the error can name each one's cause.
async fn hear_out<'a>(mut poll: Poll<'a>, mut round: Pin<&mut Hearing>) -> Poll<'a> {
    while let Some((node, reply)) = round.as_mut().next().await {
        poll.count(node, &reply);
    }
    poll
}

impl Refusal {
    fn new(cause: Cause, poll: Poll<'_>, took: Duration) -> Self {
        let (votes, denied, missing) = (poll.tally.yes(), poll.tally.no(), poll.tally.missing());
        Self { cause, votes, denied, missing, nodes: poll.report(), took }
    }
}

impl Candidate<'_> {
    fn propose(&self, wall: Wall) -> Fence {
        if !self.options.fences {
            return Fence::NONE;
        }
        self.fences.lock().unwrap_or_else(PoisonError::into_inner).propose(self.name, wall)
    }

    fn saw(&self, counter: Fence, wall: Wall) {
        self.fences.lock().unwrap_or_else(PoisonError::into_inner).saw(self.name, counter, wall);
    }
}

/// The rounds of one attempt.
struct Ask<'a> {
    voters: &'a Voters,
    candidate: &'a Candidate<'a>,
    token: Token,
    until: Moment,
    state: Attempt,
}

impl Ask<'_> {
    /// How long the nodes may take from `now` on.
    fn limit(&self, now: Moment) -> Duration {
        self.voters.around.node_timeout.min(now.until(self.until))
    }

    async fn vote(&mut self, poll: &mut Poll<'_>, mut round: Pin<&mut Hearing>) -> Step {
        let mut step = Step::Refused;
        while let Some((node, reply)) = round.as_mut().next().await {
            poll.count(node, &reply);
            step = self.state.on_ballot(node, ballot_of(&reply));
            if step != Step::Wait {
                break;
            }
        }
        step
    }

    async fn stamp(&mut self) -> Step {
        let clock = &self.voters.around.clock;
        let now = clock.now();
        let wall = self.voters.around.fence_clock(now);
        let Some(at_least) = self.state.stamp(self.candidate.propose(wall)) else {
            return Step::Refused;
        };
        let name = self.candidate.name.clone();
        let command = Command::Stamp { name, token: self.token, at_least };
        let mut round = self.voters.ask_some(self.state.voters(), command, self.limit(now));
        let mut step = Step::Refused;
        while let Some((_, reply)) = round.next().await {
            step = self.state.on_mark(mark_of(&reply));
            if step != Step::Wait {
                break;
            }
        }
        self.candidate.saw(self.state.highest(), wall);
        step
    }
}

fn ballot_of(reply: &Reply) -> Ballot {
    match reply {
        Reply::Done(Done::Raised) => Ballot::Confirmed,
        Reply::Done(Done::Unraised { counter }) => Ballot::Voted { counter: *counter },
        Reply::Denied(_) => Ballot::Denied,
        Reply::Done(_) | Reply::Failed(_) => Ballot::Missing,
    }
}

fn mark_of(reply: &Reply) -> Mark {
    match reply {
        Reply::Done(Done::Stamped { to }) => Mark::Stamped { to: *to },
        Reply::Denied(_) => Mark::NotHeld,
        Reply::Done(_) | Reply::Failed(_) => Mark::Missing,
    }
}

/// Releases on every node when dropped, also on those that did not answer, unless it was disarmed.
struct Undo<'a> {
    voters: &'a Voters,
    name: &'a Name,
    token: Token,
    is_armed: bool,
    /// Whether those who wait are not told.
    quiet: bool,
}

impl<'a> Undo<'a> {
    fn armed(voters: &'a Voters, name: &'a Name, token: Token) -> Self {
        Self { voters, name, token, is_armed: true, quiet: false }
    }

    fn disarm(mut self) {
        self.is_armed = false;
    }

    /// Undoes without a hint: somebody else has the lock, and its release will tell.
    fn quietly(mut self) {
        self.quiet = true;
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            let (name, token, quiet) = (self.name.clone(), self.token, self.quiet);
            self.voters.tell(Command::Release { name, token, quiet, behind: None, forced: false });
        }
    }
}
