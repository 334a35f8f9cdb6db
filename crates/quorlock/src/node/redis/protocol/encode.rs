//! Writing commands: RESP arrays straight into the out buffer, without an allocation per argument.

use quorlock_core::{Name, Token};
use std::time::Duration;

/// What a name's fence key starts with. The name follows in braces, so that a store that spreads keys by
/// such tags keeps all keys of a name together.
pub(crate) const FENCE_KEY: &str = "quorlock:fence:{";
/// What the channel for hints about a name starts with; the name and [`KEY_END`] follow.
pub(crate) const FREE_CHANNEL: &str = "quorlock:free:{";
/// What the key of a token that was released by force starts with; the name, `}:` and the token follow.
pub(crate) const TAKEN_KEY: &str = "quorlock:taken:{";
/// What the key with the labels of a name's shared holders starts with; the name and [`KEY_END`] follow.
pub(crate) const READERS_KEY: &str = "quorlock:readers:{";
/// What the key starts with that exists while a client waits to hold a name exclusively that others share;
/// the name and [`KEY_END`] follow.
pub(crate) const WRITER_KEY: &str = "quorlock:writer:{";
/// What the key with the number of a semaphore's slots starts with; its name and [`KEY_END`] follow.
pub(crate) const SLOTS_KEY: &str = "quorlock:slots:{";
/// What ends a key or channel of one name.
pub(crate) const KEY_END: &str = "}";
/// The key that exists while a client waits for any name.
pub(crate) const WAITING_KEY: &str = "quorlock:waiting";
/// The key that says whether the server remembers.
pub(crate) const EPOCH_KEY: &str = "quorlock:epoch";

/// Writes one command: first the number of its arguments, then each of them.
pub(crate) struct Encoder<'a>(&'a mut Vec<u8>);

impl<'a> Encoder<'a> {
    /// Starts a command of `count` arguments, its own name included.
    pub(crate) fn command(out: &'a mut Vec<u8>, count: usize) -> Self {
        length(out, b'*', count as u64);
        Self(out)
    }

    /// Starts a command whose first words are always the same, as they are sent.
    pub(crate) fn begin(out: &'a mut Vec<u8>, words: &[u8]) -> Self {
        Self(out).raw(words)
    }

    pub(crate) fn arg(self, text: impl AsRef<[u8]>) -> Self {
        self.parts(&[text.as_ref()])
    }

    pub(crate) fn number(self, number: u64) -> Self {
        let mut digits = [0; DIGITS];
        self.parts(&[decimal(number, &mut digits)])
    }

    /// One argument made of several pieces. Inlined, pieces of a constant length need no call to copy them.
    #[inline(always)]
    pub(crate) fn parts(self, parts: &[&[u8]]) -> Self {
        length(self.0, b'$', parts.iter().map(|part| part.len() as u64).sum());
        for part in parts {
            self.0.extend_from_slice(part);
        }
        self.0.extend_from_slice(b"\r\n");
        self
    }

    /// A token, which always has the same length.
    pub(crate) fn token(self, token: &Token) -> Self {
        const { assert!(Token::LEN == 32) };
        self.raw(b"$32\r\n").raw(token.as_bytes()).raw(b"\r\n")
    }

    /// Bytes as they are sent, such as arguments that are always the same.
    pub(crate) fn raw(self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn fence_key(self, name: &Name) -> Self {
        self.parts(&[FENCE_KEY.as_bytes(), name.as_str().as_bytes(), KEY_END.as_bytes()])
    }

    pub(crate) fn readers_key(self, name: &Name) -> Self {
        self.parts(&[READERS_KEY.as_bytes(), name.as_str().as_bytes(), KEY_END.as_bytes()])
    }

    pub(crate) fn writer_key(self, name: &Name) -> Self {
        self.parts(&[WRITER_KEY.as_bytes(), name.as_str().as_bytes(), KEY_END.as_bytes()])
    }

    pub(crate) fn slots_key(self, name: &Name) -> Self {
        self.parts(&[SLOTS_KEY.as_bytes(), name.as_str().as_bytes(), KEY_END.as_bytes()])
    }

    pub(crate) fn free_channel(self, name: &str) -> Self {
        self.parts(&[FREE_CHANNEL.as_bytes(), name.as_bytes(), KEY_END.as_bytes()])
    }

    pub(crate) fn taken_key(self, name: &Name, token: &Token) -> Self {
        self.parts(&[TAKEN_KEY.as_bytes(), name.as_str().as_bytes(), b"}:", token.as_bytes()])
    }
}

/// The most digits that a number has.
pub(crate) const DIGITS: usize = 20;

/// `00` to `99`, for two digits per division.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [digit(number as u64 / 10), digit(number as u64 % 10)];
        number += 1;
    }
    pairs
};

/// `number` as decimal digits.
pub(crate) fn decimal(mut number: u64, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut at = DIGITS;
    while number >= 10 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(number % 100) as usize]);
        number /= 100;
    }
    if number > 0 || at == DIGITS {
        at -= 1;
        digits[at] = digit(number);
    }
    &digits[at..]
}

/// A line with a length. Most are short, and those are written at once.
fn length(out: &mut Vec<u8>, kind: u8, length: u64) {
    match length {
        0..10 => out.extend_from_slice(&[kind, digit(length), b'\r', b'\n']),
        10..100 => out.extend_from_slice(&[kind, digit(length / 10), digit(length % 10), b'\r', b'\n']),
        _ => {
            let mut digits = [0; DIGITS];
            out.push(kind);
            out.extend_from_slice(decimal(length, &mut digits));
            out.extend_from_slice(b"\r\n");
        }
    }
}

const fn digit(number: u64) -> u8 {
    b'0' + number as u8
}

/// Whole milliseconds, as commands take them.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut out = Vec::new();
        Encoder::command(&mut out, 4).arg("SET").fence_key(&Name::new("a b").unwrap()).number(120).arg("");
        assert_eq!(out, b"*4\r\n$3\r\nSET\r\n$20\r\nquorlock:fence:{a b}\r\n$3\r\n120\r\n$0\r\n\r\n");
    }

    #[test]
    fn lengths_of_all_sizes_are_written() {
        for count in [0, 7, 9, 10, 42, 99, 100, 12_345] {
            let mut out = Vec::new();
            length(&mut out, b'$', count);
            assert_eq!(out, format!("${count}\r\n").into_bytes());
        }
    }

    #[test]
    fn numbers_have_all_their_digits() {
        let mut digits = [0; DIGITS];
        for number in [0, 9, 10, 99, 100, 109, 999, 1000, 1_763_240_000_000_001, u64::MAX / 10, u64::MAX] {
            assert_eq!(decimal(number, &mut digits), number.to_string().as_bytes());
        }
    }
}
