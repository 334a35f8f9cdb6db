//! `quorlock run`: hold a lock while a command runs, and end the command before the lock ends.

mod child;
mod family;
mod outcome;
mod plan;
mod supervise;
mod terminal;
mod warden;

use crate::args::Run;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::waiting::{self, Watcher};
use child::Child;
use outcome::Report;
use plan::Plan;
use quorlock::{Guard, Release};
use std::time::Duration;
use supervise::{End, supervise};
use tokio::time::sleep;

/// Takes the lock, runs the command, and says how it went.
pub(crate) fn run(args: &Run, settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    settings.excludes_others()?;
    let plan = Plan::make(args, settings)?;
    let is_shared = args.skip || args.at_least.is_some() || args.terms.wait.is_some();
    let notice = plan.settings.local_notice(is_shared, screen);
    plan.warn_of_other_user(screen);
    let done = runtime::start()?.block_on(live(&plan, notice, screen));
    done.map_err(|failure| failure.notice(notice))
}

/// Says why nothing was run. Programs get it on stderr, as stdout is the command's.
pub(crate) fn fail(failure: &Failure, screen: Screen) {
    if screen.json { outcome::tell(&failure.to_json()) } else { screen.fail(failure) }
}

async fn live(plan: &Plan, notice: Option<&str>, screen: Screen) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let watcher = Watcher::new(screen);
    let locker = plan.settings.build(plan.builder().observe(watcher.clone()))?;
    let lock = plan.lock(&locker)?;
    let taken = waiting::take(&lock, plan.no_wait, &mut signals).await;
    let guard = match taken {
        Ok(guard) => guard,
        Err(busy) if busy.exit == Exit::Busy && plan.skip => {
            screen.remark(format_args!("skipped: {}", busy.message()));
            outcome::tell_skipped(lock.name(), notice, screen);
            locker.flush().await;
            return Ok(Exit::Success);
        }
        Err(failure) => {
            locker.flush().await;
            let is_busy = matches!(failure.exit, Exit::Busy | Exit::Contended);
            return Err(if is_busy { failure.exit(plan.busy) } else { failure });
        }
    };
    let end = match Child::start(plan, &guard) {
        Ok(mut child) => supervise(&mut child, &guard, &mut signals, plan, &watcher, screen).await,
        Err(failure) => {
            let _outcome = guard.release().await;
            locker.flush().await;
            return Err(failure);
        }
    };
    let mut report = Report::new(&guard, &watcher, &end, notice);
    let stayed = stay(&guard, plan, &end, &mut signals).await;
    report.let_go(let_go(guard, &end, screen).await, stayed);
    locker.flush().await;
    Ok(report.tell(&end, screen))
}

/// Keeps the lock for as long as the user wants it kept at least; whether that was at all. A signal ends it.
async fn stay(guard: &Guard, plan: &Plan, end: &End, signals: &mut Signals) -> bool {
    let left = plan.at_least.unwrap_or_default().saturating_sub(end.held);
    if end.lost.is_some() || left.is_zero() {
        return false;
    }
    tokio::select! {
        biased;
        _ = guard.lost() => {}
        () = sleep(left) => {}
        _ = signals.end() => {}
    }
    true
}

async fn let_go(guard: Guard, end: &End, screen: Screen) -> Release {
    let name = guard.name().clone();
    let outcome = guard.release().await;
    if let (Release::Unconfirmed { .. }, None) = (&outcome, &end.lost) {
        screen.warn(format_args!("the release of lock `{name}` is {outcome}; its ttl frees it"));
    }
    outcome
}

/// How long before the end of the lock KILL is sent: for the kernel to do it, and for a busy machine.
fn slack(ttl: Duration) -> Duration {
    (ttl / 50).clamp(Duration::from_millis(30), Duration::from_millis(500))
}
