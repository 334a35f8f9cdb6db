//! One finding: what is wrong, why it matters, what to do.

use serde::Serialize;
use std::borrow::Cow;

/// How severe a finding is. The worst comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// A node cannot vote, or locks are not safe.
    Error,
    /// It works, but should be fixed.
    Warning,
    /// For information.
    Note,
}

/// What is wrong, why it matters, what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    /// A stable word; `docs/doctor.md` explains each.
    pub(super) code: Cow<'static, str>,
    /// The nodes that it concerns; empty if it concerns all of them together.
    pub(super) nodes: Vec<String>,
    pub(super) what: String,
    pub(super) why: String,
    #[serde(rename = "do")]
    pub(super) remedy: String,
}

impl Finding {
    pub(super) fn new(severity: Severity, code: impl Into<Cow<'static, str>>) -> Self {
        let (nodes, what, why, remedy) = Default::default();
        Self { severity, code: code.into(), nodes, what, why, remedy }
    }

    pub(super) fn error(code: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Severity::Error, code)
    }

    pub(super) fn warning(code: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Severity::Warning, code)
    }

    pub(super) fn note(code: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Severity::Note, code)
    }

    /// Adds a node that it concerns.
    pub(super) fn on(mut self, node: &str) -> Self {
        self.nodes.push(node.to_owned());
        self
    }

    pub(super) fn what(mut self, what: impl Into<String>) -> Self {
        self.what = what.into();
        self
    }

    pub(super) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = why.into();
        self
    }

    pub(super) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

/// Sorts the worst first, and merges findings that differ only in their node.
pub(super) fn arrange(found: Vec<Finding>) -> Vec<Finding> {
    let mut arranged: Vec<Finding> = Vec::new();
    for finding in found {
        let same = arranged.iter_mut().find(|other| {
            let alike = (&other.code, &other.what, &other.why, &other.remedy)
                == (&finding.code, &finding.what, &finding.why, &finding.remedy);
            alike && !other.nodes.is_empty() && !finding.nodes.is_empty()
        });
        match same {
            Some(same) => same.nodes.extend(finding.nodes),
            None => arranged.push(finding),
        }
    }
    arranged.sort_by_key(|finding| finding.severity);
    arranged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_equal_findings_are_merged() {
        let found = vec![
            Finding::note("recall").on("a").what("forgets"),
            Finding::warning("slow").on("a").what("12ms"),
            Finding::note("recall").on("b").what("forgets"),
            Finding::error("replica").on("c").what("it is one"),
        ];
        let arranged = arrange(found);
        let found: Vec<_> = arranged.iter().map(|it| (&*it.code, it.nodes.join(" "))).collect();
        let expected = [("replica", "c"), ("slow", "a"), ("recall", "a b")];
        assert_eq!(found, expected.map(|(code, nodes)| (code, nodes.to_owned())));
    }
}
