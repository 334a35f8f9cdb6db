//! The history of tokens: adopted, continued without a guard, extended, released by force.

use crate::simulator::DRIFT_PERCENT;
use crate::simulator::history::hold::{Claim, Hold, TokenLease};
use crate::simulator::history::{Granted, History, WorldKind, listed};
use quorlock::{Lease, Mode, Name, Token};
use std::time::Duration;

impl History {
    /// A client adopted a lock that another handed over: the same hold, a new owner.
    pub(crate) fn adopted(&mut self, client: usize, now: Duration, held: Lease, max_hold: Option<Duration>) {
        self.uses.adoptions += 1;
        let fence = held.fence().get();
        self.record(now, &format!("client {client} adopts {} with fence {fence}", listed(held.names())));
        let granted = self.check_continued(now, (held.names(), held.mode()), held.token(), fence);
        self.recorder.adopted(client, held.names(), fence);
        let latest_end = max_hold.map(|hold| now + hold + hold * DRIFT_PERCENT / 100);
        self.holds.push(Hold { client, claim: Claim::Guarded(held), granted, latest_end, was_lost: false });
        self.check(now);
    }

    /// A client continues with the token of a lock, its own or one that it accepted.
    pub(crate) fn continued_by_token(&mut self, client: usize, now: Duration, lease: TokenLease) {
        let (names, fence) = (lease.names.as_slice(), lease.fence);
        self.record(now, &format!("client {client} has the token of {} with fence {fence}", listed(names)));
        let granted = self.check_continued(now, (names, lease.mode), lease.token, fence);
        self.released(client, lease.token);
        self.recorder.adopted(client, names, fence);
        let claim = Claim::ByToken(lease);
        self.holds.push(Hold { client, claim, granted, latest_end: None, was_lost: false });
        self.check(now);
    }

    /// A lease was extended by its token; `stored` is the fence that the nodes store with it, if
    /// they agree.
    pub(crate) fn extended_by_token(
        &mut self,
        client: usize,
        now: Duration,
        lease: TokenLease,
        stored: Option<u64>,
    ) {
        self.uses.token_extensions += 1;
        let (names, fence) = (lease.names.as_slice(), lease.fence);
        if stored.is_some_and(|stored| stored != fence) {
            let what = format!("S5: the token of {} has fence {fence}, not {stored:?}", listed(names));
            self.violate(now, &what);
        }
        self.check_continued(now, (names, lease.mode), lease.token, fence);
        self.recorder.extended_by_token(client, names, fence);
        for hold in self.holds.iter_mut().filter(|hold| hold.client == client) {
            if let Claim::ByToken(known) = &mut hold.claim
                && known.token == lease.token
            {
                *known = lease.clone();
            }
        }
        self.check(now);
    }

    /// From now on `token` may be released by force at any node, at any moment.
    pub(crate) fn forced(&mut self, client: usize, now: Duration, name: &Name, token: Token) {
        self.uses.forced_releases += 1;
        let holders = self.holds.iter().filter(|hold| hold.token() == token && hold.is_held());
        let whose = holders.map(|hold| hold.client.to_string()).next().unwrap_or("no client".to_owned());
        self.record(now, &format!("client {client} releases {name} of {whose} by force"));
        self.forced.insert((token, name.clone()));
        self.recorder.forced(client, name, token);
    }

    /// A majority of nodes has released `token` by force.
    pub(crate) fn taken(&mut self, now: Duration, token: Token) {
        self.taken.entry(token).or_insert(now);
    }

    /// A server is made to forget everything.
    pub(crate) fn forgets(&mut self, now: Duration) {
        self.forgot = Some(now);
    }

    /// Whether a client may have released `name` by force from the hold of this token.
    pub(crate) fn is_forced(&self, token: Token, name: &Name) -> bool {
        !self.forced.is_empty() && self.forced.contains(&(token, name.clone()))
    }

