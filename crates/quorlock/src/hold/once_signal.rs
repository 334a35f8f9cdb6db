//! Something that happens once, and that most never wait for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;

/// Something that happens once. What waiting for it needs is made only when somebody waits.
#[derive(Debug, Default)]
pub(crate) struct OnceSignal {
    fired: AtomicBool,
    token: OnceLock<CancellationToken>,
}

impl OnceSignal {
    pub(crate) fn fire(&self) {
        self.fired.store(true, Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    pub(crate) fn is_fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }

    /// A token that is cancelled when this fires.
    pub(crate) fn token(&self) -> &CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new);
        // Whoever fired before the token was there to be seen could not cancel it.
        if self.is_fired() {
            token.cancel();
        }
        token
    }

    /// Waits until it fires.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn wait(&self) {
        self.token().cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn who_waits_before_and_who_waits_after_both_hear_it() {
        let signal = Arc::new(OnceSignal::default());
        let before = tokio::spawn({
            let signal = signal.clone();
            async move { signal.wait().await }
        });
        tokio::task::yield_now().await;
        assert!(!signal.is_fired() && !before.is_finished());
        signal.fire();
        before.await.unwrap();
        timeout(Duration::from_secs(9), signal.wait()).await.unwrap();
        let late = OnceSignal::default();
        late.fire();
        assert!(late.token().is_cancelled());
    }

    #[test]
    fn firing_and_asking_at_the_same_moment_misses_nothing() {
        for _ in 0..2000 {
            let signal = OnceSignal::default();
            let token = std::thread::scope(|threads| {
                let asked = threads.spawn(|| signal.token().clone());
                signal.fire();
                asked.join().unwrap()
            });
            assert!(token.is_cancelled());
        }
    }
}
