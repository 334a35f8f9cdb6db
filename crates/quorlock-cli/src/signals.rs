//! The signals that concern us: those that end us or are passed on to a command, and the news of its end.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::treatment;
use rustix::process::Signal;
use std::future::poll_fn;
use std::io;
use std::task::Poll;
use tokio::signal::unix::{self, SignalKind, signal};

/// Passed on to the command.
const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// What we were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A process that we started, or inherited, ended or stopped.
    Child,
    /// Somebody sent us this.
    Signal(Signal),
}

/// Whether `signal` ends programs that do not handle it because the user wants it so.
pub(crate) fn ends(signal: Signal) -> bool {
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal)
}

/// The signals, from the moment of [`Signals::listen`] on.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Told, unix::Signal)>);

impl Signals {
    /// Listens. What is ignored (`nohup`, jobs in the background of a script) stays ignored, also by the command.
    ///
    /// # Errors
    /// The system has no room for it.
    pub(crate) fn listen() -> Result<Self, Failure> {
        Self::open().map_err(|error| {
            Failure::new(Exit::CannotRun, "system", format!("cannot listen to signals: {error}"))
        })
    }

    fn open() -> io::Result<Self> {
        let mut streams = vec![(Told::Child, signal(SignalKind::child())?)];
        for passed in PASSED_ON {
            if !treatment::is_ignored(passed) {
                let stream = signal(SignalKind::from_raw(passed.as_raw()))?;
                streams.push((Told::Signal(passed), stream));
            }
        }
        Ok(Self(streams))
    }

    /// The next of them.
    ///
    /// # Cancel safety
    /// Cancel safe: what was not taken stays.
    pub(crate) async fn next(&mut self) -> Told {
        poll_fn(|cx| {
            let told = self.0.iter_mut().find_map(|(told, stream)| match stream.poll_recv(cx) {
                Poll::Ready(Some(())) => Some(*told),
                _ => None,
            });
            told.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// The next that ends programs.
    ///
    /// # Cancel safety
    /// As [`Signals::next`].
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            if let Told::Signal(signal) = self.next().await
                && ends(signal)
            {
                return signal;
            }
        }
    }
}
