//! Histories for the tests of the checks.

use crate::nemesis::checker::history::History;
use crate::nemesis::checker::promise::Promise;
use crate::nemesis::client::report_line::{Belief, Grant, Origin, ReportLine};
use quorlock::Mode;
use std::time::Duration;

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The promises that the checker finds broken.
pub(super) fn broken(mut history: History) -> Vec<Promise> {
    history.check();
    history.violations().iter().map(|violation| violation.promise).collect()
}

/// Client `client` has `a` alone until `until`; its token is `t` with the fence.
pub(super) fn grant(history: &mut History, client: usize, fence: u64, noted: u64, until: u64) {
    let belief = Belief { noted: ms(noted), until: ms(until) };
    let (names, token, called) = (vec!["a".to_owned()], format!("t{fence}"), ms(noted - 5));
    let grant = Grant { names, mode: Mode::Exclusive, fence, token, called, belief };
    history.record_line(client, ReportLine::Holds(Origin::Granted, grant));
}

/// Client `client` has these names for a second; its token is `t` with the fence.
pub(super) fn hold(
    history: &mut History,
    client: usize,
    origin: Origin,
    what: (&[&str], Mode),
    fence: u64,
    noted: u64,
) {
    hold_with(history, client, origin, &format!("t{fence}"), what, fence, noted);
}

/// The same with another token.
pub(super) fn hold_with(
    history: &mut History,
    client: usize,
    origin: Origin,
    token: &str,
    (names, mode): (&[&str], Mode),
    fence: u64,
    noted: u64,
) {
    let belief = Belief { noted: ms(noted), until: ms(noted + 1_000) };
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    let grant = Grant { names, mode, fence, token: token.to_owned(), called: ms(noted - 5), belief };
    history.record_line(client, ReportLine::Holds(origin, grant));
}

pub(super) fn force(history: &mut History, client: usize, fence: u64, at: u64) {
    let (name, token) = ("a".to_owned(), format!("t{fence}"));
    history.record_line(client, ReportLine::Forced { name, token, at: ms(at) });
}
