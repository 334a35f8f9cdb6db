//! Taking the lock, with a word to whoever looks on, and an answer to signals at once.

use crate::duration::show;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::signals::Signals;
use quorlock::{AcquireError, Event, Guard, Holder, Lock, Observer};
use rustix::process::Signal;
use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Takes the lock, or says why not. With `no_wait` it does not wait for a holder.
pub(crate) async fn take(lock: &Lock, no_wait: bool, signals: &mut Signals) -> Result<Guard, Failure> {
    let taking = async { if no_wait { lock.try_acquire().await } else { lock.acquire().await } };
    tokio::select! {
        biased;
        signal = signals.end() => Err(interrupted(lock, signal)),
        taken = taking => taken.map_err(not_taken),
    }
}

fn not_taken(error: AcquireError) -> Failure {
    let ours = env::var("QUORLOCK_TOKEN").unwrap_or_default();
    let is_own = matches!(&error, AcquireError::Held { holder: Holder::Owner { token, .. }, .. } if token.as_str() == ours);
    let failure = Failure::from(error);
    if is_own {
        return failure
            .help("this was started under that very lock, so it would wait for itself: take another name");
    }
    failure
}

fn interrupted(lock: &Lock, signal: Signal) -> Failure {
    Failure::new(Exit::from(signal), "interrupted", format!("stopped waiting for lock `{}`", lock.name()))
}

/// Looks at what happens to the lock.
#[derive(Clone, Debug)]
pub(crate) struct Watcher(Arc<Seen>);

#[derive(Debug)]
struct Seen {
    screen: Screen,
    told: AtomicBool,
    votes: AtomicUsize,
    waited_ms: AtomicU64,
    extended: Notify,
}

impl Watcher {
    pub(crate) fn new(screen: Screen) -> Self {
        let (told, votes, waited_ms, extended) = Default::default();
        Self(Arc::new(Seen { screen, told, votes, waited_ms, extended }))
    }

    /// How many nodes had voted when the lock was granted.
    pub(crate) fn votes(&self) -> usize {
        self.0.votes.load(Ordering::Relaxed)
    }

    /// Waits until the lock was extended.
    ///
    /// # Cancel safety
    /// Cancel safe: an extension that nobody was told of stays.
    pub(crate) async fn extended(&self) {
        self.0.extended.notified().await;
    }

    pub(crate) fn waited_ms(&self) -> u64 {
        self.0.waited_ms.load(Ordering::Relaxed)
    }
}

impl Observer for Watcher {
    fn on_event(&self, event: &Event) {
        match event {
            Event::Acquired { votes, waited, .. } => {
                self.0.votes.store(*votes, Ordering::Relaxed);
                let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
                self.0.waited_ms.store(waited, Ordering::Relaxed);
            }
            Event::Extended { .. } => self.0.extended.notify_one(),
            Event::Waiting { name, holder: Some(holder), left }
                if !self.0.told.swap(true, Ordering::Relaxed) =>
            {
                let left =
                    left.map(|left| format!(" ({} left unless extended)", show(left))).unwrap_or_default();
                self.0.screen.remark(format_args!("waiting for lock `{name}`, held by {holder}{left}"));
            }
            _ => {}
        }
    }
}
