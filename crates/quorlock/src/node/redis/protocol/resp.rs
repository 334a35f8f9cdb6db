//! Reading replies: RESP2 and RESP3, in pieces as they come, with a bound on everything a server may claim.

#[cfg(any(test, fuzzing))]
pub(crate) mod property;
#[cfg(test)]
mod tests;

use bytes::Bytes;

/// The longest bulk string.
pub(crate) const MAX_BULK: usize = 64 * 1024;
/// The longest line: a simple string, an error, a number or a length.
const MAX_LINE: usize = 64 * 1024;
/// The most elements of one array, set, push or map (a map's keys and values count one each).
const MAX_ELEMENTS: usize = 1024;
/// How deep aggregates may nest.
const MAX_DEPTH: usize = 8;
/// The longest reply as a whole.
const MAX_REPLY: usize = 1024 * 1024;

/// One reply of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    /// `+OK`, by far the most frequent text, kept without a copy.
    Okay,
    Integer(i64),
    Double(f64),
    Boolean(bool),
    /// A simple, bulk or verbatim string, or a big number.
    Text(Bytes),
    Error(Bytes),
    /// An array, a set, or a map as alternating keys and values.
    Array(Vec<Value>),
    /// Something that the server sends unasked.
    Push(Vec<Value>),
}

impl Value {
    /// The text of a string reply.
    pub(crate) fn text(&self) -> Option<&[u8]> {
        match self {
            Value::Okay => Some(b"OK"),
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number, however the server wrote it.
    pub(crate) fn number(&self) -> Option<u64> {
        match self {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            // Scores are doubles; below 2^53 they are exact.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            Value::Double(number) if (0.0..9_007_199_254_740_992.0).contains(number) => Some(*number as u64),
            _ => None,
        }
    }
}

/// What is wrong with what a server sent. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Garbage {
    #[error("a reply starts with byte {0:#04x}")]
    Type(u8),
    #[error("a line is too long or not ended properly")]
    Line,
    #[error("a number is malformed")]
    Number,
    #[error("a length is malformed or over the limit")]
    Length,
    #[error("replies nest too deeply")]
    Depth,
    #[error("a reply is over the limit")]
    TooLong,
}

/// Reads one reply from the start of `input`: the reply and its length, or `None` if more bytes are needed.
pub(crate) fn read(input: &[u8]) -> Result<Option<(Value, usize)>, Garbage> {
    let mut cursor = Cursor { input, at: 0 };
    match cursor.value(0) {
        Ok(value) => Ok(Some((value, cursor.at))),
        Err(Stop::Short) if input.len() > MAX_REPLY => Err(Garbage::TooLong),
        Err(Stop::Short) => Ok(None),
        Err(Stop::Garbage(garbage)) => Err(garbage),
    }
}

/// Why reading ended early.
enum Stop {
    Short,
    Garbage(Garbage),
}

impl From<Garbage> for Stop {
    fn from(garbage: Garbage) -> Self {
        Stop::Garbage(garbage)
    }
}

struct Cursor<'a> {
    input: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn value(&mut self, depth: usize) -> Result<Value, Stop> {
        let kind = *self.input.get(self.at).ok_or(Stop::Short)?;
        self.at += 1;
        Ok(match kind {
            b'+' => match self.line()? {
                b"OK" => Value::Okay,
                text => Value::Text(Bytes::copy_from_slice(text)),
            },
            b'-' => Value::Error(Bytes::copy_from_slice(self.line()?)),
            b':' => match self.input.get(self.at..self.at + 3) {
                // Most integers are a single digit.
                Some([digit @ b'0'..=b'9', b'\r', b'\n']) => {
                    self.at += 3;
                    Value::Integer((digit - b'0').into())
                }
                _ => Value::Integer(self.parsed()?),
            },
            b',' => Value::Double(self.parsed()?),
            b'(' => Value::Text(Bytes::copy_from_slice(self.line()?)),
            b'#' => match self.line()? {
                b"t" => Value::Boolean(true),
                b"f" => Value::Boolean(false),
                _ => return Err(Garbage::Number.into()),
            },
            b'_' => match self.line()? {
                b"" => Value::Null,
                _ => return Err(Garbage::Line.into()),
            },
            b'$' => self.bulk()?.map_or(Value::Null, |text| Value::Text(Bytes::copy_from_slice(text))),
            // A verbatim string starts with its format: three letters and a colon.
            b'=' => self.bulk()?.map_or(Value::Null, |text| {
                Value::Text(Bytes::copy_from_slice(text.get(4..).unwrap_or_default()))
            }),
            b'!' => Value::Error(Bytes::copy_from_slice(self.bulk()?.unwrap_or_default())),
            b'*' | b'~' => self.elements(1, depth)?.map_or(Value::Null, Value::Array),
            b'%' => self.elements(2, depth)?.map_or(Value::Null, Value::Array),
            b'>' => Value::Push(self.elements(1, depth)?.unwrap_or_default()),
            other => return Err(Garbage::Type(other).into()),
        })
    }

    /// The elements of an aggregate whose length counts `width` values each; `None` for a RESP2 null.
    fn elements(&mut self, width: usize, depth: usize) -> Result<Option<Vec<Value>>, Stop> {
        if depth >= MAX_DEPTH {
            return Err(Garbage::Depth.into());
        }
        let Some(count) = self.length(MAX_ELEMENTS / width)? else {
            return Ok(None);
        };
        // The claimed count may be wrong: reserve for as many as can be there, of three bytes or more
        // each.
        let there = (self.input.len() - self.at) / 3;
        let mut elements = Vec::with_capacity((count * width).min(there));
        for _ in 0..count * width {
            elements.push(self.value(depth + 1)?);
        }
        Ok(Some(elements))
    }

    fn bulk(&mut self) -> Result<Option<&'a [u8]>, Stop> {
        let Some(length) = self.length(MAX_BULK)? else {
            return Ok(None);
        };
        let end = self.at + length;
        let text = self.input.get(self.at..end).ok_or(Stop::Short)?;
        match self.input.get(end..end + 2) {
            None => Err(Stop::Short),
            Some(b"\r\n") => {
                self.at = end + 2;
                Ok(Some(text))
            }
            Some(_) => Err(Garbage::Length.into()),
        }
    }

    /// A length up to `limit`; `None` for -1, the null of RESP2.
    fn length(&mut self, limit: usize) -> Result<Option<usize>, Stop> {
        match self.line()? {
            b"-1" => Ok(None),
            digits => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .filter(|length| *length <= limit)
                .map(Some)
                .ok_or_else(|| Garbage::Length.into()),
        }
    }

    fn parsed<T: std::str::FromStr>(&mut self) -> Result<T, Stop> {
        std::str::from_utf8(self.line()?)
            .ok()
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Garbage::Number.into())
    }

    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let rest = &self.input[self.at..];
        let Some(end) = rest.iter().take(MAX_LINE + 1).position(|b| *b == b'\r') else {
            let overlong = rest.len() > MAX_LINE;
            return Err(if overlong { Garbage::Line.into() } else { Stop::Short });
        };
        match rest.get(end + 1) {
            None => Err(Stop::Short),
            Some(b'\n') => {
                self.at += end + 2;
                Ok(&rest[..end])
            }
            Some(_) => Err(Garbage::Line.into()),
        }
    }
}
