//! The directory of the state files: which one, and whether it can be trusted.

use crate::context::platform;
use crate::node::NodeError;
use crate::node::file::{failed, failed_without_path, file_system};
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
        file_system::must_be_local(&path)?;
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
    let home = PathBuf::from(platform::account_home(uid)?);
    // Many accounts of services have the directory of another, or none.
    let is_own =
        home.is_absolute() && home.metadata().is_ok_and(|found| found.is_dir() && found.uid() == uid);
    is_own.then_some(home)
}

fn is_private(found: &Metadata, uid: u32) -> bool {
    found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0
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
}
