//! Removes the records of names that were not used for two weeks: Consul keeps a key without a session for ever.

use crate::context::clock::Clock;
use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::consul::client::api::{Api, Consistency};
use crate::node::consul::client::txn::{Content, Op, Outcome};
use crate::node::consul::keys::{self, KeyKind, Keys};
use crate::node::consul::name_record::ReadRecord;
use crate::node::engine::Failure;
use quorlock_core::{Moment, Name};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How long a client runs before it sweeps for the first time, and how often it asks whether to sweep again.
const AFTER: (Duration, Duration) = (Duration::from_secs(600), Duration::from_secs(6 * 3600));
/// How long after a sweep by any client the next one begins at the earliest.
const EVERY: Duration = Duration::from_secs(86_400);
/// The most records that are looked at in one sweep.
const MAX_LOOKED_AT: usize = 10_000;

/// What removes idle records.
#[derive(Debug)]
pub(crate) struct Sweeper {
    api: Arc<Api>,
    clock: Arc<dyn Clock>,
    prefix: String,
    due: Due,
}

/// When this client sweeps next.
#[derive(Debug, Default)]
struct Due(Mutex<Option<Moment>>);

impl Due {
    /// Whether a sweep is due at `now`. The next one is not before some hours have passed.
    fn is_now(&self, now: Moment) -> bool {
        let mut due = self.0.lock();
        let at = *due.get_or_insert(now + AFTER.0);
        let is_due = now >= at;
        if is_due {
            *due = Some(now + AFTER.1);
        }
        is_due
    }
}

impl Sweeper {
    pub(crate) fn new(api: Arc<Api>, clock: Arc<dyn Clock>, prefix: &str) -> Self {
        Self { api, clock, prefix: prefix.to_owned(), due: Due::default() }
    }

    /// Sweeps if that is due, without waiting for it. What fails is removed another time.
    pub(crate) fn sweep_if_due(self: &Arc<Self>) {
        if self.due.is_now(self.clock.now()) {
            let sweeper = self.clone();
            tokio::spawn(async move { drop(sweeper.sweep().await) });
        }
    }

    /// Removes idle records, unless a client did so within the last day. Returns how many.
    pub(crate) async fn sweep(&self) -> Result<usize, NodeError> {
        let swept = format!("{}/swept", self.prefix);
        let (all, date) = self.api.keys(&Keys::all(&self.prefix)).await?;
        // Neither our clock alone nor the agent's decides.
        let now = self.clock.wall().as_micros() / 1_000_000;
        let now = now.min(date.as_deref().and_then(http_date).unwrap_or(0));
        let last = self.api.read(&[&swept], Consistency::Verified).await?;
        let last = last.iter().find(|entry| entry.key == swept);
        let at = last.and_then(|last| std::str::from_utf8(&last.value).ok()?.parse::<u64>().ok());
        if now.saturating_sub(at.unwrap_or(0)) < EVERY.as_secs() {
            return Ok(0);
        }
        let (value, index) = (now.to_string(), last.map_or(0, |last| last.modify_index));
        let content = Content { key: &swept, value: value.as_bytes(), flags: 0 };
        // If another client was quicker, it sweeps.
        match self.api.execute(&[Op::swap(content, index)]).await {
            Ok(Outcome::Done(_)) => self.remove_idle(&all, now).await,
            Ok(_) => Ok(0),
            Err(failure) => Err(failure.into_error()),
        }
    }

    /// Removes the records of names in `all` that were idle at `now`, in seconds since 1970.
    pub(crate) async fn remove_idle(&self, all: &[String], now: u64) -> Result<usize, NodeError> {
        let parsed: Vec<_> = all.iter().filter_map(|key| keys::parse(&self.prefix, key)).collect();
        let held: BTreeSet<&Name> =
            parsed.iter().filter(|key| key.kind.is_hold()).map(|key| &key.name).collect();
        let free = parsed.iter().filter(|key| key.kind == KeyKind::Record && !held.contains(&key.name));
        let mut removed = 0;
        for key in free.take(MAX_LOOKED_AT) {
            let record = Keys::new(&self.prefix, &key.name).record;
            let read = self.api.read(&[&record], Consistency::Default).await?;
            let Some(entry) = read.iter().find(|entry| entry.key == record) else { continue };
            if !ReadRecord::parse(entry).is_ok_and(|read| read.record.is_idle(now)) {
                continue;
            }
            // A client that takes the name in the meantime writes the record, so it is not removed then.
            let ops = [Op::is_unchanged(&record, entry.modify_index), Op::delete(&record)];
            let done = self.api.execute(&ops).await.map_err(Failure::into_error)?;
            removed += usize::from(matches!(done, Outcome::Done(_)));
        }
        Ok(removed)
    }
}

/// The seconds since 1970 in a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words.as_slice() else { return None };
    let month = u64::try_from(MONTHS.find(month)? / 3 + 1).ok()?;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    let mut parts = time.split(':').map(str::parse::<u64>);
    let (hour, minute, second) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    if year < 1970 || day == 0 {
        return None;
    }
    // Years that begin in March have their leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    Some(days.checked_sub(719_468)? * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("yesterday", None),
        ] {
            assert_eq!(http_date(text), seconds, "{text}");
        }
    }

    #[test]
    fn a_client_sweeps_after_a_while_and_then_every_few_hours() {
        let (sweeps, start) = (Due::default(), Moment::from_boot(Duration::from_secs(5)));
        assert!(!sweeps.is_now(start) && !sweeps.is_now(start + AFTER.0 / 2));
        assert!(sweeps.is_now(start + AFTER.0) && !sweeps.is_now(start + AFTER.0));
        assert!(sweeps.is_now(start + AFTER.0 + AFTER.1));
    }
}
