//! Searching, sorting and paging the list of held locks.

use crate::api::request::Fields;
use crate::dashboard::lock_list_cache::Snapshot;
use crate::json::{millis, unix_ms};
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use quorlock::node::Names;
use quorlock::{Holder, Inspection, Name, Owner};
use serde::Deserialize;
use std::cmp::Ordering;
use std::time::Instant;
use utoipa::{IntoParams, ToSchema};

/// The longest page. No list of held locks is longer, see [`Names::MOST`].
pub(crate) const MAX_LIMIT: usize = Names::MOST;

/// Which held locks a caller wants, in which order. Without parameters: all of them, by name.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Search {
    /// Only locks whose name, owner or reason contains this text, in upper or lower case, or whose
    /// holder has this process id. At most 512 bytes.
    #[param(max_length = 512)]
    q: Option<String>,
    /// The order. A minus reverses it.
    #[serde(default)]
    #[param(inline)]
    sort: Sort,
    /// The most locks to return.
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<usize>,
    /// The `next` of the page before, of the same `q` and `sort`.
    after: Option<String>,
}

impl Fields for Search {
    const FIELDS: &'static str = "q (text of at most 512 bytes), sort (name, since or remaining; a minus before it reverses the \
                                  order), limit (1 to 10000), after (the `next` of the page before)";
}

/// The order of locks: their name, when their holder began to acquire them, when they end unless extended.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub(crate) enum Sort {
    #[default]
    #[serde(rename = "name")]
    Name,
    #[serde(rename = "-name")]
    NameReversed,
    #[serde(rename = "since")]
    Oldest,
    #[serde(rename = "-since")]
    Newest,
    #[serde(rename = "remaining")]
    EndsFirst,
    #[serde(rename = "-remaining")]
    EndsLast,
}

/// Some of the held locks.
#[derive(Debug, Default)]
pub(crate) struct Page<'a> {
    /// How many locks match.
    pub(crate) matched: usize,
    /// How many of them come before this page.
    pub(crate) before: usize,
    pub(crate) locks: Vec<&'a Inspection>,
    /// Where the next page begins, if there is one.
    pub(crate) next: Option<String>,
}

/// The position of a lock in an order. No two locks have the same, so a page can begin after a lock that
/// has been released.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position<'a> {
    key: u64,
    name: &'a str,
}

impl Search {
    /// Checks the parameters. A caller that gave no limit gets at most `limit` locks.
    pub(crate) fn validate(self, limit: usize) -> Result<ValidSearch, Problem> {
        let limit = self.limit.unwrap_or(limit);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(bad_request("give a limit of 1 to 10000"));
        }
        let words = self.q.unwrap_or_default();
        if words.len() > Name::MAX_BYTES {
            return Err(bad_request("search for at most 512 bytes; no name is longer"));
        }
        let after = self.after.as_deref().map(|text| {
            let (key, name) = text.split_once(' ')?;
            Some((key.parse().ok()?, name.to_owned()))
        });
        if after == Some(None) {
            return Err(bad_request("give as `after` the `next` of the page before, percent-encoded"));
        }
        Ok(ValidSearch { words: words.to_lowercase(), sort: self.sort, limit, after: after.flatten() })
    }
}

/// A search with valid parameters.
#[derive(Debug)]
pub(crate) struct ValidSearch {
    /// In lower case.
    words: String,
    sort: Sort,
    limit: usize,
    /// Key and name of the last lock before the page.
    after: Option<(u64, String)>,
}

impl ValidSearch {
    /// The page of the locks in `snapshot`. `epoch` is before any snapshot, and the same for all.
    pub(crate) fn page<'a>(&self, snapshot: &'a Snapshot, epoch: Instant) -> Page<'a> {
        let matching = snapshot.listing.held.iter().filter(|seen| matches(seen, &self.words));
        let mut found: Vec<(Position<'a>, &Inspection)> =
            matching.map(|seen| (self.sort.position(seen, snapshot, epoch), seen)).collect();
        found.sort_unstable_by(|(one, _), (other, _)| self.sort.compare(one, other));
        let before = self.after.as_ref().map_or(0, |(key, name)| {
            let last = Position { key: *key, name };
            found.partition_point(|(position, _)| self.sort.compare(position, &last) != Ordering::Greater)
        });
        let end = found.len().min(before.saturating_add(self.limit));
        let page = &found[before..end];
        let last = page.last().filter(|_| end < found.len());
        Page {
            matched: found.len(),
            before,
            locks: page.iter().map(|(_, seen)| *seen).collect(),
            next: last.map(|(position, _)| format!("{} {}", position.key, position.name)),
        }
    }
}

impl Sort {
    fn position<'a>(self, seen: &'a Inspection, snapshot: &Snapshot, epoch: Instant) -> Position<'a> {
        let key = match self {
            Self::Name | Self::NameReversed => 0,
            Self::Oldest | Self::Newest => since(seen),
            Self::EndsFirst | Self::EndsLast => {
                let listed = snapshot.made.saturating_duration_since(epoch);
                seen.left.map_or(u64::MAX, |left| millis(listed + left))
            }
        };
        Position { key, name: seen.name.as_str() }
    }

    fn compare(self, one: &Position<'_>, other: &Position<'_>) -> Ordering {
        match self {
            Self::Name | Self::Oldest | Self::EndsFirst => one.cmp(other),
            Self::NameReversed | Self::Newest | Self::EndsLast => other.cmp(one),
        }
    }
}

/// When the holder, or the first of several, began to acquire the lock, in milliseconds since 1970; 0 if it is not known.
fn since(seen: &Inspection) -> u64 {
    owners(&seen.holder).map(|owner| unix_ms(owner.since)).min().unwrap_or_default()
}

/// The holder, or all that share the lock.
fn owners(holder: &Holder) -> impl Iterator<Item = &Owner> {
    let (one, readers) = match holder {
        Holder::Owner { owner, .. } => (Some(owner), &[][..]),
        Holder::Shared { readers } => (None, readers.as_slice()),
        _ => (None, &[][..]),
    };
    one.into_iter().chain(readers.iter().map(|reader| &reader.owner))
}

/// Whether a lock matches `words`, which are in lower case.
fn matches(seen: &Inspection, words: &str) -> bool {
    let contains = |text: &str| text.to_lowercase().contains(words);
    // People write a slot as `gpu #2`.
    let slot = seen.name.as_slot().map(|(semaphore, slot)| format!("{semaphore} #{slot}"));
    if words.is_empty() || contains(slot.as_deref().unwrap_or(seen.name.as_str())) {
        return true;
    }
    owners(&seen.holder).any(|owner| {
        contains(&owner.who)
            || owner.reason.as_deref().is_some_and(contains)
            || owner.pid.to_string() == words
    })
}

fn bad_request(detail: &'static str) -> Problem {
    Problem::new(ProblemCode::BadRequest, detail)
}
