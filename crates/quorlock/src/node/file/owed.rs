//! Releases that could not be carried out, to be tried again.

use super::super::Command;
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
    since: Instant,
    due: Instant,
    delay: Duration,
}

impl Owed {
    /// Keeps `command`, which failed, if it is a release.
    pub(super) fn keep(&mut self, command: &Command, now: Instant) {
        if matches!(command, Command::Release { .. }) && self.0.len() < MOST {
            let delay = DELAYS.0;
            self.0.push(Owing { release: command.clone(), since: now, due: now + delay, delay });
        }
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.0.iter().map(|owing| owing.due).min()
    }

    /// Tries those that are due, by `release`, which tells whether it went well.
    pub(super) fn pay(&mut self, now: Instant, mut release: impl FnMut(&Command) -> bool) {
        self.0.retain_mut(|owing| {
            if owing.due > now {
                return true;
            }
            owing.delay = (owing.delay * 2).min(DELAYS.1);
            owing.due = now + owing.delay;
            !release(&owing.release) && now.duration_since(owing.since) < LONGEST
        });
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
        owed.keep(&release("x", 1), start);
        owed.keep(&release("y", 1), start);
        let (mut tries, mut now) = (0, start);
        while let Some(due) = owed.due() {
            assert!(due > now, "not at once");
            now = due;
            owed.pay(now, |command| {
                tries += 1;
                command.name().as_str() == "y"
            });
        }
        let took = now.duration_since(start);
        assert!((LONGEST..LONGEST + DELAYS.1 * 2).contains(&took), "{took:?}");
        assert!((20..40).contains(&tries), "{tries}");
    }
}
