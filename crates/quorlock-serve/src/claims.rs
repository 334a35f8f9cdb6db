//! Names that callers of this sidecar count on: no other caller gets one here before its end, whatever the nodes say.
//!
//! A node whose clock jumped, or whose key was deleted, gives a name away that a caller still has. The sidecar knows its
//! own callers, and does not believe such a node. A claim ends when its caller lets go, when the lock is released by its
//! token through this sidecar, or at its deadline on the boot clock. It does not end when the lock is found lost: the
//! caller may not have read that yet.

use quorlock::{CancellationToken, Guard, Held, Name, Release, Token};
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All claims, at most one for each name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims(Arc<Mutex<HashMap<Name, Earlier>>>);

/// A claim that another caller has.
#[derive(Debug)]
pub(crate) struct Earlier {
    held: Held,
    ended: CancellationToken,
}

impl Earlier {
    /// What is known of the lock.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Waits until it has ended. Its deadline moves with every extension.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn over(&self) {
        while !self.is_over() {
            tokio::select! {
                () = self.ended.cancelled() => {}
                () = tokio::time::sleep(self.held.time_left()) => {}
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ended.is_cancelled() || self.held.time_left().is_zero()
    }

    fn share(&self) -> Self {
        Self { held: self.held.share(), ended: self.ended.clone() }
    }
}

impl Claims {
    /// Claims the name of `guard` for the caller that it was granted to.
    ///
    /// # Errors
    /// The claim of another caller, with the guard.
    pub(crate) fn claim(&self, guard: Guard) -> Result<Lent, (Guard, Earlier)> {
        let mut claims = self.claims();
        if let Some(earlier) = claims.get(guard.name()).filter(|earlier| !earlier.is_over()) {
            let earlier = earlier.share();
            return Err((guard, earlier));
        }
        let (name, token) = (guard.name().clone(), guard.token());
        claims.insert(name.clone(), Earlier { held: guard.share(), ended: CancellationToken::new() });
        let claim = Claim { claims: self.clone(), name, token, lasts: false };
        Ok(Lent { claim, guard })
    }

    /// Ends the claim under this token, because the lock was released by it.
    pub(crate) fn end(&self, name: &Name, token: Token) {
        let mut claims = self.claims();
        if claims.get(name).is_some_and(|claim| claim.held.token() == token)
            && let Some(claim) = claims.remove(name)
        {
            claim.ended.cancel();
        }
    }

    /// The token under which a caller of this sidecar has `name`.
    pub(crate) fn token(&self, name: &Name) -> Option<Token> {
        let claims = self.claims();
        claims.get(name).filter(|claim| !claim.is_over()).map(|claim| claim.held.token())
    }

    /// Forgets the claims whose deadline has passed.
    pub(crate) fn sweep(&self) {
        self.claims().retain(|_, claim| !claim.is_over());
    }

    fn claims(&self) -> MutexGuard<'_, HashMap<Name, Earlier>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The claim of one caller. Dropped, it ends at once, unless it [lasts](Claim::last).
#[derive(Debug)]
struct Claim {
    claims: Claims,
    name: Name,
    token: Token,
    lasts: bool,
}

impl Claim {
    /// Lets it last until its deadline.
    fn last(mut self) {
        self.lasts = true;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.lasts {
            self.claims.end(&self.name, self.token);
        }
    }
}

/// A lock that a caller of this sidecar has, and the claim to it. Dropped, it is released.
#[derive(Debug)]
pub(crate) struct Lent {
    // Dropped first: the next caller must not find a claim to a lock that the nodes have freed.
    claim: Claim,
    guard: Guard,
}

impl Lent {
    /// Releases the lock, because its caller lets go.
    pub(crate) async fn release(self) -> Release {
        drop(self.claim);
        self.guard.release().await
    }

    /// Leaves the lock to whoever has its token. The claim lasts until its deadline.
    pub(crate) fn leave(self) {
        self.claim.last();
        self.guard.leave();
    }

    /// Gives up a lock that was lost. The caller may not know, so the claim lasts until its deadline.
    pub(crate) fn give_up(self) {
        self.claim.last();
    }
}

impl Deref for Lent {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
