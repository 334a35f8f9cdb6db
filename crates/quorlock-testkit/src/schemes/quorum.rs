//! Schemes with a quorum, Redlock and quorlock, in the simulator of the shipped code.

use crate::schemes::history::Tally;
use crate::schemes::scheme::{Flaw, Scheme};
use crate::simulator::{History, InjectedBug, Outcome, Setting, WorldKind, run};

/// How many seconds before a grant a fault may still matter to it.
const LASTING: f64 = 7.0;

/// Tame worlds until there are enough acquisitions: in wild ones exclusion is not promised.
pub(crate) fn tally(scheme: Scheme, seed: u64, acquisitions: u64) -> Tally {
    let mut sum = Tally::default();
    let mut seed = seed;
    while sum.acquisitions < acquisitions {
        if let Some(outcome) = tame(scheme, seed) {
            let history = &outcome.history;
            sum.add(&Tally {
                acquisitions: history.acquisitions,
                double_holds: history.double_holds(),
                deadlocks: history.violations().iter().filter(|what| what.starts_with("L3")).count() as u64,
                lost_updates: history.lost_unfenced,
                lost_when_writes_are_fenced: history.lost_updates,
                lost_when_fenced: history.lost_fenced,
                gave_up: history.refusals,
                lasted: outcome.lasted,
                ..Tally::default()
            });
        }
        seed = seed.wrapping_add(1);
    }
    sum
}

/// The shortest trace of the scheme's flaw in the world of `seed`, if it is a tame one.
pub(crate) fn trace(scheme: Scheme, seed: u64) -> Option<Vec<String>> {
    let outcome = tame(scheme, seed)?;
    let trace = match scheme.flaw() {
        Flaw::FencedOff => fenced_off(outcome.history.timeline()),
        _ => double_hold(outcome.history.timeline()),
    };
    match scheme {
        Scheme::Quorlock => trace,
        _ => trace.map(|lines| lines.iter().map(|line| without_fences(line)).collect()),
    }
}

fn tame(scheme: Scheme, seed: u64) -> Option<Outcome> {
    let injected_bug = (scheme == Scheme::Redlock).then_some(InjectedBug::NoRestartGuard);
    let setting = Setting { injected_bug, plain: true, ..Setting::new(seed) };
    (History::kind_of(seed) == WorldKind::Tame).then(|| run(&setting))
}

/// From the grant of the first holder to the grant of the second: grants of the name, and faults.
fn double_hold(timeline: &[String]) -> Option<Vec<String>> {
    let at = timeline.iter().position(|line| line.contains("VIOLATION S1"))?;
    let (clients, name) = timeline[at].split_once("clients ")?.1.split_once(" both hold ")?;
    let (one, other) = clients.split_once(" and ")?;
    let grant = |client: &str| {
        let text = format!("client {client} holds {name} ");
        timeline[..at].iter().rposition(|line| line.contains(&text))
    };
    let start = grant(one)?.min(grant(other)?);
    let mut trace = earlier_faults(&timeline[..start], seconds(&timeline[start])?);
    trace.extend(pick(&timeline[start..=at], name));
    Some(trace)
}

/// Faults that may last until `second`, and keep a vote from some servers.
fn earlier_faults(timeline: &[String], second: f64) -> Vec<String> {
    let lasting = ["Partition", "OneWay", "Delay", "Stop", "Crash", "Amnesia", "Flush"];
    let is_lasting = |line: &&String| lasting.iter().any(|fault| line.contains(&format!(" fault {fault} ")));
    let is_near = |line: &&String| seconds(line).is_some_and(|at| at > second - LASTING);
    timeline.iter().filter(is_lasting).filter(is_near).cloned().collect()
}

fn seconds(line: &str) -> Option<f64> {
    line.split_once('s')?.0.trim().parse().ok()
}

/// The same line without fences.
fn without_fences(line: &str) -> String {
    if let Some((at, name)) = line.split_once("the resource ") {
        let name = name.split(' ').next().unwrap_or_default();
        return format!("{at}the late write reaches {name}, which another has written since");
    }
    line.split(" with fence ").next().unwrap_or_default().to_owned()
}

/// From the grant of a fence to the write that the resource refuses.
fn fenced_off(timeline: &[String]) -> Option<Vec<String>> {
    let trace = |at: usize| {
        let (name, fence) = timeline[at].split_once("the resource ")?.1.split_once(" refuses fence ")?;
        let text = format!("holds {name} with fence {fence}");
        let start = timeline[..at].iter().rposition(|line| line.ends_with(&text))?;
        Some(pick(&timeline[start..=at], name))
    };
    let refusals = (0..timeline.len()).filter(|at| timeline[*at].contains(" refuses fence "));
    refusals.filter_map(trace).min_by_key(Vec::len)
}

fn pick(lines: &[String], name: &str) -> Vec<String> {
    let is_about = |line: &&String| {
        line.contains(" fault ")
            || line.contains("VIOLATION S1")
            || line.contains(&format!(" holds {name} "))
            || line.contains(&format!(" lost {name} "))
            || line.contains(&format!(" the resource {name} "))
    };
    lines.iter().filter(is_about).cloned().collect()
}
