//! Following the command until it ends, and ending it before the lock ends.

use super::child::{Change, Child};
use super::outcome;
use super::plan::Plan;
use crate::args::OnLost;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::signals::{Signals, Told};
use crate::waiting::Watcher;
use quorlock::{Guard, Lost, Standing};
use rustix::process::Pid;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How it ended.
#[derive(Debug)]
pub(super) struct End {
    /// As the command ended; `None` if it goes on because we may not stop it.
    pub(super) exit: Option<Exit>,
    /// Why the lock was lost, if it was while the command ran.
    pub(super) lost: Option<Lost>,
    /// From the grant to the end of the command.
    pub(super) held: Duration,
    /// The processes that go on without the lock, because they run as another user.
    pub(super) unstoppable: Vec<Pid>,
}

/// Follows `child` to its end.
pub(super) async fn supervise(
    child: &mut Child,
    guard: &Guard,
    signals: &mut Signals,
    plan: &Plan,
    watcher: &Watcher,
    screen: Screen,
) -> End {
    let start = Instant::now();
    let mut lost: Option<Lost> = None;
    let mut kill_at: Option<Instant> = None;
    let mut ended: Option<Exit> = None;
    loop {
        if ended.is_some() {
            // The time was over before the command ended, but we were stopped and could not see it.
            let is_late = matches!(guard.standing(), Standing::Lost(_)) || child.is_overdue();
            if lost.is_none() && is_late {
                let loss = guard.lost().await;
                kill_at = if child.has_family() { react(child, guard, plan, &loss, screen) } else { None };
                lost = Some(loss);
            }
            let is_over = lost.is_none() || plan.on_lost == OnLost::Warn || !child.has_family();
            if is_over {
                return End { exit: ended, lost, held: start.elapsed(), unstoppable: Vec::new() };
            }
        }
        // It was killed, and we may not kill what still runs: waiting would not end it.
        if lost.is_some() && kill_at.is_none() && plan.on_lost != OnLost::Warn && child.is_out_of_reach() {
            return End { exit: ended, lost, held: start.elapsed(), unstoppable: child.unstoppable() };
        }
        tokio::select! {
            biased;
            told = signals.next() => match told {
                Told::Signal(signal) => if !child.pass_on(signal) {
                    screen.warn(format_args!("the command runs as another user and does not get signal {}", signal.as_raw()));
                },
                Told::Child => for change in child.changes() {
                    match change {
                        Change::Ended(exit) => ended = Some(exit),
                        // It goes on only if the lock is still held: it could not be extended meanwhile.
                        Change::Stopped(by) => if child.stop_along(by) && guard.is_held() {
                            child.go_on();
                        }
                    }
                },
            },
            () = watcher.extended() => child.must_end_in(plan.left_to_kill(guard)),
            loss = guard.lost(), if lost.is_none() => {
                kill_at = react(child, guard, plan, &loss, screen);
                lost = Some(loss);
            }
            () = sleep_until(kill_at.unwrap_or(start)), if kill_at.is_some() => {
                child.kill().await;
                warn_of_refusals(child, screen);
                kill_at = None;
            }
        }
    }
}

/// Does what the user wants done when the lock is lost; returns when to kill.
fn react(child: &mut Child, guard: &Guard, plan: &Plan, lost: &Lost, screen: Screen) -> Option<Instant> {
    let left = guard.time_left().saturating_sub(plan.slack);
    let grace = match plan.on_lost {
        OnLost::Warn => {
            screen.warn(format_args!("{lost}; the command goes on without it"));
            return None;
        }
        OnLost::Kill => Duration::ZERO,
        OnLost::Term => plan.grace.min(left),
    };
    screen.warn(format_args!("{lost}; ending the command"));
    if !grace.is_zero() {
        child.ask_to_end();
        warn_of_refusals(child, screen);
    }
    Some(Instant::now() + grace)
}

/// Says which processes we could not signal. They go on when the lock is over.
fn warn_of_refusals(child: &mut Child, screen: Screen) {
    let refused = child.newly_refused();
    if !refused.is_empty() {
        let pids = outcome::list(&refused);
        screen.warn(format_args!(
            "the command runs as another user and cannot be stopped (pid {pids}): it goes on without the lock; start it \
             with `sudo quorlock run ...` instead of `quorlock run ... -- sudo`"
        ));
    }
}
