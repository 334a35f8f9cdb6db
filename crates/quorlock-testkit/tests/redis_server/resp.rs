//! Reading RESP2 and RESP3 replies into a form that loses nothing.

/// One reply.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Resp {
    /// A reply of one line, with the byte of its type.
    Line(u8, String),
    /// A bulk string or verbatim text; `None` is the null of RESP2.
    Bulk(u8, Option<Vec<u8>>),
    /// Several replies. A map has its keys and values one after the other.
    List(u8, Vec<Resp>),
}

impl Resp {
    /// The first reply of `input` and its length; `None` if it is not whole.
    ///
    /// # Panics
    /// It is not RESP.
    pub(crate) fn read(input: &[u8]) -> Option<(Self, usize)> {
        let end = input.windows(2).position(|two| two == b"\r\n")?;
        let (kind, line) = (input[0], String::from_utf8_lossy(&input[1..end]).into_owned());
        let mut at = end + 2;
        let count = |factor: usize| line.parse::<usize>().unwrap_or_else(|_| panic!("{line:?}")) * factor;
        let items = match kind {
            b'+' | b'-' | b':' | b',' | b'_' | b'#' => return Some((Resp::Line(kind, line), at)),
            b'$' | b'=' if line == "-1" => return Some((Resp::Bulk(kind, None), at)),
            b'$' | b'=' => {
                let text = input.get(at..at + count(1))?.to_vec();
                input.get(at + count(1) + 1)?;
                return Some((Resp::Bulk(kind, Some(text)), at + count(1) + 2));
            }
            b'*' | b'~' | b'>' => count(1),
            b'%' => count(2),
            other => panic!("no reply starts with {:?}", char::from(other)),
        };
        let mut list = Vec::with_capacity(items);
        for _ in 0..items {
            let (item, length) = Resp::read(&input[at..])?;
            list.push(item);
            at += length;
        }
        Some((Resp::List(kind, list), at))
    }

    /// All whole replies of `input`, and how many bytes they have.
    pub(crate) fn read_all(input: &[u8]) -> (Vec<Self>, usize) {
        let (mut replies, mut at) = (Vec::new(), 0);
        while let Some((reply, length)) = Resp::read(&input[at..]) {
            replies.push(reply);
            at += length;
        }
        (replies, at)
    }

    /// The text of a bulk string.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Resp::Bulk(_, Some(text)) => Some(String::from_utf8_lossy(text).into_owned()),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Resp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Resp::Line(kind, line) => write!(f, "{}{line}", char::from(*kind)),
            Resp::Bulk(kind, None) => write!(f, "{}-1", char::from(*kind)),
            Resp::Bulk(kind, Some(text)) => {
                write!(f, "{}{:?}", char::from(*kind), String::from_utf8_lossy(text))
            }
            Resp::List(kind, items) => write!(f, "{}{items:?}", char::from(*kind)),
        }
    }
}

/// One command as a client sends it.
pub(crate) fn encode(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
