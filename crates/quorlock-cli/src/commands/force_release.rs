//! `quorlock force-release`: take a lock away from a holder that is named by its token.

use crate::args::{ForceRelease, parse_token};
use crate::output::exit_code::Exit;
use crate::output::failure::{Failure, unconfirmed};
use crate::output::{Output, is_interactive, json, lock_view, shell_quote, subject};
use crate::process::runtime;
use crate::settings::Settings;
use quorlock::{Holder, Inspection, Lock, ReleaseOutcome};
use serde_json::json;
use std::io::{self, Write};
use std::slice;
use std::time::SystemTime;

/// Releases the lock if its holder has the given token, and prints who held it.
pub(crate) fn force_release(
    args: &ForceRelease,
    settings: &Settings,
    output: Output,
) -> Result<Exit, Failure> {
    let token = parse_token(&args.token)?;
    if !args.yes && (!is_interactive() || output.json) {
        return Err(Failure::usage(
            "taking a lock away needs a confirmation, and there is no terminal to ask on",
        )
        .help("check the holder with `quorlock status`, then give --yes"));
    }
    let runtime = runtime::start()?;
    let locker = {
        let _inside = runtime.enter();
        settings.build(settings.read_only_builder())?
    };
    let lock = match args.slot {
        Some(slot) => locker.slot(&args.name, slot)?,
        None => locker.named(&args.name)?,
    };
    let inspected = runtime.block_on(lock.inspect())?;
    let holder = lock_view::holder_with(&inspected, token).ok_or_else(|| other_holder(&inspected))?;
    if !args.yes {
        confirm(&inspected, &holder)?;
    }
    // If another client acquired the lock meanwhile, it has another token and nothing happens.
    let outcome = runtime.block_on(async {
        let outcome = lock.force_release(token).await;
        locker.flush().await;
        outcome
    });
    // A majority that never had the lock answers no, while the minority that had it releases it.
    let outcome = match outcome {
        ReleaseOutcome::AlreadyGone if !is_on_majority(&inspected, &holder) => ReleaseOutcome::Released,
        outcome => outcome,
    };
    print(&lock, &holder, outcome, output)
}

fn is_on_majority(inspected: &Inspection, holder: &Holder) -> bool {
    match &inspected.holder {
        Holder::Shared { readers } => {
            readers.iter().any(|reader| Some(reader.token) == lock_view::token_of(holder))
        }
        of_majority => of_majority == holder,
    }
}

fn other_holder(inspected: &Inspection) -> Failure {
    let lock = subject::phrase(slice::from_ref(&inspected.name));
    let failure = match &inspected.holder {
        Holder::Nobody => {
            Failure::new(Exit::Lost, "not_held", format!("{lock} is not held under that token"))
                .help("it was released, or its time ran out: there is nothing to do")
        }
        holder => {
            let holder = lock_view::holder_since_text(holder, SystemTime::now());
            let message = format!("{lock} is not held under that token; now held by {holder}");
            let names = slice::from_ref(&inspected.name);
            let status = shell_quote::quorlock_command("status --show-token", names, None);
            Failure::new(Exit::Lost, "not_held", message)
                .help(format!("the holder that you named is gone; `{status}` shows who has it now"))
        }
    };
    let name = subject::given_name(&inspected.name);
    failure.detail("name", name).detail("holder", json::holder(&inspected.holder))
}

/// Asks on the terminal. Anything but yes declines.
fn confirm(inspected: &Inspection, holder: &Holder) -> Result<(), Failure> {
    let text = lock_view::holder_since_text(holder, SystemTime::now());
    let mut err = anstream::stderr();
    let lock = subject::phrase(slice::from_ref(&inspected.name));
    let _ = writeln!(err, "quorlock: {lock} is held by {text}");
    if let Holder::Owner { owner, .. } = holder
        && let Some(reason) = &owner.reason
    {
        let _ = writeln!(err, "  reason: {reason}");
    }
    let _ = write!(err, "The holder is not asked and may go on working. Take the lock away? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let is_read = io::stdin().read_line(&mut answer).is_ok();
    if is_read && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(Failure::new(Exit::Warnings, "declined", "nothing was released"))
}

fn print(lock: &Lock, holder: &Holder, outcome: ReleaseOutcome, output: Output) -> Result<Exit, Failure> {
    let (name, text) = (subject::given_name(lock.name()), subject::phrase(lock.names()));
    match outcome {
        ReleaseOutcome::Released => {}
        ReleaseOutcome::Unconfirmed { nodes } => return Err(unconfirmed(lock.names(), &nodes)),
        _ => {
            let message = format!("{text} was gone before it could be taken away");
            return Err(Failure::new(Exit::Lost, "already_gone", message).detail("name", name));
        }
    }
    let mut object = json!({
        "name": name,
        "outcome": "released",
        "holder": json::holder(holder),
        "fence": lock_view::fence_of(holder),
    });
    json::add_slot(&mut object, lock.names());
    output.print_json(&object);
    let holder = lock_view::holder_since_text(holder, SystemTime::now());
    output.info(format_args!("{text} was taken away; it was held by {holder}"));
    Ok(Exit::Success)
}
