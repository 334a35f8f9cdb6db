//! `quorlock acquire`: take a lock, print its token, and leave it to its ttl.

use crate::args::Acquire;
use crate::duration::show;
use crate::exit::Exit;
use crate::failure::{Failure, millis};
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::shell;
use crate::signals::Signals;
use crate::waiting::{self, Watcher};
use quorlock::{Guard, Lock, Locker};
use serde_json::{Value, json};

/// Takes the lock and says under which token.
pub(crate) fn acquire(args: &Acquire, mut settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    settings.ttl.set(args.terms.ttl, "--ttl");
    settings.wait.set(args.terms.wait, "--wait");
    settings.excludes_others()?;
    let notice = settings.local_notice(args.terms.wait.is_some(), screen);
    let done = runtime::start()?.block_on(live(args, &settings, notice, screen));
    done.map_err(|failure| failure.notice(notice))
}

async fn live(
    args: &Acquire,
    settings: &Settings,
    notice: Option<&str>,
    screen: Screen,
) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let watcher = Watcher::new(screen);
    let builder = settings.builder().attempts(u32::MAX).observe(watcher.clone());
    let locker = settings.build(builder)?;
    let lock = lock(args, &locker)?;
    let taken = waiting::take(&lock, args.terms.no_wait, &mut signals).await;
    // Also after a failure: what an attempt set on some nodes must go before we do.
    locker.flush().await;
    let guard = taken?;
    if !guard.is_held() {
        return Err(too_late(&guard));
    }
    let mut object = taken_json(&guard, &locker, &watcher);
    if let Some(notice) = notice {
        object["notice"] = notice.into();
    }
    let told = screen.hand_over(&object, || guard.token().to_string());
    if let Err(error) = told {
        let _outcome = guard.release().await;
        locker.flush().await;
        let message = format!("the token could not be written, so the lock was released: {error}");
        return Err(Failure::new(Exit::CannotRun, "output", message));
    }
    remark(&guard, screen);
    // Neither released nor extended from here on: whoever has the token does both.
    std::mem::forget(guard);
    Ok(Exit::Success)
}

fn lock(args: &Acquire, locker: &Locker) -> Result<Lock, Failure> {
    let lock = locker.named(&args.name)?.watchdog(false).outlives_process(true);
    Ok(match &args.terms.reason {
        Some(reason) => lock.reason(reason.as_str()),
        None => lock,
    })
}

fn too_late(guard: &Guard) -> Failure {
    Failure::new(Exit::Lost, "lost", format!("lock `{}` was granted, but its time is over", guard.name()))
        .help("give a longer --ttl, or look at the nodes with `quorlock doctor`")
}

fn taken_json(guard: &Guard, locker: &Locker, watcher: &Watcher) -> Value {
    json!({
        "name": guard.name().as_str(),
        "token": guard.token().as_str(),
        "fence": guard.fence(),
        "remaining_ms": millis(Some(guard.remaining())),
        "votes": guard.votes(),
        "nodes": locker.quorum().nodes(),
        "waited_ms": watcher.waited_ms(),
    })
}

/// The token itself is left out: it may have gone into a variable instead of onto the screen.
fn remark(guard: &Guard, screen: Screen) {
    let (name, left) = (guard.name(), show(guard.remaining()));
    let (extend, release) = (shell::line("extend", name, None), shell::line("release", name, None));
    screen.remark(format_args!(
        "lock `{name}` is valid for {left}; with the token in QUORLOCK_TOKEN or --token, extend with `{extend}`, release with `{release}`"
    ));
}
