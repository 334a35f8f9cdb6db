//! One client's hold of a lock, as the client believed.

use crate::nemesis::client::report_line::{Belief, Grant, Origin};
use crate::nemesis::slot_names;
use quorlock::Mode;
use std::time::Duration;

/// A lock in one mode. A hold whose mode changes ends, and another begins.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) client: usize,
    /// All names that are held together.
    pub(crate) names: Vec<String>,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    pub(crate) token: String,
    pub(crate) origin: Origin,
    pub(crate) called: Duration,
    /// At the grant and at every extension.
    pub(crate) beliefs: Vec<Belief>,
    /// When it was released or lost, its mode changed, or its client died.
    pub(crate) end: Option<Duration>,
    /// When the call began that upgraded it.
    pub(crate) upgrade_called: Option<Duration>,
}

/// A client's boot clock went ahead while it was stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sleep {
    pub(crate) client: usize,
    pub(crate) at: Duration,
    pub(crate) by: Duration,
}

impl Hold {
    pub(crate) fn new(client: usize, origin: Origin, grant: Grant) -> Self {
        let Grant { names, mode, fence, token, called, belief } = grant;
        let beliefs = vec![belief];
        Self { client, names, mode, fence, token, origin, called, beliefs, end: None, upgrade_called: None }
    }

    /// When the client knew that it had the lock.
    pub(crate) fn noted(&self) -> Duration {
        self.beliefs[0].noted
    }

    /// Until when it believed to have it, in true time. A sleep takes from what was believed
    /// before.
    pub(crate) fn until(&self, sleeps: &[Sleep]) -> Duration {
        let mut until = Duration::ZERO;
        for belief in &self.beliefs {
            let mine = sleeps.iter().filter(|sleep| sleep.client == self.client && sleep.at > belief.noted);
            let believed = mine.fold(belief.until, |until, sleep| match until > sleep.at {
                true => until.saturating_sub(sleep.by).max(sleep.at),
                false => until,
            });
            until = until.max(believed);
        }
        self.end.map_or(until, |end| until.min(end))
    }

    /// Whether its fence was handed out with it.
    pub(crate) fn is_grant(&self) -> bool {
        matches!(self.origin, Origin::Granted | Origin::Upgraded)
    }

    /// Whether it is a permit of the semaphore.
    pub(crate) fn is_permit(&self) -> bool {
        slot_names().contains(&self.names[0])
    }
}
