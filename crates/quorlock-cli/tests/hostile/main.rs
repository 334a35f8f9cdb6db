//! Hostile text from nodes, servers and other clients: none of it controls the terminal or forges a
//! line.
#![allow(clippy::unwrap_used)]

mod fake_server;
#[path = "../harness/mod.rs"]
mod harness;
mod servers;
mod session;
mod stored_text;

use session::Shown;

/// Escape sequences, line breaks of all kinds, and characters that hide text or change its
/// direction. It has no space, so that it can be an owner, and no colon, so that it can be part of
/// an epoch.
pub(crate) const HOSTILE: &str = concat!(
    "x\u{1b}[2J\u{1b}]52;c;aGk=\u{7}\u{1b}]8;;http\u{1b}\\\u{9b}35m\u{8}\u{7f}\u{0}",
    "\rFORGED\nFORGED\r\nFORGED\u{b}FORGED\u{85}FORGED\u{2028}FORGED\u{2029}FORGED",
    "\u{61c}\u{200b}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}\u{206a}\u{feff}\u{fff9}\u{e0041}\u{ad}end"
);

/// The escape sequences of our own: styles, and how `watch` draws in place.
const OURS: [&str; 15] = [
    "\u{1b}[0m",
    "\u{1b}[1m",
    "\u{1b}[31m",
    "\u{1b}[32m",
    "\u{1b}[33m",
    "\u{1b}[36m",
    "\u{1b}[?1049h",
    "\u{1b}[?1049l",
    "\u{1b}[?25l",
    "\u{1b}[?25h",
    "\u{1b}[?7l",
    "\u{1b}[?7h",
    "\u{1b}[H",
    "\u{1b}[K",
    "\u{1b}[J",
];

/// What is hostile in `text`, which may have line feeds and [`OURS`]; `None` if nothing is.
pub(crate) fn hostile_in(text: &str) -> Option<String> {
    let rest = OURS.iter().fold(text.replace("\r\n", "\n"), |rest, ours| rest.replace(ours, ""));
    let is_hostile = |c: char| {
        c.is_control() && c != '\n'
            || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}')
            || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
            || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
    };
    match rest.chars().find(|c| is_hostile(*c)) {
        Some(c) => Some(format!("the character {c:?}")),
        None if rest.lines().any(|line| line.trim_start().starts_with("FORGED")) => {
            Some("a forged line".to_owned())
        }
        None => None,
    }
}

/// What leaked, of all that was shown.
#[derive(Default)]
pub(crate) struct Leaks(Vec<String>);

impl Leaks {
    /// Records what is hostile in `shown`, or that `expected` is missing: then the hostile text may
    /// not have been printed at all.
    pub(crate) fn record(&mut self, shown: &Shown, expected: &str) {
        let Shown { command, text } = shown;
        match hostile_in(text) {
            Some(leak) => self.0.push(format!("{command:?}: {leak}")),
            None if !text.contains(expected) => {
                self.0.push(format!("{command:?}: no `{expected}` in {text:?}"))
            }
            None => {}
        }
    }

    #[track_caller]
    pub(crate) fn assert_none(&self) {
        assert!(self.0.is_empty(), "{} leaks:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// Goal: the check itself sees every kind of leak.
#[test]
fn every_hostile_character_is_found() {
    for c in HOSTILE.chars().filter(|c| !c.is_ascii() && *c != '\u{2028}' || *c == '\u{1b}') {
        assert!(hostile_in(&format!("a{c}b")).is_some(), "{c:?}");
    }
    assert!(hostile_in("a\rb").is_some() && hostile_in("a\r\nFORGED").is_some());
    assert_eq!(
        hostile_in("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m x FORGED é 잠 نام\u{200c}ها 👩\u{200d}🚒\r\n"),
        None
    );
}
