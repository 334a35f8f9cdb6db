//! A signal that fires once and costs nothing until a task waits for it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use tokio_util::sync::CancellationToken;

/// A signal that fires once. What waiting needs is allocated only when a task waits.
///
/// `fire` sets the flag and then looks for a token; `token` makes one and then looks at the flag. At
/// least one of them must see the other. The order of two different variables on two threads takes a
/// fence on both sides; `quorlock-testkit/tests/once_signal.rs` shows that neither may be left out.
#[derive(Debug, Default)]
pub(crate) struct OnceSignal {
    fired: AtomicBool,
    token: OnceLock<CancellationToken>,
}

impl OnceSignal {
    pub(crate) fn fire(&self) {
        self.fired.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    pub(crate) fn is_fired(&self) -> bool {
        self.fired.load(Ordering::Acquire)
    }

    /// A token that is cancelled when this fires.
    pub(crate) fn token(&self) -> &CancellationToken {
        let token = self.token.get_or_init(CancellationToken::new);
        fence(Ordering::SeqCst);
        // A call to `fire` before the token existed could not cancel it.
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
    async fn a_waiter_before_and_a_waiter_after_both_get_it() {
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
    fn a_token_made_at_the_moment_of_firing_is_cancelled() {
        for _ in 0..2000 {
            let signal = OnceSignal::default();
            let token = std::thread::scope(|threads| {
                let token = threads.spawn(|| signal.token().clone());
                signal.fire();
                token.join().unwrap()
            });
            assert!(token.is_cancelled());
        }
    }
}
