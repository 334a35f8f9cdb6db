//! RESP on the side of a server: reading requests, writing replies.

use crate::simulator::redis_server::Version;
use crate::simulator::redis_server::numbers::{integer, write_double};
use std::borrow::Cow;
use std::ops::Range;

/// The longest line with a length that a server reads.
const MAX_LINE: usize = 64 * 1024;
const MAX_WORDS: i64 = i32::MAX as i64;
const MAX_BULK: i64 = 512 * 1024 * 1024;

/// Which form of RESP a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Resp2,
    Resp3,
}

/// What the start of an input is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// Not whole yet.
    Incomplete,
    /// Whole; how many bytes it has. Its words are empty for a line without any.
    Whole(usize),
    /// An inline command, which has no words in the input itself.
    Inline(usize, Vec<Vec<u8>>),
    /// Not RESP: the text of the error, after which the server closes the connection.
    Broken(String),
}

/// Reads the first request of `input`; `words` gets where its words are.
pub(super) fn read_request(input: &[u8], words: &mut Vec<Range<usize>>, version: Version) -> Request {
    words.clear();
    match input.first() {
        None => Request::Incomplete,
        Some(b'*') => read_array(input, words, version).unwrap_or_else(|request| request),
        Some(_) => read_inline(input),
    }
}

fn read_array(input: &[u8], words: &mut Vec<Range<usize>>, version: Version) -> Result<Request, Request> {
    let line_end = find_line_end(input, 1, "mbulk count string")?;
    let (count, mut at) = (integer(&input[1..line_end]), line_end + 2);
    let count =
        count.filter(|count| *count <= MAX_WORDS).ok_or_else(|| broken("invalid multibulk length"))?;
    for _ in 0..count {
        let line_end = find_line_end(input, at, "bulk count string")?;
        if input[at] != b'$' {
            let found = char::from(input[at]);
            return Err(broken(&format!("expected '$', got '{found}'")));
        }
        let (length, start) = (integer(&input[at + 1..line_end]), line_end + 2);
        let length = length.filter(|length| (0..=MAX_BULK).contains(length));
        let length = length.ok_or_else(|| broken("invalid bulk length"))?;
        let end = start + usize::try_from(length).unwrap_or_default();
        let Some(after) = input.get(end..end + 2) else {
            return Err(Request::Incomplete);
        };
        // Redis skips the two bytes unread.
        if version.is_valkey() && after != b"\r\n" {
            return Err(broken("invalid CRLF in request"));
        }
        words.push(start..end);
        at = end + 2;
    }
    Ok(Request::Whole(at))
}

fn find_line_end(input: &[u8], at: usize, what: &str) -> Result<usize, Request> {
    match input[at.min(input.len())..].iter().position(|byte| *byte == b'\r') {
        // The line feed must have arrived, too.
        Some(length) if at + length + 1 < input.len() => Ok(at + length),
        None if input.len() - at.min(input.len()) > MAX_LINE => Err(broken(&format!("too big {what}"))),
        _ => Err(Request::Incomplete),
    }
}

fn read_inline(input: &[u8]) -> Request {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
        return if input.len() > MAX_LINE { broken("too big inline request") } else { Request::Incomplete };
    };
    match split_words(input[..end].strip_suffix(b"\r").unwrap_or(&input[..end])) {
        Some(words) => Request::Inline(end + 1, words),
        None => broken("unbalanced quotes in request"),
    }
}

