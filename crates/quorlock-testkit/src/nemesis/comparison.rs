//! What a storm did to the clients of one library, as a row of a table.

use crate::nemesis::checker::AFTERMATH;
use crate::nemesis::checker::history::{History, Stop};
use crate::nemesis::checker::hold::Hold;
use crate::nemesis::contestants::Contestant;
use crate::nemesis::{Outcome, Promise};
use std::collections::BTreeMap;
use std::time::Duration;

/// A machine under load may delay a call by this much without a hang.
const HANG_MARGIN: Duration = Duration::from_secs(3);

/// A client that gets a loss signal needs a moment to report it, while the next one already has the lock.
const MOMENT: Duration = Duration::from_millis(10);

/// One library in one storm.
#[derive(Clone, Debug)]
pub struct Row {
    /// The library.
    pub contestant: Contestant,
    /// Locks that were granted.
    pub acquisitions: usize,
    /// Holds during which another client got the lock, both within the validity that the library
    /// reports.
    pub double_holds: DoubleHolds,
    /// Updates of the protected value that were overwritten unread, and all updates.
    pub lost_updates: (u64, u64),
    /// The same for the value that compares fences; `None` if the library has no fence.
    pub lost_with_fence: Option<(usize, u64)>,
    /// Locks on servers when all clients had been idle for longer than a ttl.
    pub left_behind: usize,
    /// The longest time in which no client was granted a lock.
    pub longest_gap: Duration,
    /// Calls that took longer than the library says.
    pub hangs: usize,
    /// Clients that ended by themselves.
    pub crashes: u64,
    /// Clients that did not get a lock within a minute after the last fault.
    pub not_recovered: usize,
}

/// Holds during which another client got the lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoubleHolds {
    /// Without an excuse.
    pub plain: usize,
    /// Within a ttl after a server forgot a lock, which Redlock does not promise to survive.
    pub after_forgetting: usize,
    /// After the holder was stopped, by a library that does not say for how long a lock is held.
    pub after_stop: usize,
}

impl Row {
    /// What `outcome` says about the library that ran in it.
    pub fn new(contestant: Contestant, outcome: &Outcome) -> Self {
        let (history, ledger) = (&outcome.history, &outcome.ledger);
        let is_fenced = contestant == Contestant::Quorlock;
        let recovery = history.violations().iter().filter(|violation| violation.promise == Promise::Recovery);
        Self {
            contestant,
            acquisitions: history.acquisitions(),
            double_holds: double_holds(history),
            lost_updates: (ledger.lost_updates, ledger.plain_writes),
            lost_with_fence: is_fenced.then_some((ledger.fenced_losses.len(), ledger.fenced_writes)),
            left_behind: outcome.left_behind,
            longest_gap: longest_gap(history),
            hangs: hangs(history, contestant.call_limit() + HANG_MARGIN),
            crashes: history.crashes,
            not_recovered: recovery.count(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let DoubleHolds { plain, after_forgetting, after_stop } = self.double_holds;
        let lost = |lost: u64, all: u64| format!("{lost} of {all}");
        let fenced = self.lost_with_fence.map(|(losses, writes)| lost(losses as u64, writes));
        vec![
            self.contestant.to_string(),
            self.acquisitions.to_string(),
            plain.to_string(),
            after_forgetting.to_string(),
            after_stop.to_string(),
            lost(self.lost_updates.0, self.lost_updates.1),
            fenced.unwrap_or_else(|| "no fence".to_owned()),
            self.left_behind.to_string(),
            format!("{:.1} s", self.longest_gap.as_secs_f64()),
            self.hangs.to_string(),
            self.crashes.to_string(),
            self.not_recovered.to_string(),
        ]
    }
}

const HEADS: [&str; 12] = [
    "client",
    "acquisitions",
    "double holds",
    "... after a server forgot",
    "... after a stop",
    "updates lost",
    "... with the fence",
    "locks left",
    "longest gap",
    "hangs",
    "crashes",
    "not recovered",
];

/// The rows as a Markdown table, with the settings of each library below.
pub fn table(rows: &[Row]) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&HEADS.map(str::to_owned)) + &line(&HEADS.map(|_| "---".to_owned()));
    text.extend(rows.iter().map(|row| line(&row.cells())));
    text.push('\n');
    text.extend(rows.iter().map(|row| format!("- {}: {}.\n", row.contestant, row.contestant.settings())));
    text
}

