//! What the znode of a name holds: lines of text that an operator can read, too.
//!
//! ```text
//! quorlock 1
//! counter 1794787913156479
//! hold exclusive 30000 - 797416f3a4215f91bf04d6dd39362875 1794787913156479 ann@web1 ...
//! no-readers 2000 8589934593:1794787913157
//! slots 4
//! refused 5 8589934593:1794787913157
//! ```
//!
//! A hold has its ttl in milliseconds and by which write it was made or extended: `-` is the last write of
//! the znode, and any other is given by its number and the time of the leader.

use crate::node::NodeError;
use crate::node::zookeeper::client::jute::Stat;
use quorlock_core::{Fence, Mode};
use std::fmt::Write;
use std::time::Duration;

/// The first line. Another number is another format.
const FORMAT: &str = "quorlock 1";

/// A write of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) zxid: i64,
    /// The wall clock of the leader, in milliseconds.
    pub(crate) mtime: i64,
}

impl From<Stat> for Written {
    fn from(stat: Stat) -> Self {
        Self { zxid: stat.mzxid, mtime: stat.mtime }
    }
}

/// A time that began with a write; `None` is the write that stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) length: Duration,
    pub(crate) since: Option<Written>,
}

impl Span {
    /// Begins with the write that stores it.
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, since: None }
    }
}

/// What the znode of a name holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) counter: Option<Fence>,
    pub(crate) holds: Vec<StoredHold>,
    /// While it lasts, new shared holders are refused.
    pub(crate) no_readers: Option<Span>,
    pub(crate) slots: Option<StoredSlots>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredHold {
    pub(crate) mode: Mode,
    /// Token, fence and label.
    pub(crate) value: String,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoredSlots {
    pub(crate) count: u32,
    /// How many slots the client counts that was refused last, and when that was.
    pub(crate) refused: Option<(u32, Span)>,
}

impl StoredHold {
    pub(crate) fn token(&self) -> &str {
        self.value.split(' ').next().unwrap_or_default()
    }
}

impl Stored {
    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{FORMAT}\n");
        if let Some(counter) = self.counter {
            put(&mut text, format_args!("counter {counter}"));
        }
        for StoredHold { mode, value, span } in &self.holds {
            let mode = if *mode == Mode::Shared { "shared" } else { "exclusive" };
            // A label is one line, whoever made it.
            let value = value.replace(['\n', '\r'], " ");
            put(&mut text, format_args!("hold {mode} {} {} {value}", millis(span.length), Since(span.since)));
        }
        if let Some(span) = self.no_readers {
            put(&mut text, format_args!("no-readers {} {}", millis(span.length), Since(span.since)));
        }
        if let Some(StoredSlots { count, refused }) = self.slots {
            put(&mut text, format_args!("slots {count}"));
            if let Some((count, span)) = refused {
                put(&mut text, format_args!("refused {count} {}", Since(span.since)));
            }
        }
        text
    }

    /// What `data` means, which `stat` was read with: every span begins with a write that is named.
    ///
    /// # Errors
    /// [`NodeError::WrongType`] if it was not written by us.
    pub(crate) fn parse(data: &[u8], stat: Stat) -> Result<Self, NodeError> {
        let mut stored = Stored::default();
        // A znode that only has others below it.
        if data.is_empty() {
            return Ok(stored);
        }
        let text = std::str::from_utf8(data).map_err(|_| foreign())?;
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return Err(foreign());
        }
        lines.try_for_each(|line| stored.read_line(line, stat.into())).ok_or_else(foreign)?;
        Ok(stored)
    }

    fn read_line(&mut self, line: &str, this: Written) -> Option<()> {
        let (key, rest) = line.split_once(' ')?;
        let mut words = rest.splitn(4, ' ');
        match key {
            "counter" => self.counter = Some(Fence::try_from(rest.parse::<u64>().ok()?).ok()?),
            "hold" => {
                let mode = match words.next()? {
                    "shared" => Mode::Shared,
                    "exclusive" => Mode::Exclusive,
                    _ => return None,
                };
                let span = read_span(words.next()?, words.next()?, this)?;
                self.holds.push(StoredHold { mode, value: words.next()?.to_owned(), span });
            }
            "no-readers" => self.no_readers = Some(read_span(words.next()?, words.next()?, this)?),
            "slots" => self.slots = Some(StoredSlots { count: rest.parse().ok()?, refused: None }),
            "refused" => {
                let count = words.next()?.parse().ok()?;
                self.slots.as_mut()?.refused = Some((count, read_span("0", words.next()?, this)?));
            }
            _ => return None,
        }
        Some(())
    }

    /// The same after it was stored by `write`: every span begins with a write that is named.
    pub(crate) fn stored_by(mut self, write: Written) -> Self {
        self.spans_mut().for_each(|span| span.since = span.since.or(Some(write)));
        self
    }

    /// Everything that lasts for a time.
    fn spans_mut(&mut self) -> impl Iterator<Item = &mut Span> {
        let refused = self.slots.as_mut().and_then(|slots| slots.refused.as_mut());
        let holds = self.holds.iter_mut().map(|hold| &mut hold.span);
        holds.chain(&mut self.no_readers).chain(refused.map(|(_, span)| span))
    }
}

