//! A command whose input and output are a terminal.

use crate::harness::{Home, Running};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// A loaded machine may need long; no command of ours does.
const LIMIT: Duration = Duration::from_secs(60);

/// A command, and everything that its terminal showed.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) command: String,
    pub(crate) text: String,
}

/// A command that runs on a terminal.
pub(crate) struct Session {
    user: File,
    child: Running,
    command: String,
    shown: Vec<u8>,
}

impl Session {
    /// Starts `quorlock` with stdin, stdout and stderr on a terminal that has colors.
    pub(crate) fn start(home: &Home, args: &[&str]) -> Self {
        Self::spawn(home.command(args), args.join(" "))
    }

    /// Starts `command`, which is called `name` in messages, on such a terminal.
    pub(crate) fn spawn(mut command: Command, name: String) -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let path = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
        let program = File::options().read(true).write(true).open(path).unwrap();
        command.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("CLICOLOR");
        command.stdin(program.try_clone().unwrap()).stdout(program.try_clone().unwrap()).stderr(program);
        // Our own copies of the program's end close with `command`, so that the terminal ends with
        // the program.
        let child = Running::new(&mut command);
        Self { user: user.into(), child, command: name, shown: Vec::new() }
    }

    /// Runs `quorlock` to its end.
    pub(crate) fn run(home: &Home, args: &[&str]) -> Shown {
        Self::start(home, args).end()
    }

    /// Waits until one of `wanted` is shown, or the program ends.
    pub(crate) fn until(&mut self, wanted: &[&str]) {
        let start = Instant::now();
        while !wanted.iter().any(|wanted| contains(&self.shown, wanted.as_bytes())) && self.read(start) {}
    }

    pub(crate) fn types(&mut self, keys: &str) {
        // The program may have ended.
        let _ = self.user.write_all(keys.as_bytes());
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.child.signal(signal);
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }

    /// Everything that was shown until the program ended.
    pub(crate) fn end(mut self) -> Shown {
        let start = Instant::now();
        while self.read(start) {}
        self.child.end();
        let text = String::from_utf8(self.shown).unwrap();
        Shown { command: self.command, text }
    }

    /// Reads some; `false` at the end.
    fn read(&mut self, start: Instant) -> bool {
        let left = LIMIT.saturating_sub(start.elapsed()).try_into().unwrap();
        let is_ready = poll(&mut [PollFd::new(&self.user, PollFlags::IN)], Some(&left)).unwrap() > 0;
        assert!(is_ready, "{} does not end: {:?}", self.command, self.text());
        let mut piece = [0; 4096];
        match rustix::io::read(&self.user, &mut piece) {
            // All programs have closed the terminal.
            Ok(0) | Err(Errno::IO) => false,
            Ok(length) => {
                self.shown.extend(&piece[..length]);
                true
            }
            Err(error) => panic!("{}: {error}", self.command),
        }
    }
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|piece| piece == wanted)
}
