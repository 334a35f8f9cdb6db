//! The limit on open file descriptors (`RLIMIT_NOFILE`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors besides the connections of callers: nodes, sockets, the runtime's own.
const OTHERS: u64 = 300;

/// Raises the limit to what `connections` need, as far as the system allows.
///
/// # Errors
/// A message for people, if the system allows fewer.
pub(super) fn raise(connections: u32) -> Result<(), String> {
    let wanted = u64::from(connections) + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let allowed = limit.maximum.map_or(wanted, |most| most.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum: limit.maximum });
    if raised.is_err() || allowed < wanted {
        return Err(format!(
            "only {allowed} files may be open, too few for {connections} connections; raise `ulimit -n` to {wanted}, or give a lower --max-connections"
        ));
    }
    Ok(())
}
