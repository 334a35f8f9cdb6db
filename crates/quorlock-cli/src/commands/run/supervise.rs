//! Follows the command until it ends, and ends it before the lock ends.

use super::child::{Change, Child};
use super::command_config::CommandConfig;
use super::report;
use crate::args::OnLost;
use crate::commands::acquire_lock::LockObserver;
use crate::output::exit_code::Exit;
use crate::output::{Output, subject};
use crate::process::signals::{Received, Signals, is_termination};
use quorlock::{Guard, LeaseState, Lost};
use rustix::process::{Pid, Signal};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// How the command ended.
#[derive(Debug)]
pub(super) struct CommandEnd {
    /// The exit code of the command; `None` if it goes on because we may not stop it.
    pub(super) exit: Option<Exit>,
    /// Why the lock was lost, if it was while the command ran.
    pub(super) lost: Option<Lost>,
    /// From the grant to the end of the command.
    pub(super) held: Duration,
    /// Whether we were asked to end while the command ran.
    pub(super) is_asked_to_end: bool,
    /// Processes of another user that go on without the lock, because we cannot stop them.
    pub(super) unstoppable: Vec<Pid>,
}

/// Follows `child` to its end.
pub(super) async fn supervise(
    child: &mut Child,
    guard: &Guard,
    signals: &mut Signals,
    config: &CommandConfig,
    observer: &LockObserver,
    output: Output,
) -> CommandEnd {
    let start = Instant::now();
    let mut lost: Option<Lost> = None;
    let mut kill_at: Option<Instant> = None;
    let mut ended: Option<Exit> = None;
    let mut is_asked_to_end = false;
    let unstoppable = loop {
        if ended.is_some() {
            // The lock may have ended before the command while we were stopped.
            let is_late = matches!(guard.state(), LeaseState::Lost(_)) || child.is_overdue();
            if lost.is_none() && is_late {
                let reason = guard.lost().await;
                kill_at = if child.has_descendants() {
                    end_command(child, guard, config, &reason, output)
                } else {
                    None
                };
                lost = Some(reason);
            }
            let is_over = lost.is_none() || config.on_lost == OnLost::Warn || !child.has_descendants();
            if is_over {
                break Vec::new();
            }
        }
        // KILL was sent, and we may not kill the processes that still run: waiting would not end
        // them.
        if lost.is_some() && kill_at.is_none() && config.on_lost != OnLost::Warn && child.is_out_of_reach() {
            break child.unstoppable();
        }
        tokio::select! {
            biased;
            received = signals.next() => match received {
                Received::Signal(signal) => {
                    // Many servers reload their configuration on HUP.
                    is_asked_to_end |= is_termination(signal) && signal != Signal::HUP;
                    forward(child, signal, output);
                }
                Received::ChildChanged => for change in child.poll_changes() {
                    match change {
                        Change::Ended(exit) => ended = Some(exit),
                        // It resumes only if the lock is still held: we could not extend it while
                        // stopped.
                        Change::Stopped(by) => if child.stop_with_command(by) && guard.is_held() {
                            child.resume();
                        }
                    }
                },
            },
            () = observer.extended() => child.set_kill_deadline(config.time_to_kill(guard)),
            reason = guard.lost(), if lost.is_none() => {
                kill_at = end_command(child, guard, config, &reason, output);
                lost = Some(reason);
            }
            () = sleep_until(kill_at.unwrap_or(start)), if kill_at.is_some() => {
                child.kill().await;
                warn_about_refusals(child, output);
                kill_at = None;
            }
        }
    };
    CommandEnd { exit: ended, lost, held: start.elapsed(), is_asked_to_end, unstoppable }
}

/// Forwards a signal to the command.
fn forward(child: &Child, signal: Signal, output: Output) {
    if !child.forward(signal) {
        let number = signal.as_raw();
        output.warn(format_args!("the command runs as another user and does not get signal {number}"));
    }
}

/// Does what `--on-lost` says; returns when to kill.
fn end_command(
    child: &mut Child,
    guard: &Guard,
    config: &CommandConfig,
    lost: &Lost,
    output: Output,
) -> Option<Instant> {
    let left = guard.time_left().saturating_sub(config.kill_slack);
    let lost = subject::lost_text(lost);
    let grace = match config.on_lost {
        OnLost::Warn => {
            output.warn(format_args!("{lost}; the command goes on without it"));
            return None;
        }
        OnLost::Kill => Duration::ZERO,
        OnLost::Term => config.kill_grace.min(left),
    };
    output.warn(format_args!("{lost}; ending the command"));
    if !grace.is_zero() {
        child.terminate();
        warn_about_refusals(child, output);
    }
    Some(Instant::now() + grace)
}

/// Warns about processes that we could not signal. They go on without the lock.
fn warn_about_refusals(child: &mut Child, output: Output) {
    let refused = child.take_new_refusals();
    if !refused.is_empty() {
        let pids = report::pid_list(&refused);
        output.warn(format_args!(
            "the command runs as another user and cannot be stopped (pid {pids}): it goes on without the lock; start it \
             with `sudo quorlock run ...` instead of `quorlock run ... -- sudo`"
        ));
    }
}