/// The words of an inline command, in the quotes of a shell. `None` if a quote is not closed.
fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (mut words, mut rest) = (Vec::new(), line.iter().copied().peekable());
    loop {
        while rest.next_if(u8::is_ascii_whitespace).is_some() {}
        if rest.peek().is_none() {
            return Some(words);
        }
        let mut word = Vec::new();
        while let Some(byte) = rest.next_if(|byte| !byte.is_ascii_whitespace()) {
            match byte {
                quote @ (b'"' | b'\'') => {
                    loop {
                        match rest.next()? {
                            b'\\' if quote == b'"' => word.push(match rest.next()? {
                                b'n' => b'\n',
                                b'r' => b'\r',
                                b't' => b'\t',
                                other => other,
                            }),
                            byte if byte == quote => break,
                            byte => word.push(byte),
                        }
                    }
                    if rest.peek().is_some_and(|next| !next.is_ascii_whitespace()) {
                        return None;
                    }
                }
                byte => word.push(byte),
            }
        }
        words.push(word);
    }
}

fn broken(reason: &str) -> Request {
    Request::Broken(format!("ERR Protocol error: {reason}"))
}

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Reply {
    Status(Cow<'static, str>),
    /// With its code, without the dash.
    Error(Cow<'static, str>),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Double(f64),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Set(Vec<Reply>),
    /// Out of band where the protocol has that, else an array.
    Push(Vec<Reply>),
    /// Text that is for people.
    Verbatim(String),
    /// As many replies as there are, without a frame: `SUBSCRIBE` to several channels.
    Several(Vec<Reply>),
}

impl Reply {
    pub(super) const OK: Reply = Reply::Status(Cow::Borrowed("OK"));

    pub(super) fn bulk(text: impl AsRef<[u8]>) -> Self {
        Self::Bulk(text.as_ref().to_vec())
    }

    pub(super) fn error(text: &'static str) -> Self {
        Self::Error(Cow::Borrowed(text))
    }

    /// Writes it for a client that reads `protocol`.
    pub(super) fn write(&self, out: &mut Vec<u8>, protocol: Protocol, version: Version) {
        let resp3 = protocol == Protocol::Resp3;
        match self {
            Reply::Status(text) => line(out, b'+', text.as_bytes()),
            Reply::Error(text) => {
                out.push(b'-');
                // A line break would end the error.
                out.extend(text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
                out.extend_from_slice(b"\r\n");
            }
            Reply::Integer(number) => line(out, b':', itoa::Buffer::new().format(*number).as_bytes()),
            Reply::Bulk(text) => bulk(out, text),
            Reply::Null => out.extend_from_slice(if resp3 { b"_\r\n" } else { b"$-1\r\n" }),
            Reply::Double(number) => {
                let mut digits = Vec::with_capacity(24);
                write_double(&mut digits, *number, version);
                if resp3 { line(out, b',', &digits) } else { bulk(out, &digits) }
            }
            Reply::Array(items) => list(out, b'*', items, protocol, version),
            Reply::Set(items) => list(out, if resp3 { b'~' } else { b'*' }, items, protocol, version),
            Reply::Push(items) => list(out, if resp3 { b'>' } else { b'*' }, items, protocol, version),
            Reply::Map(pairs) => {
                let (kind, count) = if resp3 { (b'%', pairs.len()) } else { (b'*', pairs.len() * 2) };
                length(out, kind, count);
                for (key, value) in pairs {
                    key.write(out, protocol, version);
                    value.write(out, protocol, version);
                }
            }
            Reply::Verbatim(text) if resp3 => {
                length(out, b'=', text.len() + 4);
                out.extend_from_slice(b"txt:");
                out.extend_from_slice(text.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
            Reply::Verbatim(text) => bulk(out, text.as_bytes()),
            Reply::Several(replies) => replies.iter().for_each(|reply| reply.write(out, protocol, version)),
        }
    }
}

fn line(out: &mut Vec<u8>, kind: u8, text: &[u8]) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn length(out: &mut Vec<u8>, kind: u8, length: usize) {
    line(out, kind, itoa::Buffer::new().format(length).as_bytes());
}

fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    length(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn list(out: &mut Vec<u8>, kind: u8, items: &[Reply], protocol: Protocol, version: Version) {
    length(out, kind, items.len());
    items.iter().for_each(|item| item.write(out, protocol, version));
}
