//! A subscription to the release hints of all nodes.

use crate::acquire::name_queue::Line;
use crate::quorum::Voters;
use quorlock_core::Name;

/// Hints about one name ring the bell of its line until this is dropped.
#[derive(Debug)]
pub(crate) struct Watching<'a> {
    voters: &'a Voters,
    name: &'a Name,
}

impl<'a> Watching<'a> {
    pub(crate) fn start(voters: &'a Voters, name: &'a Name, line: &Line) -> Self {
        for node in voters.nodes.iter() {
            node.watch(name, line.bell());
        }
        Self { voters, name }
    }
}

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        for node in self.voters.nodes.iter() {
            node.unwatch(self.name);
        }
    }
}
