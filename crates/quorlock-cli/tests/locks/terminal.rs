//! What people see on a terminal: hints, a question, a page that is drawn in place.

use crate::harness::{Home, Running};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use std::fs::File;
use std::io::Write;
use std::process::Command;

/// A terminal: what is typed and shown at one end, and what programs see at the other.
struct Terminal {
    user: File,
    program: File,
}

impl Terminal {
    fn open() -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap().into_string().unwrap();
        let program = File::options().read(true).write(true).open(name).unwrap();
        Self { user: user.into(), program }
    }

    fn end(&self) -> File {
        self.program.try_clone().unwrap()
    }

    /// Starts `command` with stdin and stderr here.
    fn start(&self, command: &mut Command) -> Running {
        Running::new(command.stdin(self.end()).stderr(self.end()))
    }

    fn shows(&mut self, wanted: &str) -> String {
        Running::read_until(&mut self.user, wanted)
    }

    fn types(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).unwrap();
    }

    fn echoes(&self) -> bool {
        tcgetattr(&self.program).unwrap().local_modes.contains(LocalModes::ECHO)
    }
}

#[test]
fn acquire_says_how_to_go_on_and_keeps_the_token_off_stderr() {
    let home = Home::new();
    let mut terminal = Terminal::open();
    let taken = terminal.start(&mut home.command(&["acquire", "my job"])).end();
    let token = taken.text();
    let hint = terminal.shows("quorlock release 'my job'`");
    assert!(hint.contains("valid for 29.") && hint.contains("quorlock extend 'my job'"), "{hint}");
    assert!(!hint.contains(&token), "{hint}");
}

#[test]
fn force_release_asks_and_takes_only_yes_for_a_yes() {
    let home = Home::new();
    let token = home.run(&["acquire", "job", "--reason", "stuck"]).text();
    for (answer, code) in [("\n", 1), ("n\n", 1), ("yeah\n", 1), ("\u{4}", 1), ("Y\n", 0)] {
        let mut terminal = Terminal::open();
        let asking = terminal.start(&mut home.command(&["force-release", "job", "--token", &token]));
        let question = terminal.shows("[y/N] ");
        assert!(question.contains("is held by") && question.contains("stuck"), "{question}");
        terminal.types(answer);
        asking.end().exits(code);
        terminal.shows(if code == 0 { "was taken away" } else { "nothing was released" });
        let held = home.run(&["status", "job", "--json"]).json()["held"].clone();
        assert_eq!(held, code != 0, "{answer:?}");
    }
}

#[test]
fn a_watch_draws_in_place_and_q_brings_the_terminal_back() {
    let home = Home::new();
    home.run(&["acquire", "job"]).exits(0);
    let mut terminal = Terminal::open();
    assert!(terminal.echoes());
    let mut command = home.command(&["watch", "--interval", "100ms"]);
    let watch = terminal.start(command.env("TERM", "xterm").stdout(terminal.end()));
    let first = terminal.shows("\u{1b}[J");
    assert!(first.contains("\u{1b}[?25l") && first.contains("nodes: 1/1 up"), "{first:?}");
    assert!(first.contains("NAME") && first.contains("job"), "{first:?}");
    assert!(terminal.shows("\u{1b}[J").starts_with("\u{1b}[H"), "drawn over the first");
    assert!(!terminal.echoes());
    terminal.types("xq");
    let last = terminal.shows("\u{1b}[?1049l");
    assert!(last.contains("\u{1b}[?25h"), "the cursor is back: {last:?}");
    watch.end().exits(0);
    assert!(terminal.echoes());
}

#[test]
fn ctrl_c_brings_the_terminal_back_too() {
    let home = Home::new();
    let mut terminal = Terminal::open();
    let mut watch = terminal.start(home.command(&["watch"]).stdout(terminal.end()));
    terminal.shows("\u{1b}[J");
    watch.signal(rustix::process::Signal::INT);
    terminal.shows("\u{1b}[?25h");
    watch.end().exits(0);
    assert!(terminal.echoes());
}

#[test]
fn without_colors_the_page_is_still_drawn_in_place() {
    let home = Home::new();
    let mut terminal = Terminal::open();
    let mut command = home.command(&["watch"]);
    let _watch = terminal.start(command.env("NO_COLOR", "1").env("TERM", "xterm").stdout(terminal.end()));
    let page = terminal.shows("\u{1b}[J");
    assert!(page.contains("\u{1b}[H") && !page.contains("\u{1b}[32m"), "{page:?}");
}
