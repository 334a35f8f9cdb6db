//! Which slots of a semaphore an attempt asks for.
//!
//! A permit is an exclusive lock on one of the semaphore's slots, so at most as many clients hold permits as
//! there are slots. The client chooses the slot: nodes that chose would disagree under contention, and no
//! client would get a majority.

use crate::error::{NodeOutcome, NodeReport};
use crate::node::{Command, Done, NodeError, Reply, SlotsView};
use crate::quorum::Nodes;
use quorlock_core::{Name, NameSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What all calls for one semaphore of a locker share.
#[derive(Debug)]
pub(crate) struct SlotMemory {
    pub(crate) semaphore: Name,
    pub(crate) count: u32,
    /// Whether the nodes have recorded the same number of slots.
    is_verified: AtomicBool,
    /// The slot that was held last; `u32::MAX` before.
    last: AtomicU32,
}

impl SlotMemory {
    pub(crate) fn new(semaphore: Name, count: u32) -> Self {
        let (is_verified, last) = (AtomicBool::new(false), AtomicU32::new(u32::MAX));
        Self { semaphore, count, is_verified, last }
    }

    /// Records that `slot` was released: it is likely to be free at the next call.
    pub(crate) fn record_released(&self, slot: u32) {
        self.last.store(slot, Ordering::Relaxed);
    }
}

/// The choice of one call.
#[derive(Debug)]
pub(crate) struct SlotChoice<'a> {
    memory: &'a SlotMemory,
    permits: usize,
    /// Slots that were free on a majority of nodes at the last look.
    free: Vec<u32>,
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
    pub(crate) fn new(memory: &'a SlotMemory, permits: usize) -> Self {
        Self { memory, permits, free: Vec::new() }
    }

    pub(crate) fn semaphore(&self) -> &'a Name {
        &self.memory.semaphore
    }

    pub(crate) fn count(&self) -> u32 {
        self.memory.count
    }

    /// The names of the slots to try: some that were free at the last look, else the one that was held last
    /// or any.
    pub(crate) async fn choose(&mut self, nodes: &Nodes, random: u64) -> Result<NameSet, SlotsError> {
        if !self.memory.is_verified.load(Ordering::Relaxed) {
            self.look(nodes, random).await?;
        }
        let mut free = std::mem::take(&mut self.free);
        let chosen: Vec<u32> = if free.len() >= self.permits {
            shuffle(&mut free, random);
            free.into_iter().take(self.permits).collect()
        } else {
            self.guess(random)
        };
        let names = chosen.into_iter().map(|slot| Name::of_slot(self.semaphore(), slot));
        // The slots are different, and never more than a set may have.
        NameSet::new(names).map_err(|_| SlotsError::Differ { recorded: self.count() })
    }

    /// Slots about which nothing is known.
    fn guess(&self, random: u64) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.count()).collect();
        shuffle(&mut all, random);
        let last = self.memory.last.swap(u32::MAX, Ordering::Relaxed);
        let mut chosen: Vec<u32> = Some(last).filter(|last| *last < self.count()).into_iter().collect();
        chosen.extend(all.into_iter().filter(|slot| *slot != last).take(self.permits - chosen.len()));
        chosen
    }

    /// Asks the nodes which slots are taken; whether enough are free on a majority of them.
    ///
    /// # Cancel safety
    /// Cancel safe: the nodes may have recorded the number of slots.
    pub(crate) async fn look(&mut self, nodes: &Nodes, _random: u64) -> Result<bool, SlotsError> {
        let mut views = ask(nodes, self.semaphore(), self.count(), false).await?;
        if let Some(recorded) = differing(&views, self.count()) {
            // Another number may replace it while no slot of either is taken.
            let all = ask(nodes, self.semaphore(), recorded.max(self.count()), false).await?;
            if all.iter().any(|view| view.taken.contains(&true)) {
                return Err(SlotsError::Differ { recorded });
            }
            views = ask(nodes, self.semaphore(), self.count(), true).await?;
        }
        self.memory.is_verified.store(true, Ordering::Relaxed);
        let is_free = |slot: &u32| {
            let free = |view: &&SlotsView| view.taken.get(*slot as usize) == Some(&false);
            views.iter().filter(free).count() >= nodes.quorum.needed()
        };
        self.free = (0..self.count()).filter(is_free).collect();
        Ok(self.free.len() >= self.permits)
    }
}

/// What a majority of nodes or more know of a semaphore.
async fn ask(nodes: &Nodes, name: &Name, count: u32, replace: bool) -> Result<Vec<SlotsView>, SlotsError> {
    let mut round = Box::pin(nodes.ask(Command::Slots { name: name.clone(), count, replace }));
    let (mut views, mut reports) = (Vec::new(), Vec::new());
    while let Some((node, reply)) = round.as_mut().next().await {
        let outcome = match reply {
            Reply::Done(Done::Slots(view)) => {
                views.push(*view);
                NodeOutcome::Yes
            }
            Reply::Failed(cause) => NodeOutcome::Failed(*cause),
            Reply::Done(_) | Reply::Denied(_) => {
                NodeOutcome::Failed(NodeError::Protocol { reason: "no slots".into() })
            }
        };
        reports.push(NodeReport { node: nodes.id(node), outcome });
        if views.len() >= nodes.quorum.needed() && views.len() + 1 >= nodes.quorum.nodes() {
            break;
        }
    }
    if views.len() < nodes.quorum.needed() {
        return Err(SlotsError::NoQuorum { answered: views.len(), nodes: reports });
    }
    Ok(views)
}

/// Another number of slots than `count` that nodes have recorded.
fn differing(views: &[SlotsView], count: u32) -> Option<u32> {
    views.iter().map(|view| view.recorded).find(|recorded| *recorded != count)
}

/// Shuffles by `random`.
fn shuffle(slots: &mut [u32], mut random: u64) {
    for at in (1..slots.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        slots.swap(at, (random >> 33) as usize % (at + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn memory(count: u32) -> SlotMemory {
        SlotMemory::new(Name::new("gpu").unwrap(), count)
    }

    #[test]
    fn a_guess_begins_with_the_slot_that_was_held_last_and_has_no_slot_twice() {
        let memory = memory(8);
        memory.record_released(5);
        let choice = SlotChoice::new(&memory, 3);
        let guess = choice.guess(7);
        assert_eq!(guess[0], 5);
        assert_eq!(guess.iter().collect::<BTreeSet<_>>().len(), 3);
        assert_eq!(SlotChoice::new(&memory, 8).guess(9).into_iter().collect::<BTreeSet<_>>().len(), 8);
    }

    #[test]
    fn guesses_are_spread_over_all_slots() {
        let memory = memory(4);
        let choice = SlotChoice::new(&memory, 1);
        let guessed: BTreeSet<u32> = (0..64).flat_map(|random| choice.guess(random * 0x9e37_79b9)).collect();
        assert_eq!(guessed.len(), 4);
    }
}
