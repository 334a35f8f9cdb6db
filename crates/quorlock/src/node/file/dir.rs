//! The directory of the state files: which one, and whether it can be trusted.

use crate::context::identity;
use crate::node::NodeError;
use crate::node::file::{failed, failed_without_path};
use crate::node::url::Directory;
use rustix::fs::Access;
use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Chooses the directory, makes it if it is a default one, and checks it.
pub(crate) fn prepare(directory: &Directory) -> Result<PathBuf, NodeError> {
    let uid = rustix::process::geteuid().as_raw();
    let choice = choose(directory.path.as_deref(), |key| std::env::var_os(key), home_of, uid);
    let path = choice.path();
    match &choice {
        Choice::Named(path) => must_exist(path)?,
        Choice::Default(path) => make(path)?,
        Choice::Temporary(path) => {
            make(path)?;
            must_be_private(path, uid)?;
        }
    }
    let path = path.canonicalize().map_err(|error| failed("find the state directory", path, error))?;
    if !directory.any_file_system {
        must_be_local(&path)?;
    }
    rustix::fs::access(&path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| failed("write to the state directory", &path, error.into()))?;
    Ok(path)
}

/// A directory that was named and does not exist may have been removed with locks in it: made again, it
/// would grant them twice.
fn must_exist(path: &Path) -> Result<(), NodeError> {
    match path.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(failed("use", path, io::ErrorKind::NotADirectory.into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let path = path.display();
            let action = format!(
                "cannot find the directory `{path}`, which must exist; make it once with `install -d -m 700 {path}`"
            );
            Err(failed_without_path(&action, error))
        }
        Err(error) => Err(failed("find the directory", path, error)),
    }
}

fn make(path: &Path) -> Result<(), NodeError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| failed("create the state directory", path, error))
}

/// Another user may have put something else there before us.
fn must_be_private(path: &Path, uid: u32) -> Result<(), NodeError> {
    let found = path.symlink_metadata().map_err(|error| failed("read the state directory", path, error))?;
    if is_private(&found, uid) {
        return Ok(());
    }
    let error = io::Error::from(io::ErrorKind::PermissionDenied);
    Err(failed("trust the state directory of another owner", path, error))
}

#[derive(Debug, PartialEq, Eq)]
enum Choice {
    /// Named by the user: it must exist.
    Named(PathBuf),
    /// The default place for files of this user's programs: made if missing.
    Default(PathBuf),
    /// In the directory for temporary files, where any user may write.
    Temporary(PathBuf),
}

impl Choice {
    fn path(&self) -> &Path {
        match self {
            Choice::Named(path) | Choice::Default(path) | Choice::Temporary(path) => path,
        }
    }
}

/// The directory of the user's files. Services and cron jobs without `HOME` must find the same as the
/// user's shell.
fn choose(
    explicit: Option<&Path>,
    var: impl Fn(&str) -> Option<OsString>,
    home: impl Fn(u32) -> Option<PathBuf>,
    uid: u32,
) -> Choice {
    let absolute = |key: &str| var(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = var("QUORLOCK_STATE_DIR").filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some(named) = explicit.map(Path::to_owned).or(own) {
        return Choice::Named(named);
    }
    let default = absolute("XDG_STATE_HOME")
        .map(|base| base.join("quorlock"))
        .or_else(|| absolute("HOME").or_else(|| home(uid)).map(|home| home.join(".local/state/quorlock")))
        .or_else(|| (uid == 0).then(|| PathBuf::from("/var/lib/quorlock")));
    default.map_or_else(
        || Choice::Temporary(std::env::temp_dir().join(format!("quorlock-{uid}"))),
        Choice::Default,
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

/// File systems of one machine, by their magic numbers: whatever can write there obeys the same kernel locks.
const LOCAL: [(u32, &str); 13] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0xca45_1a4e, "bcachefs"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x3434, "nilfs2"),
    (0x2405_1905, "ubifs"),
    (0x794c_7630, "overlayfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
];

/// Other file systems that people know by a name. What is in neither list is refused, too.
const OTHER: [(u32, &str); 18] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    // Sshfs, GlusterFS and virtiofs look like any other FUSE file system.
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "kAFS"),
    (0x7375_7245, "Coda"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x1983_0326, "BeeGFS"),
    (0x786f_4256, "vboxsf"),
    (0xbacb_acbc, "vmhgfs"),
    (0x4d44, "FAT"),
];

