//! `quorlock status`: who holds what.

use crate::args::Status;
use crate::commands::inspect_lock::Found;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, lock_json, lock_view, shell_quote, slots_view};
use crate::process::runtime;
use crate::settings::Settings;
use quorlock::{Holder, Inspection, Locker, Token};
use std::slice;
use std::time::SystemTime;

/// Prints one lock, or all that are held.
pub(crate) fn status(args: &Status, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.read_only_builder())?;
        match &args.name {
            Some(name) => {
                print_found(&Found::inspect(&locker, name, args.slots).await?, args.show_token, output)
            }
            None => print_all(&locker, output).await,
        }
    })
}

fn print_found(found: &Found, show_token: bool, output: Output) -> Result<Exit, Failure> {
    let now = SystemTime::now();
    output.print(&found.to_json(now, show_token), || {
        let text = found.text(now);
        let commands = if show_token { force_releases(found) } else { Vec::new() };
        if commands.is_empty() { text } else { format!("{text}\n\n{}", commands.join("\n")) }
    })?;
    found.warnings().iter().for_each(|line| output.warn(line));
    Ok(Exit::Success)
}

/// The command for each holder that takes its lock away.
fn force_releases(found: &Found) -> Vec<String> {
    let locks = if found.is_semaphore() { &found.permits } else { slice::from_ref(&found.lock) };
    let command = |lock: &Inspection, token| {
        shell_quote::quorlock_command("force-release", slice::from_ref(&lock.name), Some(token))
    };
    locks
        .iter()
        .flat_map(|lock| tokens(&lock.holder).into_iter().map(move |token| command(lock, token)))
        .collect()
}

fn tokens(holder: &Holder) -> Vec<Token> {
    match holder {
        Holder::Owner { token, .. } => vec![*token],
        Holder::Shared { readers } => readers.iter().map(|reader| reader.token).collect(),
        _ => Vec::new(),
    }
}

async fn print_all(locker: &Locker, output: Output) -> Result<Exit, Failure> {
    let listing = locker.list().await?;
    let now = SystemTime::now();
    output.print(&lock_json::listing_json(&listing, now), || lock_view::listing_text(&listing, now))?;
    if listing.held.iter().any(|lock| lock.name.as_slot().is_some()) {
        // What the nodes have recorded may not be ours to read.
        let semaphores = locker.list_semaphores().await.unwrap_or_default();
        let disagreements = semaphores.iter().flat_map(slots_view::disagreements);
        disagreements.for_each(|disagreement| output.warn(disagreement.line()));
    }
    if !listing.complete {
        output.warn("there are more locks than could be listed; name the one that you need");
    }
    Ok(Exit::Success)
}
