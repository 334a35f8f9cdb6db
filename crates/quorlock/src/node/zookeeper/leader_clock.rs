//! Since when a hold lasts, on our own boot clock. It is for us to judge when a hold is over: ZooKeeper ends
//! nothing by time.
//!
//! Three facts bound the moment of a write, each sound by itself, and the earliest bound counts:
//! - **Sighting**: we read the write, so it was made before.
//! - **Sample**: a later write of our own was answered, so it was made before that.
//! - **Leader's clock**: the wall clock of one leader, read by a later write of our own, shows the age of the
//!   write, unless it jumped forward. [`JUMP_MARGIN`] is added for that. Only times of one leader are compared:
//!   the upper half of a write's number counts leaders. A write under an earlier leader is at least as old as
//!   the first write that any client marked under this one, so the clocks of members need not agree.

use crate::context::mutex::Mutex;
use crate::node::zookeeper::stored::{Span, Written};
use quorlock_core::Moment;
use std::collections::HashMap;
use std::time::Duration;

/// How far the wall clock of a leader may jump forward during a hold.
const JUMP_MARGIN: Duration = Duration::from_secs(1);
/// The most holds of which it is remembered when they were first seen.
const MAX_SIGHTINGS: usize = 4096;

/// Which leader made a write.
pub(crate) fn term_of(zxid: i64) -> i64 {
    zxid >> 32
}

/// What is known of the times of writes.
#[derive(Debug, Default)]
pub(crate) struct LeaderClock(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    sample: Option<Sample>,
    /// The first write that was marked under the leader of the sample.
    mark: Option<Written>,
    sightings: HashMap<String, Sighting>,
}

/// A write of ours, and when we had its answer.
#[derive(Clone, Copy, Debug)]
struct Sample {
    written: Written,
    at: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Sighting {
    zxid: i64,
    at: Moment,
}

/// What must be asked before a span can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// A new sample.
    Sample,
    /// The mark of the leader of the sample.
    Mark,
}

impl LeaderClock {
    /// Records a write of ours that was answered before `now`.
    pub(crate) fn sample(&self, written: Written, now: Moment) {
        let mut known = self.0.lock();
        if known.sample.is_none_or(|sample| sample.written.zxid < written.zxid) {
            known.sample = Some(Sample { written, at: now });
        }
    }

    /// Records the mark of a leader.
    pub(crate) fn set_mark(&self, mark: Written) {
        self.0.lock().mark = Some(mark);
    }

    /// Records that the hold of `token` was read before `now`, with its last write.
    pub(crate) fn see(&self, token: &str, span: &Span, now: Moment) {
        let Some(Written { zxid, .. }) = span.since else { return };
        let mut known = self.0.lock();
        if known.sightings.get(token).is_some_and(|sighting| sighting.zxid == zxid) {
            return;
        }
        if known.sightings.len() >= MAX_SIGHTINGS {
            let oldest = known.sightings.iter().min_by_key(|(_, sighting)| sighting.at);
            if let Some(oldest) = oldest.map(|(token, _)| token.clone()) {
                known.sightings.remove(&oldest);
            }
        }
        known.sightings.insert(token.to_owned(), Sighting { zxid, at: now });
    }

    /// Forgets a hold that was released.
    pub(crate) fn forget(&self, token: &str) {
        self.0.lock().sightings.remove(token);
    }

    /// What must be asked to judge `span`, which may be over; `None` if it is known well enough.
    pub(crate) fn missing(&self, span: &Span, now: Moment) -> Option<Missing> {
        let known = self.0.lock();
        let Some(sample) = known.sample else { return Some(Missing::Sample) };
        let zxid = span.since?.zxid;
        if zxid > sample.written.zxid {
            // It began after our sample, so it may be over only if the sample is older than its length.
            return (now.since(sample.at) >= span.length).then_some(Missing::Sample);
        }
        let is_marked = || known.mark.is_some_and(|mark| term_of(mark.zxid) == term_of(sample.written.zxid));
        (term_of(zxid) < term_of(sample.written.zxid) && !is_marked()).then_some(Missing::Mark)
    }

    /// The leader of the last sample.
    pub(crate) fn term(&self) -> Option<i64> {
        self.0.lock().sample.map(|sample| term_of(sample.written.zxid))
    }

    /// A moment at or after the write that `span` began with. No later one is known to be.
    pub(crate) fn began_by(&self, token: Option<&str>, span: &Span, now: Moment) -> Moment {
        let known = self.0.lock();
        let Some(written) = span.since else { return now };
        let sighting = token.and_then(|token| known.sightings.get(token));
        let seen = sighting.filter(|sighting| sighting.zxid == written.zxid).map_or(now, |seen| seen.at);
        let Some(sample) = known.sample.filter(|sample| sample.written.zxid >= written.zxid) else {
            return seen.min(now);
        };
        let of_one_leader = |one: &Written, other: &Written| {
            term_of(one.zxid) == term_of(other.zxid) && one.zxid <= other.zxid
        };
        // What the leader's clock had shown by then, at the latest.
        let earlier = [Some(written), known.mark.filter(|mark| written.zxid <= mark.zxid)];
        let earlier = earlier.into_iter().flatten().find(|earlier| of_one_leader(earlier, &sample.written));
        let by_leader = earlier.map_or(sample.at, |earlier| {
            let age = u64::try_from(sample.written.mtime - earlier.mtime).unwrap_or_default();
            sample.at - Duration::from_millis(age) + JUMP_MARGIN
        });
        seen.min(sample.at).min(by_leader).min(now)
    }

