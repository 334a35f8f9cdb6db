//! Acquires the lock of a command, with progress messages, and stops at once on a signal.

use crate::output::Output;
use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::signals::Signals;
use quorlock::{AcquireError, Event, Guard, Holder, Lock, Observer};
use rustix::process::Signal;
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Acquires the lock. With `no_wait` it does not wait for another holder.
///
/// # Errors
/// The lock was not acquired, or a signal came first.
pub(crate) async fn acquire_lock(
    lock: &Lock,
    no_wait: bool,
    signals: &mut Signals,
) -> Result<Guard, Failure> {
    let acquiring = async { if no_wait { lock.try_acquire().await } else { lock.acquire().await } };
    tokio::select! {
        biased;
        signal = signals.termination() => Err(interrupted(lock, signal)),
        acquired = acquiring => acquired.map_err(not_acquired),
    }
}

fn not_acquired(error: AcquireError) -> Failure {
    let ours = env::var("QUORLOCK_TOKEN").unwrap_or_default();
    let is_own = matches!(&error, AcquireError::Held { holder: Holder::Owner { token, .. }, .. } if token.as_str() == ours);
    let failure = Failure::from(error);
    if is_own {
        return failure
            .help("this command was started under that lock, so it would wait for itself: use another name");
    }
    failure
}

fn interrupted(lock: &Lock, signal: Signal) -> Failure {
    Failure::new(Exit::from(signal), "interrupted", format!("stopped waiting for lock `{}`", lock.name()))
}

/// Observes the one lock of a command: prints that it waits, and records how it was acquired.
#[derive(Clone, Debug)]
pub(crate) struct LockObserver(Arc<Observed>);

#[derive(Debug)]
struct Observed {
    output: Output,
    has_printed_wait: AtomicBool,
    votes: AtomicUsize,
    waited_ms: AtomicU64,
    extended: Notify,
}

impl LockObserver {
    pub(crate) fn new(output: Output) -> Self {
        let (has_printed_wait, votes, waited_ms, extended) = Default::default();
        Self(Arc::new(Observed { output, has_printed_wait, votes, waited_ms, extended }))
    }

    /// How many nodes had voted when the lock was granted.
    pub(crate) fn votes(&self) -> usize {
        self.0.votes.load(Ordering::Relaxed)
    }

    /// Waits until the lock was extended.
    ///
    /// # Cancel safety
    /// Cancel safe: the next call returns for an extension that this one did not return for.
    pub(crate) async fn extended(&self) {
        self.0.extended.notified().await;
    }

    pub(crate) fn waited_ms(&self) -> u64 {
        self.0.waited_ms.load(Ordering::Relaxed)
    }
}

impl Observer for LockObserver {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Acquired { votes, waited, .. } => {
                self.0.votes.store(*votes, Ordering::Relaxed);
                let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                self.0.waited_ms.store(waited, Ordering::Relaxed);
            }
            Event::Extended { .. } => self.0.extended.notify_one(),
            Event::Waiting { name, holder: Some(holder), left }
                if !self.0.has_printed_wait.swap(true, Ordering::Relaxed) =>
            {
                let left =
                    left.map(|left| format!(" ({} left unless extended)", show(left))).unwrap_or_default();
                self.0
                    .output
                    .info_on_terminal(format_args!("waiting for lock `{name}`, held by {holder}{left}"));
            }
            _ => {}
        }
    }
}
