//! The directory of the state files: which one, and whether it can be trusted.

use super::super::NodeError;
use super::failed;
use crate::identity;
use rustix::fs::Access;
use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Chooses, makes and checks the directory.
pub(super) fn prepare(explicit: Option<&Path>) -> Result<PathBuf, NodeError> {
    let uid = rustix::process::geteuid().as_raw();
    let choice = choose(explicit, |key| std::env::var_os(key), home_of, uid);
    let path = choice.path();
    let make = || DirBuilder::new().recursive(true).mode(0o700).create(path);
    make().map_err(|error| failed("create the state directory", path, error))?;
    if let Choice::Temporary(path) = &choice {
        // Anyone may have put something else there before us.
        let found = path.symlink_metadata();
        let found = found.map_err(|error| failed("read the state directory", path, error))?;
        if !is_private(&found, uid) {
            let error = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(failed("trust the state directory of another owner", path, error));
        }
    }
    let path = path.canonicalize().map_err(|error| failed("find the state directory", path, error))?;
    refuse_network(&path)?;
    rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| failed("write to the state directory", &path, error.into()))?;
    Ok(path)
}

#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// Named by the user or the system.
    Named(PathBuf),
    /// In the directory for temporary files, where anyone may write.
    Temporary(PathBuf),
}

impl Choice {
    fn path(&self) -> &Path {
        match self {
            Choice::Named(path) | Choice::Temporary(path) => path,
        }
    }
}

/// The directory of the user's files. Services and cron jobs without `HOME` must find the same as the user's shell.
fn choose(
    explicit: Option<&Path>,
    var: impl Fn(&str) -> Option<OsString>,
    home: impl Fn(u32) -> Option<PathBuf>,
    uid: u32,
) -> Choice {
    let absolute = |key: &str| var(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = var("QUORLOCK_STATE_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    let named = explicit
        .map(Path::to_owned)
        .or(own)
        .or_else(|| absolute("XDG_STATE_HOME").map(|base| base.join("quorlock")))
        .or_else(|| absolute("HOME").or_else(|| home(uid)).map(|home| home.join(".local/state/quorlock")))
        .or_else(|| (uid == 0).then(|| PathBuf::from("/var/lib/quorlock")));
    named.map_or_else(
        || Choice::Temporary(std::env::temp_dir().join(format!("quorlock-{uid}"))),
        Choice::Named,
    )
}

/// The home directory of an account, if there is one.
fn home_of(uid: u32) -> Option<PathBuf> {
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let home = PathBuf::from(identity::field(&accounts, uid, identity::HOME)?);
    // Many accounts of services have the directory of another, or none.
    let is_own =
        home.is_absolute() && home.metadata().is_ok_and(|found| found.is_dir() && found.uid() == uid);
    is_own.then_some(home)
}

fn is_private(found: &Metadata, uid: u32) -> bool {
    found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0
}

/// File systems whose kernel locks do not reach every machine that can write, by their magic numbers.
const NETWORK: [(u32, &str); 15] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    // Sshfs, GlusterFS and virtiofs look like any other FUSE file system, so all are refused.
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x1983_0326, "BeeGFS"),
];

/// File systems that are fine, for people.
const LOCAL: [(u32, &str); 8] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x794c_7630, "overlayfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
];

/// What people call the file system of `path`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn file_system(path: &Path) -> Result<Option<String>, NodeError> {
    let magic = magic(path)?;
    let known = LOCAL.iter().chain(&NETWORK).find(|(known, _)| *known == magic);
    Ok(Some(known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())))
}

/// Elsewhere magic numbers mean nothing.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn file_system(_path: &Path) -> Result<Option<String>, NodeError> {
    Ok(None)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn magic(path: &Path) -> Result<u32, NodeError> {
    let found = rustix::fs::statfs(path)
        .map_err(|error| failed("identify the file system of", path, error.into()))?;
    // Magic numbers have 32 bits, but the field is wider on some machines and signed on some.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::unnecessary_cast)]
    Ok(found.f_type as u32)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn refuse_network(path: &Path) -> Result<(), NodeError> {
    match network_kind(magic(path)?) {
        Some(kind) => {
            Err(NodeError::NetworkFileSystem { path: path.display().to_string().into(), kind: kind.into() })
        }
        None => Ok(()),
    }
}

/// Elsewhere magic numbers mean nothing: the user must see to it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn refuse_network(_path: &Path) -> Result<(), NodeError> {
    Ok(())
}

#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
fn network_kind(magic: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(known, _)| *known == magic).map(|(_, kind)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn chosen(explicit: Option<&str>, vars: &[(&str, &str)], uid: u32) -> Choice {
        let var =
            |key: &str| vars.iter().find(|(name, _)| *name == key).map(|(_, value)| OsString::from(value));
        choose(explicit.map(Path::new), var, |uid| (uid == 5).then(|| "/home/eve".into()), uid)
    }

    #[test]
    fn the_directory_is_the_most_specific_that_is_named() {
        let all = [("QUORLOCK_STATE_DIR", "/own"), ("XDG_STATE_HOME", "/xdg"), ("HOME", "/home/ann")];
        let named = |path: &str| Choice::Named(path.into());
        assert_eq!(chosen(Some("/given"), &all, 1), named("/given"));
        assert_eq!(chosen(None, &all, 1), named("/own"));
        assert_eq!(chosen(None, &all[1..], 1), named("/xdg/quorlock"));
        assert_eq!(chosen(None, &all[2..], 1), named("/home/ann/.local/state/quorlock"));
        assert_eq!(chosen(None, &[], 5), named("/home/eve/.local/state/quorlock"), "as in her shell");
        assert_eq!(chosen(None, &[("XDG_STATE_HOME", "relative")], 0), named("/var/lib/quorlock"));
        assert!(matches!(chosen(None, &[], 7), Choice::Temporary(path) if path.ends_with("quorlock-7")));
    }

    #[test]
    fn a_new_directory_is_private_and_an_existing_one_is_left_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let path = base.path().join("a/b");
        assert_eq!(mode(&prepare(Some(&path)).unwrap()), 0o700);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o770)).unwrap();
        assert_eq!(mode(&prepare(Some(&path)).unwrap()), 0o770);
    }

    #[test]
    fn a_directory_of_another_owner_or_open_to_others_is_not_private() {
        let base = tempfile::tempdir().unwrap();
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let found = base.path().metadata().unwrap();
        assert!(is_private(&found, found.uid()));
        assert!(!is_private(&found, found.uid() + 1));
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).unwrap();
        assert!(!is_private(&base.path().metadata().unwrap(), found.uid()));
    }

    #[test]
    fn a_path_that_is_no_directory_is_refused_with_its_name() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("file");
        std::fs::write(&path, "x").unwrap();
        let error = prepare(Some(&path)).unwrap_err();
        assert!(matches!(error, NodeError::File { .. }));
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }

    #[test]
    fn network_file_systems_are_known_by_their_magic() {
        assert_eq!(network_kind(0x6969), Some("NFS"));
        assert_eq!(network_kind(0xef53), None, "ext4 is local");
    }
}
