//! Checks what the protected values answered to holders and readers.

use crate::nemesis::checker::history::History;
use crate::nemesis::checker::promise::Promise;
use crate::nemesis::resource::access::{Answer, Step};
use std::collections::BTreeMap;

impl History {
    /// The fence of a reader lets it read one value, however often.
    pub(super) fn check_reads(&mut self) {
        let mut first: BTreeMap<(&str, u64), &str> = BTreeMap::new();
        let mut changes = Vec::new();
        for recorded in &self.accesses {
            let (Step::SharedRead, Some((Answer::Value(value), at))) =
                (&recorded.access.step, &recorded.answer)
            else {
                continue;
            };
            let (name, fence) = (recorded.access.name.as_str(), recorded.access.fence);
            let before = *first.entry((name, fence)).or_insert(value);
            if before != value {
                let reader = format!("client {} with fence {fence}", recorded.client);
                changes.push((*at, format!("{reader} read {name} as `{before}` and then as `{value}`")));
            }
        }
        for (at, what) in changes {
            self.violate(Promise::StableReads, at, what);
        }
    }

    /// Only a client that may have lost the lock unseen is refused while it believes to have it.
    pub(super) fn check_refused_holders(&mut self) {
        for refused in self.refused_holders.clone() {
            let (name, at) = (&refused.name, refused.at);
            let is_forced = refused.hold.is_some_and(|hold| self.is_forced(name, &self.holds[hold], at));
            if !is_forced && !self.is_wild(at, at) {
                let what = format!("client {} holds {name} and its fence is refused", refused.client);
                self.violate(Promise::NoHolderRefused, at, what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::checker::testing::*;
    use crate::nemesis::client::report_line::ReportLine;
    use crate::nemesis::resource::access::Access;

    #[test]
    fn a_refused_holder_is_excused_only_while_a_server_forgets_unseen() {
        let mut history = History::new(1);
        for (at, held) in [(1_000, true), (5_000, true), (6_000, false)] {
            history.record_line(0, ReportLine::FencedOff { name: "a".to_owned(), at: ms(at), held });
        }
        history.wild.push((ms(900), ms(900)));
        assert_eq!(broken(history), [Promise::NoHolderRefused]);
    }

    #[test]
    fn a_value_that_changes_under_a_reader_is_found() {
        let read = |history: &mut History, fence, value: &str| {
            let access = Access { name: "a".to_owned(), fence, step: Step::SharedRead };
            history.record_line(0, ReportLine::Accessing { access, at: ms(1) });
            history
                .record_line(0, ReportLine::Accessed { answer: Answer::Value(value.to_owned()), at: ms(2) });
        };
        let mut history = History::new(1);
        read(&mut history, 1, "w.1");
        read(&mut history, 1, "w.1");
        read(&mut history, 2, "w.2");
        assert_eq!(broken(history.clone()), []);
        read(&mut history, 1, "w.2");
        assert_eq!(broken(history), [Promise::StableReads]);
    }
}
