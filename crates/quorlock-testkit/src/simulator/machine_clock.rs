//! The clocks of simulated machines: true time with drift, jumps and sleep.

use quorlock::{Clock, Moment};
use quorlock_core::Wall;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

/// The moment at which a world started, in true time: tokio's paused clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorldStart(Instant);

impl WorldStart {
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// One machine's clocks.
#[derive(Debug)]
pub(crate) struct MachineClock {
    start: WorldStart,
    /// How much faster than true time it runs, in millionths.
    drift_ppm: i64,
    state: Mutex<Offsets>,
    /// Injected bug: the clock stops while the machine sleeps, as `std::time::Instant` does.
    stops_in_sleep: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Offsets {
    wall_micros: i64,
    /// Sleep that is over.
    slept: Duration,
    /// Since when, in true time, the machine sleeps.
    suspended_since: Option<Duration>,
}

impl MachineClock {
    pub(crate) fn new(start: WorldStart, drift_ppm: i64, wall_micros: i64, stops_in_sleep: bool) -> Self {
        let state = Mutex::new(Offsets { wall_micros, ..Offsets::default() });
        Self { start, drift_ppm, state, stops_in_sleep }
    }

    pub(crate) fn jump_wall(&self, micros: i64) {
        self.state.lock().unwrap().wall_micros += micros;
    }

    pub(crate) fn suspend(&self) {
        self.state.lock().unwrap().suspended_since = Some(self.start.elapsed());
    }

    pub(crate) fn resume(&self) {
        let mut state = self.state.lock().unwrap();
        if let Some(since) = state.suspended_since.take() {
            state.slept += self.start.elapsed() - since;
        }
    }

    /// How long a span of this clock takes in true time, unless the machine sleeps meanwhile.
    pub(crate) fn in_true_time(&self, span: Duration) -> Duration {
        let nanos = i128::try_from(span.as_nanos()).unwrap() * 1_000_000;
        Duration::from_nanos(u64::try_from(nanos / i128::from(1_000_000 + self.drift_ppm)).unwrap())
    }

    /// Time since the machine booted, long before the world started.
    fn boot(&self) -> Duration {
        let mut true_time = self.start.elapsed();
        if self.stops_in_sleep {
            let state = *self.state.lock().unwrap();
            let suspended = state.suspended_since.map_or(Duration::ZERO, |since| true_time - since);
            true_time -= state.slept + suspended;
        }
        // 64 bits are enough for a world of an hour, and far faster to divide.
        let nanos = i64::try_from(true_time.as_nanos()).unwrap();
        let drifted = nanos + nanos.checked_mul(self.drift_ppm).unwrap() / 1_000_000;
        Duration::from_secs(10_000) + Duration::from_nanos(u64::try_from(drifted).unwrap())
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
