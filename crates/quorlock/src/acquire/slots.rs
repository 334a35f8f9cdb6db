//! Which slots of a semaphore an attempt asks for.
//!
//! A permit is an exclusive lock on one of the semaphore's slots, so at most as many clients hold permits as
//! there are slots. The client chooses the slot: nodes that chose would disagree under contention, and no
//! client would get a majority.

use crate::acquire::local_slots::LocalSlots;
use crate::error::{NodeOutcome, NodeReport};
use crate::inspect::slots::slots_view;
use crate::node::{Command, RecordSlots, SlotsView};
use crate::quorum::Nodes;
use quorlock_core::{Name, NameSet};

/// The most slots that a semaphore has.
pub(crate) const MAX_SLOTS: u32 = 1024;

/// The choice of one call.
#[derive(Debug)]
pub(crate) struct SlotChoice<'a> {
    semaphore: &'a Name,
    count: u32,
    permits: usize,
    /// What all tasks of the locker know of the slots.
    local: &'a LocalSlots,
    /// Slots that were free on a majority of nodes at the last look.
    free: Vec<u32>,
    /// Whether the last choice was made of such slots.
    was_informed: bool,
}

/// Why no slot can be chosen.
#[derive(Debug)]
pub(crate) enum SlotsError {
    /// Too few nodes answered.
    NoQuorum { answered: usize, nodes: Vec<NodeReport> },
    /// Other clients use the semaphore with another number of slots.
    Differ { recorded: u32 },
}

impl<'a> SlotChoice<'a> {
    /// Chooses `permits` of `count` slots of `semaphore`.
    pub(crate) fn new(semaphore: &'a Name, count: u32, permits: usize, local: &'a LocalSlots) -> Self {
        Self { semaphore, count, permits, local, free: Vec::new(), was_informed: false }
    }

    pub(crate) fn semaphore(&self) -> &'a Name {
        self.semaphore
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How many slots are wanted.
    pub(crate) fn permits(&self) -> usize {
        self.permits
    }

    /// Whether too few slots are left besides those that guards of this locker hold.
    pub(crate) fn are_too_many_held_here(&self) -> bool {
        self.local.are_too_many_held(self.count, self.permits)
    }

    /// Whether a look found free slots after a choice that was made without one.
    pub(crate) fn has_news(&self) -> bool {
        !self.was_informed && self.free.len() >= self.permits
    }

    /// The names of the slots to try: some that were free at the last look, else a guess.
    pub(crate) async fn choose(&mut self, nodes: &Nodes, random: u64) -> Result<NameSet, SlotsError> {
        if !self.local.is_verified(self.count, nodes.ctx.clock.now()) {
            self.look(nodes).await?;
        }
        let mut free = std::mem::take(&mut self.free);
        self.was_informed = free.len() >= self.permits;
        let chosen: Vec<u32> = if self.was_informed {
            shuffle(&mut free, random);
            free.into_iter().take(self.permits).collect()
        } else {
            self.local.guess(self.count, self.permits, random)
        };
        let names = chosen.into_iter().map(|slot| Name::of_slot(self.semaphore, slot));
        // The slots are different, and never more than a set may have.
        NameSet::new(names).map_err(|_| SlotsError::Differ { recorded: self.count })
    }

    /// Asks the nodes which slots are taken; whether enough are free on a majority of them.
    ///
    /// # Cancel safety
    /// Cancel safe: the nodes may have recorded the number of slots.
    pub(crate) async fn look(&mut self, nodes: &Nodes) -> Result<bool, SlotsError> {
        let mut views = self.ask(nodes, self.count, RecordSlots::IfNone).await?;
        if let Some(recorded) = self.other_number(nodes, &views) {
            // Another number may replace it while no slot of either is taken.
            let most = recorded.max(self.count).min(MAX_SLOTS);
            let all = self.ask(nodes, most, RecordSlots::Nothing).await?;
            if all.iter().any(|(_, view)| view.taken.contains(&true)) {
                // For operators. Waited for, because a program that is refused may end at once.
                let _ = self.ask(nodes, self.count, RecordSlots::Refused).await;
                self.local.set_verified(None);
                return Err(SlotsError::Differ { recorded });
            }
            views = self.ask(nodes, self.count, RecordSlots::Replace).await?;
        }
        self.local.set_verified(Some((self.count, nodes.ctx.clock.now())));
        let is_free = |slot: &u32| {
            let free = |(_, view): &&(usize, SlotsView)| view.taken.get(*slot as usize) == Some(&false);
            views.iter().filter(free).count() >= nodes.quorum.needed()
        };
        self.free = (0..self.count).filter(is_free).collect();
        Ok(self.free.len() >= self.permits)
    }

    /// The number that nodes have recorded instead of ours. If a majority has ours, a node that missed its
    /// recording gets it.
    fn other_number(&self, nodes: &Nodes, views: &[(usize, SlotsView)]) -> Option<u32> {
        let differs = |(node, view): &(usize, SlotsView)| {
            let recorded = view.recorded.filter(|recorded| *recorded != self.count);
            recorded.map(|recorded| (*node, recorded))
        };
        let others: Vec<(usize, u32)> = views.iter().filter_map(differs).collect();
        if views.len() - others.len() < nodes.quorum.needed() {
            return others.first().map(|(_, recorded)| *recorded);
        }
        for (node, _) in others {
            nodes.send_to(node, self.command(self.count, RecordSlots::Replace));
        }
        None
    }

    fn command(&self, count: u32, record: RecordSlots) -> Command {
        Command::Slots { name: self.semaphore.clone(), count, record }
    }

    /// What a majority of nodes or more know of the semaphore.
    async fn ask(
        &self,
        nodes: &Nodes,
        count: u32,
        record: RecordSlots,
    ) -> Result<Vec<(usize, SlotsView)>, SlotsError> {
        let mut round = Box::pin(nodes.ask(self.command(count, record)));
        let (mut views, mut reports) = (Vec::new(), Vec::new());
        while let Some((node, reply)) = round.as_mut().next().await {
            let outcome = match slots_view(reply) {
                Ok(view) => {
                    views.push((node, view));
                    NodeOutcome::Yes
                }
                Err(cause) => NodeOutcome::Failed(cause),
            };
            reports.push(NodeReport { node: nodes.id(node), outcome });
            let is_enough = views.len() >= nodes.quorum.needed() && views.len() + 1 >= nodes.quorum.nodes();
            // Where nodes disagree, the last one may decide.
            if is_enough && views.iter().all(|(_, view)| view.recorded == Some(self.count)) {
                break;
            }
        }
        if views.len() < nodes.quorum.needed() {
            return Err(SlotsError::NoQuorum { answered: views.len(), nodes: reports });
        }
        Ok(views)
    }
}

/// Shuffles by `random`.
pub(crate) fn shuffle(slots: &mut [u32], mut random: u64) {
    for at in (1..slots.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        slots.swap(at, (random >> 33) as usize % (at + 1));
    }
}
