//! All that can happen next in a world.

use super::node::forget;
use super::rules::{AfterEnd, QuarantineClock, Rules};
use super::timeline;
use super::world::{Command, Epoch, Heard, Knowledge, Phase, Violation, World};
use crate::search::Model;

/// One thing that happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Tick,
    Start {
        client: usize,
    },
    /// The next command of `client` arrives at `node`.
    Deliver {
        client: usize,
        node: usize,
        command: Command,
    },
    /// The same, and the node loses its memory between the two commands of a vote.
    Interrupted {
        client: usize,
        node: usize,
    },
    GiveUp {
        client: usize,
        node: usize,
    },
    /// `client` reads the epoch of `node`, and begins one if there is none.
    Verify {
        client: usize,
        node: usize,
    },
    Extend {
        client: usize,
    },
    Close {
        client: usize,
    },
    Forget {
        node: usize,
    },
    Jump {
        node: usize,
    },
    Force {
        node: usize,
    },
}

pub(crate) type Next<const N: usize, const C: usize> = Vec<(Action, World<N, C>)>;

impl<const N: usize, const C: usize> Model for Rules<N, C> {
    type State = World<N, C>;
    type Action = Action;
    type Violation = Violation;

    fn initial(&self) -> World<N, C> {
        World::initial()
    }

    fn steps(&self, world: &World<N, C>, next: &mut Next<N, C>) {
        if world.clients.iter().all(|client| client.is_done()) && self.after_end == AfterEnd::Nothing {
            return;
        }
        let from = next.len();
        self.tick(world, next);
        for node in 0..N {
            self.faults(world, node, next);
        }
        for client in 0..C {
            self.decisions(world, client, next);
            for node in 0..N {
                self.deliveries(world, client, node, next);
                self.verification(world, client, node, next);
            }
        }
        next[from..].iter_mut().for_each(|(_, world)| self.check(world));
    }

    fn canonical(&self, world: World<N, C>) -> World<N, C> {
        let sorted = world.with_nodes_in_order();
        if C == 2 && self.clients_are_alike() {
            // Worlds in which the two clients have changed places are one.
            let swapped = world.with_clients_swapped().with_nodes_in_order();
            if swapped.sort_key() < sorted.sort_key() {
                return swapped;
            }
        }
        sorted
    }

    fn violation(world: &World<N, C>) -> Option<Violation> {
        world.broken
    }

    fn most_states(&self) -> usize {
        self.most_states
    }

    fn print(&self, path: &[World<N, C>]) {
        timeline::print(self, path);
    }
}

impl<const N: usize, const C: usize> Rules<N, C> {
    fn tick(&self, world: &World<N, C>, next: &mut Next<N, C>) {
        if world.now == self.horizon {
            return;
        }
        let mut after = *world;
        after.now += 1;
        let now = after.now;
        for node in &mut after.nodes {
            node.stored.take_if(|stored| stored.until <= now);
            node.marked_until = if node.marked_until <= now { 0 } else { node.marked_until };
            if let Epoch::VotesFrom(from) | Epoch::Jumped(from) = node.epoch
                && from <= now
            {
                node.epoch = Epoch::VotesFrom(0);
            }
            for link in &mut node.links {
                link.counts_from = if link.counts_from <= now { 0 } else { link.counts_from };
            }
        }
        for client in 0..C {
            self.expire(&mut after, client);
            self.time_out(&mut after, client);
        }
        next.push((Action::Tick, after));
    }

    /// What befalls a node: loss of memory, a clock that jumps, an operator.
    fn faults(&self, world: &World<N, C>, node: usize, next: &mut Next<N, C>) {
        let at = &world.nodes[node];
        if world.losses < self.losses {
            let mut after = *world;
            forget(&mut after, node);
            next.push((Action::Forget { node }, after));
        }
        let all_saw_it = || {
            (0..C)
                .all(|client| !world.may_count(client, node) || at.links[client].knows == Knowledge::Current)
        };
        if let Epoch::VotesFrom(from @ 1..) = at.epoch
            && world.jumps < self.jumps
            && at.stored.is_none()
            && all_saw_it()
        {
            let mut after = *world;
            after.jumps += 1;
            after.nodes[node].epoch = Epoch::Jumped(from);
            next.push((Action::Jump { node }, after));
        }
        let in_time = world.forced.is_none_or(|(first, _)| world.now <= first + self.force_takes);
        if self.forces && !at.is_forced && world.clients[0].holds() && in_time {
            let mut after = *world;
            let at = &mut after.nodes[node];
            at.is_forced = true;
            at.marked_until = world.now + self.mark_lasts;
            at.stored.take_if(|stored| stored.client == 0);
            let first = world.forced.map_or(world.now, |(first, _)| first);
            after.forced = Some((first, world.now));
            next.push((Action::Force { node }, after));
        }
    }

