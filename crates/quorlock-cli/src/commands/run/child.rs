//! The command as a process: started, followed, stopped and continued, signalled, ended.

use super::command_config::CommandConfig;
use super::dead_man_switch::{DeadManSwitch, KillTarget};
use super::environment::Environment;
use super::terminal::Terminal;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::parent_death::spawn_with_parent_death_signal;
use crate::process::platform;
use crate::process::signals::is_termination;
use quorlock::Guard;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_current_process_group, kill_process, kill_process_group, wait,
};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How often KILL is sent to processes that appear while others are killed.
const MAX_KILL_SWEEPS: u32 = 100;

/// The running command.
#[derive(Debug)]
pub(super) struct Child {
    pid: Pid,
    terminal: Terminal,
    /// `None` if the system lacks the resources for it.
    switch: Option<DeadManSwitch>,
    /// When the switch kills the command.
    kill_at: Option<Instant>,
    /// Whether the command has ended. From then on its pid may be that of another process.
    has_ended: bool,
    /// Processes that the kernel did not let us signal, because they run as another user.
    refused: Vec<Pid>,
    /// How many of them [`Child::take_new_refusals`] has returned.
    reported: usize,
}

/// A change of the command's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Ended(Exit),
    /// By this signal.
    Stopped(Option<i32>),
}

impl Child {
    /// Starts the command of `config` under the lock of `guard`.
    ///
    /// # Errors
    /// As in shells: exit 127 if there is no such command, 126 if it cannot be run.
    pub(super) fn start(
        config: &CommandConfig,
        guard: &Guard,
        environment: Environment<'_>,
    ) -> Result<Self, Failure> {
        let terminal = Terminal::find();
        let mut command = Command::new(&config.command[0]);
        command.args(&config.command[1..]);
        environment.set(&mut command, guard);
        if terminal.gives_own_group() {
            command.process_group(0);
        }
        let fd = if let Terminal::Ours(tty) = &terminal { Some(tty.as_raw_fd()) } else { None };
        platform::adopt_orphans();
        let mut switch = DeadManSwitch::start().ok();
        if let Some(switch) = &switch {
            switch.arm_from_start(&mut command, terminal.gives_own_group());
        }
        let spawned = spawn_with_parent_death_signal(&mut command, fd);
        if let (Some(switch), Err(_)) = (&mut switch, &spawned) {
            switch.disarm();
        }
        let spawned = spawned.map_err(|error| {
            let name = config.command[0].to_string_lossy();
            let (exit, kind) = match error.kind() {
                ErrorKind::NotFound => (Exit::NotFound, "not_found"),
                _ => (Exit::CannotRun, "cannot_run"),
            };
            terminal.reclaim();
            Failure::new(exit, kind, format!("cannot run `{name}`: {error}"))
        })?;
        let mut child = Self {
            pid: Pid::from_child(&spawned),
            terminal,
            switch,
            kill_at: None,
            has_ended: false,
            refused: Vec::new(),
            reported: 0,
        };
        child.set_kill_deadline(config.time_to_kill(guard));
        Ok(child)
    }

    /// Sets when the dead man's switch kills the command: after `left`, or never. Replaces the
    /// former deadline.
    pub(super) fn set_kill_deadline(&mut self, left: Option<Duration>) {
        let has_own_group = self.terminal.gives_own_group();
        let target = if has_own_group { KillTarget::Group(self.pid) } else { KillTarget::Process(self.pid) };
        if let Some(switch) = &mut self.switch {
            switch.arm(target, left);
        }
        self.kill_at = left.map(|left| Instant::now() + left);
    }

