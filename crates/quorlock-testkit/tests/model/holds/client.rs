//! The client: it hears answers, and the shipped state machines decide what they mean.
//!
//! None of them is part of the state: each is made anew from what the client has heard.

use super::rules::{AfterEnd, Rules};
use super::world::{Client, Command, Heard, Knowledge, Link, Phase, Violation, World};
use quorlock_core::attempt::StampReply;
use quorlock_core::{
    Attempt, Ballot, Fence, LeaseState, LeaseTerms, Quorum, Step, Tally, Token, Verdict, Vote,
};

impl<const N: usize, const C: usize> Rules<N, C> {
    pub(crate) fn start(&self, world: &mut World<N, C>, client: usize) {
        let (now, before) = (world.now, world.highest_fence());
        world.clients[client] = Client {
            phase: Phase::Voting,
            lease_from: now,
            round_from: now,
            before,
            proposal: self.proposal(client, now),
            ..Client::default()
        };
        for node in 0..N {
            world.nodes[node].links[client].heard = Heard::Waiting;
            world.send(client, node, Command::Vote);
        }
    }

    /// `client` hears `answer` from `node`, for which it waited.
    pub(crate) fn hear(&self, world: &mut World<N, C>, client: usize, node: usize, answer: Heard) {
        let link = &mut world.nodes[node].links[client];
        // What the client knows of the epoch matters for its votes only.
        *link = Link { heard: answer, knows: Knowledge::Current, counts_from: 0, ..*link };
        match world.clients[client].phase {
            Phase::Voting | Phase::Stamping => self.go_on(world, client, node),
            Phase::Confirming => self.count_confirmed(world, client),
            Phase::Extending => self.count(world, client),
            // A straggler of a round that a majority has decided.
            Phase::Holding => self.repair_missing(world, client),
            Phase::Idle | Phase::Closed | Phase::Over => {}
        }
    }

    /// Goes on as the shipped attempt says, which has heard `last` last.
    fn go_on(&self, world: &mut World<N, C>, client: usize, last: usize) {
        let proposal = Fence::new(world.clients[client].proposal.into());
        let mut attempt = Attempt::new(Quorum::of(N).unwrap(), proposal);
        let rounds = world.clients[client].rounds;
        let links = world.nodes.map(|node| node.links[client]);
        let mut step = Step::Wait;
        let in_order = || (0..N).filter(|node| *node != last).chain([last]);
        for node in in_order() {
            match (rounds, links[node].heard) {
                (0, Heard::Waiting) => {}
                (0, heard) => step = attempt.on_ballot(node, ballot(heard)),
                // The ballots that were counted before the first stamp: who voted is all that matters.
                (_, _) if links[node].is_voter => {
                    attempt.on_ballot(node, Ballot::Unraised { counter: None });
                }
                _ => {}
            }
        }
        for round in 0..usize::from(rounds) {
            attempt.stamp(Fence::new(world.clients[client].targets[round].into())).unwrap();
        }
        let heard = |node: &usize| links[*node].is_voter && links[*node].heard != Heard::Waiting;
        for node in in_order().filter(|_| rounds > 0).filter(heard) {
            step = attempt.on_stamp_reply(mark(links[node].heard));
        }
        match step {
            Step::Wait => {}
            Step::Refused => self.refuse(world, client),
            Step::Granted(_)
                if rounds == 0 && !self.count_together(world.clients[client].lease_from, world.now) =>
            {
                self.ask_voters(world, client, &attempt);
            }
            Step::Granted(fence) => self.grant(world, client, fence),
            Step::Stamp => self.stamp(world, client, attempt),
        }
    }

    fn stamp(&self, world: &mut World<N, C>, client: usize, mut attempt: Attempt) {
        let floor = Fence::new(self.proposal(client, world.now).into());
        let target = attempt.stamp(floor).unwrap();
        let this = &mut world.clients[client];
        let round = usize::from(this.rounds);
        this.phase = Phase::Stamping;
        this.targets[round] = small(target);
        this.rounds += 1;
        this.round_from = world.now;
        for node in 0..N {
            let link = &mut world.nodes[node].links[client];
            link.is_voter = attempt.voters().contains(node);
            link.heard = if link.is_voter { Heard::Waiting } else { Heard::Nothing };
            if link.is_voter {
                world.send(client, node, Command::Stamp(round));
            }
        }
    }

