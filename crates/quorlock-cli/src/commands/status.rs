//! `quorlock status`: who holds what.

use crate::args::Status;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::shell;
use crate::since;
use crate::view;
use quorlock::{Inspection, Listing, Locker, Wall};
use serde_json::{Value, json};

/// Shows one lock, or all that are held.
pub(crate) fn status(args: &Status, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.looking_builder())?;
        match &args.name {
            Some(name) => show_one(&locker, name, args.show_token, screen).await,
            None => show_all(&locker, screen).await,
        }
    })
}

async fn show_one(locker: &Locker, name: &str, token: bool, screen: Screen) -> Result<Exit, Failure> {
    let lock = locker.named(name)?.inspect().await?;
    let now = since::now();
    screen.answer(&view::lock_json(&lock, now, token), || {
        let text = one(&lock, now);
        match view::token_of(&lock.holder).filter(|_| token) {
            Some(token) => format!("{text}\n\n{}", shell::line("force-release", &lock.name, Some(token))),
            None => text,
        }
    })?;
    Ok(Exit::Success)
}

async fn show_all(locker: &Locker, screen: Screen) -> Result<Exit, Failure> {
    let listing = locker.list().await?;
    let now = since::now();
    screen.answer(&all_json(&listing, now), || all(&listing, now))?;
    if !listing.complete {
        screen.warn("there are more locks than could be listed; name the one that you look for");
    }
    Ok(Exit::Success)
}

/// One lock for people: who has it, and what each node says.
pub(super) fn one(lock: &Inspection, now: Wall) -> String {
    if !lock.is_held() {
        return format!("{}\n\n{}", view::free(lock), view::nodes_table(lock));
    }
    let summary = view::locks_table(std::slice::from_ref(lock), now);
    format!("{summary}\n{}\n{}", view::whole_values(lock), view::nodes_table(lock))
}

/// All held locks for people.
pub(super) fn all(listing: &Listing, now: Wall) -> String {
    match (listing.held.is_empty(), listing.complete) {
        (true, true) => "no lock is held".to_owned(),
        (true, false) => "no lock was found".to_owned(),
        _ => view::locks_table(&listing.held, now),
    }
}

/// All held locks for programs.
pub(super) fn all_json(listing: &Listing, now: Wall) -> Value {
    let locks: Vec<Value> = listing.held.iter().map(|lock| view::lock_json(lock, now, false)).collect();
    json!({ "locks": locks, "complete": listing.complete })
}
