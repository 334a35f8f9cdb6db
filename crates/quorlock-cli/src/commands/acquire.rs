//! `quorlock acquire`: acquire a lock, print its token, and leave the lock to its ttl.

use crate::args::Acquire;
use crate::commands::acquire_lock::{LockObserver, Target};
use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, json, shell_quote, subject};
use crate::process::runtime;
use crate::process::signals::Signals;
use crate::settings::Settings;
use quorlock::{Guard, Locker};
use serde_json::{Value, json};

/// Acquires the lock and prints its token.
pub(crate) fn acquire(args: &Acquire, mut settings: Settings, output: Output) -> Result<Exit, Failure> {
    settings.ttl.set(args.options.ttl, "--ttl");
    settings.wait.set(args.options.wait, "--wait");
    settings.check_shared_nodes()?;
    let notice = settings.local_notice(args.options.wait.is_some(), output);
    let done = runtime::start()?.block_on(acquire_and_print(args, &settings, notice, output));
    done.map_err(|failure| failure.notice(notice))
}

async fn acquire_and_print(
    args: &Acquire,
    settings: &Settings,
    notice: Option<&str>,
    output: Output,
) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let observer = LockObserver::new(output);
    let builder = settings.builder().max_attempts(u32::MAX).observer(observer.clone());
    let locker = settings.build(builder)?;
    let acquired = target(args, &locker)?.acquire(args.options.no_wait, &mut signals).await;
    // Even after a failure: what an attempt set on some nodes must be undone before we end.
    locker.flush().await;
    let guard = acquired?;
    if !guard.is_held() {
        return Err(expired(&guard));
    }
    let mut object = to_json(&args.name, &guard, &locker, &observer);
    if let Some(notice) = notice {
        object["notice"] = notice.into();
    }
    let printed = output.try_print(&object, || guard.token().to_string());
    if let Err(error) = printed {
        let _outcome = guard.release().await;
        locker.flush().await;
        let message = format!("the token could not be written, so the lock was released: {error}");
        return Err(Failure::new(Exit::CannotRun, "output", message));
    }
    print_next_steps(&guard, output);
    // The client that has the token extends and releases it from here on.
    guard.detach();
    Ok(Exit::Success)
}

fn target(args: &Acquire, locker: &Locker) -> Result<Target, Failure> {
    let target = Target::new(locker, &args.name, &args.sharing)?;
    let target = target.with(|lock| lock.watchdog(false).outlives_process(true));
    Ok(match &args.options.reason {
        Some(reason) => target.with(|lock| lock.reason(reason.as_str())),
        None => target,
    })
}

fn expired(guard: &Guard) -> Failure {
    let lock = subject::phrase(guard.names());
    Failure::new(Exit::Lost, "lost", format!("{lock} was granted, but its time is over"))
        .help("give a longer --ttl, or check the nodes with `quorlock doctor`")
}

fn to_json(name: &str, guard: &Guard, locker: &Locker, observer: &LockObserver) -> Value {
    let mut object = json!({
        "name": name,
        "mode": guard.mode(),
        "token": guard.token().as_str(),
        "fence": guard.fence().get(),
        "remaining_ms": json::millis(guard.remaining()),
        "votes": guard.votes(),
        "nodes": locker.quorum().nodes(),
        "waited_ms": observer.waited_ms(),
    });
    json::add_slot(&mut object, guard.names());
    object
}

/// Prints how to go on, without the token: stdout may be a variable, stderr a log.
fn print_next_steps(guard: &Guard, output: Output) {
    let (lock, left) = (subject::phrase(guard.names()), show(guard.remaining()));
    let extend = shell_quote::quorlock_command("extend", guard.names(), None);
    let release = shell_quote::quorlock_command("release", guard.names(), None);
    output.info_on_terminal(format_args!(
        "{lock} is valid for {left}; with the token in QUORLOCK_TOKEN or --token, extend with `{extend}`, release with `{release}`"
    ));
}
