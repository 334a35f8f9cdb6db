//! The terms of a held lock: until when, under which fence, and whether it is over.

use crate::fence::Fence;
use crate::time::{Moment, Wall};
use crate::token::Token;
use crate::ttl::Ttl;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A forward jump of the wall clock against the boot clock by this much means that we may have been paused
/// in a way the boot clock does not show (a virtual machine stopped or moved).
const UNSEEN_PAUSE: Duration = Duration::from_secs(1);

/// Why a lock was lost. Lost is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LossReason {
    /// Its time ran out and it was not extended.
    #[error("its time ran out")]
    Expired,
    /// It was lent by its token, and the borrower did not extend it: the end of a lease, not a fault.
    #[error("it was lent by its token and not extended")]
    LeaseExpired,
    /// A majority of nodes no longer has it, or has another client's lock.
    #[error("a majority of nodes no longer holds it")]
    Taken,
    /// Too few nodes answered in time to extend it.
    #[error("too few nodes answered to extend it")]
    QuorumLost,
    /// The longest hold that its owner allowed is over.
    #[error("its longest allowed hold is over")]
    MaxHold,
    /// The machine slept, or its clock jumped, past the end of the lease.
    #[error("the machine was suspended past its end")]
    Suspended,
    /// Its guard ended: it released the lock or gave it away.
    #[error("its guard ended")]
    Released,
    /// The task that kept it alive ended, because its runtime was shut down.
    #[error("the runtime that kept it alive has ended")]
    Unwatched,
}

impl LossReason {
    /// A stable word for it, for logs and metrics.
    pub fn kind(self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::LeaseExpired => "lease_expired",
            LossReason::Taken => "taken",
            LossReason::QuorumLost => "quorum_lost",
            LossReason::MaxHold => "max_hold",
            LossReason::Suspended => "suspended",
            LossReason::Released => "released",
            LossReason::Unwatched => "unwatched",
        }
    }
}

/// The state of a lease at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// Held for the time that is left.
    Held {
        /// Time to the deadline.
        left: Duration,
    },
    /// The clocks show that we may have slept unseen: not held until a majority confirms.
    Unverified,
    /// Over, for good.
    Lost(LossReason),
}

/// A held lock as arithmetic: no IO, no clock.
#[derive(Clone, Debug)]
pub struct LeaseTerms {
    token: Token,
    fence: Fence,
    since: Moment,
    deadline: Moment,
    /// Until when a round to extend counts, whatever `ends_by` says.
    extend_by: Moment,
    ends_by: Option<Moment>,
    confirmed: (Moment, Wall),
    lost: Option<LossReason>,
}

impl LeaseTerms {
    /// A lease granted by a round that started at `start`, its clocks read as `start` and `wall`.
    pub fn new(
        token: Token,
        fence: Fence,
        ttl: Ttl,
        max_hold: Option<Duration>,
        start: Moment,
        wall: Wall,
    ) -> Self {
        let ends_by = max_hold.map(|hold| start + hold);
        let deadline = capped(ttl.deadline(start), ends_by);
        let extend_by = extend_by(ttl, start);
        Self {
            token,
            fence,
            since: start,
            deadline,
            extend_by,
            ends_by,
            confirmed: (start, wall),
            lost: None,
        }
    }

    /// The token that proves the lease to the nodes.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The fence that proves it to the protected resource.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Replaces the fence by a higher one: an upgrade is an acquisition of its own.
    pub fn raise_fence(&mut self, fence: Fence) {
        self.fence = self.fence.max(fence);
    }

    /// When the first round started.
    pub fn since(&self) -> Moment {
        self.since
    }

    /// Until when it counts, unless it is extended.
    pub fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Why it is over, if it was declared so.
    pub fn lost(&self) -> Option<LossReason> {
        self.lost
    }

    /// Whether no extension can move the deadline any more, because the longest hold is reached.
    pub fn at_longest_hold(&self) -> bool {
        self.ends_by.is_some_and(|end| self.deadline >= end)
    }

    /// The state at `now`.
    pub fn state(&self, now: Moment, wall: Wall) -> LeaseState {
        if let Some(loss) = self.lost {
            return LeaseState::Lost(loss);
        }
        if now >= self.deadline {
            return LeaseState::Lost(self.expiry_reason());
        }
        if self.slept_unseen(now, wall) {
            LeaseState::Unverified
        } else {
            LeaseState::Held { left: now.until(self.deadline) }
        }
    }

