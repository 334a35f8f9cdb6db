//! A command that runs as another user, as after `sudo`: it cannot be stopped when its lock is
//! lost.

use crate::allows;
use crate::harness::Answer;
use crate::users::{ANN, GROUP, as_user, quorlock};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A directory for the locks of [`ANN`], with a program that makes root of any user, as `sudo`
/// does.
struct Machine {
    dir: TempDir,
}

impl Machine {
    /// `None` if this machine knows no other users or no setuid programs.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        // For no other user of this machine.
        chown(dir.path(), None, Some(GROUP)).ok()?;
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o770)).unwrap();
        let machine = Self { dir };
        let path = std::env::var_os("PATH")?;
        let setpriv =
            std::env::split_paths(&path).map(|dir| dir.join("setpriv")).find(|path| path.exists())?;
        fs::copy(setpriv, machine.sudo()).unwrap();
        fs::set_permissions(machine.sudo(), PermissionsExt::from_mode(0o4755)).unwrap();
        let user = as_user(ANN);
        let mut args: Vec<&str> = user.iter().map(String::as_str).collect();
        let sudo = machine.sudo();
        // `kill -0` of a process of root works for root only.
        args.extend([sudo.to_str().unwrap(), "--reuid=0", "kill", "-0", "1"]);
        allows("setpriv", &args).then_some(machine)
    }

    fn sudo(&self) -> PathBuf {
        self.path().join("sudo")
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs `script` as root under a lock of [`ANN`] that is lost after 2 s.
    fn run(&self, args: &[&str], script: &str) -> Answer {
        let script = format!("exec >&- 2>&-; cd {}; {script}", self.path().display());
        let sudo = self.sudo();
        let head = ["run", "x", "--max-hold", "2s", "--kill-grace", "200ms"];
        let tail = [sudo.to_str().unwrap(), "--reuid=0", "sh", "-c", &script];
        quorlock(ANN, self.path(), &[&head, args, &["--"], &tail].concat()).end()
    }

    fn pid(&self, file: &str) -> i32 {
        fs::read_to_string(self.path().join(file)).unwrap().trim().parse().unwrap()
    }
}

/// A process of root that is killed when the test ends.
struct Survivor(Pid);

impl Survivor {
    fn of(pid: i32) -> Self {
        Self(Pid::from_raw(pid).unwrap())
    }

    fn is_alive(&self) -> bool {
        test_kill_process(self.0).is_ok()
    }
}

impl Drop for Survivor {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// Goal: the user learns at once that the command goes on without its lock, and `run` does not wait
/// for its end.
#[test]
fn a_command_that_may_not_be_stopped_is_reported_and_not_waited_for() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.run(&[], "echo $$ > pid; exec sleep 90").exits(79);
    let survivor = Survivor::of(machine.pid("pid"));
    assert!(survivor.is_alive(), "{done:?}");
    let pid = format!("(pid {})", machine.pid("pid"));
    done.complains(&["runs as another user and cannot be stopped", &pid, "sudo quorlock run", "by hand"]);
    assert_eq!(done.err.matches("cannot be stopped (pid").count(), 1, "said once: {done:?}");
}

#[test]
fn programs_get_the_processes_that_go_on_without_the_lock() {
    let Some(machine) = Machine::new() else { return };
    let done = machine.run(&["--json"], "sleep 90 & echo $! > child; echo $$ > pid; wait").exits(79);
    let survivors = ["pid", "child"].map(|file| Survivor::of(machine.pid(file)));
    let object: Value = done.json_aside();
    let mut unstoppable: Vec<i64> =
        object["unstoppable"].as_array().unwrap().iter().map(|pid| pid.as_i64().unwrap()).collect();
    unstoppable.sort_unstable();
    let mut expected = ["pid", "child"].map(|file| i64::from(machine.pid(file)));
    expected.sort_unstable();
    assert_eq!(unstoppable, expected, "{object}");
    assert!(object["command_exit_code"].is_null() && object["lost"] == "max_hold", "{object}");
    drop(survivors);
}

/// Goal: one process of another user keeps none of the others alive.
#[test]
fn what_may_be_stopped_is_stopped_although_another_user_runs_a_part_of_it() {
    let Some(machine) = Machine::new() else { return };
    let script = format!(
        "exec >&- 2>&-; cd {}; {} --reuid=0 sh -c 'echo $$ > pid; exec sleep 90' & echo $$ > mine; wait",
        machine.path().display(),
        machine.sudo().display()
    );
    let args = ["run", "x", "--json", "--max-hold", "2s", "--kill-grace", "200ms", "-c", &script];
    let done = quorlock(ANN, machine.path(), &args).end().exits(79);
    let survivor = Survivor::of(machine.pid("pid"));
    assert!(survivor.is_alive() && !Survivor::of(machine.pid("mine")).is_alive(), "{done:?}");
    assert_eq!(done.json_aside()["unstoppable"], serde_json::json!([machine.pid("pid")]), "{done:?}");
}

/// Goal: a process of another user that ends before the lock does is no cause for alarm.
#[test]
fn a_command_of_another_user_that_ends_in_time_is_not_reported_at_the_end() {
    let Some(machine) = Machine::new() else { return };
    let script = format!(
        "cd {}; for _ in $(seq 600); do [ -e end ] && exit 0; sleep 0.1; done",
        machine.path().display()
    );
    let sudo = machine.sudo();
    let head = ["run", "x", "--max-hold", "12s", "--kill-grace", "9s", "--"];
    let tail = [sudo.to_str().unwrap(), "--reuid=0", "sh", "-c", &script];
    let mut run = quorlock(ANN, machine.path(), &[&head[..], &tail].concat());
    run.says("cannot be stopped (pid");
    fs::write(machine.path().join("end"), "").unwrap();
    let done = run.end().exits(79);
    assert!(done.err.contains("ended with 0") && !done.err.contains("by hand"), "{done:?}");
}

/// Goal: the user learns before the lock is lost.
#[test]
fn a_command_that_begins_with_sudo_gets_a_warning() {
    let Some(machine) = Machine::new() else { return };
    let sudo = machine.sudo();
    let args = ["run", "x", "--", sudo.to_str().unwrap(), "--reuid=0", "true"];
    quorlock(ANN, machine.path(), &args).end().exits(0).complains(&["warning", "`sudo quorlock run ...`"]);
    let as_root = crate::harness::Home::new().run(&args).exits(0);
    assert_eq!(as_root.err, "", "root may stop all");
}
