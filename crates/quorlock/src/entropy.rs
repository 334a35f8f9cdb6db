//! The one place that draws random numbers.

use quorlock_core::Token;
use std::fmt;

/// Where randomness comes from. Replace it only to test: tokens must be unguessable and never repeat.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

/// The operating system's random numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// # Panics
    /// If the operating system has no randomness to give. A lock with a guessable token would be worse.
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            panic!("the operating system gives no random numbers: {error}");
        }
    }
}

/// A new token.
pub(crate) fn token(entropy: &dyn Entropy) -> Token {
    let mut random = [0; 16];
    entropy.fill(&mut random);
    Token::from_random(random)
}

/// A random number, for jitter.
pub(crate) fn number(entropy: &dyn Entropy) -> u64 {
    let mut random = [0; 8];
    entropy.fill(&mut random);
    u64::from_le_bytes(random)
}