    /// Records a majority's confirmation in a round that started at `start` and ended at `now`.
    ///
    /// Nodes never shorten what they keep, so a short extension leaves a later deadline as it is.
    ///
    /// # Errors
    /// The loss, if the lease was over before the round ended: an extension never brings a lost lock back.
    /// It is over for extensions one [vote window](Ttl::vote_window) before its deadline.
    pub fn extend(&mut self, ttl: Ttl, start: (Moment, Wall), now: Moment) -> Result<(), LossReason> {
        if let Some(loss) = self.lost {
            return Err(loss);
        }
        if now >= self.deadline || now > self.extend_by {
            return Err(self.lose(self.expiry_reason()));
        }
        let deadline = capped(ttl.deadline(start.0), self.ends_by);
        // After an unseen pause the old deadline is not valid: it was counted on a clock that did not
        // advance.
        if deadline >= self.deadline || self.slept_unseen(start.0, start.1) {
            self.deadline = deadline;
            self.extend_by = extend_by(ttl, start.0);
            self.confirmed = start;
        }
        Ok(())
    }

    /// Declares the lease over. The first reason stays.
    pub fn lose(&mut self, loss: LossReason) -> LossReason {
        *self.lost.get_or_insert(loss)
    }

    /// Why it is lost once the deadline has passed.
    fn expiry_reason(&self) -> LossReason {
        if self.at_longest_hold() { LossReason::MaxHold } else { LossReason::Expired }
    }

    /// By how much the wall clock ran ahead of the boot clock since a majority confirmed.
    pub fn unseen(&self, now: Moment, wall: Wall) -> Duration {
        let by_wall = wall.since(self.confirmed.1);
        let by_boot = now.since(self.confirmed.0);
        by_wall.saturating_sub(by_boot)
    }

    fn slept_unseen(&self, now: Moment, wall: Wall) -> bool {
        self.unseen(now, wall) >= UNSEEN_PAUSE
    }
}

/// Until when a round counts that extends a lease granted at `start`.
fn extend_by(ttl: Ttl, start: Moment) -> Moment {
    ttl.deadline(start) - ttl.vote_window()
}

