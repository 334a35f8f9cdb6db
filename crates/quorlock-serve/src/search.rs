//! Searches, sorts and pages the list of held locks.

use crate::ask::Fields;
use crate::code::Code;
use crate::listing::Snapshot;
use crate::problem::Problem;
use crate::view::millis;
use quorlock::node::Names;
use quorlock::{Holder, Inspection, Name};
use serde::Deserialize;
use std::cmp::Ordering;
use std::time::Instant;
use utoipa::{IntoParams, ToSchema};

/// The longest page. No list of held locks is longer, see [`Names::MOST`].
pub(crate) const MOST: usize = Names::MOST;

/// Which held locks a caller wants, in which order. Without parameters: all of them, by name.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Search {
    /// Only locks whose name, owner or reason contains this text, in upper or lower case, or whose holder has this
    /// process id. At most 512 bytes.
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

/// By what locks are sorted: their name, when their holder began to acquire them, when they end unless extended.
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

/// Where a lock is in an order. Each lock has its own place, so a page can begin behind one that is no longer held.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    key: u64,
    name: &'a str,
}

impl Search {
    /// The search with parameters that make sense, and at most `limit` locks if the caller gave no limit.
    pub(crate) fn checked(self, limit: usize) -> Result<Checked, Problem> {
        let limit = self.limit.unwrap_or(limit);
        if !(1..=MOST).contains(&limit) {
            return Err(bad("give a limit of 1 to 10000"));
        }
        let words = self.q.unwrap_or_default();
        if words.len() > Name::MAX_BYTES {
            return Err(bad("search for at most 512 bytes; no name is longer"));
        }
        let after = self.after.as_deref().map(|text| {
            let (key, name) = text.split_once(' ')?;
            Some((key.parse().ok()?, name.to_owned()))
        });
        if after == Some(None) {
            return Err(bad("give as `after` the `next` of the page before, percent-encoded"));
        }
        Ok(Checked { words: words.to_lowercase(), sort: self.sort, limit, after: after.flatten() })
    }
}

/// A search that has an answer.
#[derive(Debug)]
pub(crate) struct Checked {
    /// In lower case.
    words: String,
    sort: Sort,
    limit: usize,
    /// Key and name of the last lock before the page.
    after: Option<(u64, String)>,
}

impl Checked {
    /// The locks of `snapshot` that are wanted. `epoch` is before any snapshot, and the same for all.
    pub(crate) fn page<'a>(&self, snapshot: &'a Snapshot, epoch: Instant) -> Page<'a> {
        let matching = snapshot.listing.held.iter().filter(|seen| matches(seen, &self.words));
        let mut found: Vec<(Place<'a>, &Inspection)> =
            matching.map(|seen| (self.sort.place(seen, snapshot, epoch), seen)).collect();
        found.sort_unstable_by(|(one, _), (other, _)| self.sort.compare(one, other));
        let before = self.after.as_ref().map_or(0, |(key, name)| {
            let last = Place { key: *key, name };
            found.partition_point(|(place, _)| self.sort.compare(place, &last) != Ordering::Greater)
        });
        let end = found.len().min(before.saturating_add(self.limit));
        let page = &found[before..end];
        let last = page.last().filter(|_| end < found.len());
        Page {
            matched: found.len(),
            before,
            locks: page.iter().map(|(_, seen)| *seen).collect(),
            next: last.map(|(place, _)| format!("{} {}", place.key, place.name)),
        }
    }
}

impl Sort {
    fn place<'a>(self, seen: &'a Inspection, snapshot: &Snapshot, epoch: Instant) -> Place<'a> {
        let key = match self {
            Self::Name | Self::NameReversed => 0,
            Self::Oldest | Self::Newest => since(seen),
            Self::EndsFirst | Self::EndsLast => {
                let listed = snapshot.made.saturating_duration_since(epoch);
                seen.left.map_or(u64::MAX, |left| millis(listed + left))
            }
        };
        Place { key, name: seen.name.as_str() }
    }

    fn compare(self, one: &Place<'_>, other: &Place<'_>) -> Ordering {
        match self {
            Self::Name | Self::Oldest | Self::EndsFirst => one.cmp(other),
            Self::NameReversed | Self::Newest | Self::EndsLast => other.cmp(one),
        }
    }
}

/// When the holder began to acquire the lock, in milliseconds since 1970; zero if it does not say so.
fn since(seen: &Inspection) -> u64 {
    match &seen.holder {
        Holder::Owner { owner, .. } => owner.since.as_micros() / 1000,
        _ => 0,
    }
}

/// Whether a lock contains `words`, which are in lower case.
fn matches(seen: &Inspection, words: &str) -> bool {
    let contains = |text: &str| text.to_lowercase().contains(words);
    if words.is_empty() || contains(seen.name.as_str()) {
        return true;
    }
    let Holder::Owner { owner, .. } = &seen.holder else { return false };
    contains(&owner.who) || owner.reason.as_deref().is_some_and(contains) || owner.pid.to_string() == words
}

fn bad(detail: &'static str) -> Problem {
    Problem::new(Code::BadRequest, detail)
}
