//! A blocking client for asking a server directly, independent of the code under test.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// One connection to one server.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<UnixStream>,
}

/// What a server answered. Shows as `redis-cli` would print it into a pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing there.
    Nil,
    /// A status or a value.
    Text(String),
    /// A number.
    Integer(i64),
    /// Several answers.
    List(Vec<Reply>),
    /// The server refused.
    Error(String),
}

/// A server that is silent for longer is stopped or stuck; a test must fail then.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

impl Connection {
    /// Connects through a server's Unix socket.
    ///
    /// # Errors
    /// No server listens there.
    pub fn open(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one command and reads its answer.
    ///
    /// # Errors
    /// The connection broke, or the server was silent for five seconds.
    pub fn ask(&mut self, command: &[&str]) -> io::Result<Reply> {
        let mut request = format!("*{}\r\n", command.len());
        for word in command {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(request.as_bytes())?;
        self.read_reply()
    }

    fn read_reply(&mut self) -> io::Result<Reply> {
        let line = self.read_line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| broken(&line))?;
        let number = || rest.parse::<i64>().map_err(|_| broken(&line));
        match kind {
            "+" => Ok(Reply::Text(rest.into())),
            "-" => Ok(Reply::Error(rest.into())),
            ":" => Ok(Reply::Integer(number()?)),
            "$" => self.read_bulk(number()?),
            "*" => self.read_list(number()?),
            _ => Err(broken(&line)),
        }
    }

    /// A negative length is RESP2's way to say "nothing there".
    fn read_bulk(&mut self, length: i64) -> io::Result<Reply> {
        let Ok(length) = usize::try_from(length) else {
            return Ok(Reply::Nil);
        };
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn read_list(&mut self, length: i64) -> io::Result<Reply> {
        if length < 0 {
            return Ok(Reply::Nil);
        }
        (0..length).map(|_| self.read_reply()).collect::<io::Result<_>>().map(Reply::List)
    }

    fn read_line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

impl fmt::Display for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => Ok(()),
            Self::Text(text) | Self::Error(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::List(replies) => {
                for (index, reply) in replies.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "\n" };
                    write!(f, "{separator}{reply}")?;
                }
                Ok(())
            }
        }
    }
}

fn broken(line: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a RESP2 reply: {line:?}"))
}
