//! Working under a lock of which only the token is known: extending and releasing by it.

use crate::nemesis::TTL;
use crate::nemesis::client::Client;
use crate::nemesis::client::recorder::Recorder;
use crate::nemesis::client::report_line::ReportLine;
use crate::nemesis::monotonic::now;
use quorlock::{ExtendError, Guard, Lock, LockHandle, Mode, NameSet, Token};
use std::time::Duration;

/// The longest time between reading and writing.
const STEP: Duration = Duration::from_millis(20);

/// A lock of which a client knows the token, and until when it is held for sure.
struct TokenLease {
    names: NameSet,
    mode: Mode,
    token: Token,
    fence: u64,
    until: Duration,
}

impl Client {
    /// Detaches the guard and continues with the token.
    pub(crate) async fn continue_by_token(&mut self, guard: Guard) {
        // Read before what is left, so that a pause between makes the time shorter and never
        // longer.
        let until = now() + guard.remaining();
        let names = NameSet::new(guard.names().iter().cloned()).expect("those of a guard");
        let (mode, token, fence) = (guard.mode(), guard.token(), guard.fence().get());
        self.recorder.continued_by_token(until);
        guard.detach();
        self.work_by_token(TokenLease { names, mode, token, fence, until }).await;
    }

    /// Accepts the lock of a handle by its token: held once a majority extended it.
    pub(crate) async fn receive_token(&mut self, handle: &LockHandle) {
        let (names, mode) = (handle.names().clone(), handle.mode());
        let (token, fence) = (handle.token(), handle.fence().get());
        let (mut lease, called) = (TokenLease { names, mode, token, fence, until: Duration::ZERO }, now());
        if let Ok(Some(until)) = self.extend_token(&lease).await {
            self.recorder.received(handle, called, until);
            lease.until = until;
            self.work_by_token(lease).await;
        }
    }

    async fn work_by_token(&mut self, mut lease: TokenLease) {
        let names: Vec<String> = lease.names.iter().map(ToString::to_string).collect();
        for _ in 0..self.rng.below(6) {
            let until = lease.until;
            let is_accepted = match lease.mode {
                Mode::Exclusive => self.update(&names, lease.fence, STEP, || now() < until).await,
                Mode::Shared => self.read_twice(&names, lease.fence, STEP, || now() < until).await,
            };
            if !is_accepted {
                break;
            }
            match self.extend_token(&lease).await {
                Ok(Some(until)) => {
                    lease.until = until.max(lease.until);
                    self.recorder.extended_by_token(lease.until);
                }
                Ok(None) if now() < lease.until => {}
                Ok(None) | Err(()) => break,
            }
        }
        self.recorder.releasing();
        let lock = self.lock_of(&lease);
        let _outcome = match self.rng.below(100) {
            0..45 => lock.force_release(lease.token).await,
            45..90 => lock.release_token(lease.token).await,
            // It stays until its ttl is over.
            _ => return,
        };
    }

    /// Extends by the token; until when the lock is then held. `None` if too few nodes answered, an
    /// error if it is lost.
    async fn extend_token(&mut self, lease: &TokenLease) -> Result<Option<Duration>, ()> {
        let lock = self.lock_of(lease);
        // Counted from before the call, so that a pause after it makes the time shorter and never
        // longer.
        let called = now();
        match lock.extend_token(lease.token, TTL).await {
            Ok(extension) => {
                if extension.fence.is_some_and(|fence| fence.get() != lease.fence) {
                    Recorder::print(&ReportLine::WrongFence { at: now() });
                }
                Ok(Some(called + extension.left))
            }
            Err(ExtendError::NoQuorum { .. }) => Ok(None),
            Err(_) => Err(()),
        }
    }

    fn lock_of(&self, lease: &TokenLease) -> Lock {
        self.locker.stored(lease.names.clone())
    }
}
