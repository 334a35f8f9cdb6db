//! quorlock's HTTP sidecar: distributed locks for programs in any language, and a dashboard.
//!
//! Start with [`Sidecar`]. The repository's `docs/sidecar.md` and the sidecar's own `/openapi.json`
//! describe the HTTP API.
//!
//! # Layout
//! A folder uses only the folders above it; `tests/layout.rs` checks that.
//!
//! - `metrics/`: the Prometheus recorder and the sidecar's own counters
//! - `json/`: leases, locks, holders and nodes as JSON
//! - `problem/`: errors as `application/problem+json`
//! - `limits/`: bounds on what callers can pile up
//! - `auth/`: who calls, and what each caller may do
//! - `sessions/`: the locks that callers hold through this sidecar
//! - `events/`: the last events, kept for readers
//! - `dashboard/`: what the dashboard shows, and its files
//! - `http/`: listeners and connections, up to the bytes of a response
//! - `api/`: the routes and their handlers
//!
//! `sidecar.rs` configures, starts and stops all of it.

mod api;
mod auth;
mod dashboard;
mod events;
mod http;
mod json;
mod limits;
mod metrics;
mod problem;
mod sessions;
mod sidecar;

/// What the fuzz targets in `fuzz/` call of the private parts.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::api::request::property::check_body;
}

pub use auth::caller::Peer;
pub use auth::origin::{Origin, OriginError};
pub use auth::scope::Scope;
pub use auth::secrets::{LineFault, SecretsError, is_readable_by_others};
pub use http::listen::{Address, AddressError, ListenError};
pub use http::tls::{Certificates, Tls, TlsError};
pub use limits::Limits;
pub use problem::code::problem_codes;
pub use quorlock::CancellationToken;
pub use sidecar::{BindError, Bound, Sidecar, SidecarBuilder, SidecarError};
