//! File systems on macOS: the kernel says which ones are local.

use crate::node::NodeError;
use crate::node::file::failed;
use rustix::fs::StatFs;
use std::path::Path;

/// The mount is on this machine (`MNT_LOCAL`). A FUSE file system may claim so without being it.
const MNT_LOCAL: u32 = 0x1000;

/// What people call the file system of `path`.
pub(crate) fn name(path: &Path) -> Result<Option<String>, NodeError> {
    Ok(Some(type_name(&statfs(path)?)))
}

/// Refuses a directory on a file system that the kernel does not call local.
pub(crate) fn must_be_local(path: &Path) -> Result<(), NodeError> {
    let found = statfs(path)?;
    if found.f_flags & MNT_LOCAL != 0 {
        return Ok(());
    }
    Err(NodeError::FileSystem { path: path.display().to_string().into(), kind: type_name(&found).into() })
}

fn statfs(path: &Path) -> Result<StatFs, NodeError> {
    rustix::fs::statfs(path).map_err(|error| failed("identify the file system of", path, error.into()))
}

/// `apfs`, `nfs`, `smbfs`.
fn type_name(found: &StatFs) -> String {
    let bytes = found.f_fstypename.iter().map(|byte| byte.cast_unsigned());
    String::from_utf8_lossy(&bytes.take_while(|byte| *byte != 0).collect::<Vec<u8>>()).into_owned()
}
