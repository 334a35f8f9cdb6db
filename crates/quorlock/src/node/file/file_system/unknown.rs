//! File systems on other systems: nothing is known, so the user must make sure that they are local.

use crate::node::NodeError;
use std::path::Path;

/// The name is not known.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn name(_path: &Path) -> Result<Option<String>, NodeError> {
    Ok(None)
}

/// Refuses nothing.
#[allow(clippy::unnecessary_wraps)]
pub(crate) fn must_be_local(_path: &Path) -> Result<(), NodeError> {
    Ok(())
}
