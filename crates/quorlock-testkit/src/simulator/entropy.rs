//! The randomness of a simulated client, as the shipped code asks for it.

use crate::rng::Rng;
use quorlock::Entropy;
use std::sync::Mutex;

/// A client's own stream.
#[derive(Debug)]
pub(crate) struct SimEntropy {
    rng: Mutex<Rng>,
    /// Injected bug: every attempt gets the token of the first.
    repeats: bool,
    token: Mutex<Option<Vec<u8>>>,
}

impl SimEntropy {
    pub(crate) fn new(rng: Rng, repeats: bool) -> Self {
        Self { rng: Mutex::new(rng), repeats, token: Mutex::default() }
    }

    fn draw(&self, bytes: &mut [u8]) {
        let mut rng = self.rng.lock().unwrap();
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&rng.draw().to_le_bytes()[..chunk.len()]);
        }
    }
}

impl Entropy for SimEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        self.draw(bytes);
        // Tokens are the only 16 bytes that the lock layer draws.
        if self.repeats && bytes.len() == 16 {
            let mut token = self.token.lock().unwrap();
            bytes.copy_from_slice(token.get_or_insert_with(|| bytes.to_vec()));
        }
    }
}