fn capped(deadline: Moment, ends_by: Option<Moment>) -> Moment {
    ends_by.map_or(deadline, |end| deadline.min(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ttl::Drift;
    use proptest::prelude::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(millis: u64) -> Moment {
        Moment::from_boot(ms(millis))
    }

    fn wall(millis: u64) -> Wall {
        Wall::from_micros(1_000_000_000 + millis * 1_000)
    }

    fn ttl(millis: u64) -> Ttl {
        Ttl::new(ms(millis), Drift::DEFAULT, ms(5), Duration::from_secs(60)).unwrap()
    }

    fn lease(max_hold: Option<Duration>) -> LeaseTerms {
        let token = Token::from_random([7; 16]);
        LeaseTerms::new(token, Fence::new(1), ttl(1_000), max_hold, at(100), wall(100))
    }

    #[test]
    fn a_lease_counts_from_before_its_first_send_to_its_deadline() {
        let lease = lease(None); // 1000 ms less 10 ms drift less 2 ms, from 100
        assert_eq!(lease.state(at(100), wall(100)), LeaseState::Held { left: ms(988) });
        assert_eq!(lease.state(at(1_087), wall(1_087)), LeaseState::Held { left: ms(1) });
        assert_eq!(lease.state(at(1_088), wall(1_088)), LeaseState::Lost(LossReason::Expired));
    }

    #[test]
    fn a_lease_keeps_its_terms_and_why_it_is_over() {
        let mut lease = lease(None);
        assert_eq!((lease.fence(), lease.since(), lease.lost()), (Fence::new(1), at(100), None));
        lease.lose(LossReason::Taken);
        lease.lose(LossReason::Expired);
        assert_eq!(lease.lost(), Some(LossReason::Taken), "the first reason stays");
        assert_eq!((LossReason::Taken.kind(), LossReason::MaxHold.kind()), ("taken", "max_hold"));
    }

    #[test]
    fn an_extension_counts_from_its_own_start() {
        let mut lease = lease(None);
        lease.extend(ttl(1_000), (at(500), wall(500)), at(510)).unwrap();
        assert_eq!(lease.deadline(), at(1_488));
    }

    #[test]
    fn an_extension_that_ends_after_the_deadline_loses_the_lock() {
        let mut lease = lease(None);
        let late = lease.extend(ttl(1_000), (at(1_080), wall(1_080)), at(1_088));
        assert_eq!(late, Err(LossReason::Expired));
        assert_eq!(lease.state(at(200), wall(200)), LeaseState::Lost(LossReason::Expired), "lost is final");
        assert_eq!(lease.extend(ttl(1_000), (at(200), wall(200)), at(210)), Err(LossReason::Expired));
    }

    /// Goal: while the holder extends, none of its locks is within one vote window of its expiry.
    #[test]
    fn an_extension_within_one_vote_window_of_the_deadline_loses_the_lock() {
        for (ended, is_in_time) in [(1_038, true), (1_039, false)] {
            let mut lease = lease(None);
            let extended = lease.extend(ttl(1_000), (at(500), wall(500)), at(ended));
            assert_eq!(extended.is_ok(), is_in_time, "{ended}");
        }
        let on_one_node = ttl(1_000).on_one_node();
        let token = Token::from_random([7; 16]);
        let mut lease = LeaseTerms::new(token, Fence::new(1), on_one_node, None, at(100), wall(100));
        lease.extend(on_one_node, (at(500), wall(500)), at(1_087)).unwrap();
    }

    #[test]
    fn a_short_longest_hold_leaves_time_to_extend() {
        let mut lease = lease(Some(ms(30)));
        lease.extend(ttl(1_000), (at(110), wall(110)), at(120)).unwrap();
        assert_eq!(lease.deadline(), at(130));
    }

    #[test]
    fn a_shorter_extension_never_shortens_a_lease() {
        let mut lease = lease(None);
        lease.extend(ttl(100), (at(110), wall(110)), at(120)).unwrap();
        assert_eq!(lease.deadline(), at(1_088));
    }

    #[test]
    fn the_longest_hold_caps_every_extension() {
        let mut lease = lease(Some(ms(1_200)));
        lease.extend(ttl(1_000), (at(1_000), wall(1_000)), at(1_010)).unwrap();
        assert_eq!(lease.deadline(), at(1_300));
        assert!(lease.at_longest_hold());
        assert_eq!(lease.state(at(1_300), wall(1_300)), LeaseState::Lost(LossReason::MaxHold));
    }

    #[test]
    fn a_wall_clock_that_jumps_ahead_makes_the_lease_unverified_until_confirmed() {
        let mut lease = lease(None);
        assert_eq!(lease.state(at(200), wall(5_000)), LeaseState::Unverified);
        lease.extend(ttl(1_000), (at(210), wall(5_010)), at(220)).unwrap();
        assert!(matches!(lease.state(at(230), wall(5_030)), LeaseState::Held { .. }));
    }

    #[test]
    fn a_wall_clock_that_jumps_back_changes_nothing() {
        assert!(matches!(lease(None).state(at(200), wall(0)), LeaseState::Held { .. }));
    }

    #[test]
    fn the_first_reason_of_a_loss_stays() {
        let mut lease = lease(None);
        assert_eq!(lease.lose(LossReason::Taken), LossReason::Taken);
        assert_eq!(lease.lose(LossReason::Expired), LossReason::Taken);
    }

    proptest! {
        /// Goal: after any series of extensions, the lease never counts past what a node keeps.
        #[test]
        fn a_lease_never_outlives_its_last_confirmed_round(rounds in prop::collection::vec((1u64..2_000, 0u64..50), 0..20)) {
            let mut lease = lease(None);
            let mut nodes_keep_until = at(100) + ms(1_000);
            let mut now = 100;
            for (gap, took) in rounds {
                let start = now + gap;
                now = start + took;
                if lease.extend(ttl(1_000), (at(start), wall(start)), at(now)).is_ok() {
                    nodes_keep_until = at(start) + ms(1_000);
                }
                prop_assert!(lease.deadline() < nodes_keep_until);
                if lease.lost().is_some() {
                    prop_assert!(matches!(lease.state(at(0), wall(0)), LeaseState::Lost(_)));
                }
            }
        }
    }
}
