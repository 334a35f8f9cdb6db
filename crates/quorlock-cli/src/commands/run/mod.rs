//! `quorlock run`: hold a lock while a command runs, and end the command before the lock ends.

mod child;
mod command_config;
mod config;
mod dead_man_switch;
mod elect;
mod environment;
mod report;
mod supervise;
mod terminal;

use crate::args::Run;
use crate::commands::acquire_lock::LockObserver;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, subject};
use crate::process::runtime;
use crate::process::signals::Signals;
use crate::settings::Settings;
use child::Child;
use config::RunConfig;
pub(crate) use elect::elect;
use environment::Environment;
use quorlock::{Guard, ReleaseOutcome};
use report::RunReport;
use supervise::{CommandEnd, supervise};
use tokio::time::sleep;

/// Acquires the lock, runs the command, and reports how it ended.
pub(crate) fn run(args: &Run, settings: Settings, output: Output) -> Result<Exit, Failure> {
    settings.check_shared_nodes()?;
    let config = RunConfig::new(args, settings)?;
    let is_shared = args.skip || args.at_least.is_some() || args.options.wait.is_some();
    let notice = config.settings.local_notice(is_shared, output);
    config.command.warn_if_other_user(output);
    let done = runtime::start()?.block_on(run_under_lock(&config, notice, output));
    done.map_err(|failure| failure.notice(notice))
}

/// Prints why the command was not run; with `--json` on stderr, because stdout is the command's.
pub(crate) fn print_failure(failure: &Failure, output: Output) {
    if output.json { report::print_json(&failure.to_json()) } else { output.error(failure) }
}

async fn run_under_lock(config: &RunConfig, notice: Option<&str>, output: Output) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let observer = LockObserver::new(output);
    let builder = config.command.builder(&config.settings);
    let locker = config.settings.build(builder.observer(observer.clone()))?;
    let acquired = config.target(&locker)?.acquire(config.no_wait, &mut signals).await;
    let guard = match acquired {
        Ok(guard) => guard,
        Err(busy) if busy.exit == Exit::Busy && config.skip => {
            output.info_on_terminal(format_args!("skipped: {}", busy.message()));
            report::print_skipped(&config.name, notice, output);
            locker.flush().await;
            return Ok(Exit::Success);
        }
        Err(failure) => {
            locker.flush().await;
            let is_busy = matches!(failure.exit, Exit::Busy | Exit::Contended);
            return Err(if is_busy { failure.exit(config.busy_exit) } else { failure });
        }
    };
    let environment = Environment { name: &config.name, is_election: false };
    let end = match Child::start(&config.command, &guard, environment) {
        Ok(mut child) => {
            supervise(&mut child, &guard, &mut signals, &config.command, &observer, output).await
        }
        Err(failure) => {
            let _outcome = guard.release().await;
            locker.flush().await;
            return Err(failure);
        }
    };
    let mut report = RunReport::new(&config.name, &guard, &observer, &end, notice);
    let held_on = hold_at_least(&guard, config, &end, &mut signals).await;
    report.add_release(&release(guard, &end, output).await, held_on);
    locker.flush().await;
    Ok(report.print(&end, output))
}

/// Holds the lock until `--at-least` is over or a signal comes. Returns whether it held the lock
/// after the command ended.
async fn hold_at_least(guard: &Guard, config: &RunConfig, end: &CommandEnd, signals: &mut Signals) -> bool {
    let left = config.at_least.unwrap_or_default().saturating_sub(end.held);
    if end.lost.is_some() || left.is_zero() {
        return false;
    }
    tokio::select! {
        biased;
        _ = guard.lost() => {}
        () = sleep(left) => {}
        _ = signals.termination() => {}
    }
    true
}

async fn release(guard: Guard, end: &CommandEnd, output: Output) -> ReleaseOutcome {
    let lock = subject::phrase(guard.names());
    let outcome = guard.release().await;
    if let (ReleaseOutcome::Unconfirmed { .. }, None) = (&outcome, &end.lost) {
        output.warn(format_args!("the release of {lock} is {outcome}; its ttl frees it"));
    }
    outcome
}
