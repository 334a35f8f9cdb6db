//! `quorlock extend`: keep a lock for longer, by its token.

use crate::args::Extend;
use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, json, shell_quote};
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
        let lock = locker.named(&args.name)?;
        let extended = lock.extend_token(token, settings.ttl.value).await;
        // Nodes that did not answer yet must extend, too.
        locker.flush().await;
        let extended = extended.map_err(|error| match error {
            ExtendError::Lost(lost) => gone(&lost),
            other => other.into(),
        })?;
        output.print_json(&json!({
            "name": lock.name().as_str(),
            "token": token.as_str(),
            "fence": extended.fence.map(|fence| fence.get()),
            "remaining_ms": json::millis(extended.left),
            "votes": extended.votes,
            "nodes": locker.quorum().nodes(),
        }));
        let left = show(extended.left);
        output.info_on_terminal(format_args!("lock `{}` is valid for another {left}", lock.name()));
        Ok(Exit::Success)
    })
}

fn gone(lost: &Lost) -> Failure {
    let (name, status) = (&lost.lock, shell_quote::quorlock_command("status", lost.lock.first(), None));
    let message =
        format!("lock `{name}` is not held under that token: its ttl ran out, or another client removed it");
    Failure::new(Exit::Lost, "lost", message)
        .help(format!("stop the work that it protects; `{status}` shows who has it now"))
        .detail("name", name.to_string())
}
