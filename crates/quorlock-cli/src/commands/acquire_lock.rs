//! Acquires the lock of a command, with progress messages, and stops at once on a signal.

use crate::args::Sharing;
use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, subject};
use crate::process::signals::Signals;
use quorlock::{AcquireError, Event, Guard, Holder, Lock, Locker, Observer, Permit, Semaphore};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::{env, iter, slice};
use tokio::sync::Notify;

/// What a command acquires.
#[derive(Debug)]
pub(crate) enum Target {
    Lock(Lock),
    Semaphore(Semaphore),
}

impl Target {
    /// What `name` and the flags of the user describe.
    ///
    /// # Errors
    /// A name cannot be used, or there are too many.
    pub(crate) fn new(locker: &Locker, name: &str, sharing: &Sharing) -> Result<Self, Failure> {
        if let Some(slots) = sharing.slots {
            return Ok(Target::Semaphore(locker.semaphore(name, slots)?));
        }
        let lock = match sharing.also.as_slice() {
            [] => locker.named(name)?,
            also => locker.all(iter::once(name).chain(also.iter().map(String::as_str)))?,
        };
        Ok(Target::Lock(if sharing.shared { lock.shared() } else { lock }))
    }

    /// Changes the settings of the lock or of the permits.
    pub(crate) fn with(self, change: impl FnOnce(Lock) -> Lock) -> Self {
        match self {
            Target::Lock(lock) => Target::Lock(change(lock)),
            Target::Semaphore(semaphore) => Target::Semaphore(semaphore.with(change)),
        }
    }

    /// Acquires it. With `no_wait` it does not wait for another holder.
    ///
    /// # Errors
    /// It was not acquired, or a signal came first.
    pub(crate) async fn acquire(&self, no_wait: bool, signals: &mut Signals) -> Result<Guard, Failure> {
        tokio::select! {
            biased;
            signal = signals.termination() => Err(interrupted(&self.phrase(), signal)),
            acquired = self.acquire_unless_held(no_wait) => acquired.map_err(not_acquired),
        }
    }

    async fn acquire_unless_held(&self, no_wait: bool) -> Result<Guard, AcquireError> {
        match (self, no_wait) {
            (Target::Lock(lock), false) => lock.acquire().await,
            (Target::Lock(lock), true) => lock.try_acquire().await,
            (Target::Semaphore(semaphore), false) => semaphore.acquire().await.map(Permit::into_guard),
            (Target::Semaphore(semaphore), true) => semaphore.try_acquire().await.map(Permit::into_guard),
        }
    }

    fn phrase(&self) -> String {
        match self {
            Target::Lock(lock) => subject::phrase(lock.names()),
            Target::Semaphore(semaphore) => format!("semaphore `{}`", semaphore.name()),
        }
    }
}

/// Why a lock was not acquired; if we would wait for ourselves, the help says so.
pub(crate) fn not_acquired(error: AcquireError) -> Failure {
    let ours = env::var("QUORLOCK_TOKEN").unwrap_or_default();
    let is_own = match &error {
        AcquireError::Held { holder, .. } => has_token(holder, &ours),
        AcquireError::NamesHeld { held, .. } => held.iter().any(|held| has_token(&held.holder, &ours)),
        _ => false,
    };
    let failure = Failure::from(error);
    if is_own {
        return failure
            .help("this command was started under that lock, so it would wait for itself: use another name");
    }
    failure
}

fn has_token(holder: &Holder, ours: &str) -> bool {
    match holder {
        Holder::Owner { token, .. } => token.as_str() == ours,
        Holder::Shared { readers } => readers.iter().any(|reader| reader.token.as_str() == ours),
        _ => false,
    }
}

/// A signal came while we waited for `what`.
pub(crate) fn interrupted(what: &str, signal: Signal) -> Failure {
    Failure::new(Exit::from(signal), "interrupted", format!("stopped waiting for {what}"))
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
                let lock = subject::phrase(slice::from_ref(name));
                self.0.output.info_on_terminal(format_args!("waiting for {lock}, held by {holder}{left}"));
            }
            _ => {}
        }
    }
}
