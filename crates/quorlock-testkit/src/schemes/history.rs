//! What happened in a run, and what of it should not have.

use crate::schemes::scheme::Flaw;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many lines back a trace may begin.
const RECENT: usize = 400;

/// One try of one client: its number, and which of its tries.
pub(crate) type Try = (usize, u64);

/// How often each thing went wrong, in a number of acquisitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Locks granted, or updates made where there is no lock.
    pub acquisitions: u64,
    /// Two clients that held the lock by the scheme's own rules at the same moment.
    pub double_holds: u64,
    /// A lock that stayed taken for 10 ttl although no client held it.
    pub deadlocks: u64,
    /// Writes that overwrote what their writer had not seen.
    pub lost_updates: u64,
    /// The same at a resource that checks the fence at the write.
    pub lost_when_writes_are_fenced: u64,
    /// The same at a resource that checks the fence at the read and at the write.
    pub lost_when_fenced: u64,
    /// Tries that ended without a lock or update.
    pub gave_up: u64,
    /// How long no server answered.
    pub unavailable: Duration,
    /// Simulated time.
    pub lasted: Duration,
}

impl Tally {
    /// Adds another tally to this one.
    pub fn add(&mut self, other: &Tally) {
        self.acquisitions += other.acquisitions;
        self.double_holds += other.double_holds;
        self.deadlocks += other.deadlocks;
        self.lost_updates += other.lost_updates;
        self.lost_when_writes_are_fenced += other.lost_when_writes_are_fenced;
        self.lost_when_fenced += other.lost_when_fenced;
        self.gave_up += other.gave_up;
        self.unavailable += other.unavailable;
        self.lasted += other.lasted;
    }
}

#[derive(Debug)]
struct Line {
    at: Duration,
    /// `None`: the servers.
    who: Option<Try>,
    /// Changed the lock or the protected value.
    is_effect: bool,
    text: String,
}

/// A belief to hold the lock, which ends by itself.
#[derive(Debug)]
struct Belief {
    who: Try,
    until: Duration,
}

/// The record of one run.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) tally: Tally,
    lines: Vec<Line>,
    beliefs: Vec<Belief>,
    /// When a client last held, or believed to hold, the lock.
    last_held: Duration,
    value: u64,
    explained: Option<Flaw>,
    shortest: Option<Vec<String>>,
}

impl History {
    /// A record that keeps the shortest trace of a flaw, if one is to be explained.
    pub(crate) fn explaining(explained: Option<Flaw>) -> Self {
        Self { explained, ..Self::default() }
    }

    pub(crate) fn record(&mut self, at: Duration, who: Option<Try>, text: String) {
        self.lines.push(Line { at, who, is_effect: false, text });
    }

    pub(crate) fn effect(&mut self, at: Duration, who: Try, text: String) {
        self.lines.push(Line { at, who: Some(who), is_effect: true, text });
    }

    /// `who` believes from `now` on, until a time of its own reckoning.
    pub(crate) fn granted(&mut self, now: Duration, who: Try, until: Duration) {
        if until <= now {
            return self.record(now, Some(who), "gets the lock too late to use it".to_owned());
        }
        self.tally.acquisitions += 1;
        self.record(now, Some(who), format!("holds the lock for {:.3} s", (until - now).as_secs_f64()));
        self.beliefs.retain(|belief| belief.until > now);
        let others: Vec<Try> = self.beliefs.iter().map(|belief| belief.who).collect();
        for other in others {
            self.tally.double_holds += 1;
            // Between the two, the first holder lost the lock.
            let from = self.first_effect(other).min(self.first_effect(who)).unwrap_or(now);
            let text = format!("clients {} and {} both hold the lock", other.0, who.0);
            self.flawed(Flaw::DoubleHold, from, now, &[other, who], text);
        }
        self.beliefs.push(Belief { who, until });
        self.last_held = self.last_held.max(until);
    }

    /// `who` no longer believes, if it did.
    pub(crate) fn released(&mut self, now: Duration, who: Try) {
        let Some(at) = self.beliefs.iter().position(|belief| belief.who == who) else { return };
        let until = self.beliefs.remove(at).until;
        if self.beliefs.iter().all(|belief| belief.until <= now) {
            self.last_held = until.min(now);
        }
    }

    /// How long no client has held the lock.
    pub(crate) fn idle(&self, now: Duration) -> Duration {
        now.saturating_sub(self.last_held)
    }