fn double_holds(history: &History) -> DoubleHolds {
    let mut by_name: BTreeMap<&str, Vec<&Hold>> = BTreeMap::new();
    for hold in &history.holds {
        // Every library locks one name at a time there.
        by_name.entry(&hold.names[0]).or_default().push(hold);
    }
    let mut found = DoubleHolds::default();
    for mut holds in by_name.into_values() {
        holds.sort_by_key(|hold| hold.noted());
        let mut open: Vec<Open> = Vec::new();
        for hold in holds {
            let (from, until) = (hold.noted(), hold.until(&history.sleeps));
            open.retain(|other| other.until > from);
            if until <= from {
                continue;
            }
            let is_shared = |other: &&mut Open| !other.is_counted && until.min(other.until) - from > MOMENT;
            for other in open.iter_mut().filter(is_shared) {
                other.is_counted = true;
                if is_unlimited(other.hold) && was_stopped(&history.stops, other.hold, from) {
                    found.after_stop += 1;
                } else if has_forgotten(history, from, until.min(other.until)) {
                    found.after_forgetting += 1;
                } else {
                    found.plain += 1;
                }
            }
            open.push(Open { hold, until, is_counted: false });
        }
    }
    found
}

/// A hold that is not over yet.
struct Open<'a> {
    hold: &'a Hold,
    until: Duration,
    /// However many get the lock meanwhile, it counts once.
    is_counted: bool,
}

/// Whether the library does not say for how long the lock is held: its client reports a day.
fn is_unlimited(hold: &Hold) -> bool {
    hold.beliefs[0].until - hold.noted() > Duration::from_secs(3_600)
}

/// Whether a server forgot a lock shortly before or during this time.
fn has_forgotten(history: &History, from: Duration, until: Duration) -> bool {
    history.forgets.iter().any(|(start, end)| from <= *end + AFTERMATH && *start <= until)
}

/// Whether the holder was stopped with its lock, and before this moment.
fn was_stopped(stops: &[Stop], hold: &Hold, before: Duration) -> bool {
    stops.iter().any(|stop| stop.client == hold.client && (hold.noted()..=before).contains(&stop.from))
}

