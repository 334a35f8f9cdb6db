//! What differs between operating systems: the boot clock, and what the machine and the user are called.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{account_home, boot_time, host_name, user_name};
#[cfg(windows)]
pub(crate) use windows::{boot_time, host_name, user_name};
