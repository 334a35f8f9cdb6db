//! Releasing by force what an inspection shows.

use super::Client;
use quorlock::{Holder, Release};
use std::time::Duration;
use tokio::time::sleep;

impl Client {
    /// Looks who holds a name, thinks, and frees it from exactly that holder.
    pub(super) async fn force_release(&mut self) {
        self.stand_still().await;
        let (locker, life) = self.cast.life(self.number);
        let Some(variety) = &mut self.variety else { return };
        let name = variety.pick(&self.names).clone();
        let hesitates = variety.span(Duration::ZERO, Duration::from_millis(400));
        let lock = locker.named(&name).expect("a good name");
        let Ok(seen) = lock.inspect().await else { return };
        let Holder::Owner { token, .. } = seen.holder else { return };
        sleep(hesitates).await;
        self.stand_still().await;
        if !self.is_alive(life) {
            return;
        }
        self.cast.history.lock().unwrap().forced(self.number, self.cast.now(), &name, token);
        let outcome = lock.force_release(token).await;
        if matches!(outcome, Release::Released) {
            self.cast.history.lock().unwrap().taken(self.cast.now(), token);
        }
    }
}
