//! Working under a lock of which only the token is known: extending and releasing by it.

use crate::nemesis::TTL;
use crate::nemesis::client::Client;
use crate::nemesis::client::recorder::Recorder;
use crate::nemesis::client::report_line::ReportLine;
use crate::nemesis::monotonic::now;
use quorlock::{ExtendError, Guard, LockHandle, Name, Token};
use std::time::Duration;
use tokio::time::sleep;

/// A lock of which a client knows the token, and until when it is held for sure.
struct TokenLease {
    name: Name,
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
        let (name, token, fence) = (guard.name().clone(), guard.token(), guard.fence().get());
        self.recorder.continued_by_token(until);
        guard.detach();
        self.work_by_token(TokenLease { name, token, fence, until }).await;
    }

    /// Accepts the lock of a handle by its token: held once a majority extended it.
    pub(crate) async fn receive_token(&mut self, handle: &LockHandle) {
        let (name, token, fence) = (handle.name().clone(), handle.token(), handle.fence().get());
        let (mut lease, called) = (TokenLease { name, token, fence, until: Duration::ZERO }, now());
        if let Ok(Some(until)) = self.extend_token(&lease).await {
            self.recorder.received(handle, called, until);
            lease.until = until;
            self.work_by_token(lease).await;
        }
    }

    async fn work_by_token(&mut self, mut lease: TokenLease) {
        for _ in 0..self.rng.below(6) {
            let seen = self.values.read(lease.name.as_str(), lease.fence);
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(20))).await;
            if now() >= lease.until {
                // It writes all the same: a program cannot check and write in one step.
                Recorder::print(&ReportLine::Late);
            }
            if !self.values.write(lease.name.as_str(), lease.fence, &seen) {
                Recorder::print(&ReportLine::FencedOff { at: now(), held: now() < lease.until });
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
        let lock = self.locker.named(&lease.name).expect("a good name");
        if self.rng.chance(90) {
            let _outcome = lock.force_release(lease.token).await;
        }
    }

    /// Extends by the token; until when the lock is then held. `None` if too few nodes answered, an
    /// error if it is lost.
    async fn extend_token(&mut self, lease: &TokenLease) -> Result<Option<Duration>, ()> {
        let lock = self.locker.named(&lease.name).expect("a good name");
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
}
