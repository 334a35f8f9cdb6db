//! What a node does when a command arrives, as its scripts say.

use super::rules::{EpochCheck, ExtendOfNothing, Rules};
use super::world::{Command, Epoch, Heard, Knowledge, Stored, Violation, World};

impl<const N: usize, const C: usize> Rules<N, C> {
    /// Executes `command`, which `client` sent to `node`, and returns the answer. With `interrupted`
    /// the node loses its memory inside a vote, between its two commands.
    pub(crate) fn execute(
        &self,
        world: &mut World<N, C>,
        client: usize,
        node: usize,
        command: Command,
        interrupted: bool,
    ) -> Heard {
        match command {
            Command::Vote => self.vote(world, client, node, interrupted),
            Command::Stamp(round) => stamp(world, client, node, round),
            Command::Extend => self.execute_extend(world, client, node),
            Command::Repair => {
                self.repair(world, client, node);
                Heard::Nothing
            }
            Command::Release => {
                let at = &mut world.nodes[node];
                at.stored.take_if(|stored| usize::from(stored.client) == client);
                at.links[client].is_released = true;
                Heard::Nothing
            }
        }
    }

    /// `SET NX` and the raise in one write with the reading of the epoch.
    fn vote(&self, world: &mut World<N, C>, client: usize, node: usize, interrupted: bool) -> Heard {
        let mut read = Knowledge::Stale;
        if self.epoch == EpochCheck::BeforeVote {
            read = world.nodes[node].links[client].knows;
            if interrupted {
                forget(world, node);
            }
        }
        let is_set = self.store(world, client, node);
        let proposal = world.clients[client].proposal;
        let counter = &mut world.nodes[node].counter;
        let is_raised = *counter < proposal || !self.fences;
        *counter = proposal.max(*counter);
        if self.epoch != EpochCheck::BeforeVote {
            if interrupted {
                forget(world, node);
            }
            read = world.nodes[node].links[client].knows;
        }
        let link = world.nodes[node].links[client];
        let is_known = match self.epoch {
            EpochCheck::AfterVote | EpochCheck::BeforeVote => read == Knowledge::Current,
            EpochCheck::OnConnect | EpochCheck::NotForRepairs => true,
        };
        let is_old_enough = link.counts_from <= world.now || self.epoch == EpochCheck::NotForRepairs;
        match (is_set, is_raised) {
            _ if !is_known || !is_old_enough => Heard::Missing,
            // An attempt counts a refusal like silence.
            (false, _) => Heard::Missing,
            (true, true) => Heard::Confirmed,
            (true, false) => Heard::Voted,
        }
    }

    /// `extend.lua`
    fn execute_extend(&self, world: &mut World<N, C>, client: usize, node: usize) -> Heard {
        let until = world.now + self.ttl;
        let is_marked = client == 0 && world.nodes[node].marked_until > world.now;
        match &mut world.nodes[node].stored {
            Some(stored) if usize::from(stored.client) == client => {
                if is_marked && self.extend_checks_mark {
                    return Heard::Denied;
                }
                stored.until = stored.until.max(until);
                Heard::Extended
            }
            Some(_) => Heard::Denied,
            None if self.extend_of_nothing == ExtendOfNothing::Creates => {
                self.store(world, client, node);
                Heard::Extended
            }
            None => Heard::Gone,
        }
    }

    /// `repair.lua`
    fn repair(&self, world: &mut World<N, C>, client: usize, node: usize) {
        let fence = if self.fences { world.clients[client].fence } else { 0 };
        let at = &mut world.nodes[node];
        if client == 0 && at.marked_until > world.now && self.repair_checks_mark {
            return;
        }
        let before = at.counter;
        at.counter = if self.repair_raises_only { before.max(fence) } else { fence };
        if at.counter < before {
            world.violate(Violation::CounterLowered);
        }
        self.store(world, client, node);
    }

    /// `SET NX`
    fn store(&self, world: &mut World<N, C>, client: usize, node: usize) -> bool {
        let until = world.now + self.ttl;
        let at = &mut world.nodes[node];
        if at.stored.is_some() {
            return false;
        }
        at.stored = Some(Stored { client: u8::try_from(client).unwrap(), until });
        if at.links[client].is_released {
            world.violate(Violation::Resurrected);
        }
        true
    }
}

/// `stamp.lua`
fn stamp<const N: usize, const C: usize>(
    world: &mut World<N, C>,
    client: usize,
    node: usize,
    round: usize,
) -> Heard {
    let target = world.clients[client].targets[round];
    let at = &mut world.nodes[node];
    match at.stored {
        Some(stored) if usize::from(stored.client) == client => {
            at.counter = target.max(at.counter + 1);
            Heard::Stamped(at.counter)
        }
        _ => Heard::Missing,
    }
}

/// The node loses its memory: name, counter, epoch and marks.
pub(crate) fn forget<const N: usize, const C: usize>(world: &mut World<N, C>, node: usize) {
    world.losses += 1;
    let at = &mut world.nodes[node];
    (at.stored, at.counter, at.epoch) = (None, 0, Epoch::None);
    if at.is_forced {
        // The forced release is undone there, and no longer promised.
        (at.is_forced, at.marked_until) = (false, 0);
    }
    for client in 0..C {
        if world.may_count(client, node) {
            world.nodes[node].links[client].knows = Knowledge::Stale;
        }
    }
}
