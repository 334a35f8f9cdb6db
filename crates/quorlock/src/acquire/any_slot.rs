//! An injected bug: votes for different slots count as one permit.

use crate::acquire::attempt::{AttemptParams, AttemptRounds, ballot_of};
use crate::node::{AcquireKind, Command};
use quorlock_core::{Attempt, Ballot, Fence, Label, Name, NodeSet, Step};
use std::pin::pin;

impl AttemptRounds<'_> {
    /// Asks the nodes that have not voted for the neighbour of the slot that is wanted, and counts both as one.
    /// It waits only briefly, so that a broken promise is found and not a late call.
    pub(super) async fn vote_for_any_slot(&mut self, proposal: Fence, label: &Label) -> Step {
        let wanted = self.params.names.first().as_slot();
        let Some((semaphore, slot)) = wanted.and_then(|(name, slot)| Some((Name::new(name).ok()?, slot)))
        else {
            return Step::Refused;
        };
        let neighbour = Name::of_slot(&semaphore, slot ^ 1);
        let params = AttemptParams { names: neighbour.clone().into(), ..self.params.clone() };
        let voters = self.state.voters();
        let mut state = Attempt::new(self.nodes.quorum, proposal);
        for node in voters.iter() {
            state.on_ballot(node, Ballot::Raised);
        }
        let others: NodeSet = (0..self.nodes.all.len()).filter(|node| !voters.contains(*node)).collect();
        let vote = params.vote((self.token, AcquireKind::Vote), proposal, label);
        let mut round = pin!(self.nodes.ask_some(others, vote, self.nodes.ctx.node_timeout / 4));
        let mut step = Step::Refused;
        while let Some((node, reply)) = round.as_mut().next().await {
            step = state.on_ballot(node, ballot_of(&reply));
            if step != Step::Wait {
                break;
            }
        }
        if matches!(step, Step::Granted(_)) {
            self.state = state;
            return step;
        }
        self.nodes.send(Command::Release {
            name: neighbour,
            token: self.token,
            quiet: true,
            stored_after_token: None,
            may_be_shared: false,
            forced: false,
        });
        Step::Refused
    }
}
