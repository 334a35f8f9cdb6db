//! A clock that follows tokio's timers, paused or not, and can be made to jump.

use quorlock::{Clock, Moment};
use quorlock_core::Wall;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// Boot and wall clock of a simulated machine. In a test with paused time nothing really waits.
#[derive(Debug)]
pub struct TestClock {
    start: Instant,
    jumps: Mutex<Jumps>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Jumps {
    boot: Duration,
    wall_micros: i64,
}

impl TestClock {
    /// A clock that starts now. Call it inside the runtime.
    pub fn start() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), jumps: Mutex::default() })
    }

    /// The machine sleeps for `span`: boot and wall clock advance, timers do not.
    pub fn suspend(&self, span: Duration) {
        self.jumps.lock().unwrap().boot += span;
    }

    /// The wall clock alone jumps, ahead or back.
    pub fn jump_wall_millis(&self, millis: i64) {
        self.jumps.lock().unwrap().wall_micros += millis * 1_000;
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs(1_000) + self.start.elapsed() + self.jumps.lock().unwrap().boot
    }
}

impl Clock for TestClock {
    fn now(&self) -> Moment {
        Moment::from_boot(self.elapsed())
    }

    fn wall_time(&self) -> SystemTime {
        let micros = 1_700_000_000_000_000 + u64::try_from(self.elapsed().as_micros()).unwrap();
        Wall::from_micros(micros.saturating_add_signed(self.jumps.lock().unwrap().wall_micros)).into()
    }
}
