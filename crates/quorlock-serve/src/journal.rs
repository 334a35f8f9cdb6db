//! The last events, for whoever reads along.

use crate::access::Caller;
use crate::told::{fields, is_chatter, kind, text};
use crate::view::now_ms;
use quorlock::{Event, Loss, Name, Observer};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// So many events of each kind, rare and frequent, are kept.
const KEPT: usize = 1000;

/// An event and when it happened.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) seq: u64,
    at: u64,
    event: Event,
    /// Who asked for it, for a forced release.
    caller: Option<Caller>,
}

impl Entry {
    pub(crate) fn kind(&self) -> &'static str {
        kind(&self.event)
    }

    fn text(&self) -> String {
        let text = text(&self.event);
        match &self.caller {
            None => text,
            Some(Caller { source, secret: None, .. }) => {
                format!("{text}, asked for from {source} without a secret")
            }
            Some(Caller { source, secret: Some(secret), .. }) => {
                format!("{text}, asked for from {source} with secret `{secret}`")
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = fields(&self.event);
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

/// What a reader gets who has read up to some number.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Whether something is missing before these.
    pub(crate) has_gap: bool,
    pub(crate) entries: Vec<Arc<Entry>>,
}

/// The last events.
#[derive(Debug)]
pub(crate) struct Journal {
    pages: Mutex<Pages>,
    newest: watch::Sender<u64>,
}

#[derive(Debug)]
struct Pages {
    before: u64,
    last: u64,
    rare: Page,
    chatter: Page,
    last_loss: Option<(Instant, String)>,
}

/// Some of the events, in their order.
#[derive(Debug, Default)]
struct Page {
    kept: VecDeque<Arc<Entry>>,
    /// The number of the last that was dropped.
    dropped: u64,
}

impl Page {
    fn write(&mut self, entry: Entry) {
        if self.kept.len() >= KEPT
            && let Some(oldest) = self.kept.pop_front()
        {
            self.dropped = oldest.seq;
        }
        self.kept.push_back(Arc::new(entry));
    }

    fn after(&self, seq: u64) -> impl Iterator<Item = &Arc<Entry>> {
        self.kept.range(self.kept.partition_point(|entry| entry.seq <= seq)..)
    }
}

impl Journal {
    /// A journal whose first event has the number behind `before`. It must be above all that an earlier run gave out, or a
    /// reader of that one would miss the first events of this.
    pub(crate) fn beginning_at(before: u64) -> Self {
        let page = || Page { dropped: before, ..Page::default() };
        let pages = Pages { before, last: before, rare: page(), chatter: page(), last_loss: None };
        Self { pages: Mutex::new(pages), newest: watch::Sender::new(before) }
    }

    /// The number of the newest event, and a way to wait for newer ones.
    pub(crate) fn listen(&self) -> (u64, watch::Receiver<u64>) {
        let pages = self.pages();
        (pages.last, self.newest.subscribe())
    }

    /// Everything after `seq`; zero is for the beginning. A number that was never given out is from before a restart: all is
    /// news then.
    pub(crate) fn after(&self, seq: u64, with_chatter: bool) -> News {
        let pages = self.pages();
        let is_ours = seq == 0 || (pages.before..=pages.last).contains(&seq);
        let seq = if is_ours { seq.max(pages.before) } else { pages.before };
        let mut entries: Vec<_> = pages.rare.after(seq).cloned().collect();
        let mut has_gap = !is_ours || pages.rare.dropped > seq;
        if with_chatter {
            entries.extend(pages.chatter.after(seq).cloned());
            entries.sort_by_key(|entry| entry.seq);
            has_gap |= pages.chatter.dropped > seq;
        }
        News { has_gap, entries }
    }

    /// Takes note of a forced release, and who asked for it.
    pub(crate) fn note_forced(&self, name: &Name, outcome: &'static str, caller: &Caller) {
        let event = Event::ForceReleased { name: name.clone(), outcome };
        self.write(&event, Some(caller.clone()));
    }

    fn write(&self, event: &Event, caller: Option<Caller>) {
        let at = now_ms();
        let seq = {
            let mut pages = self.pages();
            pages.last += 1;
            let seq = pages.last;
            if let Event::Lost { name, loss, .. } = event
                && !matches!(loss, Loss::Released | Loss::LeaseExpired)
            {
                pages.last_loss = Some((Instant::now(), name.to_string()));
            }
            let page = if is_chatter(event) { &mut pages.chatter } else { &mut pages.rare };
            page.write(Entry { seq, at, event: event.clone(), caller });
            seq
        };
        if self.newest.receiver_count() > 0 {
            self.newest.send_replace(seq);
        }
    }

    /// The lock that was lost last, if that is at most `span` ago.
    pub(crate) fn lost_within(&self, span: Duration) -> Option<String> {
        let pages = self.pages();
        let (when, name) = pages.last_loss.as_ref()?;
        (when.elapsed() <= span).then(|| name.clone())
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Journal {
    fn on_event(&self, event: &Event) {
        // The route that forces releases writes them with their callers.
        if !matches!(event, Event::ForceReleased { .. }) {
            self.write(event, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jumped(journal: &Journal) {
        journal.on_event(&Event::ClockJumped { by: Duration::from_secs(1) });
    }

    #[test]
    fn a_reader_gets_what_came_after_and_learns_of_what_was_dropped() {
        let journal = Journal::beginning_at(0);
        (0..KEPT + 5).for_each(|_| jumped(&journal));
        let news = journal.after(0, false);
        assert!(news.has_gap);
        assert_eq!((news.entries.len(), news.entries[0].seq), (KEPT, 6));
        let news = journal.after(1000, false);
        assert!(!news.has_gap);
        assert_eq!(news.entries.len(), 5);
        assert!(journal.after(1005, true).entries.is_empty());
    }

    #[test]
    fn a_number_from_before_a_restart_replays_all() {
        let journal = Journal::beginning_at(50);
        jumped(&journal);
        for (seen, has_gap, count) in
            [(0, false, 1), (13, true, 1), (50, false, 1), (51, false, 0), (77, true, 1)]
        {
            let news = journal.after(seen, false);
            assert_eq!((news.has_gap, news.entries.len()), (has_gap, count), "{seen}");
        }
    }
}