    /// Asks the voters whether they still have the name, as `acquire/attempt.rs` does.
    fn ask_voters(&self, world: &mut World<N, C>, client: usize, attempt: &Attempt) {
        let this = &mut world.clients[client];
        (this.phase, this.round_from) = (Phase::Confirming, world.now);
        for node in 0..N {
            let link = &mut world.nodes[node].links[client];
            link.is_voter = attempt.voters().contains(node);
            link.heard = if link.is_voter { Heard::Waiting } else { Heard::Nothing };
            if link.is_voter {
                world.send(client, node, Command::Extend);
            }
        }
    }

    /// Grants the attempt once a majority has confirmed that it still has the name.
    fn count_confirmed(&self, world: &mut World<N, C>, client: usize) {
        let heard = |wanted| world.nodes.iter().filter(|node| node.links[client].heard == wanted).count();
        if heard(Heard::Extended) >= Quorum::of(N).unwrap().needed() {
            let fence = Fence::new(world.clients[client].proposal.into());
            self.grant(world, client, fence);
        } else if heard(Heard::Waiting) == 0 {
            self.refuse(world, client);
        }
    }

    /// Undoes the attempt, or ends a lost lock, everywhere.
    fn refuse(&self, world: &mut World<N, C>, client: usize) {
        self.end(world, client, Phase::Over);
    }

    /// `client` returns with `fence`. Here the promises about fences are checked.
    fn grant(&self, world: &mut World<N, C>, client: usize, fence: Fence) {
        let number = small(fence);
        if self.clocks(world.now).0 >= self.lease(&world.clients[client], fence).deadline() {
            return self.refuse(world, client);
        }
        let others = || (0..C).filter(|other| *other != client).map(|other| world.clients[other]);
        if !self.fences {
            // The shipped attempt returns the proposal, which says nothing here.
        } else if others().any(|other| other.fence == number) {
            world.violate(Violation::DuplicateFence);
        } else if number <= world.clients[client].before {
            world.violate(Violation::NotAboveEarlier);
        } else if others().any(|other| other.fence > number) {
            world.violate(Violation::HoldingOrder);
        }
        let lease_from = world.clients[client].lease_from;
        let is_late = |command| world.nodes.iter().any(|node| node.links[client].queue.contains(command));
        let proposal = if is_late(Command::Vote) { world.clients[client].proposal } else { 0 };
        world.clients[client] =
            Client { phase: Phase::Holding, fence: number, lease_from, proposal, ..Client::default() };
        for node in &mut world.nodes {
            // Votes that are on their way still arrive.
            node.links[client] = Link { queue: node.links[client].queue, ..Link::default() };
        }
    }

    /// Begins a round to extend.
    pub(crate) fn extend(&self, world: &mut World<N, C>, client: usize) {
        world.clients[client].phase = Phase::Extending;
        world.clients[client].round_from = world.now;
        for node in 0..N {
            let link = &mut world.nodes[node].links[client];
            link.heard = Heard::Waiting;
            // What is left of the round before is lost.
            link.queue.drop_all(Command::Extend);
            world.send(client, node, Command::Extend);
        }
    }

    /// Decides a round to extend, as `hold/extend.rs` does.
    fn count(&self, world: &mut World<N, C>, client: usize) {
        let quorum = Quorum::of(N).unwrap();
        let mut tally = Tally::new(quorum);
        let mut verdict = Verdict::Pending;
        let (mut yes, mut no) = (0, 0);
        for node in &world.nodes {
            let vote = match node.links[client].heard {
                Heard::Waiting => continue,
                Heard::Extended => Vote::For,
                Heard::Gone | Heard::Denied => Vote::Against,
                _ => Vote::Missing,
            };
            yes += usize::from(vote == Vote::For);
            no += usize::from(vote == Vote::Against);
            verdict = tally.count(vote);
        }
        if self.extend_needs.is_some_and(|needed| yes >= needed) {
            verdict = Verdict::Granted;
        }
        if verdict == Verdict::Granted {
            self.confirm(world, client);
        } else if tally.outstanding() == 0 {
            world.clients[client].phase = Phase::Holding;
            world.clients[client].round_from = 0;
            if no > quorum.spare() {
                // Lost, and its guard releases it when it is dropped.
                return self.refuse(world, client);
            }
            if yes > 0 {
                self.repair_missing(world, client);
            }
            for node in &mut world.nodes {
                node.links[client].heard = Heard::Nothing;
            }
        }
    }

