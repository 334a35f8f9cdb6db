//! Giving a lock to another client, and taking one over.

use super::Client;
use crate::world::parcel::Parcel;
use quorlock::{ExtendError, Guard, LockHandle};
use std::time::Duration;
use tokio::time::sleep;

/// How often a client tries to adopt while too few nodes answer.
const MOST_TRIES: u64 = 3;

impl Client {
    /// Gives the lock to another client as a handle.
    pub(super) async fn hand_over(&mut self, guard: Guard, life: u64) {
        let name = guard.name().clone();
        let result = guard.into_handle().await;
        self.cast.history.lock().unwrap().let_go(self.number, &name);
        let Ok(handle) = result else { return };
        if !self.is_alive(life) {
            // It died before it could tell: the lock stays until its ttl is over.
            return;
        }
        self.cast.history.lock().unwrap().uses.handles += 1;
        let to = self.any_client();
        self.cast.tell(&format!("client {} gives {name} to client {to}", self.number));
        self.cast.parcels.lock().unwrap().send(to, Parcel::Handle(handle));
    }

    /// Gives the token of the lock to another client.
    pub(super) fn give_token(&mut self, guard: Guard) {
        let (name, token, fence) = (guard.name().clone(), guard.token(), guard.fence().get());
        self.cast.history.lock().unwrap().let_go(self.number, &name);
        guard.detach();
        let to = self.any_client();
        self.cast.tell(&format!("client {} gives the token of {name} to client {to}", self.number));
        self.cast.parcels.lock().unwrap().send(to, Parcel::Token { name, token, fence });
    }

    /// Goes on with what another client gave away.
    pub(super) async fn open(&mut self, parcel: Parcel) {
        match parcel {
            Parcel::Handle(handle) => self.adopt(&handle).await,
            Parcel::Token { name, token, fence } => self.receive_token(name, token, fence).await,
        }
    }

    async fn adopt(&mut self, handle: &LockHandle) {
        for _ in 0..MOST_TRIES {
            self.stand_still().await;
            let (locker, life) = self.cast.life(self.number);
            let result = locker.adopt(handle).await;
            if !self.is_alive(life) {
                continue;
            }
            match result {
                Ok(guard) => {
                    let max_hold = self.cast.settings(self.number).max_hold;
                    let (held, now) = (guard.lease(), self.cast.now());
                    self.cast.history.lock().unwrap().adopted(self.number, now, held, max_hold);
                    return Box::pin(self.hold(guard, life)).await;
                }
                Err(ExtendError::NoQuorum { .. }) => sleep(Duration::from_millis(100)).await,
                Err(ExtendError::Lost(_)) => return,
                Err(error) => return self.violate(&format!("L2: client {} adopts: {error}", self.number)),
            }
        }
    }
}
