//! What clients do: acquire a lock, read, work, write, and release it in every possible way.

mod among_readers;
mod by_token;
mod force_release;
pub(crate) mod handoff;
mod handover;
mod modes;
pub(crate) mod wanted;

use crate::rng::Rng;
use crate::simulator::participants::Participants;
use crate::simulator::participants::settings::any_ttl;
use crate::simulator::{DRIFT_PERCENT, InjectedBug, TTL};
use quorlock::{AcquireError, ExtendError, Guard, LeaseState, Locker, Mode, Name, Semaphore};
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use wanted::{Wanted, semaphore};

/// The longest time for which a client does nothing between two locks.
const MAX_IDLE: Duration = Duration::from_millis(50);
/// The same after a call that was refused: the holder may need as long.
const MAX_IDLE_REFUSED: Duration = Duration::from_millis(500);

/// One client.
pub(crate) struct Client {
    pub(crate) participants: Participants,
    pub(crate) number: usize,
    pub(crate) rng: Rng,
    /// Decides when it does the less common things. Without it a client only acquires, holds and
    /// releases.
    pub(crate) variety: Option<Rng>,
    pub(crate) names: Vec<Name>,
    /// Never waits for a lock.
    pub(crate) is_impatient: bool,
    /// Also shares locks, holds several names together, and takes permits.
    pub(crate) has_modes: bool,
    /// The semaphore of its process, by the incarnation of that process.
    pub(crate) semaphore: Option<(u64, Semaphore)>,
}

/// What a client does with a lock that it acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Works and releases the lock.
    Keep,
    /// Works and gives the lock to another client, as a handle.
    HandOver,
    /// Detaches the guard and continues with the token.
    ContinueByToken,
    /// Works and gives the token to another client.
    GiveToken,
}

impl Client {
    /// Works until `end`.
    pub(crate) async fn work(mut self, end: Instant) {
        while Instant::now() < end {
            if self.chance(4) {
                self.force_release().await;
            }
            let handed_over = self.participants.handed_over.lock().unwrap().receive(self.number);
            if let Some(handed_over) = handed_over {
                self.accept(handed_over).await;
            } else {
                let name = self.rng.pick(&self.names).clone();
                let wanted = self.wanted(name);
                match self.acquire(&wanted).await {
                    Some((guard, incarnation)) => self.use_lock(guard, incarnation).await,
                    None => sleep(self.rng.span(Duration::ZERO, MAX_IDLE_REFUSED)).await,
                }
            }
            // Readers do not wait for each other, so that there is more to do.
            let longest = if self.has_modes { 3 * MAX_IDLE } else { MAX_IDLE };
            sleep(self.rng.span(Duration::ZERO, longest)).await;
        }
    }

    /// What it acquires next: `name`, or in worlds with modes something else.
    fn wanted(&mut self, name: Name) -> Wanted {
        let favourite = self.participants.injected_bug().and_then(InjectedBug::favourite);
        match &mut self.variety {
            Some(variety) if self.has_modes => {
                let wanted = Wanted::draw(name.clone(), &self.names, favourite, variety);
                if self.is_impatient && !wanted.can_try() { Wanted::exclusive(name) } else { wanted }
            }
            _ => Wanted::exclusive(name),
        }
    }

    /// Acquires what is wanted once, as soon as it is free, and returns how long that took. For the
    /// recovery phase.
    pub(crate) async fn acquire_once(mut self, wanted: Wanted, limit: Duration) -> Option<Duration> {
        let start = Instant::now();
        while start.elapsed() < limit {
            if let Some((guard, _)) = self.acquire(&wanted).await {
                self.release(guard).await;
                return Some(start.elapsed());
            }
            // A call that fails at once must not stop the simulated time.
            sleep(Duration::from_millis(1)).await;
        }
        None
    }