    pub(crate) fn deadlocked(&mut self, now: Duration) {
        self.tally.deadlocks += 1;
        self.last_held = now;
        let last = self.lines.iter().rev().find(|line| line.is_effect);
        if let Some((from, who)) = last.and_then(|line| Some((line.at, line.who?))) {
            let text =
                "the lock is still taken and no client holds it: an operator must delete it".to_owned();
            self.flawed(Flaw::Deadlock, from, now, &[who], text);
        }
    }

    pub(crate) fn gave_up(&mut self, now: Duration, who: Try) {
        self.tally.gave_up += 1;
        let from = self.recent().iter().find(|line| line.who == Some(who)).map_or(now, |line| line.at);
        self.flawed(Flaw::GaveUp, from, now, &[who], format!("client {} gives up", who.0));
    }

    pub(crate) fn read(&self) -> u64 {
        self.value
    }

    /// Writes one more than was read at `from`.
    pub(crate) fn write(&mut self, from: Duration, now: Duration, who: Try, read: u64) {
        let is_lost = self.value != read;
        self.value = self.value.max(read) + 1;
        self.effect(now, who, format!("writes {}", read + 1));
        if is_lost {
            self.tally.lost_updates += 1;
            let text = format!("client {} overwrote what it had not seen", who.0);
            self.flawed(Flaw::LostUpdate, from, now, &[who], text);
        }
    }

    /// The shortest trace of what was to be explained, if it happened.
    pub(crate) fn into_trace(self) -> Option<Vec<String>> {
        self.shortest
    }

    fn first_effect(&self, who: Try) -> Option<Duration> {
        self.recent().iter().find(|line| line.who == Some(who) && line.is_effect).map(|line| line.at)
    }

    /// The lines that can matter for what happens now: no try spans more.
    fn recent(&self) -> &[Line] {
        &self.lines[self.lines.len().saturating_sub(RECENT)..]
    }

    fn flawed(&mut self, flaw: Flaw, from: Duration, now: Duration, parties: &[Try], text: String) {
        if self.explained != Some(flaw) {
            return;
        }
        let trace = self.trace(from, now, parties, &text);
        if self.shortest.as_ref().is_none_or(|shortest| trace.len() < shortest.len()) {
            self.shortest = Some(trace);
        }
    }

    /// Everything that the parties did, and the tries that changed something since the first of
    /// them did.
    fn trace(&self, from: Duration, now: Duration, parties: &[Try], verdict: &str) -> Vec<String> {
        let lines = self.recent();
        let (start, parties) = self.causes(from, parties);
        let is_part = |line: &&Line| line.who.is_some_and(|who| parties.contains(&who));
        let is_shown = |line: &&Line| line.at >= start && (line.who.is_none() || is_part(line));
        let mut shown: Vec<&Line> = lines.iter().filter(is_shown).collect();
        // Expiry is recorded later than it happens.
        shown.sort_by_key(|line| line.at);
        let show = |at: Duration, who: Option<Try>, text: &str| {
            let who = who.map_or("server".to_owned(), |(client, _)| format!("client {client}"));
            format!("{:>8.3} s  {who:<9} {text}", (at - start.min(at)).as_secs_f64())
        };
        let mut trace: Vec<String> = shown.iter().map(|line| show(line.at, line.who, &line.text)).collect();
        trace.push(format!("{:>8.3} s  => {verdict}", (now - start).as_secs_f64()));
        trace
    }

    /// The tries that changed something since `from`, those that did since the first of these, and
    /// so on; and the start.
    fn causes(&self, from: Duration, parties: &[Try]) -> (Duration, BTreeSet<Try>) {
        let mut parties: BTreeSet<Try> = parties.iter().copied().collect();
        let mut start = from;
        // Collected from the end: the first change of each stays.
        let firsts: BTreeMap<Try, Duration> = self.effects().rev().collect();
        loop {
            let count = parties.len();
            parties.extend(self.effects().filter(|(_, at)| *at >= start).map(|(who, _)| who));
            start = parties.iter().filter_map(|who| firsts.get(who)).fold(start, |start, at| start.min(*at));
            if parties.len() == count {
                return (start, parties);
            }
        }
    }

    fn effects(&self) -> impl DoubleEndedIterator<Item = (Try, Duration)> + '_ {
        let effects = self.recent().iter().filter(|line| line.is_effect);
        effects.filter_map(|line| Some((line.who?, line.at)))
    }
}
