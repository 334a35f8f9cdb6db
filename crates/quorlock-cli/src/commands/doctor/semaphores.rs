//! Semaphores whose clients disagree on the number of slots.

use super::finding::Finding;
use super::snapshot::Snapshot;
use crate::output::slots_view::{Disagreement, disagreements};

/// One finding for each disagreement.
pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let finding = |found: Disagreement| {
        Finding::warning("slots-differ")
            .what(found.what)
            .why("all clients of a semaphore must count the same slots: one with another number is refused while a slot is taken, and one that counts more may exceed the limit of the others")
            .remedy(found.remedy)
    };
    snapshot.semaphores.iter().flat_map(disagreements).map(finding).collect()
}
