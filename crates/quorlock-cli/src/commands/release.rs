//! `quorlock release`: release a lock, by its token.

use crate::args::Release;
use crate::commands::inspect_lock::held_lock;
use crate::output::exit_code::Exit;
use crate::output::failure::{Failure, unconfirmed};
use crate::output::{Output, json, lock_view, subject};
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
        let lock = held_lock(&locker, &args.lock, token).await?;
        // The release reports each node that cannot be reached.
        let _ = locker.connect().await;
        // Nodes answer in order, so the inspection that is sent first sees the lock as it was
        // before the release.
        let (before, outcome) = tokio::join!(biased; lock.inspect(), lock.release_token(token));
        locker.flush().await;
        let before = before.ok();
        match outcome {
            ReleaseOutcome::Released => {}
            ReleaseOutcome::Unconfirmed { nodes } => return Err(unconfirmed(lock.names(), &nodes)),
            _ => return Err(already_gone(&lock, before.as_ref())),
        }
        let ours = before.and_then(|before| Some((lock_view::holder_with(&before, token)?, before.votes)));
        let mut object = json!({
            "name": args.lock.name,
            "token": token.as_str(),
            "outcome": "released",
            "fence": ours.as_ref().and_then(|(holder, _)| lock_view::fence_of(holder)),
            "remaining_ms": 0,
            "votes": ours.as_ref().map(|(_, votes)| votes),
            "nodes": locker.quorum().nodes(),
        });
        json::add_slot(&mut object, lock.names());
        output.print_json(&object);
        output.info_on_terminal(format_args!("{} is released", subject::phrase(lock.names())));
        Ok(Exit::Success)
    })
}

/// The lock was gone before the release; `inspected` shows who has it now.
fn already_gone(lock: &Lock, inspected: Option<&Inspection>) -> Failure {
    let text = subject::phrase(lock.names());
    let holder = inspected.map(|lock| &lock.holder).filter(|holder| **holder != Holder::Nobody);
    let now = holder.map(|holder| lock_view::holder_since_text(holder, SystemTime::now()));
    let now = now.map(|holder| format!("; now held by {holder}")).unwrap_or_default();
    let message = format!("{text} was gone already: its ttl ran out, or another client removed it{now}");
    Failure::new(Exit::Lost, "already_gone", message)
        .help("another client may have changed what it protected; extend a lock before its time is over")
        .detail("name", subject::given_name(lock.name()))
        .detail("outcome", "already_gone")
        .detail("holder", holder.map_or(Value::Null, json::holder))
}
