//! quorlock's shared locks, sets of names and semaphores.

use crate::drive::Library;
use crate::versions;
use quorlock::{Guard, Lock, Locker, Permit, Semaphore};

const GOOD: &str = "the orchestrator gives good names and numbers";

/// Clients that share names.
pub struct Sharing(pub Locker);

impl Library for Sharing {
    type Lock = Lock;
    type Held = Guard;

    fn version(&self) -> String {
        versions::of("quorlock").to_owned()
    }

    fn lock(&self, name: &str) -> Lock {
        self.0.named(name).expect(GOOD).shared()
    }

    async fn acquire(&self, lock: &Lock) -> Option<Guard> {
        lock.acquire().await.ok()
    }

    async fn release(&self, guard: Guard) {
        let _ = guard.release().await;
    }
}

/// Clients that take several names together.
pub struct Sets {
    pub locker: Locker,
    pub names: usize,
}

impl Library for Sets {
    type Lock = Lock;
    type Held = Guard;

    fn version(&self) -> String {
        versions::of("quorlock").to_owned()
    }

    fn lock(&self, name: &str) -> Lock {
        self.locker.all((0..self.names).map(|number| format!("{name}:{number}"))).expect(GOOD)
    }

    async fn acquire(&self, lock: &Lock) -> Option<Guard> {
        lock.acquire().await.ok()
    }

    async fn release(&self, guard: Guard) {
        let _ = guard.release().await;
    }
}

/// Clients that take permits.
pub struct Semaphores {
    pub locker: Locker,
    pub slots: u32,
}

impl Library for Semaphores {
    type Lock = Semaphore;
    type Held = Permit;

    fn version(&self) -> String {
        versions::of("quorlock").to_owned()
    }

    fn lock(&self, name: &str) -> Semaphore {
        self.locker.semaphore(name, self.slots).expect(GOOD)
    }

    async fn acquire(&self, semaphore: &Semaphore) -> Option<Permit> {
        semaphore.acquire().await.ok()
    }

    async fn release(&self, permit: Permit) {
        let _ = permit.release().await;
    }
}
