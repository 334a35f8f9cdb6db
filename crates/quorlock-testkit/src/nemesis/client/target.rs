//! What a client asks for: names alone or shared, or permits of a semaphore.

use crate::nemesis::client::Client;
use crate::nemesis::{SEMAPHORE, WAIT};
use quorlock::{AcquireError, Guard, Lock, Mode, Permit};
use std::time::Duration;

/// What one call asks for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// These names together.
    Names(Vec<&'static str>, Mode),
    /// So many slots of the semaphore.
    Permits(usize),
}

impl Target {
    /// What is asked for, as one word.
    pub(crate) fn word(&self) -> String {
        match self {
            Target::Names(names, Mode::Exclusive) => names.join(","),
            Target::Names(names, Mode::Shared) => format!("{}-shared", names.join(",")),
            Target::Permits(count) => format!("{SEMAPHORE}-{count}"),
        }
    }
}

impl Client {
    /// Draws what to ask for: mostly one name, a quarter of these shared; else a set of names or permits.
    pub(crate) fn draw_target(&mut self) -> Target {
        let name = *self.rng.pick(self.names);
        if !self.does_all() {
            return Target::Names(vec![name], Mode::Exclusive);
        }
        match self.rng.below(100) {
            0..55 => Target::Names(vec![name], Mode::Exclusive),
            55..75 => Target::Names(vec![name], Mode::Shared),
            75..83 => Target::Names(self.draw_set(name), Mode::Exclusive),
            83..87 => Target::Names(self.draw_set(name), Mode::Shared),
            87..97 => Target::Permits(1),
            _ => Target::Permits(2),
        }
    }

    /// `name` and another, in any order.
    fn draw_set(&mut self, name: &'static str) -> Vec<&'static str> {
        let others: Vec<_> = self.names.iter().copied().filter(|other| *other != name).collect();
        vec![name, *self.rng.pick(&others)]
    }

    /// All that every client must get in the recovery phase.
    pub(crate) fn recovery_targets(&self) -> Vec<Target> {
        let mut targets: Vec<_> =
            self.names.iter().map(|name| Target::Names(vec![name], Mode::Exclusive)).collect();
        if self.does_all() {
            targets.push(Target::Names(self.names.to_vec(), Mode::Shared));
            targets.push(Target::Names(self.names.to_vec(), Mode::Exclusive));
            targets.push(Target::Permits(1));
            targets.push(Target::Permits(2));
        }
        targets
    }

    /// Some calls wait for a hint; others give up soon, come again, and find a server that has just
    /// forgotten.
    pub(crate) fn draw_wait(&mut self) -> Duration {
        if self.does_all() { *self.rng.pick(&[WAIT / 40, WAIT / 10, WAIT]) } else { WAIT }
    }

    pub(crate) async fn ask_for(
        &self,
        target: &Target,
        wait: Duration,
        tries_once: bool,
    ) -> Result<Guard, AcquireError> {
        match target {
            Target::Names(names, mode) => {
                let lock = self.locker.all(names).expect("good names").wait_timeout(wait);
                let lock = if *mode == Mode::Shared { lock.shared() } else { lock };
                if tries_once { lock.try_acquire().await } else { lock.acquire().await }
            }
            Target::Permits(count) => {
                let semaphore = self.semaphore.clone().with(|lock: Lock| lock.wait_timeout(wait));
                let permit = match tries_once && *count == 1 {
                    true => semaphore.try_acquire().await,
                    false => semaphore.acquire_many(*count).await,
                };
                permit.map(Permit::into_guard)
            }
        }
    }
}
