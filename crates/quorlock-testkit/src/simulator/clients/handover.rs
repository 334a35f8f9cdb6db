//! Giving a lock to another client, and taking one over.

use super::Client;
use crate::world::handed_over::HandedOver;
use quorlock::{ExtendError, Guard, LockHandle};
use std::time::Duration;
use tokio::time::sleep;

/// How often a client tries to adopt while too few nodes answer.
const MOST_TRIES: u64 = 3;

impl Client {
    /// Gives the lock to another client as a handle.
    pub(crate) async fn hand_over(&mut self, guard: Guard, incarnation: u64) {
        let name = guard.name().clone();
        let result = guard.into_handle().await;
        self.participants.history.lock().unwrap().let_go(self.number, &name);
        let Ok(handle) = result else { return };
        if !self.is_alive(incarnation) {
            // It died before it could record: the lock stays until its ttl is over.
            return;
        }
        self.participants.history.lock().unwrap().uses.handles += 1;
        let to = self.any_client();
        self.participants.record(&format!("client {} gives {name} to client {to}", self.number));
        self.participants.handed_over.lock().unwrap().send(to, HandedOver::Handle(handle));
    }

    /// Gives the token of the lock to another client.
    pub(crate) fn give_token(&mut self, guard: Guard) {
        let (name, token, fence) = (guard.name().clone(), guard.token(), guard.fence().get());
        self.participants.history.lock().unwrap().let_go(self.number, &name);
        guard.detach();
        let to = self.any_client();
        self.participants.record(&format!("client {} gives the token of {name} to client {to}", self.number));
        self.participants.handed_over.lock().unwrap().send(to, HandedOver::Token { name, token, fence });
    }

    /// Goes on with what another client gave away.
    pub(crate) async fn open(&mut self, handed_over: HandedOver) {
        match handed_over {
            HandedOver::Handle(handle) => self.adopt(&handle).await,
            HandedOver::Token { name, token, fence } => self.receive_token(name, token, fence).await,
        }
    }

    async fn adopt(&mut self, handle: &LockHandle) {
        for _ in 0..MOST_TRIES {
            self.wait_while_paused().await;
            let (locker, incarnation) = self.participants.incarnation(self.number);
            let result = locker.adopt(handle).await;
            if !self.is_alive(incarnation) {
                continue;
            }
            match result {
                Ok(guard) => {
                    let max_hold = self.participants.settings(self.number).max_hold;
                    let (held, now) = (guard.lease(), self.participants.now());
                    self.participants.history.lock().unwrap().adopted(self.number, now, held, max_hold);
                    return Box::pin(self.hold(guard, incarnation)).await;
                }
                Err(ExtendError::NoQuorum { .. }) => sleep(Duration::from_millis(100)).await,
                Err(ExtendError::Lost(_)) => return,
                Err(error) => return self.violate(&format!("L2: client {} adopts: {error}", self.number)),
            }
        }
    }
}
