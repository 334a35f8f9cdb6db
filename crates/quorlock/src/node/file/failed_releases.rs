//! Releases that failed, to be tried again.

use crate::node::Command;
use crate::node::limits::RELEASE_RETRY as DELAYS;
use quorlock_core::{Name, Token};
use std::time::{Duration, Instant};

/// The most releases that are kept.
const MOST: usize = 4096;

/// Releases that failed, because a file was locked for too long or the disk was full. Their callers got
/// the failure.
#[derive(Debug)]
pub(crate) struct FailedReleases {
    releases: Vec<FailedRelease>,
    /// How long each is tried: no lock that it could free lasts longer.
    longest_ttl: Duration,
}

#[derive(Debug)]
struct FailedRelease {
    release: Command,
    name: Name,
    token: Token,
    since: Instant,
    due: Instant,
    delay: Duration,
}

impl FailedReleases {
    pub(crate) fn new(longest_ttl: Duration) -> Self {
        Self { releases: Vec::new(), longest_ttl }
    }

    /// Keeps `command`, which failed, if it is a release and not kept already.
    pub(crate) fn keep(&mut self, command: &Command, now: Instant) {
        let Command::Release { name, token, .. } = command else { return };
        let is_same = |failed: &FailedRelease| failed.name == *name && failed.token == *token;
        if self.releases.len() < MOST && !self.releases.iter().any(is_same) {
            let (name, token, delay) = (name.clone(), *token, DELAYS.0);
            self.releases.push(FailedRelease {
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
        self.releases.iter().map(|failed| failed.due).min()
    }

    /// Tries the one that is due first, by `release`, which returns whether it succeeded. If it did not,
    /// the other failed releases of that name wait, too.
    pub(crate) fn retry_due(&mut self, now: Instant, release: impl FnOnce(&Command) -> bool) {
        let due = |failed: &&mut FailedRelease| failed.due <= now;
        let Some(failed) = self.releases.iter_mut().filter(due).min_by_key(|failed| failed.due) else {
            return;
        };
        let (name, token) = (failed.name.clone(), failed.token);
        let is_over = release(&failed.release) || now.duration_since(failed.since) >= self.longest_ttl;
        if is_over {
            return self.releases.retain(|failed| failed.name != name || failed.token != token);
        }
        for failed in self.releases.iter_mut().filter(|failed| failed.name == name) {
            failed.delay = (failed.delay * 2).min(DELAYS.1);
            failed.due = now + failed.delay;
        }
    }

    /// Tries all a last time.
    pub(crate) fn retry_all(&mut self, mut release: impl FnMut(&Command) -> bool) {
        for failed in self.releases.drain(..) {
            release(&failed.release);
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
        let (mut failed, start) = (FailedReleases::new(longest), Instant::now());
        failed.keep(&Command::Inspect { name: name("x") }, start);
        assert_eq!(failed.due(), None, "only releases are kept");
        for by in [1, 2, 2] {
            failed.keep(&release("x", by), start);
        }
        failed.keep(&release("y", 1), start);
        assert_eq!(failed.releases.len(), 3, "one for each");
        let (mut tries, mut now) = (0, start);
        while let Some(due) = failed.due() {
            now = now.max(due);
            failed.retry_due(now, |command| {
                tries += 1;
                command.name().as_str() == "y"
            });
        }
        let took = now.duration_since(start);
        assert!((longest..longest + DELAYS.1 * 2).contains(&took), "until no lock can be left: {took:?}");
        assert!((50..70).contains(&tries), "{tries}");
    }
}
