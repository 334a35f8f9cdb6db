//! `quorlock release`: release a lock, by its token.

use crate::args::Release;
use crate::output::exit_code::Exit;
use crate::output::failure::{Failure, unconfirmed};
use crate::output::{Output, json, lock_view};
use crate::process::runtime;
use crate::settings::Settings;
use quorlock::{Holder, Inspection, Lock, ReleaseOutcome};
use serde_json::{Value, json};
use std::time::SystemTime;

/// Releases the lock and prints the outcome.
pub(crate) fn release(args: &Release, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let token = args.token.parse()?;
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.read_only_builder())?;
        let lock = locker.named(&args.name)?;
        // The release reports each node that cannot be reached.
        let _ = locker.connect().await;
        // Nodes answer in order, so the inspection that is sent first sees the lock as it was
        // before the release.
        let (before, outcome) = tokio::join!(biased; lock.inspect(), lock.release_token(token));
        locker.flush().await;
        let before = before.ok();
        match outcome {
            ReleaseOutcome::Released => {}
            ReleaseOutcome::Unconfirmed { nodes } => return Err(unconfirmed(lock.name(), &nodes)),
            _ => return Err(already_gone(&lock, before.as_ref())),
        }
        let ours = before.filter(|before| lock_view::token_of(&before.holder) == Some(token));
        output.print_json(&json!({
            "name": lock.name().as_str(),
            "token": token.as_str(),
            "outcome": "released",
            "fence": ours.as_ref().and_then(|before| lock_view::fence_of(&before.holder)),
            "remaining_ms": 0,
            "votes": ours.as_ref().map(|before| before.votes),
            "nodes": locker.quorum().nodes(),
        }));
        output.info_on_terminal(format_args!("lock `{}` is released", lock.name()));
        Ok(Exit::Success)
    })
}

/// The lock was gone before the release; `inspected` shows who has it now.
fn already_gone(lock: &Lock, inspected: Option<&Inspection>) -> Failure {
    let name = lock.name();
    let holder = inspected.map(|lock| &lock.holder).filter(|holder| **holder != Holder::Nobody);
    let now = holder.map(|holder| lock_view::holder_since_text(holder, SystemTime::now()));
    let now = now.map(|holder| format!("; now held by {holder}")).unwrap_or_default();
    let message =
        format!("lock `{name}` was gone already: its ttl ran out, or another client removed it{now}");
    Failure::new(Exit::Lost, "already_gone", message)
        .help("another client may have changed what it protected; extend a lock before its time is over")
        .detail("name", name.as_str())
        .detail("outcome", "already_gone")
        .detail("holder", holder.map_or(Value::Null, json::holder))
}
