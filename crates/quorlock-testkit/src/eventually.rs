//! Waiting for a condition instead of sleeping.

use std::time::{Duration, Instant};

/// Short enough not to slow a test down, long enough not to starve what it waits for.
const PAUSE: Duration = Duration::from_millis(3);

/// Polls `condition` until it holds.
///
/// # Panics
/// Names `what` if it does not hold within `limit`. The condition is asked at least once.
pub async fn until(what: &str, limit: Duration, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Waits for `future`, so that what never comes fails a test instead of holding it up.
///
/// # Panics
/// Names `what` if it does not come within `limit`.
pub async fn within<T>(what: &str, limit: Duration, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, future).await {
        Ok(come) => come,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}

/// The twin of [`until`] for code without a runtime.
///
/// # Panics
/// Names `what` if it does not hold within `limit`. The condition is asked at least once.
pub fn until_blocking(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_condition_that_comes_true_ends_the_wait() {
        let mut asked = 0;
        until("asked thrice", Duration::from_secs(5), async || {
            asked += 1;
            asked == 3
        })
        .await;
        assert_eq!(asked, 3);
    }

    #[tokio::test(start_paused = true)]
    #[should_panic(expected = "the end of the world")]
    async fn what_never_comes_is_named() {
        within("the end of the world", Duration::from_secs(9), std::future::pending::<()>()).await;
    }

    #[test]
    #[should_panic(expected = "pigs fly")]
    fn a_condition_that_stays_false_is_named() {
        until_blocking("pigs fly", Duration::from_millis(10), || false);
    }
}