    /// When the write was made, as far as is known: for reports, not for decisions. In the order of the leader's
    /// clock.
    pub(crate) fn estimate(&self, token: Option<&str>, span: &Span, now: Moment) -> Moment {
        let (Some(written), Some(sample)) = (span.since, self.0.lock().sample) else {
            return self.began_by(token, span, now);
        };
        let ahead = written.mtime - sample.written.mtime;
        let distance = Duration::from_millis(ahead.unsigned_abs());
        let estimated = if ahead < 0 { sample.at - distance } else { sample.at + distance };
        // What was written after the sample cannot have been written before it.
        let earliest = if written.zxid > sample.written.zxid { sample.at } else { estimated };
        estimated.max(earliest).min(now)
    }

    /// The time of the leader, at the earliest, in milliseconds.
    pub(crate) fn leader_millis(&self, now: Moment) -> Option<i64> {
        let sample = self.0.lock().sample?;
        Some(sample.written.mtime + i64::try_from(now.since(sample.at).as_millis()).unwrap_or(i64::MAX / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    fn written(term: i64, number: i64, seconds: i64) -> Written {
        Written { zxid: (term << 32) + number, mtime: seconds * 1000 }
    }

    fn span(term: i64, number: i64, seconds: i64) -> Span {
        Span { length: TTL, since: Some(written(term, number, seconds)) }
    }

    #[test]
    fn a_hold_that_is_only_seen_lasts_from_then_on() {
        let clock = LeaderClock::default();
        clock.see("t", &span(1, 5, 1000), at(100));
        assert_eq!(clock.began_by(Some("t"), &span(1, 5, 1000), at(107)), at(100));
        assert_eq!(clock.began_by(Some("t"), &span(1, 6, 1003), at(107)), at(107), "it was extended since");
        assert_eq!(clock.missing(&span(1, 5, 1000), at(107)), Some(Missing::Sample));
    }

    #[test]
    fn the_clock_of_one_leader_shows_the_age_with_a_margin_for_jumps() {
        let clock = LeaderClock::default();
        clock.sample(written(1, 9, 1008), at(100));
        assert_eq!(clock.began_by(None, &span(1, 5, 1000), at(107)), at(93));
        assert_eq!(
            clock.began_by(None, &span(1, 8, 1008), at(107)),
            at(100),
            "before our sample in any case"
        );
        assert_eq!(clock.missing(&span(1, 5, 1000), at(107)), None);
    }

    /// Goal: a leader's clock that was set back does not make later holds look older than they are.
    #[test]
    fn a_sample_says_nothing_of_later_writes() {
        let clock = LeaderClock::default();
        clock.sample(written(1, 9, 1000), at(100));
        let later = span(1, 10, 900);
        assert_eq!(clock.began_by(None, &later, at(105)), at(105));
        assert_eq!(clock.estimate(None, &later, at(105)), at(100));
        assert_eq!(clock.missing(&later, at(109)), None, "it cannot be over yet");
        assert_eq!(clock.missing(&later, at(110)), Some(Missing::Sample));
    }

    /// Goal: the clocks of two leaders are never compared.
    #[test]
    fn a_hold_of_an_earlier_leader_lasts_from_the_mark_of_this_one() {
        let clock = LeaderClock::default();
        let old = span(1, 5, 1000);
        clock.sample(written(2, 9, 9_000), at(100));
        assert_eq!(clock.missing(&old, at(101)), Some(Missing::Mark));
        assert_eq!(clock.began_by(None, &old, at(101)), at(100));
        clock.set_mark(written(2, 3, 8_996));
        assert_eq!(clock.missing(&old, at(101)), None);
        assert_eq!(clock.began_by(None, &old, at(101)), at(97));
        clock.sample(written(3, 1, 9_100), at(110));
        assert_eq!(clock.missing(&old, at(111)), Some(Missing::Mark), "that was another leader's mark");
        assert_eq!(clock.began_by(None, &old, at(111)), at(110));
    }

    #[test]
    fn sightings_are_bounded_and_the_oldest_goes_first() {
        let clock = LeaderClock::default();
        for number in 0..=MAX_SIGHTINGS as u64 {
            clock.see(&number.to_string(), &span(1, 5, 1000), at(number));
        }
        assert_eq!(clock.0.lock().sightings.len(), MAX_SIGHTINGS);
        assert_eq!(clock.began_by(Some("0"), &span(1, 5, 1000), at(9_000)), at(9_000));
        assert_eq!(clock.began_by(Some("1"), &span(1, 5, 1000), at(9_000)), at(1));
    }
}
