//! `quorlock serve`: the HTTP sidecar.

mod fd_limit;

use crate::args::Serve;
use crate::output::Output;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::process::signals::{Received, Signals};
use crate::settings::Settings;
use quorlock_serve::{
    BindError, Bound, CancellationToken, Certificates, Limits, ListenError, Sidecar, SidecarError, Tls,
    is_readable_by_others,
};
use rustix::process::Signal;
use serde_json::json;
use tracing::{info, warn};

/// Serves until a signal ends it.
pub(crate) fn serve(args: &Serve, mut settings: Settings, output: Output) -> Result<Exit, Failure> {
    settings.ttl.set(args.ttl, "--ttl");
    if let Err(error) = fd_limit::raise(args.max_connections) {
        warn!("{error}");
    }
    runtime::start_server()?.block_on(run_sidecar(args, &settings, output))
}

async fn run_sidecar(args: &Serve, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    warn_if_readable(args);
    let sidecar = Sidecar::builder(settings.builder())
        .ttl(settings.ttl.value)
        .limits(limits(args))
        .token_file(args.token_file.clone())
        .anonymous(args.anonymous.map(Into::into))
        .origins(args.origin.clone())
        .build()
        .map_err(|error| sidecar_failure(error, settings))?;
    let bound = sidecar.bind(&args.listen, tls(args).as_ref()).await.map_err(bind_failure)?;
    for address in bound.exposed() {
        warn!(%address, "secrets are sent in the clear: other machines can call here without TLS");
    }
    print_addresses(&bound, output)?;
    let certificates = bound.certificates();
    let shutdown = CancellationToken::new();
    let serving = bound.serve(shutdown.clone());
    tokio::pin!(serving);
    loop {
        tokio::select! {
            biased;
            () = &mut serving => return Ok(Exit::Success),
            received = signals.next() => match received {
                Received::Signal(Signal::HUP) => reload(args, &sidecar, certificates.as_ref()),
                Received::Signal(Signal::INT | Signal::TERM | Signal::QUIT) if shutdown.is_cancelled() => {
                    warn!("ended at once; requests in progress were not answered");
                    return Ok(Exit::Success);
                }
                Received::Signal(Signal::INT | Signal::TERM | Signal::QUIT) => {
                    info!("shutting down; send the signal again to end at once");
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

/// Prints one line for each address, for callers that wait until the sidecar listens.
fn print_addresses(bound: &Bound, output: Output) -> Result<(), Failure> {
    for url in bound.urls() {
        output.print(&json!({ "listening": url }), || format!("listening on {url}"))?;
    }
    Ok(())
}

fn warn_if_readable(args: &Serve) {
    let Some(path) = &args.token_file else { return };
    if is_readable_by_others(path).unwrap_or_default() {
        warn!("the token file `{}` can be read by others; `chmod 600` it", path.display());
    }
}

/// Reloads the token file and the certificates. A file that cannot be used changes nothing.
fn reload(args: &Serve, sidecar: &Sidecar, certificates: Option<&Certificates>) {
    if args.token_file.is_some() {
        warn_if_readable(args);
        match sidecar.reload() {
            Ok(()) => info!("the token file was reloaded"),
            Err(error) => warn!("{error}; the former secrets stay valid"),
        }
    }
    match certificates.map(Certificates::reload) {
        Some(Ok(())) => info!("the certificates were reloaded"),
        Some(Err(error)) => warn!("{error}; the former certificates stay in use"),
        None => {}
    }
}

fn sidecar_failure(error: SidecarError, settings: &Settings) -> Failure {
    match error {
        SidecarError::Config(error) => settings.config_failure(error),
        SidecarError::Secrets(error) => Failure::usage(error.to_string()),
        other => Failure::new(Exit::CannotRun, "system", other.to_string()),
    }
}

fn bind_failure(error: BindError) -> Failure {
    let message = error.to_string();
    match error {
        BindError::Listen(ListenError::Unprotected { .. }) | BindError::Tls(_) => Failure::usage(message),
        BindError::Listen(ListenError::InUse { .. }) => Failure::new(Exit::CannotRun, "in_use", message),
        _ => Failure::new(Exit::CannotRun, "listen", message),
    }
}
