//! The steps of `OnceSignal` (`crates/quorlock/src/hold/once_signal.rs`) in every interleaving that
//! the memory model allows.
//!
//! Loom cannot run the file itself, because tokio does not build with `cfg(loom)` and network. So
//! the steps are repeated here: a change there needs the same change here.
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use std::panic::catch_unwind;

/// Where the fences are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fences {
    /// After the flag is set and after the token is made: shipped.
    Both,
    OnlyInFire,
    OnlyInToken,
}

/// Which of its two steps each side does first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// `fire` sets the flag first: shipped.
    FlagFirst,
    /// `fire` looks for the token first.
    TokenFirst,
}

/// A signal with one token.
struct Signal {
    fired: AtomicBool,
    /// Whether the `OnceLock` has its token: it publishes with release and reads with acquire.
    has_token: AtomicBool,
    is_cancelled: AtomicBool,
}

impl Signal {
    fn new() -> Self {
        Self {
            fired: AtomicBool::new(false),
            has_token: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
        }
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    fn fire(&self, fences: Fences, order: Order) {
        if order == Order::TokenFirst && self.has_token.load(Ordering::Acquire) {
            self.cancel();
        }
        self.fired.store(true, Ordering::Release);
        if fences != Fences::OnlyInToken {
            fence(Ordering::SeqCst);
        }
        if order == Order::FlagFirst && self.has_token.load(Ordering::Acquire) {
            self.cancel();
        }
    }

    fn token(&self, fences: Fences) {
        self.has_token.store(true, Ordering::Release);
        if fences != Fences::OnlyInFire {
            fence(Ordering::SeqCst);
        }
        if self.fired.load(Ordering::Acquire) {
            self.cancel();
        }
    }
}

/// Runs `fire` and `token` on two threads; panics if the token is not cancelled afterwards.
fn run(fences: Fences, order: Order) {
    loom::model(move || {
        let signal = Arc::new(Signal::new());
        let firing = loom::thread::spawn({
            let signal = signal.clone();
            move || signal.fire(fences, order)
        });
        signal.token(fences);
        firing.join().unwrap();
        assert!(signal.is_cancelled.load(Ordering::Acquire), "the waiter sleeps for ever");
    });
}

#[test]
fn a_token_made_at_the_moment_of_firing_is_cancelled_in_every_interleaving() {
    run(Fences::Both, Order::FlagFirst);
}

#[test]
fn without_either_fence_a_waiter_sleeps_for_ever() {
    for fences in [Fences::OnlyInFire, Fences::OnlyInToken] {
        assert!(catch_unwind(|| run(fences, Order::FlagFirst)).is_err(), "{fences:?}");
    }
}

#[test]
fn a_signal_that_looks_for_the_token_first_misses_one() {
    assert!(catch_unwind(|| run(Fences::Both, Order::TokenFirst)).is_err());
}