struct Since(Option<Written>);

impl std::fmt::Display for Since {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("-"),
            Some(Written { zxid, mtime }) => write!(f, "{zxid}:{mtime}"),
        }
    }
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{line}");
}

/// Never less than `span`.
fn millis(span: Duration) -> u128 {
    span.as_nanos().div_ceil(1_000_000)
}

fn read_span(length: &str, since: &str, this: Written) -> Option<Span> {
    let since = match since.split_once(':') {
        None if since == "-" => this,
        None => return None,
        Some((zxid, mtime)) => Written { zxid: zxid.parse().ok()?, mtime: mtime.parse().ok()? },
    };
    Some(Span { length: Duration::from_millis(length.parse().ok()?), since: Some(since) })
}

fn foreign() -> NodeError {
    NodeError::WrongType { message: "a znode of this name was not written by quorlock".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: Stat = Stat { czxid: 1, mzxid: 70, ctime: 2, mtime: 900, version: 3, children: 0 };

    fn full() -> Stored {
        let span = |millis, since| Span { length: Duration::from_millis(millis), since };
        let earlier = Some(Written { zxid: 60, mtime: 800 });
        let hold = |mode, value: &str, span| StoredHold { mode, value: value.to_owned(), span };
        Stored {
            counter: Some(Fence::new(50)),
            holds: vec![
                hold(Mode::Shared, "token 5 ann@web 7 9 for a reason", span(30_000, earlier)),
                hold(Mode::Exclusive, "other 6 bob", span(1, None)),
            ],
            no_readers: Some(span(2_000, None)),
            slots: Some(StoredSlots { count: 4, refused: Some((5, span(0, earlier))) }),
        }
    }

    #[test]
    fn what_is_stored_is_read_back_and_its_own_write_is_named() {
        let read = Stored::parse(full().encode().as_bytes(), STAT).unwrap();
        assert_eq!(read, full().stored_by(STAT.into()));
        assert_eq!(Stored::parse(read.encode().as_bytes(), STAT).unwrap(), read);
        assert_eq!(Stored::parse(b"", STAT).unwrap(), Stored::default());
        assert_eq!(Stored::parse(Stored::default().encode().as_bytes(), STAT).unwrap(), Stored::default());
    }

    #[test]
    fn a_span_is_never_stored_shorter() {
        assert_eq!([millis(Duration::from_nanos(1)), millis(Duration::from_millis(7))], [1, 7]);
    }

    #[test]
    fn what_others_wrote_is_refused() {
        for data in [
            "x",
            "quorlock 2\n",
            "quorlock 1\nhold exclusive 5",
            "quorlock 1\nhold odd 5 - a",
            "quorlock 1\nmore 1",
        ] {
            assert!(Stored::parse(data.as_bytes(), STAT).is_err(), "{data}");
        }
    }

    mod property {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            #[test]
            fn any_bytes_are_read_or_refused(data: Vec<u8>, lines: Vec<String>) {
                let _ = Stored::parse(&data, STAT);
                let _ = Stored::parse(format!("{FORMAT}\n{}", lines.join("\n")).as_bytes(), STAT);
            }
        }
    }
}
