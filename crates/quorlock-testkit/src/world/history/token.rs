//! The record of locks that go by their tokens: handed over, leased, extended, released by force.

use super::{Granted, History, Mood};
use crate::world::DRIFT_PERCENT;
use crate::world::hold::{Hold, Lease, Right};
use quorlock::{Held, Name, Token};
use std::time::Duration;

impl History {
    /// A client took over a lock that another gave away: the same hold, a new owner.
    pub(in crate::world) fn adopted(
        &mut self,
        client: usize,
        now: Duration,
        held: Held,
        max_hold: Option<Duration>,
    ) {
        self.uses.adoptions += 1;
        let (name, token, fence) = (held.name().clone(), held.token(), held.fence());
        self.tell(now, &format!("client {client} adopts {name} with fence {fence}"));
        let granted = self.check_continued(now, &name, token, fence);
        let ends = max_hold.map(|hold| now + hold + hold * DRIFT_PERCENT / 100);
        self.holds.push(Hold { client, right: Right::Guarded(held), granted, ends, was_lost: false });
        self.check(now);
    }

    /// A client goes on by the token of a lock, its own or one that it was given.
    pub(in crate::world) fn leased(&mut self, client: usize, now: Duration, lease: Lease) {
        let (name, fence) = (lease.name.clone(), lease.fence);
        self.tell(now, &format!("client {client} has the token of {name} with fence {fence}"));
        let granted = self.check_continued(now, &name, lease.token, fence);
        self.let_go(client, &name);
        let right = Right::ByToken(lease);
        self.holds.push(Hold { client, right, granted, ends: None, was_lost: false });
        self.check(now);
    }

    /// A lease was extended by its token; `told` is the fence that the nodes store with it, if they agree.
    pub(in crate::world) fn extended_by_token(
        &mut self,
        client: usize,
        now: Duration,
        lease: Lease,
        told: Option<u64>,
    ) {
        self.uses.token_extensions += 1;
        if told.is_some_and(|told| told != lease.fence) {
            let what = format!("S5: the token of {} has fence {}, not {told:?}", lease.name, lease.fence);
            self.violate(now, &what);
        }
        self.check_continued(now, &lease.name, lease.token, lease.fence);
        for hold in self.holds.iter_mut().filter(|hold| hold.client == client) {
            if let Right::ByToken(known) = &mut hold.right
                && known.token == lease.token
            {
                *known = lease.clone();
            }
        }
        self.check(now);
    }

    /// From now on `token` may be released by force at any node, at any moment.
    pub(in crate::world) fn forced(&mut self, client: usize, now: Duration, name: &Name, token: Token) {
        self.uses.forced_releases += 1;
        let holders = self.holds.iter().filter(|hold| hold.token() == token && hold.is_held());
        let whose = holders.map(|hold| hold.client.to_string()).next().unwrap_or("no client".to_owned());
        self.tell(now, &format!("client {client} releases {name} of {whose} by force"));
        self.forced.insert(token);
    }

    /// Whether somebody may have released the lock of this token by force.
    pub(super) fn is_forced(&self, token: Token) -> bool {
        self.forced.contains(&token)
    }

    /// A lock that is taken over or extended is the one that was granted: its fence is the same, and no other was
    /// granted since. Returns when it was granted.
    fn check_continued(&mut self, now: Duration, name: &Name, token: Token, fence: u64) -> Duration {
        let Some(Granted { at, fence: first }) = self.grants.get(&token).copied() else {
            self.violate(now, &format!("S5: the token of {name} with fence {fence} was never granted"));
            return now;
        };
        if fence != first {
            self.violate(now, &format!("S2: {name} was granted with fence {first} and goes on with {fence}"));
        }
        let highest = self.fences.get(name).and_then(|fences| fences.all.last()).copied();
        // In wild worlds, and after a forced release, a holder may go on although another had the lock meanwhile.
        let is_promised = self.mood == Mood::Tame && !self.is_forced(token);
        if let Some(highest) = highest.filter(|highest| is_promised && *highest > fence) {
            self.violate(now, &format!("S6: {name} with fence {fence} goes on after fence {highest}"));
        }
        at
    }
}
