//! Detects that the machine slept or its wall clock jumped ahead, and raises the recheck signal.

use crate::context::event::Event;
use crate::context::{Context, RecheckSignal};
use quorlock_core::{Moment, Wall};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often the clocks are compared while a lock is held.
const TICK: Duration = Duration::from_millis(200);
/// A smaller difference is scheduling noise or clock discipline.
const JUMP: Duration = Duration::from_millis(500);

/// Counts held locks; the clocks are compared while there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockJumpDetector(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    holds: AtomicUsize,
    running: AtomicBool,
}

impl ClockJumpDetector {
    /// Compares clocks until [`ClockJumpDetector::leave`] was called as often as this.
    pub(crate) fn enter(&self, ctx: &Context) {
        self.0.holds.fetch_add(1, Ordering::SeqCst);
        self.start(ctx);
    }

    /// One held lock less needs it.
    pub(crate) fn leave(&self) {
        self.0.holds.fetch_sub(1, Ordering::SeqCst);
    }

    /// Starts the one task that compares clocks, on the current runtime, unless it runs.
    pub(crate) fn start(&self, ctx: &Context) {
        let running = &self.0.running;
        if !running.load(Ordering::SeqCst) && !running.swap(true, Ordering::SeqCst) {
            let running =
                DetectorTask { count: self.0.clone(), recheck: ctx.recheck.clone(), is_over: false };
            tokio::spawn(tick(running, ctx.clone(), Clocks::read(ctx)));
        }
    }
}

/// The one task that compares clocks.
struct DetectorTask {
    count: Arc<Count>,
    recheck: RecheckSignal,
    is_over: bool,
}

impl DetectorTask {
    /// Whether a lock is held. If none is, the task must end, unless a lock was acquired at this very
    /// moment.
    fn is_wanted(&mut self) -> bool {
        if self.count.holds.load(Ordering::SeqCst) > 0 {
            return true;
        }
        self.count.running.store(false, Ordering::SeqCst);
        let again = self.count.holds.load(Ordering::SeqCst) > 0;
        self.is_over = !again || self.count.running.swap(true, Ordering::SeqCst);
        !self.is_over
    }
}

impl Drop for DetectorTask {
    /// Dropped with its runtime, while watchdogs of other runtimes may go on: the recheck wakes them, and
    /// they start another.
    fn drop(&mut self) {
        if !self.is_over {
            self.count.running.store(false, Ordering::SeqCst);
            self.recheck.raise();
        }
    }
}

/// The three clocks at one moment.
struct Clocks {
    boot: Moment,
    wall: Wall,
    timers: Instant,
}

impl Clocks {
    fn read(ctx: &Context) -> Self {
        Self { boot: ctx.clock.now(), wall: ctx.clock.wall(), timers: Instant::now() }
    }

    /// How far the boot clock ran ahead of the timers, or the wall clock ahead of the boot clock.
    fn jump_since(&self, before: &Self) -> Duration {
        let boot = self.boot.since(before.boot);
        let slept = boot.saturating_sub(self.timers.duration_since(before.timers));
        let jumped = self.wall.since(before.wall).saturating_sub(boot);
        slept.max(jumped)
    }
}

/// Ends at a tick at which no lock is held, not with the last hold: a client that takes and frees locks in turn
/// would start a task for each.
async fn tick(mut running: DetectorTask, ctx: Context, mut before: Clocks) {
    loop {
        sleep(TICK).await;
        if !running.is_wanted() {
            return;
        }
        let now = Clocks::read(&ctx);
        let jump = now.jump_since(&before);
        before = now;
        if jump >= JUMP {
            ctx.emit(&Event::ClockJumped { by: jump });
            ctx.recheck.raise();
        }
    }
}
