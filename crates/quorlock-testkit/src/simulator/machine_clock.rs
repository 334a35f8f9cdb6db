//! The clocks of simulated machines: true time bent by drift, jumps and sleep.

use quorlock::{Clock, Moment};
use quorlock_core::Wall;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// True time since the world began: tokio's paused clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch(Instant);

impl Epoch {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// One machine's clocks.
#[derive(Debug)]
pub(crate) struct MachineClock {
    world: Epoch,
    /// How much faster than true time it runs, in millionths.
    drift_ppm: i64,
    state: Mutex<Offsets>,
    /// Injected bug: the clock stands still while the machine sleeps, as `std::time::Instant` does.
    stops_in_sleep: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Offsets {
    wall_micros: i64,
    /// Sleep that is over.
    slept: Duration,
    /// Since when, in true time, the machine sleeps.
    asleep_since: Option<Duration>,
}

impl MachineClock {
    pub(crate) fn new(world: Epoch, drift_ppm: i64, wall_micros: i64, stops_in_sleep: bool) -> Self {
        let state = Mutex::new(Offsets { wall_micros, ..Offsets::default() });
        Self { world, drift_ppm, state, stops_in_sleep }
    }

    pub(crate) fn jump_wall(&self, micros: i64) {
        self.state.lock().unwrap().wall_micros += micros;
    }

    pub(crate) fn suspend(&self) {
        self.state.lock().unwrap().asleep_since = Some(self.world.elapsed());
    }

    pub(crate) fn wake(&self) {
        let mut state = self.state.lock().unwrap();
        if let Some(since) = state.asleep_since.take() {
            state.slept += self.world.elapsed() - since;
        }
    }

    /// Time since the machine started, long before the world began.
    fn boot(&self) -> Duration {
        let mut true_time = self.world.elapsed();
        if self.stops_in_sleep {
            let state = *self.state.lock().unwrap();
            let asleep = state.asleep_since.map_or(Duration::ZERO, |since| true_time - since);
            true_time -= state.slept + asleep;
        }
        let nanos = i128::try_from(true_time.as_nanos()).unwrap();
        let bent = nanos + nanos * i128::from(self.drift_ppm) / 1_000_000;
        Duration::from_secs(10_000) + Duration::from_nanos(u64::try_from(bent).unwrap())
    }
}

impl Clock for MachineClock {
    fn now(&self) -> Moment {
        Moment::from_boot(self.boot())
    }

    fn wall_time(&self) -> SystemTime {
        let micros = 1_700_000_000_000_000 + u64::try_from(self.boot().as_micros()).unwrap();
        Wall::from_micros(micros.saturating_add_signed(self.state.lock().unwrap().wall_micros)).into()
    }
}