/// From the first grant to the end of the fault phase.
fn longest_gap(history: &History) -> Duration {
    let mut grants: Vec<Duration> = history.holds.iter().map(Hold::noted).collect();
    grants.sort_unstable();
    let Some(end) = history.fault_phase_end else { return Duration::ZERO };
    let within = grants.into_iter().take_while(|at| *at < end);
    let moments: Vec<Duration> = within.chain([end]).collect();
    moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

/// Calls that took longer than `limit`. The time in which the client was stopped does not count.
fn hangs(history: &History, limit: Duration) -> usize {
    let stopped = |client: usize, from: Duration, to: Duration| {
        let mine = history.stops.iter().filter(|stop| stop.client == client);
        mine.map(|stop| stop.to.min(to).saturating_sub(stop.from.max(from))).sum::<Duration>()
    };
    let calls = history.long_calls.iter();
    calls.filter(|call| call.to - call.from > limit + stopped(call.client, call.from, call.to)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::client::report_line::{Belief, Grant, Origin, ReportLine};
    use quorlock::Mode;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn grant(history: &mut History, client: usize, noted: u64, until: u64) {
        let belief = Belief { noted: ms(noted), until: ms(until) };
        let (names, token, called) = (vec!["a".to_owned()], "-".to_owned(), ms(noted - 5));
        let grant = Grant { names, mode: Mode::Exclusive, fence: 0, token, called, belief };
        history.record_line(client, ReportLine::Holds(Origin::Granted, grant));
    }

    /// Two clients at once; the first believes until `until`.
    fn shared(until: u64) -> History {
        let mut history = History::new(3);
        grant(&mut history, 0, 10_000, until);
        grant(&mut history, 1, 10_500, 10_600);
        history
    }

    #[test]
    fn two_at_once_are_counted_by_what_happened_before() {
        let plain = DoubleHolds { plain: 1, ..DoubleHolds::default() };
        assert_eq!(double_holds(&shared(11_000)), plain);
        let mut history = shared(11_000);
        history.forgets.push((ms(10_100), ms(10_200)));
        assert_eq!(double_holds(&history), DoubleHolds { after_forgetting: 1, ..DoubleHolds::default() });
        let mut history = shared(11_000);
        history.forgets.push((ms(1_000), ms(1_000)));
        assert_eq!(double_holds(&history), plain, "long ago");
    }

    #[test]
    fn a_stop_excuses_only_a_holder_that_cannot_know_that_its_lock_is_over() {
        let stop = Stop { client: 0, from: ms(10_001), to: ms(10_400) };
        let mut limited = shared(11_000);
        limited.stops.push(stop);
        assert_eq!(double_holds(&limited), DoubleHolds { plain: 1, ..DoubleHolds::default() });
        let mut unlimited = shared(86_400_000);
        unlimited.stops.push(stop);
        assert_eq!(double_holds(&unlimited), DoubleHolds { after_stop: 1, ..DoubleHolds::default() });
        let mut later = shared(86_400_000);
        later.stops.push(Stop { client: 0, from: ms(10_501), to: ms(12_000) });
        assert_eq!(double_holds(&later), DoubleHolds { plain: 1, ..DoubleHolds::default() });
    }

    #[test]
    fn a_loss_that_is_reported_a_moment_later_does_not_count() {
        let mut history = shared(86_400_000);
        history.record_line(0, ReportLine::Lost { at: ms(10_505) });
        assert_eq!(double_holds(&history), DoubleHolds::default());
    }

    #[test]
    fn a_hold_counts_once_however_many_get_the_lock_meanwhile() {
        let mut history = shared(86_400_000);
        grant(&mut history, 2, 10_700, 10_800);
        assert_eq!(double_holds(&history), DoubleHolds { plain: 1, ..DoubleHolds::default() });
    }

    #[test]
    fn a_hold_that_is_released_or_over_is_not_shared() {
        let mut history = History::new(3);
        grant(&mut history, 0, 10_000, 11_000);
        history.record_line(0, ReportLine::Releasing { at: ms(10_200), over: false });
        grant(&mut history, 1, 10_300, 10_400);
        grant(&mut history, 2, 10_500, 11_500);
        assert_eq!(double_holds(&history), DoubleHolds::default());
    }

    #[test]
    fn the_longest_gap_ends_with_the_fault_phase() {
        let mut history = History::new(1);
        assert_eq!(longest_gap(&history), Duration::ZERO);
        for noted in [10_000, 10_300, 11_000, 20_000] {
            grant(&mut history, 0, noted, noted + 1);
        }
        history.fault_phase_end = Some(ms(12_500));
        assert_eq!(longest_gap(&history), ms(1_500));
    }

    #[test]
    fn a_call_that_takes_too_long_is_a_hang_unless_its_client_was_stopped() {
        let mut history = History::new(1);
        let call = |history: &mut History, from, to| {
            history.record_line(0, ReportLine::Calling { operation: "acquire".to_owned(), at: ms(from) });
            history.record_line(0, ReportLine::Returned { at: ms(to) });
        };
        call(&mut history, 1_000, 3_500);
        call(&mut history, 4_000, 4_900);
        assert_eq!((hangs(&history, ms(2_000)), hangs(&history, ms(2_500))), (1, 0));
        history.stops.push(Stop { client: 0, from: ms(500), to: ms(1_700) });
        assert_eq!(hangs(&history, ms(2_000)), 0);
    }

    #[test]
    fn a_table_has_a_line_for_each_library_and_says_how_it_was_set() {
        let row = Row {
            contestant: Contestant::Redsync,
            acquisitions: 7,
            double_holds: DoubleHolds { plain: 1, after_forgetting: 2, after_stop: 3 },
            lost_updates: (4, 50),
            lost_with_fence: None,
            left_behind: 5,
            longest_gap: ms(1_250),
            hangs: 6,
            crashes: 8,
            not_recovered: 9,
        };
        let text = table(&[row]);
        assert!(
            text.contains("| redsync | 7 | 1 | 2 | 3 | 4 of 50 | no fence | 5 | 1.2 s | 6 | 8 | 9 |"),
            "{text}"
        );
        assert!(text.contains("- redsync: its own 32 tries"), "{text}");
    }
}
