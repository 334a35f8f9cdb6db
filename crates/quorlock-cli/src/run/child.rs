//! The command as a process: started, followed, stopped and continued, signalled, ended.

use super::family;
use super::plan::Plan;
use super::terminal::Terminal;
use super::warden::{Ward, Warden};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::settings;
use crate::signals::ends;
use crate::tie::spawn_tied;
use quorlock::Guard;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_current_process_group, kill_process, kill_process_group,
    set_child_subreaper, wait,
};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often KILL is sent to processes that appear while others are killed.
const MOST_SWEEPS: u32 = 100;

/// The running command.
#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    terminal: Terminal,
    /// Not where the system has no room for it.
    warden: Option<Warden>,
    /// When the warden kills the command.
    end_at: Option<Instant>,
    /// Whether the command has ended. From then on its number may be that of another process.
    has_ended: bool,
    /// Processes that the kernel did not let us signal, because they run as another user.
    refused: Vec<Pid>,
    /// How many of them the user knows of.
    reported: usize,
}

/// What became of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Ended(Exit),
    /// By this signal.
    Stopped(Option<i32>),
}

impl Child {
    /// Starts the command of `plan` under the lock of `guard`.
    ///
    /// # Errors
    /// As in shells: 127 if there is no such command, 126 if it cannot be run.
    pub(super) fn start(plan: &Plan, guard: &Guard) -> Result<Self, Failure> {
        let terminal = Terminal::find();
        let mut command = Command::new(&plan.command[0]);
        command
            .args(&plan.command[1..])
            .env("QUORLOCK_NAME", guard.name().as_str())
            .env("QUORLOCK_TOKEN", guard.token().as_str())
            .env("QUORLOCK_FENCE", guard.fence().to_string())
            .env("QUORLOCK_EXPIRES_AT", (guard.expires_at().as_micros() / 1_000_000).to_string());
        settings::withhold_passwords(&mut command);
        if terminal.parts() {
            command.process_group(0);
        }
        let fd = if let Terminal::Ours(tty) = &terminal { Some(tty.as_raw_fd()) } else { None };
        // Orphans come to us, so that none escapes when the lock is lost. Without it only the process group is found.
        let _ = set_child_subreaper(Some(getpid()));
        let mut warden = Warden::post().ok();
        if let Some(warden) = &warden {
            warden.watch_from_start(&mut command, terminal.parts());
        }
        let spawned = spawn_tied(&mut command, fd);
        if let (Some(warden), Err(_)) = (&mut warden, &spawned) {
            warden.dismiss();
        }
        let spawned = spawned.map_err(|error| {
            let name = plan.command[0].to_string_lossy();
            let (exit, kind) = match error.kind() {
                ErrorKind::NotFound => (Exit::NotFound, "not_found"),
                _ => (Exit::CannotRun, "cannot_run"),
            };
            terminal.take_back();
            Failure::new(exit, kind, format!("cannot run `{name}`: {error}"))
        })?;
        let mut child = Self {
            pid: Pid::from_child(&spawned),
            terminal,
            warden,
            end_at: None,
            has_ended: false,
            refused: Vec::new(),
            reported: 0,
        };
        child.must_end_in(plan.left_to_kill(guard));
        Ok(child)
    }

    /// The command is killed after `left`, even if we cannot do it ourselves. Takes the place of what was said before.
    pub(super) fn must_end_in(&mut self, left: Option<Duration>) {
        let ward = if self.terminal.parts() { Ward::Group(self.pid) } else { Ward::Process(self.pid) };
        if let Some(warden) = &mut self.warden {
            warden.watch(ward, left);
        }
        self.end_at = left.map(|left| Instant::now() + left);
    }

    /// Whether the command should have been ended by now.
    pub(super) fn is_overdue(&self) -> bool {
        self.end_at.is_some_and(|end| Instant::now() >= end)
    }

