//! The token: random proof that a stored lock is the one this attempt set.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// 128 random bits, new for every attempt, written as 32 lower-case hexadecimal digits.
///
/// A client that knows the token can extend or release the lock, so [`fmt::Debug`] shows only its first
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token([u8; Token::LEN]);

impl Token {
    /// How many characters a token has.
    pub const LEN: usize = 32;

    /// Makes a token of 16 random bytes.
    pub fn from_random(random: [u8; 16]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; Self::LEN];
        for (pair, byte) in text.chunks_exact_mut(2).zip(random) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(text)
    }

    /// The token as bytes, all of them hexadecimal digits.
    pub fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    /// The token as text.
    pub fn as_str(&self) -> &str {
        // Only hexadecimal digits are ever stored, so this never falls back.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({}..)", &self.as_str()[..6])
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let bytes: [u8; Self::LEN] = text.as_bytes().try_into().map_err(|_| TokenError)?;
        let hexadecimal = bytes.iter().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hexadecimal { Ok(Self(bytes)) } else { Err(TokenError) }
    }
}

impl TryFrom<String> for Token {
    type Error = TokenError;

    fn try_from(text: String) -> Result<Self, TokenError> {
        text.parse()
    }
}

impl From<Token> for String {
    fn from(token: Token) -> String {
        token.as_str().to_owned()
    }
}

/// A text is not a token. The text itself is left out, because it may be a secret with a typing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token is 32 lower-case hexadecimal digits")]
pub struct TokenError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_text() {
        let token = Token::from_random(*b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\xfe\xff");
        assert_eq!(token.to_string(), "000102030405060708090a0b0c0d".to_owned() + "feff");
        assert_eq!(token.to_string().parse(), Ok(token));
        assert_eq!(token.as_bytes().as_slice(), token.to_string().as_bytes());
        assert_eq!(String::from(token), token.to_string());
    }

    #[test]
    fn debug_does_not_give_the_token_away() {
        let token = Token::from_random([0xab; 16]);
        assert_eq!(format!("{token:?}"), "Token(ababab..)");
    }

    #[test]
    fn other_texts_are_not_tokens() {
        for text in ["", "abc", &"g".repeat(32), &"A".repeat(32), &"a".repeat(33)] {
            assert_eq!(text.parse::<Token>(), Err(TokenError), "{text}");
        }
    }
}
