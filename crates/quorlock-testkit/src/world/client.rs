//! What clients do: take a lock, read, work, write, and let go in every possible way.

use super::cast::Cast;
use super::rng::Rng;
use super::{NODE_TIMEOUT, TTL, WAIT};
use quorlock::{AcquireError, Guard, Name, Standing};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

/// One client's endless work.
pub(super) struct Client {
    pub(super) cast: Cast,
    pub(super) number: usize,
    pub(super) rng: Rng,
    pub(super) names: Vec<Name>,
}

impl Client {
    /// Works until `end`.
    pub(super) async fn work(mut self, end: Instant) {
        while Instant::now() < end {
            let name = self.rng.pick(&self.names).clone();
            if let Some((guard, life)) = self.take(&name).await {
                self.hold(guard, life).await;
            }
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(200))).await;
        }
    }

    /// Takes `name` once, as soon as it can be had; how long that took. For the quiet after the storm.
    pub(super) async fn take_turn(mut self, name: Name, limit: Duration) -> Option<Duration> {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some((guard, _)) = self.take(&name).await {
                self.let_go(guard).await;
                return Some(start.elapsed());
            }
        }
        None
    }

    async fn take(&mut self, name: &Name) -> Option<(Guard, u64)> {
        self.stand_still().await;
        let (locker, life) = self.cast.life(self.number);
        let (called, start) = (self.cast.now(), Instant::now());
        let result = locker.named(name).expect("a good name").acquire().await;
        let waited = start.elapsed();
        if life != self.cast.life(self.number).1 {
            // The process died meanwhile: whatever it got, it never used.
            drop(result);
            return None;
        }
        let mut history = self.cast.history.lock().unwrap();
        // A limit is kept to within one node timeout, by a clock that may run slower than true time.
        let limit = WAIT + WAIT / 100 + NODE_TIMEOUT + Duration::from_millis(2);
        if waited > limit {
            history.violate(self.cast.now(), &format!("L2: client {} waited {waited:?}", self.number));
        }
        match result {
            Ok(guard) => {
                if waited > Duration::from_millis(20) {
                    history.contended += 1;
                }
                history.granted(self.number, called, self.cast.now(), guard.share());
                drop(history);
                Some((guard, life))
            }
            Err(error) => {
                history.refusals += 1;
                if matches!(error, AcquireError::Held { .. }) {
                    history.contended += 1;
                }
                None
            }
        }
    }

    /// Works under the lock: reads, thinks, writes, again and again, and stops when it is lost.
    async fn hold(&mut self, guard: Guard, life: u64) {
        // Mostly short; now and then far beyond the ttl, so that the watchdog matters.
        let longest = if self.rng.chance(20) { 2 * TTL } else { TTL / 10 };
        let until = Instant::now() + self.rng.span(Duration::from_millis(1), longest);
        let name = guard.name().clone();
        while Instant::now() < until {
            if self.cast.life(self.number).1 != life {
                // Dead: the guard belongs to nobody. Its links are cut, so dropping it tells no server.
                return drop(guard);
            }
            if !self.is_told_of_losses(&guard) {
                break;
            }
            let read = self.cast.history.lock().unwrap().read(&name, guard.fence());
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(100))).await;
            self.stand_still().await;
            // No look at the clock here: a real program cannot look and write in one step either.
            let mut history = self.cast.history.lock().unwrap();
            if !history.write(self.cast.now(), &name, read, guard.fence()) {
                break;
            }
        }
        self.let_go(guard).await;
    }

    /// A lock that is over must have been announced so before. `false` if it is over.
    fn is_told_of_losses(&self, guard: &Guard) -> bool {
        let Standing::Lost(loss) = guard.standing() else { return true };
        let is_told = guard.lost_token().is_cancelled();
        if !is_told && self.cast.still_until(self.number).is_none() {
            let what = format!("L2: client {} lost {} ({loss}) unannounced", self.number, guard.name());
            self.cast.history.lock().unwrap().violate(self.cast.now(), &what);
        }
        false
    }

    async fn let_go(&mut self, guard: Guard) {
        let name = guard.name().clone();
        self.cast.history.lock().unwrap().let_go(self.number, &name);
        if self.rng.chance(20) {
            return drop(guard);
        }
        let _outcome = guard.release().await;
    }

    async fn stand_still(&self) {
        if let Some(until) = self.cast.still_until(self.number) {
            sleep_until(until).await;
        }
    }
}
