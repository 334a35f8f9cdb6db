//! `quorlock force-release`: take a lock away from a holder that is named by its token.

use crate::args::{ForceRelease, token};
use crate::exit::Exit;
use crate::failure::{Failure, holder_json, unconfirmed};
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::shell;
use crate::since;
use crate::view;
use quorlock::node::{Content, View};
use quorlock::{Holder, Inspection, Lock, Release, Token};
use serde_json::json;
use std::io::{self, IsTerminal, Write};

/// Takes the lock away, if its holder is the one that was named, and says from whom.
pub(crate) fn force_release(
    args: &ForceRelease,
    settings: &Settings,
    screen: Screen,
) -> Result<Exit, Failure> {
    let token = token(&args.token)?;
    let can_ask = io::stdin().is_terminal() && io::stderr().is_terminal() && !screen.json;
    if !args.yes && !can_ask {
        return Err(Failure::usage("taking a lock away needs a yes, and there is nobody to ask")
            .help("look at the holder with `quorlock status`, then give --yes"));
    }
    let runtime = runtime::start()?;
    let locker = {
        let _inside = runtime.enter();
        settings.build(settings.looking_builder())?
    };
    let lock = locker.named(&args.name)?;
    let seen = runtime.block_on(lock.inspect())?;
    let holder = holder_of(&seen, token).ok_or_else(|| other_holder(&seen))?;
    if !args.yes {
        confirm(&seen, &holder)?;
    }
    // If the lock changed hands while we asked, its token is another one and nothing happens.
    let outcome = runtime.block_on(async {
        let outcome = lock.force_release(token).await;
        locker.flush().await;
        outcome
    });
    // A majority that never had it says no, while the minority that had it lets go.
    let outcome = match outcome {
        Release::AlreadyGone if holder != seen.holder => Release::Released,
        outcome => outcome,
    };
    tell(&lock, &holder, outcome, screen)
}

/// The holder under `token`, also one that has it on less than a majority.
fn holder_of(seen: &Inspection, token: Token) -> Option<Holder> {
    if view::token_of(&seen.holder) == Some(token) {
        return Some(seen.holder.clone());
    }
    seen.nodes.iter().find_map(|node| match &node.view {
        Ok(View { content: Content::Lock(stored), .. }) if stored.token == token => {
            Some(Holder::Owner { token, fence: stored.fence, owner: stored.owner.clone() })
        }
        _ => None,
    })
}

fn other_holder(seen: &Inspection) -> Failure {
    let name = &seen.name;
    let failure = match &seen.holder {
        Holder::Nobody => {
            Failure::new(Exit::Lost, "not_held", format!("lock `{name}` is not held under that token"))
                .help("it was released, or its time ran out: there is nothing to do")
        }
        holder => {
            let holder = view::who_since(holder, since::now());
            let message = format!("lock `{name}` is not held under that token; now held by {holder}");
            let status = shell::line("status --show-token", name, None);
            Failure::new(Exit::Lost, "not_held", message)
                .help(format!("the holder that you meant is gone; `{status}` tells who has it now"))
        }
    };
    failure.detail("name", name.as_str()).detail("holder", holder_json(&seen.holder))
}

/// Asks on the terminal; only a clear yes is one.
fn confirm(seen: &Inspection, holder: &Holder) -> Result<(), Failure> {
    let who = view::who_since(holder, since::now());
    let mut err = anstream::stderr();
    let _ = writeln!(err, "quorlock: lock `{}` is held by {who}", seen.name);
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

fn tell(lock: &Lock, holder: &Holder, outcome: Release, screen: Screen) -> Result<Exit, Failure> {
    let name = lock.name();
    match outcome {
        Release::Released => {}
        Release::Unconfirmed { nodes } => return Err(unconfirmed(name, &nodes)),
        _ => {
            let message = format!("lock `{name}` was gone before it could be taken away");
            return Err(Failure::new(Exit::Lost, "already_gone", message).detail("name", name.as_str()));
        }
    }
    let object = json!({
        "name": name.as_str(),
        "outcome": "released",
        "holder": holder_json(holder),
        "fence": view::fence_of(holder),
    });
    screen.object(&object);
    let held = view::who_since(holder, since::now());
    screen.note(format_args!("lock `{name}` was taken away; it was held by {held}"));
    Ok(Exit::Success)
}
