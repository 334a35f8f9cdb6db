//! The last events, in memory, for readers that follow them.

use crate::auth::caller::Caller;
use crate::events::event_json::event_fields;
use crate::json::now_ms;
use quorlock::{Event, LossReason, Name, Observer, ReleaseKind, ReleaseOutcome};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How many events are kept, of those that are routine and of the others.
const CAPACITY: usize = 1000;

/// An event and when it happened.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    at: u64,
    event: Event,
    /// The caller that asked for it, for a forced release.
    caller: Option<Caller>,
}

impl Entry {
    pub(crate) fn kind(&self) -> &'static str {
        self.event.kind()
    }

    fn text(&self) -> String {
        match &self.caller {
            None => self.event.to_string(),
            Some(Caller { source, secret: None, .. }) => {
                format!("{}, asked for from {source} without a secret", self.event)
            }
            Some(Caller { source, secret: Some(secret), .. }) => {
                format!("{}, asked for from {source} with secret `{secret}`", self.event)
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = event_fields(&self.event);
        if let Some(caller) = &self.caller {
            object.insert("peer".into(), json!(caller.source.to_string()));
            object.insert("scope".into(), json!(caller.scope));
            object.insert("secret".into(), json!(caller.secret.as_deref()));
        }
        object.insert("seq".into(), json!(self.seq));
        object.insert("at".into(), json!(self.at));
        object.insert("kind".into(), json!(self.kind()));
        object.insert("text".into(), json!(self.text()));
        Value::Object(object)
    }
}

/// The events after a given number.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Whether events are missing before these.
    pub(crate) has_gap: bool,
    pub(crate) entries: Vec<Arc<Entry>>,
}

/// The last events.
#[derive(Debug)]
pub(crate) struct EventLog {
    buffers: Mutex<Buffers>,
    newest: watch::Sender<u64>,
}

/// Two buffers, so that routine events do not push out the others.
#[derive(Debug)]
struct Buffers {
    /// The number before the first event of this run.
    before: u64,
    last: u64,
    main: RingBuffer,
    routine: RingBuffer,
    last_loss: Option<(Instant, String)>,
}

/// The last [`CAPACITY`] entries, in order.
#[derive(Debug, Default)]
struct RingBuffer {
    entries: VecDeque<Arc<Entry>>,
    /// The number of the last entry that was dropped.
    dropped: u64,
}

impl RingBuffer {
    fn push(&mut self, entry: Entry) {
        if self.entries.len() >= CAPACITY
            && let Some(oldest) = self.entries.pop_front()
        {
            self.dropped = oldest.seq;
        }
        self.entries.push_back(Arc::new(entry));
    }

    fn after(&self, seq: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.range(self.entries.partition_point(|entry| entry.seq <= seq)..)
    }
}

impl EventLog {
    /// A log whose first event has the number after `before`, which must be above all numbers of an
    /// earlier run: a reader of that run would otherwise miss the first events of this one.
    pub(crate) fn starting_after(before: u64) -> Self {
        let buffer = || RingBuffer { dropped: before, ..RingBuffer::default() };
        let buffers = Buffers { before, last: before, main: buffer(), routine: buffer(), last_loss: None };
        Self { buffers: Mutex::new(buffers), newest: watch::Sender::new(before) }
    }

    /// The number of the newest event, and a receiver that is notified of newer ones.
    pub(crate) fn subscribe(&self) -> (u64, watch::Receiver<u64>) {
        let buffers = self.buffers();
        (buffers.last, self.newest.subscribe())
    }

    /// All events after `seq`; 0 means from the beginning. A number that this run did not give out is
    /// from before a restart: then all events are returned.
    pub(crate) fn after(&self, seq: u64, with_routine: bool) -> Batch {
        let buffers = self.buffers();
        let is_ours = seq == 0 || (buffers.before..=buffers.last).contains(&seq);
        let seq = if is_ours { seq.max(buffers.before) } else { buffers.before };
        let mut entries: Vec<_> = buffers.main.after(seq).cloned().collect();
        let mut has_gap = !is_ours || buffers.main.dropped > seq;
        if with_routine {
            entries.extend(buffers.routine.after(seq).cloned());
            entries.sort_by_key(|entry| entry.seq);
            has_gap |= buffers.routine.dropped > seq;
        }
        Batch { has_gap, entries }
    }

    /// Records a forced release, with the caller that asked for it.
    pub(crate) fn record_force_release(&self, name: &Name, outcome: &ReleaseOutcome, caller: &Caller) {
        let outcome = match outcome {
            ReleaseOutcome::Released => ReleaseKind::Released,
            ReleaseOutcome::AlreadyGone => ReleaseKind::AlreadyGone,
            _ => ReleaseKind::Unconfirmed,
        };
        let event = Event::ForceReleased { name: name.clone(), outcome };
        self.push(&event, Some(caller.clone()));
    }

    fn push(&self, event: &Event, caller: Option<Caller>) {
        let at = now_ms();
        let seq = {
            let mut buffers = self.buffers();
            buffers.last += 1;
            let seq = buffers.last;
            if let Event::Lost { name, reason, .. } = event
                && !matches!(reason, LossReason::Released | LossReason::LeaseExpired)
            {
                buffers.last_loss = Some((Instant::now(), name.to_string()));
            }
            let buffer = if event.is_routine() { &mut buffers.routine } else { &mut buffers.main };
            buffer.push(Entry { seq, at, event: event.clone(), caller });
            seq
        };
        if self.newest.receiver_count() > 0 {
            self.newest.send_replace(seq);
        }
    }

    /// The lock that was lost last, if that is at most `span` ago.
    pub(crate) fn last_loss_within(&self, span: Duration) -> Option<String> {
        let buffers = self.buffers();
        let (when, name) = buffers.last_loss.as_ref()?;
        (when.elapsed() <= span).then(|| name.clone())
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for EventLog {
    fn on_event(&self, event: &Event) {
        // The force-release route records these with their callers.
        if !matches!(event, Event::ForceReleased { .. }) {
            self.push(event, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock_jumped(log: &EventLog) {
        log.on_event(&Event::ClockJumped { by: Duration::from_secs(1) });
    }

    #[test]
    fn a_reader_gets_later_events_and_learns_of_dropped_ones() {
        let log = EventLog::starting_after(0);
        (0..CAPACITY + 5).for_each(|_| clock_jumped(&log));
        let batch = log.after(0, false);
        assert!(batch.has_gap);
        assert_eq!((batch.entries.len(), batch.entries[0].seq), (CAPACITY, 6));
        let batch = log.after(1000, false);
        assert!(!batch.has_gap);
        assert_eq!(batch.entries.len(), 5);
        assert!(log.after(1005, true).entries.is_empty());
    }

    #[test]
    fn a_number_from_before_a_restart_replays_all() {
        let log = EventLog::starting_after(50);
        clock_jumped(&log);
        for (seen, has_gap, count) in
            [(0, false, 1), (13, true, 1), (50, false, 1), (51, false, 0), (77, true, 1)]
        {
            let batch = log.after(seen, false);
            assert_eq!((batch.has_gap, batch.entries.len()), (has_gap, count), "{seen}");
        }
    }
}
