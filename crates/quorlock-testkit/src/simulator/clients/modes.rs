//! Changing how a lock is held: from exclusive to shared, and back.

use crate::simulator::clients::Client;
use quorlock::{Guard, Mode, UpgradeError};

impl Client {
    /// In worlds with shared locks: downgrades an exclusive hold now and then, and tries to upgrade a shared
    /// one.
    pub(super) async fn change_mode(&mut self, guard: &Guard, incarnation: u64) {
        // A slot is never shared.
        if !self.has_modes || guard.name().as_slot().is_some() {
            return;
        }
        match guard.mode() {
            Mode::Exclusive if self.chance(3) => self.downgrade(guard),
            Mode::Shared if self.chance(8) => self.try_upgrade(guard, incarnation).await,
            Mode::Exclusive | Mode::Shared => {}
        }
    }

    pub(super) fn downgrade(&self, guard: &Guard) {
        guard.downgrade();
        let (mut history, now) = (self.participants.history(), self.participants.now());
        history.downgraded(self.number, now, &guard.lease());
    }

    async fn try_upgrade(&mut self, guard: &Guard, incarnation: u64) {
        let (called, before) = (self.participants.now(), guard.fence().get());
        let result = guard.try_upgrade().await;
        if !self.is_alive(incarnation) {
            return;
        }
        let (mut history, now) = (self.participants.history(), self.participants.now());
        match result {
            Ok(()) => history.upgraded(self.number, (called, now), before, &guard.lease()),
            Err(UpgradeError::Shared { .. } | UpgradeError::NoQuorum { .. }) => {
                history.uses.refused_upgrades += 1;
            }
            Err(UpgradeError::Lost(_)) => {}
            Err(error) => {
                history.violate(now, &format!("L2: client {} cannot upgrade: {error}", self.number));
            }
        }
    }
}
