//! A simulated server: what it remembers, by its own clock, and how it forgets.

use crate::simulator::InjectedBug;
use crate::simulator::event_queue::Action;
use crate::simulator::machine_clock::MachineClock;
use quorlock::node::{Acquire, Command, Content, Denied, Done, NodeError, Reply, View, Wakeup};
use quorlock::{Clock, Fence, Name, Token};
use quorlock_core::Wall;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// One server. Its ttls run on its wall clock, as those of Redis do.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) clock: Arc<MachineClock>,
    pub(crate) is_up: bool,
    /// It accepts commands but neither executes nor answers them until it resumes.
    pub(crate) is_stopped: bool,
    /// What arrived while it was stopped, to be executed in this order when it resumes.
    pub(crate) stalled: Stalled,
    /// Since when it runs without a stop.
    pub(crate) undisturbed_since: Instant,
    injected_bug: Option<InjectedBug>,
    stored: BTreeMap<Name, Entry>,
    counters: BTreeMap<Name, Fence>,
    /// Tokens that another process released by force.
    taken: BTreeSet<String>,
    epoch: Option<Epoch>,
    run: u64,
    epochs: u64,
    /// Clients that want release hints, and how to wake them.
    pub(crate) watches: BTreeMap<(Name, usize), Wakeup>,
}

#[derive(Clone, Debug)]
struct Entry {
    value: String,
    expires: Wall,
    origin: Origin,
}

/// By which command a lock came to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A vote that came over this connection of this client.
    Vote(usize, u64),
    /// A vote that the network duplicated.
    Duplicate,
    /// Another command, which must not happen.
    Other,
}

/// Actions that wait for a server to resume.
#[derive(Default)]
pub(crate) struct Stalled(pub(crate) Vec<Action>);

impl fmt::Debug for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stalled({})", self.0.len())
    }
}

/// Which memory the server has, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    run: u64,
    since: Wall,
    pub(crate) nonce: u64,
}

impl Epoch {
    pub(crate) fn age(self, now: Wall) -> Duration {
        now.since(self.since)
    }
}

/// An executed vote: the reply, and the epoch that was read after it.
pub(crate) type Executed = (Reply, Option<Epoch>);

impl Server {
    pub(crate) fn new(clock: Arc<MachineClock>, injected_bug: Option<InjectedBug>) -> Self {
        let mut server = Self {
            clock,
            is_up: true,
            is_stopped: false,
            stalled: Stalled::default(),
            undisturbed_since: Instant::now(),
            injected_bug,
            stored: BTreeMap::new(),
            counters: BTreeMap::new(),
            taken: BTreeSet::new(),
            epoch: None,
            run: 1,
            epochs: 1,
            watches: BTreeMap::new(),
        };
        // Known to be fresh, as after `init`.
        server.epoch = Some(Epoch { run: 1, since: Wall::default(), nonce: 1 });
        server
    }

    /// Reads the epoch, or begins a new one where memory was lost: the verify script.
    pub(crate) fn verify(&mut self) -> (Epoch, Wall) {
        let now = Wall::from(self.clock.wall_time());
        let known = self.epoch.filter(|epoch| epoch.run == self.run);
        let epoch = known.unwrap_or_else(|| {
            self.epochs += 1;
            Epoch { run: self.run, since: now, nonce: self.epochs }
        });
        self.epoch = Some(epoch);
        (epoch, now)
    }

    pub(crate) fn restart(&mut self, keeps_memory: bool) {
        self.is_up = true;
        // What was not executed before the crash never is.
        drop(self.resume());
        self.run += 1;
        self.watches.clear();
        if !keeps_memory {
            self.flush();
        }
    }

    /// Ends a stop. The caller runs what waited, once the server is unlocked.
    #[must_use = "a server that resumes executes what it was sent"]
    pub(crate) fn resume(&mut self) -> Vec<Action> {
        self.is_stopped = false;
        self.undisturbed_since = Instant::now();
        std::mem::take(&mut self.stalled.0)
    }

    pub(crate) fn flush(&mut self) {
        self.stored.clear();
        self.counters.clear();
        self.taken.clear();
        self.epoch = None;
    }

    /// Drops one lock, as a server does whose memory is full. `false` if it has none.
    pub(crate) fn evict(&mut self) -> bool {
        self.stored.pop_first().is_some()
    }

    /// The counter of a name.
    pub(crate) fn counter(&self, name: &Name) -> Option<Fence> {
        self.counters.get(name).copied()
    }

    /// Drops the counter of a name. `false` if it has none.
    pub(crate) fn lose_counter(&mut self, name: &Name) -> bool {
        self.counters.remove(name).is_some()
    }

