//! The one place that draws random numbers.

use crate::context::clock::{Clock, SystemClock};
use quorlock_core::Token;
use std::cell::RefCell;
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

/// How many random bytes are drawn from the operating system at once.
const BLOCK: usize = 1024;

/// The operating system's random numbers, drawn in blocks of each thread: a system call for each token
/// would cost as much as a vote.
///
/// The time is mixed in, so that a process that was forked with a block half used does not repeat the
/// tokens of its parent. Bytes that were given out are wiped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BufferedEntropy;

thread_local! {
    static DRAWN: RefCell<Block> = RefCell::default();
}

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    left: usize,
}

impl Entropy for BufferedEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let (block, rest) = bytes.split_at_mut(bytes.len().min(BLOCK));
        // A thread that is about to end has no blocks any more.
        if DRAWN.try_with(|drawn| drawn.borrow_mut().draw(block)).is_err() {
            SystemEntropy.fill(block);
        }
        if !rest.is_empty() {
            SystemEntropy.fill(rest);
        }
        let nanos = SystemClock.now().since_boot().as_nanos() as u64;
        for (byte, time) in bytes.iter_mut().zip(nanos.to_le_bytes()) {
            *byte ^= time;
        }
    }
}

impl Block {
    fn draw(&mut self, bytes: &mut [u8]) {
        if self.left < bytes.len() {
            self.bytes.resize(BLOCK, 0);
            SystemEntropy.fill(&mut self.bytes);
            self.left = BLOCK;
        }
        let (from, to) = (self.left - bytes.len(), self.left);
        bytes.copy_from_slice(&self.bytes[from..to]);
        self.bytes[from..to].fill(0);
        self.left = from;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn blocks_never_give_the_same_bytes_twice_and_are_filled_anew() {
        let blocks = BufferedEntropy;
        let mut seen = HashSet::new();
        for _ in 0..5 * BLOCK / 16 {
            assert!(seen.insert(token(&blocks).as_str().to_owned()));
        }
        for length in [0, 1, 7, BLOCK - 1, BLOCK, 3 * BLOCK] {
            let mut bytes = vec![0; length];
            blocks.fill(&mut bytes);
            let zeros = bytes.iter().filter(|byte| **byte == 0).count();
            assert!(zeros <= 4 + length / 64, "{zeros} of {length} bytes are zero");
        }
    }

    #[test]
    fn a_forked_copy_does_not_repeat_the_tokens_of_its_parent() {
        let block = || DRAWN.with_borrow(|block| Block { bytes: block.bytes.clone(), left: block.left });
        token(&BufferedEntropy);
        let child = block();
        let parents = token(&BufferedEntropy);
        DRAWN.replace(child);
        assert_ne!(parents, token(&BufferedEntropy));
    }

    #[test]
    fn bytes_that_were_given_out_are_wiped() {
        token(&BufferedEntropy);
        DRAWN.with_borrow(|block| assert!(block.bytes[block.left..].iter().all(|byte| *byte == 0)));
    }
}
