//! What kernels do differently for a process and its descendants.
//!
//! | | Linux | macOS |
//! |---|---|---|
//! | a child ends when we die | parent-death signal | no; the dead man's switch of `run` does it |
//! | orphans become our children | subreaper | no; a process that left the group and lost its parent is not found |
//! | the helper process has a name of its own | yes | no; `killall` finds it as well |

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;

#[cfg(target_os = "linux")]
pub(crate) use linux::{
    CHILDREN_DIE_WITH_US, adopt_orphans, close_from, descendants, die_with_parent, errno, now_millis,
    set_process_name,
};
#[cfg(target_os = "macos")]
pub(crate) use macos::{
    CHILDREN_DIE_WITH_US, adopt_orphans, close_from, descendants, die_with_parent, errno, now_millis,
    set_process_name,
};
