//! One connection between a client process and a server: what is on its way, and what has arrived.

use crate::rng::Rng;
use std::collections::VecDeque;
use std::task::Waker;
use tokio::time::Instant;

/// What travels in one direction.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    Bytes(Vec<u8>),
    /// The other side closed the connection.
    End,
    /// The connection is broken.
    Reset,
}

/// Segments on their way, in the order in which they arrive.
#[derive(Debug)]
pub(crate) struct Direction {
    segments: VecDeque<(Instant, Segment)>,
    /// When the last one arrives.
    last: Instant,
    /// Whether the last one ends it: nothing is sent behind that.
    has_ended: bool,
}

impl Direction {
    fn new() -> Self {
        Self { segments: VecDeque::new(), last: Instant::now(), has_ended: false }
    }

    /// Sends `segment`, which arrives at `at` or behind what was sent before; returns when. Behind the end
    /// of the direction nothing arrives.
    pub(crate) fn send(&mut self, at: Instant, segment: Segment) -> Instant {
        if !self.has_ended {
            self.has_ended = !matches!(segment, Segment::Bytes(_));
            self.last = self.last.max(at);
            self.segments.push_back((self.last, segment));
        }
        self.last
    }

    /// When everything has arrived.
    pub(crate) fn last_arrival(&self) -> Instant {
        self.last
    }

    /// The next segment that is due.
    pub(crate) fn arrived(&mut self) -> Option<Segment> {
        let (at, _) = self.segments.front()?;
        if *at > Instant::now() {
            return None;
        }
        self.segments.pop_front().map(|(_, segment)| segment)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Loses everything on its way but a random number of bytes, and ends with `last`.
    pub(crate) fn cut(&mut self, rng: &mut Rng, last: Segment) {
        let all: Vec<u8> = self
            .segments
            .drain(..)
            .flat_map(|(_, segment)| if let Segment::Bytes(bytes) = segment { bytes } else { Vec::new() })
            .collect();
        // All, none, or a part that may end within a command or reply.
        let kept = match rng.below(3) {
            0 => 0,
            1 => all.len(),
            _ => usize::try_from(rng.below(all.len() as u64 + 1)).unwrap(),
        };
        let at = self.last;
        self.has_ended = false;
        if kept > 0 {
            self.send(at, Segment::Bytes(all[..kept].to_vec()));
        }
        self.send(at, last);
    }
}

/// How the client's end of a connection was closed from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The server closed it: the client reads an end of file.
    ByServer,
    /// The client reads and writes get an error.
    Broken,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    /// The server's number for it; `None` once the server has no such connection.
    pub(crate) server_side: Option<u64>,
    pub(crate) requests: Direction,
    pub(crate) replies: Direction,
    /// What has arrived and was not read yet.
    pub(crate) inbox: VecDeque<u8>,
    pub(crate) closed: Option<Closed>,
    /// When the client dropped its end.
    pub(crate) dropped_at: Option<Instant>,
    /// A reply broke off: nothing more comes.
    pub(crate) is_silent: bool,
    pub(crate) since: Instant,
    pub(crate) reader: Option<Waker>,
    pub(crate) writer: Option<Waker>,
}

impl Connection {
    pub(crate) fn new(server_side: u64) -> Self {
        Self {
            server_side: Some(server_side),
            requests: Direction::new(),
            replies: Direction::new(),
            inbox: VecDeque::new(),
            closed: None,
            dropped_at: None,
            is_silent: false,
            since: Instant::now(),
            reader: None,
            writer: None,
        }
    }

    /// Wakes the client's task.
    pub(crate) fn wake(&mut self) {
        self.reader.take().into_iter().for_each(Waker::wake);
        self.writer.take().into_iter().for_each(Waker::wake);
    }

    /// Whether neither side can use it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.dropped_at.is_some() && self.requests.is_empty()
    }
}
