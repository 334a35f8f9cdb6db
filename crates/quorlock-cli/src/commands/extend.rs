//! `quorlock extend`: keep a lock for longer, by its token.

use crate::args::Extend;
use crate::duration::show;
use crate::exit::Exit;
use crate::failure::{Failure, millis};
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::shell;
use quorlock::{ExtendError, Lost};
use serde_json::json;

/// Extends the lock and says for how long.
pub(crate) fn extend(args: &Extend, mut settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    settings.ttl.set(args.ttl, "--ttl");
    let token = args.proof.token()?;
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.builder().begin_epochs(false))?;
        let lock = locker.named(&args.name)?;
        let extended = lock.extend_token(token, settings.ttl.value).await;
        // Nodes that did not answer yet shall extend, too.
        locker.flush().await;
        let extension = extended.map_err(|error| match error {
            ExtendError::Lost(lost) => gone(&lost),
            other => other.into(),
        })?;
        let object = json!({
            "name": lock.name().as_str(),
            "token": token.as_str(),
            "fence": extension.fence.map(|fence| fence.get()),
            "remaining_ms": millis(Some(extension.left)),
            "votes": extension.votes,
            "nodes": locker.quorum().nodes(),
        });
        screen.object(&object);
        screen.remark(format_args!("lock `{}` is valid for another {}", lock.name(), show(extension.left)));
        Ok(Exit::Success)
    })
}

fn gone(lost: &Lost) -> Failure {
    let (name, status) = (&lost.lock, shell::line("status", &lost.lock, None));
    let message =
        format!("lock `{name}` is not held under that token: its time ran out, or somebody removed it");
    Failure::new(Exit::Lost, "lost", message)
        .help(format!("stop what it protects; `{status}` tells who has it now"))
        .detail("name", name.as_str())
}
