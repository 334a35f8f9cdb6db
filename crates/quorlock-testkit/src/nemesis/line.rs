//! What a client process tells the harness, one line each.

use super::stopwatch::now;
use quorlock::Held;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// The client was given a lock, in answer to a call made at `called`.
    Granted { name: String, fence: u64, called: Duration, belief: Belief },
    /// Its lock was extended.
    Extended(Belief),
    /// It was told that its lock is lost.
    Lost { at: Duration },
    /// It is about to let its lock go, which is over already or not.
    LetGo { at: Duration, over: bool },
    /// An acquire call ended without a lock.
    Refused,
    /// It writes although its lock is over.
    Late,
    /// The resource refused its fence, and whether it held the lock even after that.
    FencedOff { at: Duration, held: bool },
    /// It held a lock again that was lost.
    Undead { at: Duration },
    /// In the quiet after the storm it got this lock, or not.
    Turn { name: String, got: bool },
    /// It had all its turns.
    Done,
}

/// Until when a client believes to have its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Belief {
    pub(super) noted: Duration,
    pub(super) until: Duration,
}

impl Belief {
    /// What is believed right now. A pause between the two readings makes the belief shorter than it is, never longer.
    pub(super) fn of(held: &Held) -> Self {
        let noted = now();
        Self { noted, until: noted + held.remaining() }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = Duration::as_micros;
        match self {
            Line::Granted { name, fence, called, belief: Belief { noted, until } } => {
                write!(f, "granted {name} {fence} {} {} {}", us(called), us(noted), us(until))
            }
            Line::Extended(belief) => write!(f, "extended {} {}", us(&belief.noted), us(&belief.until)),
            Line::Lost { at } => write!(f, "lost {}", us(at)),
            Line::LetGo { at, over } => write!(f, "let-go {} {over}", us(at)),
            Line::Refused => f.write_str("refused"),
            Line::Late => f.write_str("late"),
            Line::FencedOff { at, held } => write!(f, "fenced-off {} {held}", us(at)),
            Line::Undead { at } => write!(f, "undead {}", us(at)),
            Line::Turn { name, got } => write!(f, "turn {name} {got}"),
            Line::Done => f.write_str("done"),
        }
    }
}

impl FromStr for Line {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let broken = || format!("a client said `{line}`");
        let number = |word: &str| word.parse::<u64>().map_err(|_| broken());
        let time = |word| number(word).map(Duration::from_micros);
        let truth = |word: &str| word.parse::<bool>().map_err(|_| broken());
        let belief = |noted, until| Ok::<_, String>(Belief { noted: time(noted)?, until: time(until)? });
        Ok(match words[..] {
            ["granted", name, fence, called, noted, until] => Line::Granted {
                name: name.to_owned(),
                fence: number(fence)?,
                called: time(called)?,
                belief: belief(noted, until)?,
            },
            ["extended", noted, until] => Line::Extended(belief(noted, until)?),
            ["lost", at] => Line::Lost { at: time(at)? },
            ["let-go", at, over] => Line::LetGo { at: time(at)?, over: truth(over)? },
            ["refused"] => Line::Refused,
            ["late"] => Line::Late,
            ["fenced-off", at, held] => Line::FencedOff { at: time(at)?, held: truth(held)? },
            ["undead", at] => Line::Undead { at: time(at)? },
            ["turn", name, got] => Line::Turn { name: name.to_owned(), got: truth(got)? },
            ["done"] => Line::Done,
            _ => return Err(broken()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_said() {
        let at = Duration::from_micros(7);
        let belief = Belief { noted: at, until: 2 * at };
        let lines = [
            Line::Granted { name: "a".to_owned(), fence: 9, called: at, belief },
            Line::Extended(belief),
            Line::Lost { at },
            Line::LetGo { at, over: true },
            Line::Refused,
            Line::Late,
            Line::FencedOff { at, held: true },
            Line::Undead { at },
            Line::Turn { name: "a".to_owned(), got: false },
            Line::Done,
        ];
        for line in lines {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("granted a b".parse::<Line>().is_err());
    }
}
