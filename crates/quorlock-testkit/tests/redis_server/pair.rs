//! A real server and a simulated one that get the same bytes.

use crate::resp::{Resp, encode};
use quorlock::SystemClock;
use quorlock_testkit::simulator::redis_server::{RedisServer, Version};
use quorlock_testkit::{Binary, Server};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// A real server that answers later than this does not answer at all.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How far apart the clocks of two servers may be when they execute the same command.
const TOLERANCE_MILLIS: i64 = 3_000;
/// Numbers with at least this many digits are moments.
const MOMENT_DIGITS: usize = 13;

/// What differs between two servers although both are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Varies {
    Nothing,
    /// Any number that is close.
    Time,
    /// Run ids and moments.
    Epoch,
    /// The order of the elements of the list in it.
    Order,
    /// The order of the pairs of a map.
    Pairs,
    /// The number of a connection.
    Id,
    /// The fields and numbers of `INFO`.
    Info,
}

pub(crate) struct Pair {
    pub(crate) real: Server,
    pub(crate) simulated: RedisServer,
    links: Vec<Link>,
    /// What was sent and answered, for the report.
    log: Vec<String>,
}

struct Link {
    stream: UnixStream,
    received: Vec<u8>,
    connection: u64,
}

impl Pair {
    /// `None`, with a note on stderr, if this machine has no such server of the simulated version.
    pub(crate) fn start(binary: Binary) -> Option<Self> {
        let version = match binary {
            Binary::Redis => Version::Redis7,
            Binary::Valkey => Version::Valkey9,
        };
        if !binary.is_here() {
            return None;
        }
        let real = Server::builder().binary(binary).start();
        let info = real.cli(&["INFO", "server"]);
        let simulated = if binary == Binary::Redis { "redis_version:7.0." } else { "valkey_version:9.1." };
        if !info.contains(simulated) {
            eprintln!("skipped: the {binary:?} server here is of another version than {simulated}");
            return None;
        }
        let simulated = RedisServer::new(version, Arc::new(SystemClock), 1);
        Some(Self { real, simulated, links: Vec::new(), log: Vec::new() })
    }

    /// Empties both and ends all connections.
    pub(crate) fn reset(&mut self) {
        self.real.flushall();
        self.real.cli(&["SCRIPT", "FLUSH"]);
        self.simulated.flush_all();
        self.simulated.flush_scripts();
        self.links.drain(..).for_each(|link| self.simulated.disconnect(link.connection));
        // The real server may see the end of a connection after the next command of another.
        let remaining = || self.real.cli(&["PUBSUB", "CHANNELS"]);
        quorlock_testkit::until_blocking("subscriptions end", ANSWER_TIMEOUT, || remaining().is_empty());
        self.log.clear();
    }

    pub(crate) fn connect(&mut self) -> usize {
        let stream = UnixStream::connect(self.real.socket()).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        let connection = self.simulated.connect();
        self.links.push(Link { stream, received: Vec::new(), connection });
        self.links.len() - 1
    }

    /// Sends the same command to both and compares the answers.
    pub(crate) fn same(&mut self, link: usize, words: &[&str]) {
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.exchange(link, &[&encode(&words)], Varies::Nothing);
    }

    /// Sends the same segments to both and compares all that any client gets.
    ///
    /// # Panics
    /// Something differs.
    pub(crate) fn exchange(&mut self, from: usize, segments: &[&[u8]], varies: Varies) {
        let shown = String::from_utf8_lossy(&segments.concat()).replace("\r\n", " ");
        self.log.push(format!("{from}> {}", shown.chars().take(300).collect::<String>()));
        for segment in segments {
            self.links[from].stream.write_all(segment).unwrap();
            self.simulated.receive(self.links[from].connection, segment);
        }
        let others = (0..self.links.len()).filter(|link| *link != from);
        let others: Vec<usize> = others.collect();
        for link in std::iter::once(from).chain(others) {
            let output = self.simulated.take_output(self.links[link].connection);
            let (simulated, length) = Resp::read_all(&output);
            assert_eq!(length, output.len(), "half a reply was simulated");
            let real = self.links[link].read(simulated.len());
            self.log.push(format!("{link}< {real:?}"));
            if !are_alike(&real, &simulated, varies) {
                let last = self.log[self.log.len().saturating_sub(12)..].join("\n");
                panic!(
                    "{last}\n\nclient {link} got another answer\n     real {real:?}\nsimulated {simulated:?}"
                );
            }
        }
    }

    /// Checks that no client of the real server has got more than was compared.
    pub(crate) fn assert_nothing_more(&mut self) {
        (0..self.links.len()).for_each(|link| self.assert_nothing_more_on(link));
    }

    pub(crate) fn assert_nothing_more_on(&mut self, link: usize) {
        self.same(link, &["PING", "the end"]);
    }

