//! Tells people of trouble as it happens, without holding anybody up.

use crate::screen::Screen;
use quorlock::{Event, Loss, Observer};
use quorlock_serve::event_text;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// So many lines wait for a terminal or log that is slow; more are dropped.
const MOST_LINES: usize = 1000;

/// Hands events to the thread that writes them.
#[derive(Debug)]
pub(super) struct Teller {
    lines: SyncSender<Line>,
    verbose: bool,
}

enum Line {
    Note(String),
    Warning(String),
}

impl Teller {
    /// Starts the thread. It ends with the teller.
    pub(super) fn start(screen: Screen) -> Self {
        let (lines, written) = sync_channel(MOST_LINES);
        thread::spawn(move || write(&written, screen));
        Self { lines, verbose: screen.verbose }
    }
}

impl Observer for Teller {
    fn on_event(&self, event: &Event) {
        let line = match event {
            // The end of a lease that its caller did not extend is no trouble.
            Event::Lost { loss: Loss::LeaseExpired, .. } if !self.verbose => return,
            Event::Lost { loss: Loss::LeaseExpired, .. } => Line::Note(event_text(event)),
            Event::NodeDown { .. }
            | Event::NodeQuarantined { .. }
            | Event::NodeReplicated { .. }
            | Event::Lost { .. }
            | Event::ExtendFailed { .. }
            | Event::ClockSkew { .. }
            | Event::ClockJumped { .. } => Line::Warning(event_text(event)),
            Event::NodeUp { .. } => Line::Note(event_text(event)),
            _ if self.verbose => Line::Note(event_text(event)),
            _ => return,
        };
        // A reader that is stuck must not stop the locks.
        let _ = self.lines.try_send(line);
    }
}

fn write(lines: &Receiver<Line>, screen: Screen) {
    for line in lines {
        match line {
            Line::Note(text) => screen.note(text),
            Line::Warning(text) => screen.warn(text),
        }
    }
}
