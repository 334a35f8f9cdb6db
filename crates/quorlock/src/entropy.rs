//! The one place that draws random numbers.

use crate::clock::{Clock, SystemClock};
use quorlock_core::Token;
use std::fmt;
use std::sync::{Mutex, PoisonError};

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

/// The operating system's random numbers, drawn in blocks: a system call for each token would cost as much as a vote.
///
/// The time is mixed in, so that a process that was forked with a block half used does not repeat the tokens of its
/// parent. Bytes that were given out are wiped.
#[derive(Default)]
pub(crate) struct Blocks(Mutex<Block>);

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    left: usize,
}

impl Entropy for Blocks {
    fn fill(&self, bytes: &mut [u8]) {
        let (block, rest) = bytes.split_at_mut(bytes.len().min(BLOCK));
        self.draw(block);
        if !rest.is_empty() {
            SystemEntropy.fill(rest);
        }
        let nanos = SystemClock.now().since_boot().as_nanos() as u64;
        for (byte, time) in bytes.iter_mut().zip(nanos.to_le_bytes()) {
            *byte ^= time;
        }
    }
}

impl Blocks {
    fn draw(&self, bytes: &mut [u8]) {
        let mut block = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if block.left < bytes.len() {
            block.bytes.resize(BLOCK, 0);
            SystemEntropy.fill(&mut block.bytes);
            block.left = BLOCK;
        }
        let (from, to) = (block.left - bytes.len(), block.left);
        bytes.copy_from_slice(&block.bytes[from..to]);
        block.bytes[from..to].fill(0);
        block.left = from;
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocks")
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
        let blocks = Blocks::default();
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
        let parent = Blocks::default();
        token(&parent);
        let block = parent.0.lock().unwrap();
        let child = Blocks(Mutex::new(Block { bytes: block.bytes.clone(), left: block.left }));
        drop(block);
        assert_ne!(token(&parent), token(&child));
    }

    #[test]
    fn bytes_that_were_given_out_are_wiped() {
        let blocks = Blocks::default();
        token(&blocks);
        let block = blocks.0.lock().unwrap();
        assert!(block.bytes[block.left..].iter().all(|byte| *byte == 0));
    }
}
