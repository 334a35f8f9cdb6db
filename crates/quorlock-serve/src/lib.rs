//! quorlock's HTTP sidecar: distributed locks for programs in any language, and a dashboard.
//!
//! [`Sidecar`] is where to begin. What it answers stands in `docs/sidecar.md` of the repository, and in its own
//! `/openapi.json`.

mod accept;
mod access;
mod admission;
mod app;
mod ask;
mod banners;
mod browser;
mod bucket;
mod claims;
mod code;
mod connection;
mod delivery;
mod events;
mod exporter;
mod facts;
mod health;
mod hold;
mod journal;
mod keys;
mod limits;
mod listen;
mod listing;
mod locks;
mod look;
mod new_names;
mod nodes;
mod openapi;
mod origin;
mod overview;
mod page;
mod problem;
mod reply;
mod routes;
mod search;
mod series;
mod sessions;
mod sidecar;
mod source;
mod take;
mod tls;
mod told;
mod view;
mod waiters;
mod wire;

pub use access::{Peer, Scope};
pub use code::problem_codes;
pub use keys::{KeysError, LineFault, is_readable_by_others};
pub use limits::Limits;
pub use listen::{Address, AddressError, ListenError};
pub use origin::{Origin, OriginError};
pub use quorlock::CancellationToken;
pub use sidecar::{BindError, Bound, Sidecar, SidecarBuilder, SidecarError};
pub use tls::{Certificates, Tls, TlsError};
