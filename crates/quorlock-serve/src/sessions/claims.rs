//! The claims of callers to names: the sidecar grants a name to no conflicting caller before its claim
//! ends, even if the nodes would.
//!
//! A node whose clock jumped, or whose key was deleted, grants a name that a caller still has. The
//! sidecar knows its own callers, so it does not believe such a node. A claim ends when its caller
//! releases the lock, when the lock is released by its token through this sidecar, or at its deadline on
//! the boot clock. It does not end when the lock is found lost, because the caller may not have read
//! that yet.

use crate::sessions::{covers, is_over, lock};
use quorlock::{CancellationToken, Guard, Lease, Name, NameSet, ReleaseOutcome, Token};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// All claims. Those to one name are one exclusive claim, or any number of shared ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<Registered>>);

#[derive(Debug, Default)]
struct Registered {
    by_token: HashMap<Token, Claim>,
    by_name: HashMap<Name, Vec<Token>>,
}

/// The claim of a caller to the names that it holds together.
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

impl Registered {
    /// The claims to `name` that have not ended.
    fn of<'a>(&'a self, name: &Name) -> impl Iterator<Item = &'a Claim> {
        let tokens = self.by_name.get(name).into_iter().flatten();
        tokens.filter_map(|token| self.by_token.get(token)).filter(|claim| !claim.has_ended())
    }

    /// A claim that excludes `lease`. All claims to one name have the same mode, so one of each name will do.
    fn conflict(&self, lease: &Lease) -> Option<Claim> {
        let mut others = lease.names().iter().filter_map(|name| self.of(name).next());
        others.find(|claim| claim.lease.mode().conflicts_with(lease.mode())).cloned()
    }

    fn insert(&mut self, claim: Claim) {
        let token = claim.lease.token();
        for name in claim.lease.names() {
            self.by_name.entry(name.clone()).or_default().push(token);
        }
        self.by_token.insert(token, claim);
    }

    fn remove(&mut self, token: Token) {
        let Some(claim) = self.by_token.remove(&token) else { return };
        for name in claim.lease.names() {
            if let Some(tokens) = self.by_name.get_mut(name) {
                tokens.retain(|other| *other != token);
                if tokens.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
        claim.ended.cancel();
    }
}

impl Claims {
    /// Claims the names of `guard` for the caller that acquired it.
    ///
    /// # Errors
    /// The claim of another caller, with the guard.
    pub(crate) fn claim(&self, guard: Guard) -> Result<ClaimedGuard, (Guard, Claim)> {
        let mut claims = self.claims();
        let lease = guard.lease();
        if let Some(other) = claims.conflict(&lease) {
            return Err((guard, other));
        }
        claims.insert(Claim { lease: lease.clone(), ended: CancellationToken::new() });
        let ends_claim = EndOnDrop { claims: self.clone(), token: lease.token(), armed: true };
        Ok(ClaimedGuard { ends_claim, guard, lease })
    }

    /// Ends the claim under this token, because the lock was released by it.
    pub(crate) fn end(&self, token: Token) {
        self.claims().remove(token);
    }

    /// The token under which a caller of this sidecar has `name`; of several that share it, one of them.
    pub(crate) fn token(&self, name: &Name) -> Option<Token> {
        self.claims().of(name).map(|claim| claim.lease.token()).next()
    }

    /// All names that a caller of this sidecar has under this token, if `name` is one of them.
    pub(crate) fn names(&self, name: &Name, token: Token) -> Option<NameSet> {
        let claims = self.claims();
        let claim = claims.by_token.get(&token).filter(|claim| covers(&claim.lease, name))?;
        NameSet::new(claim.lease.names().iter().cloned()).ok()
    }

    /// Whether `name` is held through this sidecar.
    pub(crate) fn is_held_here(&self, name: &Name) -> bool {
        self.claims().of(name).any(|claim| !is_over(&claim.lease))
    }

    /// Forgets the claims whose deadline has passed.
    pub(crate) fn sweep(&self) {
        let mut claims = self.claims();
        let over = claims.by_token.iter().filter(|(_, claim)| claim.has_ended());
        let over: Vec<Token> = over.map(|(token, _)| *token).collect();
        over.into_iter().for_each(|token| claims.remove(token));
    }

    fn claims(&self) -> MutexGuard<'_, Registered> {
        lock(&self.0)
    }
}

/// Ends a claim when it is dropped, unless it was disarmed.
#[derive(Debug)]
struct EndOnDrop {
    claims: Claims,
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
            self.claims.end(self.token);
        }
    }
}

/// A lock that a caller of this sidecar holds, with the claim to its names. Dropping it releases both.
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
