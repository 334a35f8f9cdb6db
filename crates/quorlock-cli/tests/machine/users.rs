//! Several users with one directory.

use crate::allows;
use crate::harness::{Answer, Running, program};
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

/// Two users.
pub(crate) const ANN: &str = "65533";
pub(crate) const BEN: &str = "65534";
/// The group of both.
pub(crate) const GROUP: u32 = 65_432;

/// What runs `quorlock` as another user, a member of [`GROUP`].
pub(crate) fn as_user(user: &'static str) -> Vec<String> {
    [format!("--reuid={user}"), format!("--regid={user}"), format!("--groups={GROUP}")].to_vec()
}

/// `quorlock` of `user`, with locks in `dir`.
pub(crate) fn quorlock(user: &'static str, dir: &Path, args: &[&str]) -> Running {
    let nodes = format!("file:{}", dir.display());
    start(user, Path::new("/"), args, &nodes)
}

/// `quorlock` of `user`, whose working directory is `dir`.
pub(crate) fn quorlock_in(user: &'static str, dir: &Path, args: &[&str]) -> Running {
    start(user, dir, args, "file:")
}

fn start(user: &'static str, dir: &Path, args: &[&str], nodes: &str) -> Running {
    let mut command = Command::new("setpriv");
    command
        .args(as_user(user))
        .arg(program())
        .args(args)
        .current_dir(dir)
        .env("QUORLOCK_NODES", nodes)
        .env("HOME", "/nonexistent")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::new(&mut command)
}

fn contend(user: &'static str, dir: &Path, lock: &str) -> Answer {
    quorlock(user, dir, &["run", lock, "--no-wait", "--", "true"]).end()
}

/// Keeps users from opening files of others in sticky directories with O_CREAT, as Debian and
/// Ubuntu do; dropped, it is as before.
struct ProtectedFiles {
    before: String,
}

impl ProtectedFiles {
    const SETTING: &str = "/proc/sys/fs/protected_regular";

    fn set() -> Option<Self> {
        let before = fs::read_to_string(Self::SETTING).ok()?;
        fs::write(Self::SETTING, "2").ok()?;
        Some(Self { before })
    }
}

impl Drop for ProtectedFiles {
    fn drop(&mut self) {
        let _ = fs::write(Self::SETTING, &self.before);
    }
}

/// Goal: users of one directory exclude each other, no matter which of them created the file: in a
/// directory of a group, and in one that every user may write to.
#[test]
fn users_of_a_shared_directory_exclude_each_other() {
    let user: Vec<String> = as_user(ANN);
    let user: Vec<&str> = user.iter().map(String::as_str).collect();
    let version = [program().to_str().unwrap(), "--version"];
    if !allows("setpriv", &[&user[..], &version].concat()) {
        return;
    }
    let protected = ProtectedFiles::set();
    if protected.is_none() {
        println!("without fs.protected_regular, which this machine does not let us set");
    }
    let base = tempfile::tempdir().unwrap();
    fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).unwrap();
    for mode in [0o2770, 0o1777] {
        let dir = base.path().join(format!("{mode:o}"));
        fs::create_dir(&dir).unwrap();
        chown(&dir, None, Some(GROUP)).unwrap();
        fs::set_permissions(&dir, PermissionsExt::from_mode(mode)).unwrap();
        for (maker, other) in [(ANN, BEN), (BEN, ANN)] {
            let lock = format!("of-{maker}");
            let script = ["run", &lock, "--", "sh", "-c", "echo held; exec sleep 600"];
            let mut holder = quorlock(maker, &dir, &script);
            holder.answers("held\n");
            contend(other, &dir, &lock).exits(75);
            drop(holder);
            // The file of one user, changed by the other.
            let mut holder =
                quorlock(other, &dir, &[&["run", &lock, "--wait", "60s"], &script[2..]].concat());
            holder.answers("held\n");
            contend(maker, &dir, &lock).exits(75);
        }
    }
}
