//! The file system of a directory: what people call it, and whether only this machine uses it.

#[cfg(target_vendor = "apple")]
mod apple;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux;
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod unknown;

#[cfg(target_vendor = "apple")]
pub(crate) use apple::{must_be_local, name};
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::{must_be_local, name};
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
pub(crate) use unknown::{must_be_local, name};
