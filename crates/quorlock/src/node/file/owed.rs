//! Releases that could not be carried out, to be tried again.

use super::super::Command;
use quorlock_core::{Name, Token};
use std::time::{Duration, Instant};

/// The delays between tries: each twice as long as the one before.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A release is tried for this long; most locks are over by then.
const LONGEST: Duration = Duration::from_secs(120);
/// The most that are kept.
const MOST: usize = 4096;

/// Releases that failed, as a file was locked for too long or the disk was full. Nobody waits for their answers: those who
/// did had the failure.
#[derive(Debug, Default)]
pub(super) struct Owed(Vec<Owing>);

#[derive(Debug)]
struct Owing {
    release: Command,
    name: Name,
    token: Token,
    since: Instant,
    due: Instant,
    delay: Duration,
}

impl Owed {
    /// Keeps `command`, which failed, if it is a release and not kept already.
    pub(super) fn keep(&mut self, command: &Command, now: Instant) {
        let Command::Release { name, token, .. } = command else { return };
        let is_same = |owing: &Owing| owing.name == *name && owing.token == *token;
        if self.0.len() < MOST && !self.0.iter().any(is_same) {
            let (name, token, delay) = (name.clone(), *token, DELAYS.0);
            self.0.push(Owing { release: command.clone(), name, token, since: now, due: now + delay, delay });
        }
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.iter().map(|owing| owing.due).min()
    }

    /// Tries the one that is due first, by `release`, which tells whether it went well. If it did not, what else is owed for that
    /// name has to wait, too.
    pub(super) fn pay_one(&mut self, now: Instant, release: impl FnOnce(&Command) -> bool) {
        let due = |owing: &&mut Owing| owing.due <= now;
        let Some(owing) = self.0.iter_mut().filter(due).min_by_key(|owing| owing.due) else { return };
        let (name, token) = (owing.name.clone(), owing.token);
        let is_over = release(&owing.release) || now.duration_since(owing.since) >= LONGEST;
        if is_over {
            return self.0.retain(|owing| owing.name != name || owing.token != token);
        }
        for owing in self.0.iter_mut().filter(|owing| owing.name == name) {
            owing.delay = (owing.delay * 2).min(DELAYS.1);
            owing.due = now + owing.delay;
        }
    }

    /// Tries all a last time.
    pub(super) fn pay_all(&mut self, mut release: impl FnMut(&Command) -> bool) {
        for owing in self.0.drain(..) {
            release(&owing.release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::contract::{name, release};
    use super::*;

    #[test]
    fn a_release_is_tried_again_ever_more_slowly_until_it_goes_or_is_over() {
        let (mut owed, start) = (Owed::default(), Instant::now());
        owed.keep(&Command::Inspect { name: name("x") }, start);
        assert_eq!(owed.due(), None, "only releases are owed");
        for by in [1, 2, 2] {
            owed.keep(&release("x", by), start);
        }
        owed.keep(&release("y", 1), start);
        assert_eq!(owed.0.len(), 3, "one for each");
        let (mut tries, mut now) = (0, start);
        while let Some(due) = owed.due() {
            now = now.max(due);
            owed.pay_one(now, |command| {
                tries += 1;
                command.name().as_str() == "y"
            });
        }
        let took = now.duration_since(start);
        assert!((LONGEST..LONGEST + DELAYS.1 * 2).contains(&took), "{took:?}");
        assert!((20..40).contains(&tries), "{tries}");
    }
}
