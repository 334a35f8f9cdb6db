//! Working under a guard: alone or shared, and in the other mode after that.

use crate::nemesis::TTL;
use crate::nemesis::client::Client;
use crate::nemesis::client::recorder::Recorder;
use crate::nemesis::client::report_line::{Origin, ReportLine};
use crate::nemesis::monotonic::now;
use crate::nemesis::resource::protected_value::Seen;
use quorlock::{Guard, Mode};
use std::time::{Duration, Instant};
use tokio::time::sleep;

impl Client {
    /// Works under the lock, and releases it or hands it over.
    pub(crate) async fn use_lock(&mut self, guard: Guard) {
        let choice = if self.does_all() { self.rng.below(100) } else { 100 };
        match choice {
            0..5 => self.continue_by_token(guard).await,
            5..13 => {
                self.work_under(&guard).await;
                self.hand_over(guard).await;
            }
            _ => {
                self.work_under(&guard).await;
                self.release(guard).await;
            }
        }
    }

    /// Works as a writer or as a reader, and then sometimes in the other mode.
    pub(crate) async fn work_under(&mut self, guard: &Guard) {
        self.work_in_mode(guard).await;
        if !self.does_all() || !self.rng.chance(20) {
            return;
        }
        if guard.mode() == Mode::Exclusive {
            self.recorder.downgrading(&guard.lease());
            guard.downgrade();
        } else {
            let called = now();
            match guard.try_upgrade().await {
                Ok(()) => self.recorder.holds(Origin::Upgraded, &guard.lease(), called),
                Err(_) => Recorder::print(&ReportLine::NotUpgraded),
            }
        }
        self.work_in_mode(guard).await;
    }

    /// Mostly short; now and then beyond the ttl, so that the watchdog matters. Stops when the lock is
    /// lost.
    async fn work_in_mode(&mut self, guard: &Guard) {
        let (longest, step) = match self.rng.chance(2) {
            true => (2 * TTL, Duration::from_millis(80)),
            false => (Duration::from_millis(15), Duration::from_millis(5)),
        };
        let until = Instant::now() + self.rng.span(Duration::from_millis(1), longest);
        let names: Vec<String> = guard.names().iter().map(ToString::to_string).collect();
        let (mode, fence) = (guard.mode(), guard.fence().get());
        while Instant::now() < until && guard.is_held() {
            let is_accepted = match mode {
                Mode::Exclusive => self.update(&names, fence, step, || guard.is_held()).await,
                Mode::Shared => self.read_twice(&names, fence, step, || guard.is_held()).await,
            };
            if !is_accepted {
                break;
            }
            if self.does_all() && self.rng.chance(10) {
                // The observer reports the result.
                let _ = guard.extend().await;
            }
        }
    }

    /// Reads the values of all names, thinks and writes them. `false` if the resource refused a fence.
    pub(crate) async fn update(
        &mut self,
        names: &[String],
        fence: u64,
        longest: Duration,
        is_held: impl Fn() -> bool,
    ) -> bool {
        let seen: Vec<Seen> = names.iter().map(|name| self.values.read(name, fence)).collect();
        sleep(self.rng.span(Duration::ZERO, longest)).await;
        for (name, seen) in names.iter().zip(seen) {
            if !is_held() {
                // It writes all the same: a program cannot check and write in one step.
                Recorder::print(&ReportLine::Late);
            }
            if !self.values.write(name, fence, &seen) {
                return fenced_off(name, &is_held);
            }
        }
        true
    }

    /// Reads the values of all names, thinks and reads them again. `false` if the resource refused a fence.
    pub(crate) async fn read_twice(
        &mut self,
        names: &[String],
        fence: u64,
        longest: Duration,
        is_held: impl Fn() -> bool,
    ) -> bool {
        let seen: Vec<Seen> = names.iter().map(|name| self.values.read_shared(name, fence)).collect();
        sleep(self.rng.span(Duration::ZERO, longest)).await;
        for (name, before) in names.iter().zip(seen) {
            let after = self.values.read_shared(name, fence);
            if after.plain != before.plain {
                Recorder::print(&ReportLine::Changed);
            }
            if before.fenced.is_none() || after.fenced.is_none() {
                return fenced_off(name, &is_held);
            }
        }
        true
    }

    pub(crate) async fn release(&mut self, guard: Guard) {
        self.recorder.releasing();
        if self.does_all() && self.rng.chance(20) {
            return drop(guard);
        }
        Recorder::print(&ReportLine::Calling { operation: "release".to_owned(), at: now() });
        let _outcome = guard.release().await;
        Recorder::print(&ReportLine::Returned { at: now() });
    }
}

/// Reports that the resource refused a fence.
fn fenced_off(name: &str, is_held: &impl Fn() -> bool) -> bool {
    Recorder::print(&ReportLine::FencedOff { name: name.to_owned(), at: now(), held: is_held() });
    false
}
