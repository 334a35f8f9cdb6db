//! Releasing by force what an inspection shows.

use crate::simulator::clients::Client;
use crate::simulator::clients::wanted::slots;
use crate::simulator::network::network_conditions::NetworkConditions;
use quorlock::{Holder, ReleaseOutcome};
use std::time::Duration;
use tokio::time::{Instant, sleep};

impl Client {
    /// Inspects a name, waits, and releases it from exactly the holder that it saw.
    pub(crate) async fn force_release(&mut self) {
        self.wait_while_paused().await;
        let (locker, incarnation) = self.participants.current_process(self.number);
        let slots = slots();
        let Some(variety) = &mut self.variety else { return };
        // Worlds without modes draw nothing for them.
        let (is_slot, any_number) = match self.has_modes {
            true => (variety.chance(20), variety.below(1 << 16) as usize),
            false => (false, 0),
        };
        let name = variety.pick(if is_slot { &slots } else { &self.names }).clone();
        let delay = variety.span(Duration::ZERO, Duration::from_millis(400));
        let split = variety.chance(40).then(|| variety.span(Duration::from_secs(2), Duration::from_secs(9)));
        let lock = locker.stored(name.clone());
        let Ok(seen) = lock.inspect().await else { return };
        let token = match seen.holder {
            Holder::Owner { token, .. } => token,
            Holder::Shared { readers } if !readers.is_empty() => readers[any_number % readers.len()].token,
            _ => return,
        };
        if let Some(span) = split {
            self.split_views(span);
        }
        sleep(delay).await;
        self.wait_while_paused().await;
        if !self.is_alive(incarnation) {
            return;
        }
        self.participants.history().forced(self.number, self.participants.now(), &name, token);
        let outcome = lock.force_release(token).await;
        if matches!(outcome, ReleaseOutcome::Released) {
            self.participants.history().taken(self.participants.now(), token);
        }
    }

    /// For `span`, this client does not reach the last two of its nodes, and the others do not
    /// reach their first two: each has a majority, and one node is in both.
    fn split_views(&self, span: Duration) {
        for client in 0..self.participants.clients() {
            let paths = self.participants.paths(client);
            let unreachable =
                if client == self.number { paths.len().saturating_sub(2)..paths.len() } else { 0..2 };
            for path in paths.get(unreachable).unwrap_or_default() {
                path.set_conditions(NetworkConditions { no_requests: true, ..path.conditions() });
                let path = path.clone();
                self.participants
                    .events
                    .schedule(Instant::now() + span, move || path.set_conditions(NetworkConditions::HEALTHY));
            }
        }
    }
}
