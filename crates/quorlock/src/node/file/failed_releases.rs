//! Releases that could not be carried out, to be tried again.

use crate::node::Command;
use quorlock_core::{Name, Token};
use std::time::{Duration, Instant};

/// The delays between tries: each twice as long as the one before.
const DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The most that are kept.
const MOST: usize = 4096;

/// Releases that failed, as a file was locked for too long or the disk was full. Nobody waits for their answers: those who
/// did had the failure.
#[derive(Debug)]
pub(crate) struct Owed {
    releases: Vec<Owing>,
    /// How long each is tried: no lock that it could free lasts longer.
    longest_ttl: Duration,
}

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
    pub(crate) fn new(longest_ttl: Duration) -> Self {
        Self { releases: Vec::new(), longest_ttl }
    }

    /// Keeps `command`, which failed, if it is a release and not kept already.
    pub(crate) fn keep(&mut self, command: &Command, now: Instant) {
        let Command::Release { name, token, .. } = command else { return };
        let is_same = |owing: &Owing| owing.name == *name && owing.token == *token;
        if self.releases.len() < MOST && !self.releases.iter().any(is_same) {
            let (name, token, delay) = (name.clone(), *token, DELAYS.0);
            self.releases.push(Owing {
                release: command.clone(),
                name,
                token,
                since: now,
                due: now + delay,
                delay,
            });
        }
    }

    /// When the next one is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.releases.iter().map(|owing| owing.due).min()
    }

    /// Tries the one that is due first, by `release`, which tells whether it went well. If it did not, what else is owed for that
    /// name has to wait, too.
    pub(crate) fn pay_one(&mut self, now: Instant, release: impl FnOnce(&Command) -> bool) {
        let due = |owing: &&mut Owing| owing.due <= now;
        let Some(owing) = self.releases.iter_mut().filter(due).min_by_key(|owing| owing.due) else { return };
        let (name, token) = (owing.name.clone(), owing.token);
        let is_over = release(&owing.release) || now.duration_since(owing.since) >= self.longest_ttl;
        if is_over {
            return self.releases.retain(|owing| owing.name != name || owing.token != token);
        }
        for owing in self.releases.iter_mut().filter(|owing| owing.name == name) {
            owing.delay = (owing.delay * 2).min(DELAYS.1);
            owing.due = now + owing.delay;
        }
    }

    /// Tries all a last time.
    pub(crate) fn pay_all(&mut self, mut release: impl FnMut(&Command) -> bool) {
        for owing in self.releases.drain(..) {
            release(&owing.release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::contract::{name, release};

    #[test]
    fn a_release_is_tried_again_ever_more_slowly_until_it_goes_or_is_over() {
        let longest = Duration::from_secs(4 * 60);
        let (mut owed, start) = (Owed::new(longest), Instant::now());
        owed.keep(&Command::Inspect { name: name("x") }, start);
        assert_eq!(owed.due(), None, "only releases are owed");
        for by in [1, 2, 2] {
            owed.keep(&release("x", by), start);
        }
        owed.keep(&release("y", 1), start);
        assert_eq!(owed.releases.len(), 3, "one for each");
        let (mut tries, mut now) = (0, start);
        while let Some(due) = owed.due() {
            now = now.max(due);
            owed.pay_one(now, |command| {
                tries += 1;
                command.name().as_str() == "y"
            });
        }
        let took = now.duration_since(start);
        assert!((longest..longest + DELAYS.1 * 2).contains(&took), "until no lock can be left: {took:?}");
        assert!((50..70).contains(&tries), "{tries}");
    }
}