    /// What `client` may decide by itself.
    fn decisions(&self, world: &World<N, C>, client: usize, next: &mut Next<N, C>) {
        let mut push = |action, act: &dyn Fn(&mut World<N, C>)| {
            let mut after = *world;
            act(&mut after);
            next.push((action, after));
        };
        match world.clients[client].phase {
            Phase::Idle => push(Action::Start { client }, &|world| self.start(world, client)),
            Phase::Holding if self.extends => {
                push(Action::Extend { client }, &|world| self.extend(world, client))
            }
            _ => {}
        }
        if world.clients[client].holds() {
            push(Action::Close { client }, &|world| self.close(world, client));
        }
    }

    /// What may happen between `client` and `node`.
    fn deliveries(&self, world: &World<N, C>, client: usize, node: usize, next: &mut Next<N, C>) {
        let link = world.nodes[node].links[client];
        if link.heard == Heard::Waiting {
            let mut after = *world;
            self.hear(&mut after, client, node, Heard::Missing);
            next.push((Action::GiveUp { client, node }, after));
        }
        let mut queue = link.queue;
        let Some(command) = queue.pop() else {
            return;
        };
        for interrupted in [false, true] {
            if interrupted && (command != Command::Vote || world.losses >= self.losses) {
                continue;
            }
            let mut after = *world;
            after.nodes[node].links[client].queue = queue;
            let answer = self.execute(&mut after, client, node, command, interrupted);
            if link.heard == Heard::Waiting && answer != Heard::Nothing {
                self.hear(&mut after, client, node, answer);
            } else if answer == Heard::Gone && !self.repair_checks_closed {
                after.send(client, node, Command::Repair);
            }
            after.forget_numbers(client);
            let action = if interrupted {
                Action::Interrupted { client, node }
            } else {
                Action::Deliver { client, node, command }
            };
            next.push((action, after));
        }
    }

    /// A client reads an epoch that it does not know, or that of a server whose clock jumped.
    fn verification(&self, world: &World<N, C>, client: usize, node: usize, next: &mut Next<N, C>) {
        let link = world.nodes[node].links[client];
        let epoch = world.nodes[node].epoch;
        let is_jumped = matches!(epoch, Epoch::Jumped(_)) && link.counts_from > 0;
        if !world.may_count(client, node) || (link.knows == Knowledge::Current && !is_jumped) {
            return;
        }
        let mut after = *world;
        let at = &mut after.nodes[node];
        let by_server = match epoch {
            Epoch::None => {
                at.epoch = Epoch::VotesFrom(world.now + self.quarantine);
                world.now + self.quarantine
            }
            Epoch::VotesFrom(from) => from,
            Epoch::Jumped(_) => 0,
        };
        let link = &mut at.links[client];
        let was_known = link.knows == Knowledge::Current;
        link.counts_from = match self.quarantine_clock {
            QuarantineClock::Client if was_known => by_server.max(link.counts_from),
            _ => by_server,
        };
        link.knows = Knowledge::Current;
        next.push((Action::Verify { client, node }, after));
    }

    /// Checks what must hold in every world.
    fn check(&self, world: &mut World<N, C>) {
        let holders = world.clients.iter().filter(|client| client.holds()).count();
        let is_excused = |(_, last): (u8, u8)| world.clients[0].holds() && world.now < last + self.ttl;
        if holders > 1 && !world.forced.is_some_and(is_excused) {
            // Whatever else is wrong, this is the worst.
            world.broken = Some(Violation::TwoHolders);
        }
        let forced = world.nodes.iter().filter(|node| node.is_forced).count();
        if let Some((_, last)) = world.forced
            && forced > N / 2
            && world.clients[0].holds()
            && world.now >= last + self.ttl
        {
            world.violate(Violation::HeldAfterForce);
        }
    }
}
