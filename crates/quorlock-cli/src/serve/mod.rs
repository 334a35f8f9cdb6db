//! `quorlock serve`: the HTTP sidecar.

mod room;

use crate::args::Serve;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::{Signals, Told};
use quorlock_serve::{
    BindError, Bound, CancellationToken, Certificates, Limits, ListenError, Sidecar, SidecarError, Tls,
    is_readable_by_others,
};
use rustix::process::Signal;
use serde_json::json;
use tracing::{info, warn};

/// Serves until a signal ends it.
pub(crate) fn serve(args: &Serve, mut settings: Settings, screen: Screen) -> Result<Exit, Failure> {
    settings.ttl.set(args.ttl, "--ttl");
    if let Err(error) = room::make(args.max_connections) {
        warn!("{error}");
    }
    runtime::start_many()?.block_on(live(args, &settings, screen))
}

async fn live(args: &Serve, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    warn_of_readers(args);
    let sidecar = Sidecar::builder(settings.builder())
        .ttl(settings.ttl.value)
        .limits(limits(args))
        .token_file(args.token_file.clone())
        .anonymous(args.anonymous.map(Into::into))
        .origins(args.origin.clone())
        .build()
        .map_err(|error| unusable(error, settings))?;
    let bound = sidecar.bind(&args.listen, tls(args).as_ref()).await.map_err(not_bound)?;
    for address in bound.exposed() {
        warn!(%address, "secrets are sent in the clear: other machines can call here without TLS");
    }
    tell_addresses(&bound, screen)?;
    let certificates = bound.certificates();
    let shutdown = CancellationToken::new();
    let serving = bound.serve(shutdown.clone());
    tokio::pin!(serving);
    loop {
        tokio::select! {
            biased;
            () = &mut serving => return Ok(Exit::Success),
            told = signals.next() => match told {
                Told::Signal(Signal::HUP) => reload(args, &sidecar, certificates.as_ref()),
                Told::Signal(Signal::INT | Signal::TERM | Signal::QUIT) if shutdown.is_cancelled() => {
                    warn!("ended at once; requests under way were not answered");
                    return Ok(Exit::Success);
                }
                Told::Signal(Signal::INT | Signal::TERM | Signal::QUIT) => {
                    info!("shutting down; once more to end at once");
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
    limits.new_names = args.max_new_names;
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

fn warn_of_readers(args: &Serve) {
    let Some(path) = &args.token_file else { return };
    if is_readable_by_others(path).unwrap_or_default() {
        warn!("the token file `{}` can be read by others; `chmod 600` it", path.display());
    }
}

/// Reads the token file and the certificates again. What cannot be used changes nothing.
fn reload(args: &Serve, sidecar: &Sidecar, certificates: Option<&Certificates>) {
    if args.token_file.is_some() {
        warn_of_readers(args);
        match sidecar.reload() {
            Ok(()) => info!("the token file was read again"),
            Err(error) => warn!("{error}; the secrets from before stay"),
        }
    }
    match certificates.map(Certificates::reload) {
        Some(Ok(())) => info!("the certificates were read again"),
        Some(Err(error)) => warn!("{error}; the certificates from before stay"),
        None => {}
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