    /// A lock that is adopted or extended is the one that was granted: its fence is the same, and
    /// no other that excludes it was granted since. Returns when it was granted.
    fn check_continued(
        &mut self,
        now: Duration,
        (names, mode): (&[Name], Mode),
        token: Token,
        fence: u64,
    ) -> Duration {
        let shown = listed(names);
        let Some(Granted { at, fence: first }) = self.grants.get(&token).copied() else {
            self.violate(now, &format!("S5: the token of {shown} with fence {fence} was never granted"));
            return now;
        };
        if fence != first {
            self.violate(
                now,
                &format!("S2: {shown} was granted with fence {first} and continues with {fence}"),
            );
        }
        for name in names {
            let highest = self.fences.get(name).map_or(0, |fences| fences.highest_against(mode));
            // In wild worlds, and after a forced release, a holder may continue although another had
            // the lock meanwhile.
            let is_promised = self.kind == WorldKind::Tame && !self.is_forced(token, name);
            if is_promised && highest > fence {
                self.violate(now, &format!("S6: {name} with fence {fence} continues after fence {highest}"));
            }
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::LONGEST_USED_TTL;
    use crate::simulator::history::fences::Granting;
    use crate::simulator::machine_clock::{MachineClock, WorldStart};
    use quorlock::{Clock, Moment, NameSet};
    use std::sync::Arc;

    const SECOND: Duration = Duration::from_secs(1);

    struct Case {
        history: History,
        clock: Arc<MachineClock>,
    }

    impl Case {
        fn new() -> Self {
            let clock = Arc::new(MachineClock::new(WorldStart::now(), 0, 0, false));
            Self { history: History::new(WorldKind::Tame), clock }
        }

        /// A lease whose token was granted with this fence at this second.
        fn lease(&mut self, fence: u8, granted: u32, deadline: Moment) -> TokenLease {
            let (name, token) = (Name::new("a").unwrap(), Token::from_random([fence; 16]));
            let (fence, at, mode) = (u64::from(fence), granted * SECOND, Mode::Exclusive);
            self.history.grants.insert(token, Granted { at, fence });
            let granting = Granting { called: at, at, fence, mode, is_exclusion_promised: true };
            self.history.fences.entry(name.clone()).or_default().grant(granting).unwrap();
            TokenLease { names: name.into(), mode, token, fence, clock: self.clock.clone(), deadline }
        }

        fn forever(&self) -> Moment {
            self.clock.now() + 3_600 * SECOND
        }

        fn broken(&self) -> Vec<&str> {
            self.history.violations.iter().map(|what| &what[..2]).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_leases_by_token_are_two_holders() {
        let mut case = Case::new();
        let forever = case.forever();
        let (one, other) = (case.lease(1, 1, forever), case.lease(2, 2, forever));
        case.history.fences.clear();
        case.history.continued_by_token(0, SECOND, one);
        case.history.continued_by_token(1, 2 * SECOND, other);
        assert_eq!(case.broken(), ["S1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn two_readers_are_no_conflict_and_a_writer_with_a_common_name_is_one() {
        let names = ["a", "b"].map(|name| Name::new(name).unwrap());
        for (mode, found) in [(Mode::Shared, vec![]), (Mode::Exclusive, vec!["S1"])] {
            let mut case = Case::new();
            let forever = case.forever();
            let (one, other) = (case.lease(1, 1, forever), case.lease(2, 2, forever));
            case.history.fences.clear();
            let both = NameSet::new(names.clone()).unwrap();
            case.history.continued_by_token(0, SECOND, TokenLease { names: both, mode, ..one });
            case.history.continued_by_token(1, 2 * SECOND, TokenLease { mode: Mode::Shared, ..other });
            assert_eq!(case.broken(), found);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_third_permit_of_two_slots_is_found_even_if_each_slot_has_one_holder() {
        let mut case = Case::new();
        let forever = case.forever();
        for slot in 0..3 {
            let lease = case.lease(slot, 1, forever);
            case.history.fences.clear();
            let names = Name::of_slot(&Name::new("s").unwrap(), u32::from(slot)).into();
            case.history.continued_by_token(usize::from(slot), SECOND, TokenLease { names, ..lease });
        }
        assert_eq!(case.broken(), ["S1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_was_released_by_force_may_share_the_lock_for_a_ttl_and_not_longer() {
        let mut case = Case::new();
        let forever = case.forever();
        let (old, new) = (case.lease(1, 1, forever), case.lease(2, 2, forever));
        case.history.forced(2, SECOND, old.names.first(), old.token);
        case.history.continued_by_token(0, SECOND, old);
        case.history.continued_by_token(1, 2 * SECOND, new);
        case.history.check(2 * SECOND + LONGEST_USED_TTL);
        assert_eq!((case.broken(), case.history.forced_double_holds()), (vec![], 1));
        case.history.check(3 * SECOND + LONGEST_USED_TTL);
        assert_eq!(case.broken(), ["S1"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_that_goes_on_after_a_higher_fence_is_found_unless_it_was_released_by_force() {
        for (is_forced, found) in [(false, vec!["S6"]), (true, vec![])] {
            let mut case = Case::new();
            let over = case.clock.now();
            let old = case.lease(1, 1, over);
            case.lease(2, 2, over);
            if is_forced {
                case.history.forced(2, SECOND, old.names.first(), old.token);
            }
            case.history.extended_by_token(0, 3 * SECOND, old, None);
            assert_eq!(case.broken(), found);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_fence_than_the_one_that_was_granted_is_found() {
        let mut case = Case::new();
        let forever = case.forever();
        let lease = case.lease(1, 1, forever);
        case.history.extended_by_token(0, SECOND, lease.clone(), Some(2));
        case.history.continued_by_token(0, SECOND, TokenLease { fence: 3, ..lease });
        assert_eq!(case.broken(), ["S5", "S2"]);
    }
}