    /// A majority has extended.
    fn confirm(&self, world: &mut World<N, C>, client: usize) {
        let this = world.clients[client];
        let mut lease = self.lease(&this, Fence::new(this.fence.into()));
        let round = self.clocks(this.round_from);
        if lease.extend(self.ttl(), round, self.clocks(world.now).0).is_err() {
            return self.refuse(world, client);
        }
        let moved = lease.deadline() == self.ttl().deadline(round.0);
        let this = &mut world.clients[client];
        this.phase = Phase::Holding;
        this.lease_from = if moved { this.round_from } else { this.lease_from };
        this.round_from = 0;
        self.repair_missing(world, client);
    }

    /// Gives the lock back to nodes that answered that they do not have it.
    fn repair_missing(&self, world: &mut World<N, C>, client: usize) {
        for node in 0..N {
            let link = &mut world.nodes[node].links[client];
            let heard = link.heard;
            if heard != Heard::Waiting {
                link.heard = Heard::Nothing;
            }
            if heard == Heard::Gone && !link.queue.contains(Command::Repair) {
                world.send(client, node, Command::Repair);
            }
        }
    }

    /// The holder releases the lock.
    pub(crate) fn close(&self, world: &mut World<N, C>, client: usize) {
        self.end(world, client, Phase::Closed);
    }

    /// Ends what `client` does, and releases on every node.
    fn end(&self, world: &mut World<N, C>, client: usize, phase: Phase) {
        match self.after_end {
            AfterEnd::Nothing => world.vanish(client, phase),
            AfterEnd::LateCommands => {
                world.end(client, phase);
                (0..N).for_each(|node| world.send(client, node, Command::Release));
            }
        }
    }

    /// Ends rounds of an attempt that have taken too long: silent nodes count as missing.
    pub(crate) fn time_out(&self, world: &mut World<N, C>, client: usize) {
        for node in 0..N {
            let Client { phase, round_from, .. } = world.clients[client];
            if matches!(phase, Phase::Voting | Phase::Stamping | Phase::Confirming)
                && world.now > round_from + self.round_takes
                && world.nodes[node].links[client].heard == Heard::Waiting
            {
                self.hear(world, client, node, Heard::Missing);
            }
        }
    }

    /// Ends attempts and holds whose time is over.
    pub(crate) fn expire(&self, world: &mut World<N, C>, client: usize) {
        let this = world.clients[client];
        match this.phase {
            Phase::Idle | Phase::Closed | Phase::Over => {}
            // An attempt could still be granted, but only too late.
            Phase::Voting | Phase::Stamping | Phase::Confirming | Phase::Holding | Phase::Extending => {
                let (now, wall) = self.clocks(world.now);
                if matches!(self.lease(&this, Fence::NONE).state(now, wall), LeaseState::Lost(_)) {
                    self.refuse(world, client);
                }
            }
        }
    }

    /// The lease of `client` as the shipped code keeps it.
    fn lease(&self, client: &Client, fence: Fence) -> LeaseTerms {
        let (start, wall) = self.clocks(client.lease_from);
        LeaseTerms::new(Token::from_random([1; 16]), fence, self.ttl(), None, start, wall)
    }
}

fn small(fence: Fence) -> u8 {
    u8::try_from(fence.get()).unwrap()
}

fn ballot(heard: Heard) -> Ballot {
    match heard {
        Heard::Confirmed => Ballot::Raised,
        Heard::Voted => Ballot::Unraised { counter: None },
        _ => Ballot::Missing,
    }
}

fn mark(heard: Heard) -> StampReply {
    match heard {
        Heard::Stamped(to) => StampReply::Stamped { to: Fence::new(to.into()) },
        _ => StampReply::Missing,
    }
}
