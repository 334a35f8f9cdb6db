//! `quorlock release`: give a lock back, by its token.

use crate::args::Release as Args;
use crate::exit::Exit;
use crate::failure::{Failure, unconfirmed};
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::since;
use crate::view;
use quorlock::{Holder, Inspection, Lock, Release};
use serde_json::{Value, json};

/// Releases the lock and says what became of it.
pub(crate) fn release(args: &Args, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let token = args.proof.token()?;
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.looking_builder())?;
        let lock = locker.named(&args.name)?;
        locker.connect().await;
        // Nodes answer in order, so the look that is sent first sees the lock as it was before.
        let (seen, outcome) = tokio::join!(biased; lock.inspect(), lock.release_token(token));
        locker.flush().await;
        let seen = seen.ok();
        match outcome {
            Release::Released => {}
            Release::Unconfirmed { nodes } => return Err(unconfirmed(lock.name(), &nodes)),
            _ => return Err(gone(&lock, seen.as_ref())),
        }
        let ours = seen.filter(|seen| view::token_of(&seen.holder) == Some(token));
        let object = json!({
            "name": lock.name().as_str(),
            "token": token.as_str(),
            "outcome": "released",
            "fence": ours.as_ref().and_then(|seen| view::fence_of(&seen.holder)),
            "remaining_ms": 0,
            "votes": ours.as_ref().map(|seen| seen.votes),
            "nodes": locker.quorum().nodes(),
        });
        screen.object(&object);
        screen.remark(format_args!("lock `{}` is released", lock.name()));
        Ok(Exit::Success)
    })
}

/// It was gone before we came; `seen` tells who has it now.
fn gone(lock: &Lock, seen: Option<&Inspection>) -> Failure {
    let name = lock.name();
    let holder = seen.map(|seen| &seen.holder).filter(|holder| **holder != Holder::Nobody);
    let now = holder.map(|holder| format!("; now held by {}", view::who_since(holder, since::now())));
    let message = format!(
        "lock `{name}` was gone already: its time ran out, or somebody removed it{}",
        now.unwrap_or_default()
    );
    Failure::new(Exit::Lost, "already_gone", message)
        .help("what it protected may have been touched by others; extend a lock before its time is over")
        .detail("name", name.as_str())
        .detail("outcome", "already_gone")
        .detail("holder", holder.map_or(Value::Null, crate::failure::holder_json))
}