    /// The tokens that are stored, and how they came to be.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = (&Name, &str, Origin)> {
        self.stored.iter().map(|(name, entry)| (name, &entry.value[..Token::LEN], entry.origin))
    }

    /// Executes `command`, and wakes the clients that watch a name that became free.
    pub(crate) fn execute(&mut self, command: &Command, origin: Origin) -> Executed {
        let now = Wall::from(self.clock.wall_time());
        self.stored.retain(|_, entry| entry.expires > now);
        let had = self.stored.contains_key(command.name());
        let reply = match command {
            Command::Acquire(vote) => self.vote(vote, now, origin),
            Command::Stamp { name, token, at_least } => self.stamp(name, token, *at_least),
            Command::Extend { name, token, ttl, .. } => self.extend(name, token, *ttl, now),
            Command::Release { name, token, forced, .. } => {
                if *forced {
                    self.taken.insert(token.to_string());
                }
                self.release(name, token)
            }
            Command::Inspect { name } => Reply::Done(Done::Seen(self.view(name, now).into())),
            _ => Reply::failed(NodeError::Abandoned),
        };
        if had && !self.stored.contains_key(command.name()) {
            let watched = self.watches.iter().filter(|((name, _), _)| name == command.name());
            watched.for_each(|(_, wakeup)| wakeup.notify());
        }
        (reply, self.epoch)
    }

    fn vote(&mut self, vote: &Acquire, now: Wall, origin: Origin) -> Reply {
        let is_taken = vote.repair && self.taken.contains(vote.token.as_str());
        if is_taken && self.injected_bug != Some(InjectedBug::RepairTaken) {
            return Reply::Denied(Denied::Taken);
        }
        let raised = self.raise(&vote.name, vote.proposal);
        if self.stored.contains_key(&vote.name) {
            return Reply::Denied(Denied::Taken);
        }
        let entry = Entry { value: vote.value(), expires: now + vote.ttl, origin };
        self.stored.insert(vote.name.clone(), entry);
        let pretends = self.injected_bug == Some(InjectedBug::NoStamp);
        Reply::Done(if raised || pretends { Done::Raised } else { Done::Unraised { counter: None } })
    }

    fn raise(&mut self, name: &Name, to: Fence) -> bool {
        let counter = self.counters.entry(name.clone()).or_default();
        let is_above =
            *counter < to || (self.injected_bug == Some(InjectedBug::LooseRaise) && *counter == to);
        *counter = to.max(*counter);
        is_above
    }

    fn stamp(&mut self, name: &Name, token: &Token, at_least: Fence) -> Reply {
        if let Err(denied) = self.check_holder(name, token) {
            return Reply::Denied(denied);
        }
        let counter = self.counters.entry(name.clone()).or_default();
        let above =
            if self.injected_bug == Some(InjectedBug::LooseRaise) { Some(*counter) } else { counter.next() };
        let Some(to) = above.map(|above| above.max(at_least)) else {
            return Reply::failed(NodeError::Abandoned);
        };
        *counter = to;
        if let Some(entry) = self.stored.get_mut(name) {
            let label = entry.value.splitn(3, ' ').nth(2).unwrap_or_default();
            entry.value = format!("{token} {to} {label}");
        }
        Reply::Done(Done::Stamped { to })
    }

    fn extend(&mut self, name: &Name, token: &Token, ttl: Duration, now: Wall) -> Reply {
        match self.check_holder(name, token) {
            Ok(()) => {}
            Err(Denied::Gone) if self.injected_bug == Some(InjectedBug::ExtendCreates) => {
                let value = format!("{token} 0 sim@sim 1 0");
                self.stored.insert(name.clone(), Entry { value, expires: now, origin: Origin::Other });
            }
            Err(denied) => return Reply::Denied(denied),
        }
        if let Some(entry) = self.stored.get_mut(name) {
            entry.expires = entry.expires.max(now + ttl);
        }
        Reply::Done(Done::Plain)
    }

    fn release(&mut self, name: &Name, token: &Token) -> Reply {
        match self.check_holder(name, token) {
            Err(Denied::Taken) if self.injected_bug == Some(InjectedBug::BlindDelete) => {}
            Err(denied) => return Reply::Denied(denied),
            Ok(()) => {}
        }
        self.stored.remove(name);
        Reply::Done(Done::Plain)
    }

    fn check_holder(&self, name: &Name, token: &Token) -> Result<(), Denied> {
        match self.stored.get(name) {
            None => Err(Denied::Gone),
            Some(entry) if entry.value.starts_with(token.as_str()) => Ok(()),
            Some(_) => Err(Denied::Taken),
        }
    }

    fn view(&self, name: &Name, now: Wall) -> View {
        let entry = self.stored.get(name);
        View {
            content: entry.map_or(Content::Free, |entry| Content::from_value(entry.value.as_bytes())),
            left: entry.map(|entry| entry.expires.since(now)),
            counter: self.counters.get(name).copied(),
        }
    }
}
