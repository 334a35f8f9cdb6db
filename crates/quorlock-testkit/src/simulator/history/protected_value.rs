//! What the locks protect: a value for each name, at resources with and without fences.

use crate::simulator::history::{History, WorldKind};
use quorlock::Name;
use std::time::Duration;

/// A protected value: the fence of its last write, and how often it was written.
#[derive(Debug, Default)]
pub(crate) struct ProtectedValue {
    value: u64,
    fence: u64,
    /// The same value at a resource without fences.
    unfenced: u64,
    /// The same value at a resource that checks the fence at the read, too, and the highest fence
    /// that it saw.
    fenced: (u64, u64),
}

/// What a client read, at each kind of resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    value: u64,
    unfenced: u64,
    fenced: u64,
}

impl History {
    /// Reads the protected value.
    pub(crate) fn read(&mut self, name: &Name, fence: u64) -> Read {
        let value = self.values.entry(name.clone()).or_default();
        self.recorder.read(name, fence, fence >= value.fenced.1, value.fenced.0);
        value.fenced.1 = value.fenced.1.max(fence);
        Read { value: value.value, unfenced: value.unfenced, fenced: value.fenced.0 }
    }

    /// Reads the protected value under a shared lock. `false` if the resource refused an outdated fence: one
    /// below that of the last write.
    pub(crate) fn read_shared(&mut self, now: Duration, name: &Name, fence: u64) -> bool {
        let is_outdated = self.values.get(name).is_some_and(|value| fence < value.fence);
        if is_outdated {
            self.fenced_off += 1;
            self.record(now, &format!("the resource {name} refuses fence {fence} of a reader"));
        }
        !is_outdated
    }

    /// Writes one more than was read. `false` if the resource refused an outdated fence.
    pub(crate) fn write(&mut self, now: Duration, name: &Name, read: Read, fence: u64) -> bool {
        let value = self.values.entry(name.clone()).or_default();
        self.lost_unfenced += u64::from(value.unfenced != read.unfenced);
        value.unfenced += 1;
        let is_newest = fence >= value.fenced.1;
        self.recorder.wrote(name, fence, is_newest, read.fenced, value.fenced.0 + 1);
        if is_newest {
            self.lost_fenced += u64::from(value.fenced.0 != read.fenced);
            value.fenced = (value.fenced.0 + 1, fence);
        }
        if fence < value.fence {
            self.fenced_off += 1;
            self.record(now, &format!("the resource {name} refuses fence {fence}"));
            return false;
        }
        let is_lost = value.value != read.value;
        let same_holder = fence == value.fence;
        value.fence = fence;
        value.value = read.value.max(value.value) + 1;
        if is_lost {
            self.lost_updates += 1;
        }
        if is_lost && !same_holder && self.kind == WorldKind::Tame {
            // A paused holder may write before the next one has: that is not promised. After it:
            // never.
            self.record(now, &format!("an update of {name} was overwritten by fence {fence}"));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two holders read, then both write. What each kind of resource loses.
    fn losses(first: u64, second: u64) -> (u64, u64) {
        let (mut history, name) = (History::new(WorldKind::Tame), Name::new("a").unwrap());
        let reads = [first, second].map(|fence| (history.read(&name, fence), fence));
        for (read, fence) in reads {
            history.write(Duration::ZERO, &name, read, fence);
        }
        (history.lost_unfenced, history.lost_fenced)
    }

    #[test]
    fn fences_at_the_read_save_an_update_unless_two_holders_share_one() {
        assert_eq!(losses(1, 2), (1, 0));
        assert_eq!(losses(2, 1), (1, 0));
        assert_eq!(losses(1, 1), (1, 1));
    }
}
