//! `quorlock serve`: the HTTP sidecar.

mod room;
mod teller;

use crate::args::Serve;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::{Signals, Told};
use quorlock_serve::{
    BindError, Bound, CancellationToken, Limits, ListenError, Sidecar, SidecarError, Tls,
    is_readable_by_others,
};
use rustix::process::Signal;
use serde_json::json;
use teller::Teller;

/// Serves until it is told to end.
pub(crate) fn serve(args: &Serve, mut settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    settings.ttl.set(args.ttl, "--ttl");
    if let Err(error) = room::make(args.max_connections) {
        screen.warn(error);
    }
    runtime::start_many()?.block_on(live(args, &settings, screen))
}

async fn live(args: &Serve, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    warn_of_readers(args, screen);
    let nodes = settings.builder().observe(Teller::start(screen));
    let sidecar = Sidecar::builder(nodes)
        .ttl(settings.ttl.value)
        .limits(limits(args))
        .token_file(args.token_file.clone())
        .anonymous(args.anonymous.map(Into::into))
        .build()
        .map_err(|error| unusable(error, settings))?;
    let bound = sidecar.bind(&args.listen, tls(args).as_ref()).await.map_err(not_bound)?;
    tell_addresses(&bound, screen)?;
    let shutdown = CancellationToken::new();
    let serving = bound.serve(shutdown.clone());
    tokio::pin!(serving);
    loop {
        tokio::select! {
            biased;
            () = &mut serving => return Ok(Exit::Success),
            told = signals.next() => match told {
                Told::Signal(Signal::HUP) => reload(&sidecar, screen),
                Told::Signal(Signal::INT | Signal::TERM | Signal::QUIT) if shutdown.is_cancelled() => {
                    screen.note("ended at once; requests under way were not answered");
                    return Ok(Exit::Success);
                }
                Told::Signal(Signal::INT | Signal::TERM | Signal::QUIT) => {
                    screen.note("shutting down; once more to end at once");
                    shutdown.cancel();
                }
                _ => {}
            },
        }
    }
}

fn limits(args: &Serve) -> Limits {
    let mut limits = Limits::default();
    limits.sessions = usize::try_from(args.max_sessions).unwrap_or(usize::MAX);
    limits.connections = usize::try_from(args.max_connections).unwrap_or(usize::MAX);
    limits.waiters = usize::try_from(args.max_waiters).unwrap_or(usize::MAX);
    limits.drain = args.drain;
    limits
}

fn tls(args: &Serve) -> Option<Tls> {
    let tls = Tls::new(args.tls_cert.as_deref()?, args.tls_key.as_deref()?);
    Some(match &args.client_ca {
        Some(ca) => tls.client_ca(ca),
        None => tls,
    })
}

/// One line for each address, for people or programs that wait for them.
fn tell_addresses(bound: &Bound, screen: Screen) -> Result<(), Failure> {
    for url in bound.urls() {
        screen.answer(&json!({ "listening": url }), || format!("listening on {url}"))?;
    }
    Ok(())
}

fn warn_of_readers(args: &Serve, screen: Screen) {
    let Some(path) = &args.token_file else { return };
    if is_readable_by_others(path).unwrap_or_default() {
        screen
            .warn(format_args!("the token file `{}` can be read by others; `chmod 600` it", path.display()));
    }
}

fn reload(sidecar: &Sidecar, screen: Screen) {
    match sidecar.reload() {
        Ok(()) => screen.note("the token file was read again"),
        Err(error) => screen.warn(format_args!("{error}; the secrets from before stay")),
    }
}

fn unusable(error: SidecarError, settings: &Settings) -> Failure {
    match error {
        SidecarError::Config(error) => settings.unusable(error),
        SidecarError::Keys(error) => Failure::usage(error.to_string()),
        other => Failure::new(Exit::CannotRun, "system", other.to_string()),
    }
}

fn not_bound(error: BindError) -> Failure {
    let message = error.to_string();
    match error {
        BindError::Listen(ListenError::Unprotected { .. }) | BindError::Tls(_) => Failure::usage(message),
        BindError::Listen(ListenError::InUse { .. }) => Failure::new(Exit::CannotRun, "in_use", message),
        _ => Failure::new(Exit::CannotRun, "listen", message),
    }
}
