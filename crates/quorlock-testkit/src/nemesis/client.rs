//! What clients do: take a lock, read, work, write, let go.

use super::cast::Cast;
use super::fault::Fault;
use super::history::Promise;
use super::{TTL, WAIT};
use crate::world::Rng;
use quorlock::{Guard, Held, Name};
use std::time::{Duration, Instant};
use tokio::time::sleep;

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
            let pauses = self.cast.take_pause(self.number);
            match self.take(&name, !pauses).await {
                Some((guard, life)) if pauses => self.oversleep(guard, life).await,
                Some((guard, life)) => self.hold(guard, life).await,
                // The pause was ordered and did not happen yet.
                None if pauses => self.cast.ask_for_pause(self.number),
                None => {}
            }
            sleep(self.rng.span(Duration::ZERO, Duration::from_millis(10))).await;
        }
    }

    /// Takes every lock once. For the quiet after the storm.
    pub(super) async fn take_turns(mut self, limit: Duration) {
        for name in self.names.clone() {
            let start = Instant::now();
            let taken = loop {
                match self.take(&name, true).await {
                    Some(taken) => break Some(taken),
                    None if start.elapsed() > limit => break None,
                    None => {}
                }
            };
            match taken {
                Some((guard, _)) => self.let_go(guard).await,
                None => {
                    let what = format!("client {} did not get {name} within {limit:?} of quiet", self.number);
                    self.cast.history().violate(Promise::Recovery, what);
                }
            }
        }
    }

    async fn take(&mut self, name: &Name, watchdog: bool) -> Option<(Guard, u64)> {
        let (locker, life) = self.cast.life(self.number);
        let called = Instant::now();
        // Some are patient and wait for a hint; others come back at once and catch a server that has just forgotten.
        let wait = *self.rng.pick(&[WAIT / 40, WAIT / 10, WAIT]);
        let lock = locker.named(name).expect("a good name").watchdog(watchdog).wait(wait);
        let result = lock.acquire().await;
        let mut history = self.cast.history();
        match result {
            Ok(guard) => {
                let is_alive = history.granted((self.number, life), called, Held::clone(&guard));
                drop(history);
                is_alive.then_some((guard, life))
            }
            Err(_) => {
                history.refusals += 1;
                None
            }
        }
    }

    /// Reads, thinks, writes, again and again, and stops when the lock is lost. Mostly short; now and then beyond the
    /// ttl, so that the watchdog matters.
    async fn hold(&mut self, guard: Guard, life: u64) {
        let (longest, step) = match self.rng.chance(2) {
            true => (2 * TTL, Duration::from_millis(80)),
            false => (Duration::from_millis(15), Duration::from_millis(5)),
        };
        let until = Instant::now() + self.rng.span(Duration::from_millis(1), longest);
        let me = (self.number, life);
        while Instant::now() < until && guard.is_held() {
            let Some(seen) = self.cast.history().read(me, &guard) else { break };
            sleep(self.rng.span(Duration::ZERO, step)).await;
            // No look at the lock here: a program cannot look and write in one step.
            if !self.cast.history().write(me, &guard, seen) {
                break;
            }
        }
        self.let_go(guard).await;
    }

    /// Stands still between reading and writing until the lock is over, and does not notice.
    async fn oversleep(&mut self, guard: Guard, life: u64) {
        let me = (self.number, life);
        let seen = self.cast.history().read(me, &guard);
        sleep(self.rng.span(TTL + TTL / 10, 2 * TTL)).await;
        if let Some(seen) = seen {
            self.cast.history().write(me, &guard, seen);
            self.cast.count(Fault::ClientPause);
        }
        self.let_go(guard).await;
    }

    async fn let_go(&mut self, guard: Guard) {
        self.cast.history().let_go(self.number, &guard);
        if self.rng.chance(20) {
            return drop(guard);
        }
        let _outcome = guard.release().await;
    }
}