    /// What became of the command since the last call. Orphans that ended are reaped on the way.
    pub(super) fn changes(&mut self) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            if pid != self.pid {
                continue;
            }
            let small = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
            if let Some(code) = status.exit_status() {
                changes.push(Change::Ended(Exit::Code(small(code))));
            } else if let Some(signal) = status.terminating_signal() {
                changes.push(Change::Ended(Exit::Signal(small(signal))));
            } else if status.stopped() {
                changes.push(Change::Stopped(status.stopping_signal()));
            }
        }
        self.has_ended |= changes.iter().any(|change| matches!(change, Change::Ended(_)));
        changes
    }

    /// Passes on a signal that we were sent. What is stopped is continued to be ended by it. `false` if the command runs as
    /// another user and does not get it.
    pub(super) fn pass_on(&self, signal: Signal) -> bool {
        let signals = [Some(signal), ends(signal).then_some(Signal::CONT)];
        let mut is_refused = false;
        for signal in signals.into_iter().flatten() {
            // Those two the terminal has sent to all of our group already.
            if self.terminal.parts() || ![Signal::INT, Signal::QUIT].contains(&signal) {
                is_refused |= self.signal_command(signal) == Err(Errno::PERM);
            }
        }
        !is_refused
    }

    /// Stops with the command, until somebody continues us, if the terminal stopped it: so that the shell gets the terminal
    /// (Ctrl-Z), or can give it to us (a job in the background that wants to read). `false` if it was not the terminal.
    pub(super) fn stop_along(&mut self, by: Option<i32>) -> bool {
        let wants_terminal = [Signal::TTIN, Signal::TTOU].iter().any(|signal| by == Some(signal.as_raw()));
        match self.terminal {
            Terminal::Ours(_) => self.terminal.take_back(),
            Terminal::None if wants_terminal => {}
            Terminal::None | Terminal::Shared => return false,
        }
        // With the script that we may be a part of, as the terminal would have stopped it.
        let _ = kill_current_process_group(Signal::STOP);
        // We may go on in the background.
        self.terminal = Terminal::regain();
        true
    }

    /// Continues the command after [`Child::stop_along`].
    pub(super) fn go_on(&self) {
        self.terminal.give(self.pid);
        let _ = kill_process_group(self.pid, Signal::CONT);
    }

    /// Asks the command and all that came from it to end. What is stopped is continued, or it could not.
    pub(super) fn ask_to_end(&mut self) {
        self.signal_family(Signal::TERM);
        self.signal_family(Signal::CONT);
    }

    /// Ends the command and all that came from it, but for what runs as another user.
    pub(super) async fn kill(&mut self) {
        for _ in 0..MOST_SWEEPS {
            self.signal_family(Signal::KILL);
            if self.family().iter().all(|process| self.refused.contains(process)) {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether anything that came from the command still runs.
    pub(super) fn has_family(&self) -> bool {
        !self.family().is_empty()
    }

    /// The processes that refused a signal since the last call.
    pub(super) fn newly_refused(&mut self) -> Vec<Pid> {
        let new = self.refused[self.reported..].to_vec();
        self.reported = self.refused.len();
        new
    }

    /// The processes that still run although they were signalled, because they run as another user.
    pub(super) fn unstoppable(&self) -> Vec<Pid> {
        let family = self.family();
        // Where `/proc` hides processes of other users, only the command itself is known.
        let runs = |process: &Pid| family.contains(process) || (*process == self.pid && !self.has_ended);
        self.refused.iter().copied().filter(runs).collect()
    }

    /// Whether all that still runs is [`Child::unstoppable`].
    pub(super) fn is_out_of_reach(&self) -> bool {
        let is_refused = |process: &Pid| self.refused.contains(process);
        (self.has_ended || is_refused(&self.pid)) && self.family().iter().all(is_refused)
    }

    /// Everything that came from the command and lives.
    fn family(&self) -> Vec<Pid> {
        let warden = self.warden.as_ref().map(|warden| warden.pid);
        family::alive().into_iter().filter(|process| Some(*process) != warden).collect()
    }

    fn signal_family(&mut self, signal: Signal) {
        if self.signal_command(signal) == Err(Errno::PERM) && !self.has_ended {
            self.refuses(self.pid);
        }
        // Also those that left the group. They may have ended meanwhile.
        for process in self.family() {
            if kill_process(process, signal) == Err(Errno::PERM) {
                self.refuses(process);
            }
        }
    }

    /// Signals the process group of the command, or the command alone where it shares ours. A group refuses a signal if no
    /// process of it may be signalled.
    fn signal_command(&self, signal: Signal) -> rustix::io::Result<()> {
        match self.terminal.parts() {
            true => kill_process_group(self.pid, signal),
            false if self.has_ended => Ok(()),
            false => kill_process(self.pid, signal),
        }
    }

    fn refuses(&mut self, process: Pid) {
        if !self.refused.contains(&process) {
            self.refused.push(process);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Should we end in disorder, the warden does, too, what it is for.
        if let Some(warden) = &mut self.warden
            && !std::thread::panicking()
        {
            warden.dismiss();
        }
        self.terminal.take_back();
    }
}
