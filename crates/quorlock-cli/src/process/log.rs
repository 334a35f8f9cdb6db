//! The log: what the library and the sidecar report through `tracing`, on stderr, as text or as
//! JSON lines.

use crate::output::failure::Failure;
use std::env;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The variable with the filter, as `tracing-subscriber` reads it: `info`, `quorlock=debug`.
const FILTER: &str = "QUORLOCK_LOG";
/// How many lines wait for a slow reader of stderr. Further lines are dropped and counted.
const MAX_LINES: usize = 1000;
/// How long the end of the program waits for lines that are not written yet.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The log of this process, if it has one.
#[derive(Debug)]
pub(crate) struct Log(Option<SyncSender<Message>>);

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

impl Log {
    /// Starts the log with the filter in `QUORLOCK_LOG`, else at the level `default`. Without
    /// either there is no log.
    ///
    /// # Errors
    /// The value of `QUORLOCK_LOG` is no filter.
    pub(crate) fn start(default: Option<&str>, json: bool) -> Result<Self, Failure> {
        let given = env::var(FILTER).ok().filter(|filter| !filter.is_empty());
        let Some(filter) = given.as_deref().or(default) else { return Ok(Self(None)) };
        let filter = EnvFilter::builder().parse(filter).map_err(|error| {
            Failure::usage(format!("{FILTER} is no filter: {error}")).help(
                "write a level (error, warn, info, debug, trace), or levels by target such as quorlock=debug",
            )
        })?;
        let (lines, written) = sync_channel(MAX_LINES);
        let dropped = Arc::new(AtomicU64::new(0));
        let queue = LineQueue { lines: lines.clone(), dropped: dropped.clone(), json };
        let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(queue);
        let started = if json {
            let builder = builder.json().flatten_event(true).with_span_list(false);
            tracing::subscriber::set_global_default(builder.finish())
        } else {
            tracing::subscriber::set_global_default(builder.finish())
        };
        if started.is_err() {
            return Ok(Self(None));
        }
        thread::spawn(move || write_lines(&written, &dropped, json));
        Ok(Self(Some(lines)))
    }

    /// Waits until all lines are written, for a second at most: the reader may be stuck.
    pub(crate) fn flush(&self) {
        let Some(lines) = &self.0 else { return };
        let (done, written) = sync_channel(1);
        if lines.try_send(Message::Flush(done)).is_ok() {
            let _ = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Sends lines to the thread that writes them: a stuck reader of stderr must not stop the locks.
#[derive(Clone, Debug)]
struct LineQueue {
    lines: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
    json: bool,
}

impl<'a> MakeWriter<'a> for LineQueue {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Write for LineQueue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // JSON has its own escapes.
        let text = if self.json { line.to_vec() } else { escaped(line).into_bytes() };
        if self.lines.try_send(Message::Line(text)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_lines(messages: &Receiver<Message>, dropped: &AtomicU64, json: bool) {
    for message in messages {
        match message {
            Message::Line(line) => {
                let _ = io::stderr().write_all(&line);
            }
            Message::Flush(done) => drop(done),
        }
        let count = dropped.swap(0, Ordering::Relaxed);
        if count > 0 {
            let _ = io::stderr().write_all(dropped_line(count, json).as_bytes());
        }
    }
}

/// The line that reports dropped lines.
fn dropped_line(count: u64, json: bool) -> String {
    let message = "log lines were dropped: stderr is too slow";
    if json {
        let line =
            serde_json::json!({ "level": "WARN", "message": message, "count": count, "target": "quorlock" });
        return format!("{line}\n");
    }
    format!(" WARN quorlock: {message} count={count}\n")
}

/// `line` with its control characters escaped, so that they cannot move a cursor or begin another line.
fn escaped(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let body = text.strip_suffix('\n').unwrap_or(&text);
    let mut safe = String::with_capacity(body.len() + 1);
    for letter in body.chars() {
        if letter.is_control() {
            safe.extend(letter.escape_default());
        } else {
            safe.push(letter);
        }
    }
    safe.push('\n');
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_and_moves_no_cursor() {
        assert_eq!(escaped(b"a\nb\r\x1b[2Kc\x7f\xc2\x9bd\n"), "a\\nb\\r\\u{1b}[2Kc\\u{7f}\\u{9b}d\n");
        assert_eq!(escaped("grüße".as_bytes()), "grüße\n");
    }

    #[test]
    fn lines_that_do_not_fit_are_counted_and_block_nothing() {
        let (lines, written) = sync_channel(1);
        let dropped = Arc::new(AtomicU64::new(0));
        let mut queue = LineQueue { lines, dropped: dropped.clone(), json: false };
        for _ in 0..3 {
            queue.write_all(b"line\n").unwrap();
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 2);
        drop(written);
        assert!(serde_json::from_str::<serde_json::Value>(&dropped_line(2, true)).is_ok());
    }
}
