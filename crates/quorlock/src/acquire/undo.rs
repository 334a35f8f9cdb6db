//! The release of an attempt that was refused or cancelled.

use crate::node::Command;
use crate::quorum::Nodes;
use quorlock_core::{Name, Token};

/// Releases on every node when dropped, also on those that did not answer, unless it was disarmed.
pub(crate) struct Undo<'a> {
    nodes: &'a Nodes,
    name: &'a Name,
    token: Token,
    is_armed: bool,
    /// Whether waiters get no hint.
    quiet: bool,
}

impl<'a> Undo<'a> {
    pub(crate) fn armed(nodes: &'a Nodes, name: &'a Name, token: Token) -> Self {
        Self { nodes, name, token, is_armed: true, quiet: false }
    }

    pub(crate) fn disarm(mut self) {
        self.is_armed = false;
    }

    /// Undoes without a hint: another client has the lock, and its release sends one.
    pub(crate) fn without_hint(mut self) {
        self.quiet = true;
    }
}

impl Drop for Undo<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            let (name, token, quiet) = (self.name.clone(), self.token, self.quiet);
            self.nodes.send(Command::Release { name, token, quiet, behind: None, forced: false });
        }
    }
}
