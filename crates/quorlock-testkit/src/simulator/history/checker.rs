//! The checker: compares the holds of this moment with the promises.

use crate::simulator::history::hold::Hold;
use crate::simulator::history::{History, WorldKind, listed};
use crate::simulator::{DRIFT_PERCENT, LONGEST_USED_TTL, SLOTS};
use quorlock::Name;
use std::time::Duration;

/// How long it may take until a server that was made to forget has restarted.
pub(crate) const FORGETS_WITHIN: Duration = Duration::from_secs(10);

impl History {
    /// Checks at this moment: exclusion, that a loss is final, and that no hold outlasts its limit.
    pub(crate) fn check(&mut self, now: Duration) {
        let mut found = Vec::new();
        for hold in &mut self.holds {
            self.recorder.refresh(hold);
            let is_lost = hold.is_lost();
            if hold.was_lost && !is_lost {
                found.push(format!("S6: client {} holds a lost lock again", hold.client));
            }
            hold.was_lost |= is_lost;
            if hold.latest_end.is_some_and(|latest_end| now > latest_end) && hold.is_held() {
                let names = listed(hold.names());
                found.push(format!("L2: client {} holds {names} beyond its limit", hold.client));
            }
        }
        found.extend(self.check_taken(now));
        found.extend(self.check_exclusion(now));
        found.extend(self.check_permits());
        for what in found {
            self.violate(now, &what);
        }
    }

    /// A lock that was released by force is lost within its ttl, and its holder does not get it
    /// back. A node that forgets in between forgets that as well.
    fn check_taken(&self, now: Duration) -> Option<String> {
        let limit = LONGEST_USED_TTL + LONGEST_USED_TTL * DRIFT_PERCENT / 100;
        let came_back = |hold: &&Hold| {
            let Some(at) = self.taken.get(&hold.token()).copied() else { return false };
            let forgot = self.forgot.is_some_and(|forgot| forgot + FORGETS_WITHIN >= at);
            !forgot && now > at + limit && hold.is_held()
        };
        let hold = self.holds.iter().filter(|_| self.kind == WorldKind::Tame).find(came_back)?;
        let names = listed(hold.names());
        Some(format!("S1: client {} still holds {names}, which was released by force", hold.client))
    }

    /// No two holds have a name at the same moment unless both share it.
    fn check_exclusion(&mut self, now: Duration) -> Vec<String> {
        let mut found = Vec::new();
        for (at, hold) in self.holds.iter().enumerate().filter(|(_, hold)| hold.is_held()) {
            for other in &self.holds[..at] {
                for name in hold.contested_with(other).filter(|_| other.is_held()) {
                    let pair = (name.clone(), other.fence(), hold.fence());
                    let is_tame = self.kind == WorldKind::Tame;
                    let both = format!("clients {} and {} both hold {name}", other.client, hold.client);
                    if !self.is_forced(hold.token(), name) && !self.is_forced(other.token(), name) {
                        self.pairs.insert(pair);
                        found.extend(is_tame.then(|| format!("S1: {both}")));
                        continue;
                    }
                    self.forced_pairs.insert(pair);
                    // A client that was released by force cannot extend once another has a majority.
                    let shared = now.saturating_sub(hold.granted.max(other.granted));
                    if is_tame && shared > LONGEST_USED_TTL + LONGEST_USED_TTL * DRIFT_PERCENT / 100 {
                        found.push(format!("S1: {both} {shared:?} after a forced release"));
                    }
                }
            }
        }
        found
    }

    /// No more permits are held than the semaphore has slots.
    fn check_permits(&self) -> Option<String> {
        let is_promised = |(hold, name): &(&Hold, &Name)| {
            name.as_slot().is_some() && hold.is_held() && !self.is_forced(hold.token(), name)
        };
        let slots = self.holds.iter().flat_map(|hold| hold.names().iter().map(move |name| (hold, name)));
        let held = slots.filter(is_promised).count();
        let is_tame = self.kind == WorldKind::Tame;
        (is_tame && held > SLOTS as usize).then(|| format!("S1: {held} permits of {SLOTS} slots are held"))
    }
}
