//! A client that waits to hold names exclusively keeps further readers out.

use crate::node::Command;
use crate::quorum::Nodes;
use quorlock_core::NameSet;
use std::time::Duration;

/// For how long nodes refuse new readers unless they are reminded: a few times the longest interval of polls.
const HOLD_OFF: Duration = Duration::from_secs(3);

/// New readers are refused until this is dropped. Those that hold the names go on. Only fairness depends on
/// it.
#[derive(Debug)]
pub(crate) struct ReaderHoldOff<'a> {
    nodes: &'a Nodes,
    names: NameSet,
}

impl<'a> ReaderHoldOff<'a> {
    pub(crate) fn new(nodes: &'a Nodes, names: NameSet) -> Self {
        Self { nodes, names }
    }

    /// Reminds the nodes.
    pub(crate) fn renew(&self) {
        self.send(HOLD_OFF);
    }

    fn send(&self, ttl: Duration) {
        for name in &self.names {
            self.nodes.send(Command::HoldOffReaders { name: name.clone(), ttl });
        }
    }
}

impl Drop for ReaderHoldOff<'_> {
    fn drop(&mut self) {
        self.send(Duration::ZERO);
    }
}
