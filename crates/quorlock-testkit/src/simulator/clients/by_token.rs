//! Working under a lock of which only the token is known, as a script does: extending and releasing
//! by it.

use crate::simulator::TTL;
use crate::simulator::clients::Client;
use crate::simulator::history::hold::TokenLease;
use crate::simulator::participants::handed_over::GivenToken;
use crate::simulator::participants::settings::any_ttl;
use quorlock::{Clock, ExtendError, Guard, Mode, NameSet};
use std::time::Duration;

/// How often a client works and extends by token at most.
const MAX_ROUNDS: u64 = 12;
/// How long it works between two of these at most.
const LONGEST_STEP: Duration = Duration::from_millis(150);

impl Client {
    /// Detaches the guard and continues with the token. The lease does not end with the process.
    pub(crate) async fn continue_by_token(&mut self, guard: Guard) {
        let clock = self.participants.clock(self.number);
        let deadline = clock.now() + guard.remaining();
        let names = NameSet::new(guard.names().iter().cloned()).expect("names that are held together");
        let (mode, token, fence) = (guard.mode(), guard.token(), guard.fence().get());
        self.participants.history().handed_over(token);
        self.participants.history().recorder.calling(self.number);
        guard.detach();
        let lease = TokenLease { names, mode, token, fence, clock, deadline };
        self.participants.history().continued_by_token(self.number, self.participants.now(), lease.clone());
        self.work_by_token(lease).await;
    }

    /// Accepts the lock of a token: held once a majority extended it.
    pub(crate) async fn receive_token(&mut self, given: GivenToken) {
        let GivenToken { names, mode, token, fence } = given;
        let clock = self.participants.clock(self.number);
        let deadline = clock.now();
        let mut lease = TokenLease { names, mode, token, fence, clock, deadline };
        if let Some((extended, _)) = self.extend_token(&lease).await.ok().flatten() {
            lease = extended;
            self.participants.history().continued_by_token(
                self.number,
                self.participants.now(),
                lease.clone(),
            );
            self.work_by_token(lease).await;
        }
    }

    async fn work_by_token(&mut self, mut lease: TokenLease) {
        let rounds = self.variety.as_mut().map_or(0, |variety| variety.below(MAX_ROUNDS));
        for _ in 0..rounds {
            if !lease.is_held() {
                break;
            }
            let is_current = match lease.mode {
                Mode::Exclusive => self.update(lease.names.as_slice(), lease.fence, LONGEST_STEP).await,
                Mode::Shared => self.look(lease.names.as_slice(), lease.fence, LONGEST_STEP).await,
            };
            if !is_current {
                break;
            }
            if self.chance(60) {
                match self.extend_token(&lease).await {
                    Ok(None) => {}
                    Ok(Some((extended, fence))) => {
                        lease = extended;
                        let (mut history, now) = (self.participants.history(), self.participants.now());
                        history.extended_by_token(self.number, now, lease.clone(), fence);
                    }
                    Err(()) => break,
                }
            }
        }
        self.participants.history().released(self.number, lease.token);
        if self.chance(75) {
            let (locker, _) = self.participants.current_process(self.number);
            self.participants.history().uses.token_releases += 1;
            let _outcome = locker.stored(lease.names).force_release(lease.token).await;
        }
    }

    /// Extends by the token, and also returns the fence that the nodes store with it. `None` if too
    /// few nodes answered, an error if the lock is lost.
    async fn extend_token(&mut self, lease: &TokenLease) -> Result<Option<(TokenLease, Option<u64>)>, ()> {
        self.wait_while_paused().await;
        let ttl = self.variety.as_mut().map_or(TTL, any_ttl);
        let (locker, incarnation) = self.participants.current_process(self.number);
        let lock = locker.stored(lease.names.clone());
        self.participants.history().recorder.calling(self.number);
        let result = lock.extend_token(lease.token, ttl).await;
        if !self.is_alive(incarnation) {
            // The process died before it could use the answer.
            return Ok(None);
        }
        match result {
            Ok(extension) => {
                let deadline = lease.deadline.max(lease.clock.now() + extension.left);
                let extended = TokenLease { deadline, ..lease.clone() };
                Ok(Some((extended, extension.fence.map(|fence| fence.get()))))
            }
            Err(ExtendError::NoQuorum { .. }) => Ok(None),
            Err(ExtendError::Lost(_)) => Err(()),
            Err(error) => {
                self.violate(&format!("L2: client {} extends by token: {error}", self.number));
                Err(())
            }
        }
    }
}