    /// Checks that both servers closed a connection.
    pub(crate) fn assert_closed(&mut self, link: usize) {
        let Link { stream, connection, .. } = &mut self.links[link];
        let mut byte = [0];
        let ended = match stream.read(&mut byte) {
            Ok(length) => length == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        assert!(ended, "the real server closes");
        assert_eq!(self.simulated.take_closed(), [*connection], "the simulated server closes");
    }

    /// The id that the real and the simulated server have for a connection.
    pub(crate) fn ids(&mut self, link: usize) -> (u64, u64) {
        let words = [b"CLIENT".to_vec(), b"ID".to_vec()];
        let Link { stream, .. } = &mut self.links[link];
        stream.write_all(&encode(&words)).unwrap();
        let real = self.links[link].read(1);
        let [Resp::Line(b':', id)] = real.as_slice() else { panic!("{real:?}") };
        (id.parse().unwrap(), self.links[link].connection)
    }

    /// Sends each server its own bytes and compares the answers.
    pub(crate) fn exchange_each(&mut self, from: usize, real: &[u8], simulated: &[u8]) {
        self.links[from].stream.write_all(real).unwrap();
        self.simulated.receive(self.links[from].connection, simulated);
        self.exchange(from, &[], Varies::Nothing);
    }
}

impl Link {
    /// Reads at least `count` replies; fewer if the server is silent or closes.
    fn read(&mut self, count: usize) -> Vec<Resp> {
        let mut buffer = [0; 16 * 1024];
        loop {
            let (replies, length) = Resp::read_all(&self.received);
            if replies.len() >= count {
                self.received.drain(..length);
                return replies;
            }
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return replies,
                Ok(length) => self.received.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

fn are_alike(real: &[Resp], simulated: &[Resp], varies: Varies) -> bool {
    real.len() == simulated.len()
        && real.iter().zip(simulated).all(|(real, simulated)| is_alike(real, simulated, varies))
}

fn is_alike(real: &Resp, simulated: &Resp, varies: Varies) -> bool {
    match (varies, real, simulated) {
        (Varies::Id, Resp::List(a, reals), Resp::List(b, simulateds)) => {
            a == b && are_alike(reals, simulateds, varies)
        }
        (Varies::Id, Resp::Line(b':', _), Resp::Line(b':', _)) => true,
        (Varies::Time | Varies::Epoch, Resp::Line(b':', real), Resp::Line(b':', simulated)) => {
            is_close(real, simulated)
        }
        (Varies::Time, Resp::List(b'*', real), Resp::List(b'*', simulated)) if real.len() == 2 => {
            let texts = [real, simulated].map(|time| time[0].text().unwrap_or_default());
            simulated.len() == 2 && is_close(&texts[0], &texts[1])
        }
        (Varies::Epoch, Resp::List(a, reals), Resp::List(b, simulateds)) => {
            a == b && are_alike(reals, simulateds, varies)
        }
        (Varies::Epoch, Resp::Bulk(a, Some(real)), Resp::Bulk(b, Some(simulated))) => {
            a == b && mask(real) == mask(simulated)
        }
        (Varies::Order, Resp::List(_, real), Resp::List(_, simulated)) => {
            let sorted = |parts: &[Resp]| {
                let mut parts = parts.to_vec();
                if let Some(Resp::List(_, items)) = parts.get_mut(1) {
                    items.sort();
                }
                parts
            };
            sorted(real) == sorted(simulated)
        }
        (Varies::Pairs, Resp::List(a, real), Resp::List(b, simulated)) => {
            let sorted = |items: &[Resp]| {
                let mut pairs: Vec<_> = items.chunks(2).map(<[Resp]>::to_vec).collect();
                pairs.sort();
                pairs
            };
            a == b && sorted(real) == sorted(simulated)
        }
        (Varies::Info, Resp::Bulk(a, Some(real)), Resp::Bulk(b, Some(simulated))) => {
            a == b && has_all_fields(&String::from_utf8_lossy(real), &String::from_utf8_lossy(simulated))
        }
        _ => real == simulated,
    }
}

fn is_close(real: &str, simulated: &str) -> bool {
    match (real.parse::<i64>(), simulated.parse::<i64>()) {
        (Ok(real), Ok(simulated)) => {
            // Moments in microseconds.
            let unit = if real > 1_000_000_000_000_000 { 1_000 } else { 1 };
            real == simulated
                || (real > 0 && simulated > 0 && (real - simulated).abs() < TOLERANCE_MILLIS * unit)
        }
        _ => false,
    }
}

/// A text without its moments and run ids. A nonce stays.
fn mask(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let parts = text.split(':').map(|part| match part {
        part if part.len() == 40 && part.bytes().all(|byte| byte.is_ascii_hexdigit()) => "run",
        part if part.len() >= MOMENT_DIGITS && part.bytes().all(|byte| byte.is_ascii_digit()) => "moment",
        part => part,
    });
    parts.collect::<Vec<_>>().join(":")
}

/// Every field that is simulated is real, and has the same value if that is no number or id. A database whose keys
/// all expire may be missing: a real server removes expired keys at times of its own.
fn has_all_fields(real: &str, simulated: &str) -> bool {
    let is_number = |value: &str| value.parse::<i64>().is_ok() || value.len() == 40;
    simulated.lines().filter(|line| !line.trim().is_empty()).all(|line| {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let found = real.lines().find(|line| *line == name || line.starts_with(&format!("{name}:")));
        let Some(found) = found else { return name.starts_with("db") && all_keys_expire(value) };
        let found = found.split_once(':').map_or("", |(_, value)| value);
        found == value || is_number(found) && is_number(value) || name.starts_with("db")
    })
}

/// Whether the line of a database says that each of its keys expires.
fn all_keys_expire(value: &str) -> bool {
    let number = |name: &str| value.split(',').find_map(|part| part.strip_prefix(name));
    number("keys=").is_some() && number("keys=") == number("expires=")
}
