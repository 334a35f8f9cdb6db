//! `quorlock status`: who holds what.

use crate::args::Status;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, lock_view, shell_quote};
use crate::process::runtime;
use crate::settings::Settings;
use quorlock::Locker;
use std::time::SystemTime;

/// Prints one lock, or all that are held.
pub(crate) fn status(args: &Status, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.read_only_builder())?;
        match &args.name {
            Some(name) => print_lock(&locker, name, args.show_token, output).await,
            None => print_all(&locker, output).await,
        }
    })
}

async fn print_lock(locker: &Locker, name: &str, token: bool, output: Output) -> Result<Exit, Failure> {
    let lock = locker.named(name)?.inspect().await?;
    let now = SystemTime::now();
    output.print(&lock_view::lock_json(&lock, now, token), || {
        let text = lock_view::lock_text(&lock, now);
        match lock_view::token_of(&lock.holder).filter(|_| token) {
            Some(token) => {
                let command = shell_quote::quorlock_command("force-release", &lock.name, Some(token));
                format!("{text}\n\n{command}")
            }
            None => text,
        }
    })?;
    Ok(Exit::Success)
}

async fn print_all(locker: &Locker, output: Output) -> Result<Exit, Failure> {
    let listing = locker.list().await?;
    let now = SystemTime::now();
    output.print(&lock_view::listing_json(&listing, now), || lock_view::listing_text(&listing, now))?;
    if !listing.complete {
        output.warn("there are more locks than could be listed; name the one that you need");
    }
    Ok(Exit::Success)
}