    async fn acquire(&mut self, wanted: &Wanted) -> Option<(Guard, u64)> {
        self.wait_while_paused().await;
        let (locker, incarnation) = self.participants.current_process(self.number);
        let settings = self.participants.settings(self.number);
        let (called, start) = (self.participants.now(), Instant::now());
        let semaphore = self.semaphore_of(&locker, incarnation);
        self.set_in_use(&wanted.names(), true);
        let tries_once = (self.chance(15) || self.is_impatient) && wanted.can_try();
        let result = wanted.acquire(&locker, &semaphore, tries_once).await;
        let waited = start.elapsed();
        let unused = wanted.names().into_iter();
        let held = result.as_ref().map_or(&[][..], Guard::names);
        self.set_in_use(&unused.filter(|name| !held.contains(name)).collect::<Vec<_>>(), false);
        if !self.is_alive(incarnation) {
            // The process died meanwhile, so it never used what it got.
            drop(result);
            return None;
        }
        let mut history = self.participants.history();
        // A limit is kept to within one node timeout, by a clock that may run slower than true
        // time.
        let wait = if tries_once { settings.ttl } else { settings.wait };
        let limit = wait + wait * DRIFT_PERCENT / 100 + settings.node_timeout + Duration::from_millis(2);
        if waited > limit {
            history
                .violate(self.participants.now(), &format!("L2: client {} waited {waited:?}", self.number));
        }
        history.uses.tries += u64::from(tries_once);
        match result {
            Ok(guard) => {
                if waited > Duration::from_millis(20) {
                    history.contended += 1;
                }
                wanted.count(&mut history.uses);
                let held = guard.lease();
                history.granted(self.number, called, self.participants.now(), held, settings.max_hold);
                drop(history);
                Some((guard, incarnation))
            }
            Err(error) => {
                history.refusals += 1;
                match error {
                    AcquireError::Held { .. }
                    | AcquireError::NamesHeld { .. }
                    | AcquireError::NoPermit { .. } => history.contended += 1,
                    AcquireError::SlotsDiffer { .. } | AcquireError::Config { .. } => {
                        let what = format!("L2: client {} cannot acquire: {error}", self.number);
                        history.violate(self.participants.now(), &what);
                    }
                    _ => {}
                }
                None
            }
        }
    }

    fn semaphore_of(&mut self, locker: &Locker, incarnation: u64) -> Semaphore {
        match &self.semaphore {
            Some((of, semaphore)) if *of == incarnation => semaphore.clone(),
            _ => self.semaphore.insert((incarnation, semaphore(locker))).1.clone(),
        }
    }

    fn set_in_use(&self, names: &[Name], is_used: bool) {
        names.iter().for_each(|name| self.participants.set_in_use(self.number, name, is_used));
    }

    /// Works under the lock, and releases it or hands it over.
    async fn use_lock(&mut self, guard: Guard, incarnation: u64) {
        let plan = self.plan();
        if plan == Plan::ContinueByToken {
            return self.continue_by_token(guard).await;
        }
        if self.participants.injected_bug() == Some(InjectedBug::RepeatedReply) {
            self.use_another_lock(guard.name()).await;
        }
        if !self.work_under(&guard, incarnation).await {
            // Its process is dead and its links are cut, so dropping the guard sends nothing.
            return drop(guard);
        }
        match plan {
            Plan::HandOver => self.hand_over(guard, incarnation).await,
            Plan::GiveToken => self.give_token(guard),
            Plan::Keep | Plan::ContinueByToken => self.release(guard).await,
        }
    }

    /// Acquires another lock while the reply to the vote for the first may come again: both have the same shape.
    async fn use_another_lock(&mut self, first: &Name) {
        let Some(name) = self.names.iter().find(|name| *name != first).cloned() else { return };
        if let Some((guard, incarnation)) = self.acquire(&Wanted::exclusive(name)).await {
            if !self.work_under(&guard, incarnation).await {
                return drop(guard);
            }
            self.release(guard).await;
        }
    }

    fn plan(&mut self) -> Plan {
        let Some(variety) = &mut self.variety else { return Plan::Keep };
        // A list that changes too soon harms only locks that outlive their client.
        let is_hasty = self.participants.injected_bug() == Some(InjectedBug::HastyLists);
        let drawn = variety.below(if is_hasty { 30 } else { 100 });
        match drawn {
            0..15 => Plan::HandOver,
            15..25 => Plan::ContinueByToken,
            25..30 => Plan::GiveToken,
            _ => Plan::Keep,
        }
    }