/// What people call the file system of `path`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn file_system(path: &Path) -> Result<Option<String>, NodeError> {
    let magic = magic(path)?;
    let known = LOCAL.iter().chain(&OTHER).find(|(known, _)| *known == magic);
    Ok(Some(known.map_or_else(|| format!("{magic:#x}"), |(_, name)| (*name).to_owned())))
}

/// On other systems magic numbers mean nothing.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn file_system(_path: &Path) -> Result<Option<String>, NodeError> {
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
fn must_be_local(path: &Path) -> Result<(), NodeError> {
    match foreign_kind(magic(path)?) {
        Some(kind) => {
            Err(NodeError::FileSystem { path: path.display().to_string().into(), kind: kind.into() })
        }
        None => Ok(()),
    }
}

/// On other systems magic numbers mean nothing: the user must make sure.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn must_be_local(_path: &Path) -> Result<(), NodeError> {
    Ok(())
}

/// What the file system with this magic number is called, unless it is known to be local.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
fn foreign_kind(magic: u32) -> Option<String> {
    if LOCAL.iter().any(|(local, _)| *local == magic) {
        return None;
    }
    let name = OTHER.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name);
    Some(name.map_or_else(|| format!("magic {magic:#x}"), |name| format!("{name}, magic {magic:#x}")))
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
        let default = |path: &str| Choice::Default(path.into());
        assert_eq!(chosen(Some("/given"), &all, 1), named("/given"));
        assert_eq!(chosen(None, &all, 1), named("/own"));
        assert_eq!(chosen(None, &all[1..], 1), default("/xdg/quorlock"));
        assert_eq!(chosen(None, &all[2..], 1), default("/home/ann/.local/state/quorlock"));
        assert_eq!(chosen(None, &[], 5), default("/home/eve/.local/state/quorlock"), "as in her shell");
        assert_eq!(chosen(None, &[("XDG_STATE_HOME", "relative")], 0), default("/var/lib/quorlock"));
        assert!(matches!(chosen(None, &[], 7), Choice::Temporary(path) if path.ends_with("quorlock-7")));
    }

    #[test]
    fn a_default_directory_is_made_private_and_an_existing_one_is_left_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        let path = base.path().join("a/b");
        make(&path).unwrap();
        assert_eq!(mode(&path), 0o700);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o770)).unwrap();
        make(&path).unwrap();
        assert_eq!(mode(&prepare(&Directory::at(&path)).unwrap()), 0o770);
    }

    #[test]
    fn a_directory_among_temporary_files_must_be_private() {
        let base = tempfile::tempdir().unwrap();
        let uid = base.path().metadata().unwrap().uid();
        std::fs::set_permissions(base.path(), PermissionsExt::from_mode(0o700)).unwrap();
        must_be_private(base.path(), uid).unwrap();
        let refused = must_be_private(base.path(), uid + 1).unwrap_err().to_string();
        assert!(refused.contains("another owner") && refused.contains(base.path().to_str().unwrap()));
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
        let error = prepare(&Directory::at(&path)).unwrap_err();
        assert!(matches!(error, NodeError::File { .. }));
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }

    /// Goal: what is not known to be local is refused, known by a name or not.
    #[test]
    fn only_local_file_systems_are_trusted() {
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x2fc1_2fc1, 0x0102_1994, 0x794c_7630] {
            assert_eq!(foreign_kind(local), None, "{local:#x}");
        }
        assert_eq!(foreign_kind(0x6969).as_deref(), Some("NFS, magic 0x6969"));
        assert_eq!(foreign_kind(0x4750_4653).as_deref(), Some("GPFS, magic 0x47504653"));
        assert_eq!(foreign_kind(0x1234_5678).as_deref(), Some("magic 0x12345678"));
        let twice = LOCAL.iter().chain(&OTHER).enumerate().find(|(at, (magic, _))| {
            LOCAL.iter().chain(&OTHER).skip(at + 1).any(|(other, _)| other == magic)
        });
        assert_eq!(twice, None);
    }
}
