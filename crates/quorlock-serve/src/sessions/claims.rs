//! The claims of callers to names: the sidecar grants a name to no other caller before its claim ends,
//! even if the nodes would.
//!
//! A node whose clock jumped, or whose key was deleted, grants a name that a caller still has. The
//! sidecar knows its own callers, so it does not believe such a node. A claim ends when its caller
//! releases the lock, when the lock is released by its token through this sidecar, or at its deadline on
//! the boot clock. It does not end when the lock is found lost, because the caller may not have read
//! that yet.

use crate::sessions::lock;
use quorlock::{CancellationToken, Guard, Lease, Name, ReleaseOutcome, Token};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// All claims, at most one for each name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashMap<Name, Claim>>>);

/// The claim of a caller to a name.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    lease: Lease,
    ended: CancellationToken,
}

impl Claim {
    /// The lease that the caller counts on.
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Waits until the claim has ended. Its deadline moves with every extension.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ended(&self) {
        while !self.has_ended() {
            tokio::select! {
                () = self.ended.cancelled() => {}
                () = tokio::time::sleep(self.lease.time_left()) => {}
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.ended.is_cancelled() || self.lease.time_left().is_zero()
    }
}

impl Claims {
    /// Claims the name of `guard` for the caller that acquired it.
    ///
    /// # Errors
    /// The claim of another caller, with the guard.
    pub(crate) fn claim(&self, guard: Guard) -> Result<ClaimedGuard, (Guard, Claim)> {
        let mut claims = self.claims();
        if let Some(other) = claims.get(guard.name()).filter(|claim| !claim.has_ended()) {
            let other = other.clone();
            return Err((guard, other));
        }
        let lease = guard.lease();
        let claim = Claim { lease: lease.clone(), ended: CancellationToken::new() };
        claims.insert(lease.name().clone(), claim);
        let ends_claim =
            EndOnDrop { claims: self.clone(), name: lease.name().clone(), token: lease.token(), armed: true };
        Ok(ClaimedGuard { ends_claim, guard, lease })
    }

    /// Ends the claim under this token, because the lock was released by it.
    pub(crate) fn end(&self, name: &Name, token: Token) {
        let mut claims = self.claims();
        if claims.get(name).is_some_and(|claim| claim.lease.token() == token)
            && let Some(claim) = claims.remove(name)
        {
            claim.ended.cancel();
        }
    }

    /// The token under which a caller of this sidecar has `name`.
    pub(crate) fn token(&self, name: &Name) -> Option<Token> {
        let claims = self.claims();
        claims.get(name).filter(|claim| !claim.has_ended()).map(|claim| claim.lease.token())
    }

    /// Forgets the claims whose deadline has passed.
    pub(crate) fn sweep(&self) {
        self.claims().retain(|_, claim| !claim.has_ended());
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Name, Claim>> {
        lock(&self.0)
    }
}

/// Ends a claim when it is dropped, unless it was disarmed.
#[derive(Debug)]
struct EndOnDrop {
    claims: Claims,
    name: Name,
    token: Token,
    armed: bool,
}

impl EndOnDrop {
    /// Leaves the claim in place until its deadline.
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        if self.armed {
            self.claims.end(&self.name, self.token);
        }
    }
}

/// A lock that a caller of this sidecar holds, with the claim to its name. Dropping it releases both.
#[derive(Debug)]
pub(crate) struct ClaimedGuard {
    // Dropped first: the next caller must not find a claim to a lock that the nodes have freed.
    ends_claim: EndOnDrop,
    guard: Guard,
    lease: Lease,
}

impl ClaimedGuard {
    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Releases the lock for its caller.
    pub(crate) async fn release(self) -> ReleaseOutcome {
        drop(self.ends_claim);
        self.guard.release().await
    }

    /// Leaves the lock to the client that has its token. The claim lasts until its deadline.
    pub(crate) fn detach(self) {
        self.ends_claim.disarm();
        self.guard.detach();
    }

    /// Drops a lock that was lost. Its caller may not know yet, so the claim lasts until its deadline.
    pub(crate) fn drop_lost(self) {
        self.ends_claim.disarm();
    }
}
