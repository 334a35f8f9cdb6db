//! Whether the clients of a semaphore agree on its number of slots, for people.

use crate::output::duration::show;
use quorlock::SlotsInspection;
use std::collections::BTreeMap;
use std::time::Duration;

/// A client that was refused longer ago is not reported.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

/// What is wrong with a semaphore, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disagreement {
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl Disagreement {
    /// One line.
    pub(crate) fn line(&self) -> String {
        format!("{}: {}", self.what, self.remedy)
    }
}

/// Everything on which the clients or the nodes of a semaphore disagree.
pub(crate) fn disagreements(found: &SlotsInspection) -> Vec<Disagreement> {
    let mut all = Vec::new();
    let name = &found.name;
    if found.differs() {
        let what = format!(
            "the nodes have recorded different numbers of slots for semaphore `{name}` ({})",
            numbers(found)
        );
        let remedy = "use one number in all clients; the next client of the number that most nodes have records it everywhere";
        all.push(Disagreement { what, remedy: remedy.to_owned() });
    }
    if let (Some(refused), Some(recorded)) = (found.refused, found.recorded)
        && refused.ago <= RECENT
        && refused.count != recorded
    {
        let (count, ago) = (refused.count, show(refused.ago));
        let what = format!(
            "a client that counts {count} slots of semaphore `{name}` was refused {ago} ago, because {recorded} are recorded"
        );
        let remedy =
            format!("give that client {recorded} slots, or free all slots before you change the number");
        all.push(Disagreement { what, remedy });
    }
    all
}

/// `2 on a, b; 3 on c`.
fn numbers(found: &SlotsInspection) -> String {
    let mut nodes: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for node in &found.nodes {
        if let Ok(Some(number)) = node.recorded {
            nodes.entry(number).or_default().push(&node.node);
        }
    }
    let each = nodes.iter().map(|(number, nodes)| format!("{number} on {}", nodes.join(", ")));
    each.collect::<Vec<_>>().join("; ")
}
