//! The signals that we receive: those that end us or are forwarded to a command, and SIGCHLD.

use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::signal_disposition;
use rustix::process::Signal;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind, signal};

/// The signals that are forwarded to the command.
const FORWARDED: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Received {
    /// A process that we started, or inherited, ended or stopped.
    ChildChanged,
    /// A signal that is forwarded to the command.
    Signal(Signal),
}

/// Whether `signal` asks a program to end.
pub(crate) fn is_termination(signal: Signal) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// All signals since [`Signals::listen`].
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Received, unix::Signal)>);

impl Signals {
    /// Starts to listen. Signals that are ignored (`nohup`, background jobs of a script) stay
    /// ignored, by the command as well.
    ///
    /// # Errors
    /// The system lacks the resources.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::open().map_err(|error| {
            Failure::new(Exit::CannotRun, "system", format!("cannot listen to signals: {error}"))
        })
    }

    fn open() -> io::Result<Self> {
        let mut streams = vec![(Received::ChildChanged, signal(SignalKind::child())?)];
        for forwarded in FORWARDED {
            if !signal_disposition::is_ignored(forwarded) {
                let stream = signal(SignalKind::from_raw(forwarded.as_raw()))?;
                streams.push((Received::Signal(forwarded), stream));
            }
        }
        Ok(Self(streams))
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Cancel safe: a signal that was not returned stays.
    pub(crate) async fn next(&mut self) -> Received {
        poll_fn(|cx| {
            let received = self.0.iter_mut().find_map(|(received, stream)| match stream.poll_recv(cx) {
                Poll::Ready(Some(())) => Some(*received),
                _ => None,
            });
            received.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Waits for the next signal that asks a program to end.
    ///
    /// # Cancel safety
    /// As [`Signals::next`].
    pub(crate) async fn termination(&mut self) -> Signal {
        loop {
            if let Received::Signal(signal) = self.next().await
                && is_termination(signal)
            {
                return signal;
            }
        }
    }
}
