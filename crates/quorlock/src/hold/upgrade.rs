//! Making a shared hold exclusive, if no other client shares the lock.

use crate::acquire::attempt::{AttemptParams, Cause, HighestFence, Refusal, upgrade};
use crate::context::mutex::Mutex;
use crate::error::UpgradeError;
use crate::hold::HeldLock;
use quorlock_core::{FenceClock, LeaseState, Mode};
use std::sync::Arc;

/// Makes one attempt. It never waits for other readers: two that waited for each other would wait for ever.
///
/// # Cancel safety
/// Cancel safe: dropped half-way, the hold stays shared.
pub(crate) async fn try_upgrade(
    hold: &Arc<HeldLock>,
    fences: &Mutex<FenceClock>,
) -> Result<(), UpgradeError> {
    if let LeaseState::Lost(reason) = hold.state() {
        return Err(hold.lose(reason).into());
    }
    let Some(above) = hold.begin_upgrade() else {
        return Err(UpgradeError::Exclusive { lock: hold.names.clone() });
    };
    let upgrading = Upgrading { hold, highest: HighestFence::new(above) };
    let params =
        AttemptParams { names: hold.names.clone(), mode: Mode::Exclusive, options: &hold.options, fences };
    let until = hold.deadline();
    let granted = Box::pin(upgrade(hold.nodes(), &params, until, hold.token(), &upgrading.highest)).await;
    let result = match granted {
        Ok(grant) => hold.upgraded(&grant).map_err(|reason| hold.lose(reason).into()),
        Err(refusal) => Err(refused(hold, refusal)),
    };
    drop(upgrading);
    result
}

fn refused(hold: &HeldLock, refusal: Refusal) -> UpgradeError {
    if let LeaseState::Lost(reason) = hold.state() {
        return hold.lose(reason).into();
    }
    let lock = hold.names.clone();
    match refusal.cause {
        Cause::Held => UpgradeError::Shared { lock },
        Cause::NoQuorum | Cause::TooSlow => UpgradeError::NoQuorum {
            lock,
            quorum: hold.nodes().quorum,
            answered: refusal.votes + refusal.denied,
            nodes: refusal.nodes,
        },
    }
}

/// An upgrade under way. If it was not granted, the hold is shared again when this is dropped.
struct Upgrading<'a> {
    hold: &'a HeldLock,
    highest: HighestFence,
}

impl Drop for Upgrading<'_> {
    fn drop(&mut self) {
        self.hold.end_upgrade(self.highest.get());
    }
}
