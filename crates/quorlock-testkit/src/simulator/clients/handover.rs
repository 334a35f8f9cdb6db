//! Handing a lock over to another client, and accepting one.

use crate::simulator::clients::Client;
use crate::simulator::history::listed;
use crate::simulator::participants::handed_over::{GivenToken, HandedOver};
use quorlock::{ExtendError, Guard, LockHandle, NameSet};
use std::time::Duration;
use tokio::time::sleep;

/// How often a client tries to adopt while too few nodes answer.
const MAX_TRIES: u64 = 3;

impl Client {
    /// Gives the lock to another client as a handle.
    pub(crate) async fn hand_over(&mut self, guard: Guard, incarnation: u64) {
        let (names, token) = (guard.names().to_vec(), guard.token());
        self.participants.history().handed_over(token);
        // If the handle cannot be made, the lock is released: others may have it from here on.
        for name in &names {
            self.participants.history().recorder.ended(self.number, name, guard.fence().get());
        }
        let result = guard.into_handle().await;
        self.participants.history().released(self.number, token);
        let Ok(handle) = result else { return };
        if !self.is_alive(incarnation) {
            // It died before it could send the handle: the lock stays until its ttl is over.
            return;
        }
        self.participants.history().uses.handles += 1;
        let to = self.any_client();
        self.participants.record(&format!("client {} gives {} to client {to}", self.number, listed(&names)));
        self.participants.handed_over.lock().unwrap().send(to, HandedOver::Handle(handle));
    }

    /// Gives the token of the lock to another client.
    pub(crate) fn give_token(&mut self, guard: Guard) {
        let names = NameSet::new(guard.names().iter().cloned()).expect("names that are held together");
        let (mode, token, fence) = (guard.mode(), guard.token(), guard.fence().get());
        self.participants.history().released(self.number, token);
        self.participants.history().handed_over(token);
        guard.detach();
        let to = self.any_client();
        let shown = listed(names.as_slice());
        self.participants
            .record(&format!("client {} gives the token of {shown} to client {to}", self.number));
        let given = GivenToken { names, mode, token, fence };
        self.participants.handed_over.lock().unwrap().send(to, HandedOver::Token(given));
    }

    /// Continues with a lock that another client handed over.
    pub(crate) async fn accept(&mut self, handed_over: HandedOver) {
        match handed_over {
            HandedOver::Handle(handle) => self.adopt(&handle).await,
            HandedOver::Token(given) => self.receive_token(given).await,
        }
    }

    async fn adopt(&mut self, handle: &LockHandle) {
        for _ in 0..MAX_TRIES {
            self.wait_while_paused().await;
            let (locker, incarnation) = self.participants.current_process(self.number);
            self.participants.history().recorder.calling(self.number);
            let result = locker.adopt(handle).await;
            if !self.is_alive(incarnation) {
                continue;
            }
            match result {
                Ok(guard) => {
                    let max_hold = self.participants.settings(self.number).max_hold;
                    let (held, now) = (guard.lease(), self.participants.now());
                    self.participants.history().adopted(self.number, now, held, max_hold);
                    return Box::pin(self.use_lock(guard, incarnation)).await;
                }
                Err(ExtendError::NoQuorum { .. }) => sleep(Duration::from_millis(100)).await,
                Err(ExtendError::Lost(_)) => return,
                Err(error) => return self.violate(&format!("L2: client {} adopts: {error}", self.number)),
            }
        }
    }
}
