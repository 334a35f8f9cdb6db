//! `quorlock extend`: keep a lock for longer, by its token.

use crate::args::Extend;
use crate::commands::inspect_lock::held_lock;
use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, json, shell_quote, subject};
use crate::process::runtime;
use crate::settings::Settings;
use quorlock::{ExtendError, Lost};
use serde_json::json;

/// Extends the lock and prints for how long.
pub(crate) fn extend(args: &Extend, mut settings: Settings, output: Output) -> Result<Exit, Failure> {
    settings.ttl.set(args.ttl, "--ttl");
    let token = args.token.parse()?;
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.builder().begin_epochs(false))?;
        let lock = held_lock(&locker, &args.lock, token).await?;
        let extended = lock.extend_token(token, settings.ttl.value).await;
        // Nodes that did not answer yet must extend, too.
        locker.flush().await;
        let extended = extended.map_err(|error| match error {
            ExtendError::Lost(lost) => gone(&lost),
            other => other.into(),
        })?;
        let mut object = json!({
            "name": args.lock.name,
            "token": token.as_str(),
            "fence": extended.fence.map(|fence| fence.get()),
            "remaining_ms": json::millis(extended.left),
            "votes": extended.votes,
            "nodes": locker.quorum().nodes(),
        });
        json::add_slot(&mut object, lock.names());
        output.print_json(&object);
        let left = show(extended.left);
        output
            .info_on_terminal(format_args!("{} is valid for another {left}", subject::phrase(lock.names())));
        Ok(Exit::Success)
    })
}

fn gone(lost: &Lost) -> Failure {
    let names = lost.lock.as_slice();
    let status = shell_quote::quorlock_command("status", &names[..1], None);
    let message = format!(
        "{} is not held under that token: its ttl ran out, or another client removed it",
        subject::phrase(names)
    );
    Failure::new(Exit::Lost, "lost", message)
        .help(format!("stop the work that it protects; `{status}` shows who has it now"))
        .detail("name", subject::given_name(lost.lock.first()))
}