    /// Whether the kill deadline has passed.
    pub(super) fn is_overdue(&self) -> bool {
        self.kill_at.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The changes of the command since the last call. Also reaps orphans that ended.
    pub(super) fn poll_changes(&mut self) -> Vec<Change> {
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

    /// Forwards a signal that we received, and continues a stopped command that it is meant to end.
    /// Returns `false` if the command runs as another user, so that the kernel refused.
    pub(super) fn forward(&self, signal: Signal) -> bool {
        let signals = [Some(signal), is_termination(signal).then_some(Signal::CONT)];
        let mut is_refused = false;
        for signal in signals.into_iter().flatten() {
            // The terminal has sent these two to all of our group already.
            if self.terminal.gives_own_group() || ![Signal::INT, Signal::QUIT].contains(&signal) {
                is_refused |= self.signal_command(signal) == Err(Errno::PERM);
            }
        }
        !is_refused
    }

    /// Stops us together with the command if the terminal stopped it, until we are continued: so
    /// that the shell gets the terminal (Ctrl-Z), or can give it to us (a background job that wants
    /// to read). `false` if it was not the terminal.
    pub(super) fn stop_with_command(&mut self, by: Option<i32>) -> bool {
        let wants_terminal = [Signal::TTIN, Signal::TTOU].iter().any(|signal| by == Some(signal.as_raw()));
        match self.terminal {
            Terminal::Ours(_) => self.terminal.reclaim(),
            Terminal::None if wants_terminal => {}
            Terminal::None | Terminal::Shared => return false,
        }
        // The whole group, because the terminal would have stopped the script that we may be part
        // of.
        let _ = kill_current_process_group(Signal::STOP);
        // We may have been continued in the background.
        self.terminal = Terminal::regain();
        true
    }

    /// Continues the command after [`Child::stop_with_command`].
    pub(super) fn resume(&self) {
        self.terminal.give(self.pid);
        let _ = kill_process_group(self.pid, Signal::CONT);
    }

    /// Sends TERM to the command and its descendants, and CONT, because a stopped process could not
    /// end.
    pub(super) fn terminate(&mut self) {
        self.signal_all(Signal::TERM);
        self.signal_all(Signal::CONT);
    }

    /// Kills the command and its descendants, except processes of another user.
    pub(super) async fn kill(&mut self) {
        for _ in 0..MAX_KILL_SWEEPS {
            self.signal_all(Signal::KILL);
            if self.descendants().iter().all(|process| self.refused.contains(process)) {
                return;
            }
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Whether any descendant still runs, the command included.
    pub(super) fn has_descendants(&self) -> bool {
        !self.descendants().is_empty()
    }

    /// The processes that we were refused to signal since the last call.
    pub(super) fn take_new_refusals(&mut self) -> Vec<Pid> {
        let new = self.refused[self.reported..].to_vec();
        self.reported = self.refused.len();
        new
    }

    /// The processes of another user that still run because we cannot signal them.
    pub(super) fn unstoppable(&self) -> Vec<Pid> {
        let descendants = self.descendants();
        // If `/proc` hides processes of other users, only the command itself is known.
        let runs = |process: &Pid| descendants.contains(process) || (*process == self.pid && !self.has_ended);
        self.refused.iter().copied().filter(runs).collect()
    }

    /// Whether every process that still runs is [`Child::unstoppable`].
    pub(super) fn is_out_of_reach(&self) -> bool {
        let is_refused = |process: &Pid| self.refused.contains(process);
        (self.has_ended || is_refused(&self.pid)) && self.descendants().iter().all(is_refused)
    }

    /// The command and its descendants, without the dead man's switch.
    fn descendants(&self) -> Vec<Pid> {
        let switch = self.switch.as_ref().map(|switch| switch.pid);
        let group = self.terminal.gives_own_group().then_some(self.pid);
        platform::descendants::alive(group).into_iter().filter(|process| Some(*process) != switch).collect()
    }

    fn signal_all(&mut self, signal: Signal) {
        if self.signal_command(signal) == Err(Errno::PERM) && !self.has_ended {
            self.add_refusal(self.pid);
        }
        // Also descendants that left the group. They may have ended meanwhile.
        for process in self.descendants() {
            if kill_process(process, signal) == Err(Errno::PERM) {
                self.add_refusal(process);
            }
        }
    }

    /// Signals the process group of the command, or the command alone if it shares our group. A
    /// group refuses a signal if we may signal none of its processes.
    fn signal_command(&self, signal: Signal) -> rustix::io::Result<()> {
        match self.terminal.gives_own_group() {
            true => kill_process_group(self.pid, signal),
            false if self.has_ended => Ok(()),
            false => kill_process(self.pid, signal),
        }
    }

    fn add_refusal(&mut self, process: Pid) {
        if !self.refused.contains(&process) {
            self.refused.push(process);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // After a panic the switch stays armed: it kills the command when we end.
        if let Some(switch) = &mut self.switch
            && !std::thread::panicking()
        {
            switch.disarm();
        }
        self.terminal.reclaim();
    }
}