    /// Reads, thinks, writes, again and again, and stops when the lock is lost. `false` if its
    /// process died.
    async fn work_under(&mut self, guard: &Guard, incarnation: u64) -> bool {
        // Mostly short; now and then far beyond the ttl, so that the watchdog matters.
        let bug = self.participants.injected_bug();
        // Most bugs show only in locks that are held while something happens to them.
        let (long, longer) = if bug.is_some() { (20, 4) } else { (6, 1) };
        // A deadline that is too late shows only if the lock is held until then, and never extended.
        let is_unextended = bug == Some(InjectedBug::LateDeadline);
        let is_long = self.rng.chance(long) || is_unextended;
        let (longest, longest_step) = if is_long { (2 * TTL, TTL / 20) } else { (TTL / 20, TTL / 100) };
        let mut until = Instant::now() + self.rng.span(Duration::from_millis(1), longest);
        if self.chance(longer) {
            // Long enough to see what becomes of a lock that was released by force.
            until += 5 * TTL;
        }
        while Instant::now() < until {
            if !self.is_alive(incarnation) {
                return false;
            }
            if !self.is_not_lost(guard) {
                break;
            }
            let is_current = match guard.mode() {
                Mode::Exclusive => self.update(guard.names(), guard.fence().get(), longest_step).await,
                Mode::Shared => self.look(guard.names(), guard.fence().get(), longest_step).await,
            };
            if !is_current {
                break;
            }
            // Rarer for a shared hold, whose extension costs twice the processor time of a world.
            let percent = if guard.mode() == Mode::Shared { 5 } else { 15 };
            if self.chance(percent) && !is_unextended {
                self.extend(guard).await;
            }
            self.change_mode(guard, incarnation).await;
        }
        true
    }

    /// Reads what the names protect, thinks, and writes it. `false` if the resource refused the fence.
    async fn update(&mut self, names: &[Name], fence: u64, longest: Duration) -> bool {
        let read: Vec<_> =
            names.iter().map(|name| (name, self.participants.history().read(name, fence))).collect();
        sleep(self.rng.span(Duration::ZERO, longest)).await;
        self.wait_while_paused().await;
        // Does not check the clock first: a real program cannot check and write in one step
        // either.
        let (mut history, now) = (self.participants.history(), self.participants.now());
        read.into_iter().all(|(name, read)| history.write(now, name, read, fence))
    }

    /// Reads what the names protect. `false` if the resource refused the fence.
    async fn look(&mut self, names: &[Name], fence: u64, longest: Duration) -> bool {
        sleep(self.rng.span(Duration::ZERO, longest)).await;
        self.wait_while_paused().await;
        let (mut history, now) = (self.participants.history(), self.participants.now());
        names.iter().all(|name| history.read_shared(now, name, fence))
    }

    /// Extends without the watchdog.
    async fn extend(&mut self, guard: &Guard) {
        let by = self.variety.as_mut().map(any_ttl);
        let result = match by.filter(|_| self.chance(50)) {
            Some(ttl) => guard.extend_by(ttl).await,
            None => guard.extend().await,
        };
        if let Err(ExtendError::Config(error)) = &result {
            self.violate(&format!("L2: client {} cannot extend: {error}", self.number));
        }
        self.participants.history().uses.extensions += u64::from(result.is_ok());
    }

    /// Whether the lock is not lost. A loss must have been announced before it is seen here.
    fn is_not_lost(&self, guard: &Guard) -> bool {
        let LeaseState::Lost(loss) = guard.state() else { return true };
        let is_announced = guard.lost_token().is_cancelled();
        if !is_announced && self.participants.paused_until(self.number).is_none() {
            self.violate(&format!("L2: client {} lost {} ({loss}) unannounced", self.number, guard.name()));
        }
        false
    }

    async fn release(&mut self, guard: Guard) {
        let names = guard.names().to_vec();
        self.participants.history().released(self.number, guard.token());
        if self.rng.chance(20) {
            drop(guard);
        } else {
            let _outcome = guard.release().await;
        }
        self.set_in_use(&names, false);
    }

    async fn wait_while_paused(&self) {
        if let Some(until) = self.participants.paused_until(self.number) {
            sleep_until(until).await;
        }
    }

    fn is_alive(&self, incarnation: u64) -> bool {
        self.participants.current_process(self.number).1 == incarnation
    }

    /// True in `percent` of 100 cases, and never in a plain world.
    fn chance(&mut self, percent: u64) -> bool {
        self.variety.as_mut().is_some_and(|variety| variety.chance(percent))
    }

    /// Another client, or this one where there is no other.
    fn any_client(&mut self) -> usize {
        let count = self.participants.clients() as u64;
        let drawn = self.variety.as_mut().map_or(0, |variety| variety.below(count.max(2) - 1) + 1);
        (self.number + usize::try_from(drawn).unwrap()) % self.participants.clients()
    }

    fn violate(&self, what: &str) {
        self.participants.history().violate(self.participants.now(), what);
    }
}
