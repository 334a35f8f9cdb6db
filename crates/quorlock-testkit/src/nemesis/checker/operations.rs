//! The history of a run as operations that another checker can read.

use crate::nemesis::checker::AFTERMATH;
use crate::nemesis::checker::history::{History, RecordedAccess};
use crate::nemesis::checker::hold::Hold;
use crate::nemesis::client::report_line::Origin;
use crate::nemesis::resource::access::{Answer, Step};
use crate::operations::{Operation, OperationKind};
use quorlock::Mode;
use std::time::Duration;

impl History {
    /// What clients did, for another checker.
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = Vec::new();
        for hold in &self.holds {
            for name in &hold.names {
                operations.extend(self.operations_of(name, hold));
                operations.extend(self.force_release_of(name, hold));
            }
        }
        operations.extend(self.accesses.iter().map(|access| self.operation_of(access)));
        operations.extend(self.wild.iter().map(|(start, end)| {
            let (call, returned) = (self.since_start(*start), self.since_start(*end + AFTERMATH));
            Operation::new(OperationKind::Forget).at(call, returned)
        }));
        operations
    }

    /// An upgrade is an acquire with a fence of its own, and ends the shared hold when it is called.
    fn operations_of(&self, name: &str, hold: &Hold) -> Vec<Operation> {
        let operation = |op| Operation::on_lock(op, Some(hold.client), name, hold.fence);
        let (called, noted) = (self.since_start(hold.called), self.since_start(hold.noted()));
        let until = Some(hold.until(&self.sleeps)).filter(|until| *until > hold.noted());
        if hold.origin == Origin::Downgraded && until.is_none() {
            // It was lost before.
            return Vec::new();
        }
        let beginning = match hold.origin {
            Origin::Granted | Origin::Upgraded => OperationKind::Acquire,
            Origin::Adopted => OperationKind::Adopt,
            Origin::Downgraded => OperationKind::Downgrade,
        };
        let shared = hold.mode == Mode::Shared && hold.origin != Origin::Downgraded;
        let mut operations = vec![Operation { shared, ..operation(beginning) }.at(called, noted)];
        for belief in &hold.beliefs[1..] {
            // The calls of the watchdog are not reported.
            operations.push(operation(OperationKind::Extend).at(None, self.since_start(belief.noted)));
        }
        // A lock that was over when its client got to know of it ended at some time before.
        let until = until.map(|until| hold.upgrade_called.map_or(until, |called| until.min(called)));
        operations.push(operation(OperationKind::End).at(until.and_then(|at| self.since_start(at)), None));
        operations
    }

    fn force_release_of(&self, name: &str, hold: &Hold) -> Option<Operation> {
        let at = self.forced_at(name, hold).filter(|_| hold.is_grant())?;
        let force = Operation::on_lock(OperationKind::ForceRelease, None, name, hold.fence);
        Some(force.at(self.since_start(at), None))
    }

    fn operation_of(&self, recorded: &RecordedAccess) -> Operation {
        let access = &recorded.access;
        let (op, written) = match &access.step {
            Step::Show => (OperationKind::Show, None),
            Step::Read => (OperationKind::Read, None),
            Step::SharedRead => (OperationKind::SharedRead, None),
            Step::Write { value, based_on } => {
                (OperationKind::Write, Some((value.clone(), based_on.clone())))
            }
        };
        let (written, based_on) = written.unzip();
        let answer = recorded.answer.as_ref().map(|(answer, _)| answer);
        let (ok, read) = match answer {
            Some(Answer::Accepted(ok)) => (Some(*ok), None),
            Some(Answer::Value(value)) if access.step == Step::SharedRead => {
                (Some(true), Some(value.clone()))
            }
            Some(Answer::Value(value)) => (None, Some(value.clone())),
            None => (None, None),
        };
        let returned = recorded.answer.as_ref().and_then(|(_, at)| self.since_start(*at));
        let operation = Operation::on_lock(op, Some(recorded.client), &access.name, access.fence);
        Operation { ok, value: written.or(read), based_on, ..operation }
            .at(self.since_start(recorded.called), returned)
    }

    fn since_start(&self, at: Duration) -> Option<Duration> {
        Some(at.saturating_sub(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::client::report_line::{Belief, Grant, ReportLine};
    use crate::nemesis::resource::access::Access;

    fn ms(history: &History, millis: u64) -> Duration {
        history.start + Duration::from_millis(millis)
    }

    /// The kinds of the operations with their times in milliseconds.
    fn list(history: &History) -> Vec<(OperationKind, Option<u128>, Option<u128>)> {
        let millis = |time: Option<Duration>| time.map(|time| time.as_millis());
        history.operations().iter().map(|it| (it.op, millis(it.call), millis(it.returned))).collect()
    }

    fn grant(history: &mut History, noted: u64, until: u64) {
        hold(history, Origin::Granted, &["a"], Mode::Exclusive, (noted, until));
    }

    fn hold(history: &mut History, origin: Origin, names: &[&str], mode: Mode, (noted, until): (u64, u64)) {
        let belief = Belief { noted: ms(history, noted), until: ms(history, until) };
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let (token, called) = ("t".to_owned(), ms(history, noted - 5));
        history.record_line(
            0,
            ReportLine::Holds(origin, Grant { names, mode, fence: 1, token, called, belief }),
        );
    }

    #[test]
    fn a_hold_of_several_names_is_one_of_each() {
        let mut history = History::new(1);
        hold(&mut history, Origin::Granted, &["a", "b"], Mode::Shared, (10, 100));
        let names: Vec<_> = history.operations().into_iter().map(|it| (it.op, it.name.unwrap())).collect();
        let of = |name: &str| [OperationKind::Acquire, OperationKind::End].map(|op| (op, name.to_owned()));
        assert_eq!(names, [of("a"), of("b")].concat());
    }

    #[test]
    fn a_shared_hold_ends_with_the_call_that_upgrades_it_and_an_exclusive_one_goes_on() {
        let mut history = History::new(1);
        hold(&mut history, Origin::Granted, &["a"], Mode::Shared, (10, 100));
        hold(&mut history, Origin::Upgraded, &["a"], Mode::Exclusive, (50, 150));
        hold(&mut history, Origin::Downgraded, &["a"], Mode::Shared, (60, 150));
        use OperationKind::{Acquire, Downgrade, End};
        let expected = [
            (Acquire, Some(5), Some(10)),
            (End, Some(45), None),
            (Acquire, Some(45), Some(50)),
            (End, Some(60), None),
            (Downgrade, Some(55), Some(60)),
            (End, Some(150), None),
        ];
        assert_eq!(list(&history), expected);
    }

    #[test]
    fn a_hold_ends_at_its_deadline_or_its_release() {
        let mut history = History::new(1);
        grant(&mut history, 10, 100);
        let end = |history: &History| list(history)[1];
        assert_eq!(end(&history), (OperationKind::End, Some(100), None));
        history.record_line(0, ReportLine::Releasing { at: ms(&history, 50), over: false });
        assert_eq!(end(&history), (OperationKind::End, Some(50), None));
    }

    #[test]
    fn when_a_hold_ended_that_was_over_at_once_is_unknown() {
        let mut history = History::new(1);
        grant(&mut history, 10, 10);
        let acquire = (OperationKind::Acquire, Some(5), Some(10));
        assert_eq!(list(&history), [acquire, (OperationKind::End, None, None)]);
    }

    #[test]
    fn an_access_without_an_answer_does_not_return() {
        let mut history = History::new(1);
        let access = Access { name: "a".to_owned(), fence: 1, step: Step::Show };
        for at in [1, 3] {
            let at = ms(&history, at);
            history.record_line(0, ReportLine::Accessing { access: access.clone(), at });
        }
        let at = ms(&history, 4);
        history.record_line(0, ReportLine::Accessed { answer: Answer::Accepted(true), at });
        let show = OperationKind::Show;
        assert_eq!(list(&history), [(show, Some(1), None), (show, Some(3), Some(4))]);
    }
}
