//! A server's epoch, as it is stored and as it is read.

use crate::context::CLOCK_TOLERANCE;
use crate::node::redis::protocol::resp::Value;
use bytes::Bytes;
use quorlock_core::Wall;
use std::time::Duration;

/// What the verify script answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The epoch, if the server has one of this run and database.
    pub(crate) epoch: Option<Epoch>,
    /// The server's wall clock.
    pub(crate) now: Wall,
}

/// An epoch as the server stores it: since when it remembers everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// `v2:run_id:began:votes_from:longest:db:durable:nonce`; times in milliseconds of the server's wall
    /// clock.
    pub(super) value: Bytes,
    /// When it began, by the server's wall clock.
    pub(super) began: Duration,
    /// From when on the server may vote, by the same clock, as far as the client that wrote it knew.
    pub(super) votes_from: Duration,
    /// The longest ttl of any client that the server has recorded.
    pub(crate) longest: Duration,
}

/// How long a server that may have forgotten locks of up to `longest` must not vote.
pub(crate) fn quarantine(longest: Duration) -> Duration {
    longest.saturating_add(2 * CLOCK_TOLERANCE)
}

impl Reading {
    /// Reads the script's answer; `None` if it is none.
    pub(crate) fn parse(answer: &Value) -> Option<Self> {
        let Value::Array(fields) = answer else {
            return None;
        };
        let [Value::Text(value), began, votes_from, longest, now] = fields.as_slice() else {
            return None;
        };
        let epoch = Epoch {
            value: value.clone(),
            began: Duration::from_millis(began.number()?),
            votes_from: Duration::from_millis(votes_from.number()?),
            longest: Duration::from_millis(longest.number()?),
        };
        let epoch = (!value.is_empty()).then_some(epoch);
        Some(Self { epoch, now: Wall::from_micros(now.number()?) })
    }
}

/// Where an epoch was confirmed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) run_id: String,
    pub(crate) db: u32,
    /// Whether the server synced every write all through that run.
    pub(crate) durable: bool,
}

impl Epoch {
    /// Reads an epoch as it is stored; `None` if it is none.
    pub(crate) fn of_stored(stored: &[u8]) -> Option<(Origin, Self)> {
        let parts: Vec<&str> = std::str::from_utf8(stored).ok()?.split(':').collect();
        let ["v2", run_id, began, votes_from, longest, db, durable, nonce] = parts[..] else {
            return None;
        };
        let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
        let origin = Origin {
            run_id: run_id.to_owned(),
            db: db.parse().ok()?,
            durable: match durable {
                "d" => true,
                "n" => false,
                _ => return None,
            },
        };
        let epoch = Self {
            value: Bytes::copy_from_slice(stored),
            began: millis(began)?,
            votes_from: millis(votes_from)?,
            longest: millis(longest)?,
        };
        (!nonce.is_empty()).then_some((origin, epoch))
    }

    /// How long ago it began. A server clock that went back counts as no age at all.
    pub(crate) fn age(&self, now: Wall) -> Duration {
        Duration::from_micros(now.as_micros()).saturating_sub(self.began)
    }

    /// What makes it unique: it changes when the memory behind it is lost, and only then.
    pub(crate) fn nonce(&self) -> &[u8] {
        self.value.rsplit(|byte| *byte == b':').next().unwrap_or_default()
    }

    /// The run of the server in which it was last confirmed.
    pub(super) fn run_id(&self) -> &[u8] {
        self.value.split(|byte| *byte == b':').nth(1).unwrap_or_default()
    }

    /// How long the server may not vote yet, where `recorded` is the longest ttl that any node has recorded.
    ///
    /// A node that has recorded less than others forgot after they recorded it, or missed it: it waits
    /// for theirs.
    pub(super) fn left(&self, now: Wall, recorded: Duration) -> Duration {
        let due = if recorded > self.longest {
            self.votes_from.max(self.began.saturating_add(quarantine(recorded)))
        } else {
            self.votes_from
        };
        due.saturating_sub(Duration::from_micros(now.as_micros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_script_stores_can_be_read_without_it() {
        let (origin, stored) = Epoch::of_stored(b"v2:ab:1000000:1040000:30000:3:d:ff").unwrap();
        assert_eq!(origin, Origin { run_id: "ab".to_owned(), db: 3, durable: true });
        assert_eq!(
            (stored.age(Wall::from_micros(1_005_000_000)), stored.longest),
            (Duration::from_secs(5), Duration::from_secs(30))
        );
        assert_eq!(stored.nonce(), b"ff");
        for other in [
            "",
            "v1:ab:1:2:ff",
            "v2:ab:1:2:3:0:n:",
            "v2:ab:1:2:3:0:x:ff",
            "v2:ab:x:2:3:0:n:ff",
            "v2:ab:1:2:3:-1:n:ff",
            "v2:ab:1:2:3:0:n:ff:ff",
        ] {
            assert_eq!(Epoch::of_stored(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_no_reading() {
        for answer in [Value::Null, Value::Array(vec![]), Value::Array(vec![Value::Null; 5])] {
            assert_eq!(Reading::parse(&answer), None);
        }
        let none = Value::Array(vec![
            Value::Text("".into()),
            Value::Integer(0),
            Value::Integer(0),
            Value::Integer(0),
            Value::Integer(7),
        ]);
        assert_eq!(Reading::parse(&none), Some(Reading { epoch: None, now: Wall::from_micros(7) }));
    }
}
