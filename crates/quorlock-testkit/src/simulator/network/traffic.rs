//! Messages in flight between a client and a simulated server.

use crate::simulator::InjectedBug;
use crate::simulator::network::Link;
use crate::simulator::network::network_conditions::NetworkConditions;
use crate::simulator::server::{Executed, Origin};
use quorlock::node::{Command, NodeError, Reply};
use std::time::Duration;
use tokio::time::Instant;

/// A connection without an answer for this long is given up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

impl Link {
    /// Sends the request.
    pub(crate) fn dispatch(&self, number: u64, connection: u64, command: Command) {
        let (arrives, arrives_anyway, again) = {
            let mut state = self.state();
            let (low, high) = state.conditions.delay;
            let paused = state.paused_until.filter(|until| *until > Instant::now());
            let delay = state.rng.span(low, high);
            let leaves = paused.unwrap_or_else(Instant::now);
            let arrives = state.last_request.max(leaves + delay);
            state.last_request = arrives;
            let duplicates = state.conditions.duplicates;
            let again = state.rng.chance(duplicates).then(|| state.rng.span(low, high * 50));
            (arrives, state.rng.chance(50), again)
        };
        let link = self.clone();
        let copy = again.map(|later| (later, command.clone()));
        self.0.events.schedule(arrives, move || link.arrive(number, connection, command, arrives_anyway));
        if let Some((later, command)) = copy {
            let server = self.0.endpoints.server.clone();
            self.0.events.schedule(arrives + later, move || {
                let mut server = server.lock().unwrap();
                if server.is_up {
                    server.execute(&command, Origin::Duplicate);
                }
            });
        }
    }

    fn arrive(&self, number: u64, connection: u64, command: Command, arrives_anyway: bool) {
        let is_cut = self.state().connection != Some(connection);
        let is_lost = self.loses(connection, |conditions| conditions.no_requests);
        if (is_cut && !arrives_anyway) || is_lost {
            return self.cut_unless_answered(number, connection);
        }
        let mut server = self.0.endpoints.server.lock().unwrap();
        if server.is_stopped {
            // It executes what it was sent when it resumes, although its client may be gone by
            // then.
            let link = self.clone();
            let execute = move || link.arrive(number, connection, command, true);
            server.stalled.0.push(Box::new(execute));
            drop(server);
            return self.cut_unless_answered(number, connection);
        }
        if !server.is_up {
            return;
        }
        let executed = server.execute(&command, Origin::Vote(self.0.endpoints.client, connection));
        drop(server);
        if is_cut {
            return;
        }
        if self.loses(connection, |conditions| conditions.no_replies) {
            return self.cut_unless_answered(number, connection);
        }
        let returns = {
            let mut state = self.state();
            let (low, high) = state.conditions.delay;
            let paused = state.paused_until.filter(|until| *until > Instant::now());
            let delay = state.rng.span(low, high);
            let returns = state.last_reply.max(paused.unwrap_or_else(Instant::now) + delay);
            state.last_reply = returns;
            returns
        };
        let link = self.clone();
        self.0.events.schedule(returns, move || link.deliver_reply(number, connection, executed));
    }

    /// Whether a message over `connection` is lost, now that it should pass.
    fn loses(&self, connection: u64, is_blocked: impl Fn(&NetworkConditions) -> bool) -> bool {
        let mut state = self.state();
        let is_current = state.connection == Some(connection);
        let is_blocked = is_blocked(&state.conditions);
        state.is_broken |= is_current && is_blocked;
        is_blocked || (is_current && state.is_broken)
    }

    /// Cuts the connection if the request is still unanswered after the timeout.
    fn cut_unless_answered(&self, number: u64, connection: u64) {
        let link = self.clone();
        self.0.events.schedule(Instant::now() + ANSWER_TIMEOUT, move || {
            let state = link.state();
            let is_unanswered = state.connection == Some(connection) && state.pending.contains_key(&number);
            drop(state);
            if is_unanswered {
                link.cut();
            }
        });
    }

    /// Hands the reply to the client: a vote counts only with the epoch that was verified, and once
    /// that is old enough.
    fn deliver_reply(&self, number: u64, connection: u64, (reply, epoch): Executed) {
        let mut state = self.state();
        if state.connection != Some(connection) {
            return;
        }
        let Some(pending) = state.pending.remove(&number) else { return };
        let known = state.verified.map(|verified| verified.nonce);
        let is_vote = matches!(pending.command(), Command::Acquire(vote) if !vote.repair);
        let is_guarded = self.0.injected_bug != Some(InjectedBug::NoRestartGuard);
        if is_guarded && is_vote && epoch.map(|epoch| epoch.nonce) != known {
            let (epoch, now) = self.0.endpoints.server.lock().unwrap().verify();
            self.learn(&mut state, epoch, now);
            drop(state);
            return pending.answer(Reply::failed(NodeError::EpochChanged));
        }
        // The epoch may have been verified anew since the vote was sent: the quarantine holds for
        // it, too.
        let verdict = if is_vote { self.counts(&state, pending.command()) } else { Ok(()) };
        drop(state);
        pending.answer(verdict.map_or_else(Reply::failed, |()| reply));
    }
}
