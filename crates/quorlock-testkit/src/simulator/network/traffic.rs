//! All bytes of a world, as one number and, if wanted, as lines of its history.

use crate::simulator::history::History;
use crate::simulator::machine_clock::WorldStart;
use std::fmt;
use std::sync::{Arc, Mutex};

/// How much of a segment a line shows.
const MAX_SHOWN: usize = 400;

/// Counts the bytes that clients write and read. Two worlds with the same digest had the same bytes, in
/// the same order.
#[derive(Clone)]
pub(crate) struct Traffic {
    counted: Arc<Mutex<Counted>>,
    /// Where every segment is recorded, if anywhere.
    log: Option<(Arc<Mutex<History>>, WorldStart)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    digest: u64,
    bytes: u64,
}

impl Counted {
    /// Adds `length` bytes to the digest.
    fn mix(&mut self, word: [u8; 8], length: usize) {
        let mixed = self.digest ^ u64::from_le_bytes(word) ^ ((length as u64) << 60);
        self.digest = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    }
}

impl Traffic {
    pub(crate) fn new(log: Option<(Arc<Mutex<History>>, WorldStart)>) -> Self {
        Self { counted: Arc::default(), log }
    }

    /// Counts what a client wrote or read.
    pub(crate) fn count(&self, bytes: &[u8]) {
        let mut counted = self.counted.lock().unwrap();
        counted.bytes += bytes.len() as u64;
        let (words, rest) = bytes.as_chunks();
        for word in words {
            counted.mix(*word, word.len());
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            counted.mix(word, rest.len());
        }
    }

    /// Records that `bytes` arrived at `whom`.
    pub(crate) fn record(&self, whom: impl fmt::Display, bytes: &[u8]) {
        if let Some((history, start)) = &self.log {
            let shown = &bytes[..bytes.len().min(MAX_SHOWN)];
            let text = shown.escape_ascii().to_string().replace("\\r\\n", " ");
            history.lock().unwrap().record(start.elapsed(), &format!("{whom} gets {text}"));
        }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.counted.lock().unwrap().digest
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.counted.lock().unwrap().bytes
    }
}
