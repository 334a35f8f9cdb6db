//! Makes room for many open connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are open besides connections of callers: nodes, sockets, the runtime's own.
const OTHERS: u64 = 300;

/// Raises the number of files that we may have open as far as it is needed and allowed.
///
/// # Errors
/// A line for people, if fewer are allowed than `connections` need.
pub(crate) fn make(connections: u32) -> Result<(), String> {
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
