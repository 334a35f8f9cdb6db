//! What a client process tells the harness, one line each.

use super::monotonic::now;
use quorlock::Lease;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReportLine {
    /// The client was given a lock, in answer to a call made at `called`.
    Granted { name: String, fence: u64, token: String, called: Duration, belief: Belief },
    /// It took over the lock of a handle, in a call made at `called`.
    Adopted { name: String, fence: u64, token: String, called: Duration, belief: Belief },
    /// Its lock was extended.
    Extended(Belief),
    /// It extended its lock by the token.
    ExtendedByToken(Belief),
    /// The nodes store another fence with its token than it was given.
    WrongFence { at: Duration },
    /// It gave its lock away: the handle as JSON.
    GivenAway { handle: String },
    /// It is about to release the lock of this token by force.
    Forced { token: String, at: Duration },
    /// It tries to acquire once.
    Tried,
    /// It was lines that its lock is lost.
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
    HeldAfterLoss { at: Duration },
    /// In the quiet after the fault_phase it got this lock, or not.
    Turn { name: String, got: bool },
    /// It had all its turns.
    Done,
}

/// Until when a client believes to have its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    pub(crate) noted: Duration,
    pub(crate) until: Duration,
}

impl Belief {
    /// What is believed right now. A pause between the two readings makes the belief shorter than it is, never longer.
    pub(crate) fn of(held: &Lease) -> Self {
        let noted = now();
        Self { noted, until: noted + held.remaining() }
    }
}

impl fmt::Display for ReportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = Duration::as_micros;
        match self {
            ReportLine::Granted { name, fence, token, called, belief: Belief { noted, until } } => {
                write!(f, "granted {name} {fence} {token} {} {} {}", us(called), us(noted), us(until))
            }
            ReportLine::Adopted { name, fence, token, called, belief: Belief { noted, until } } => {
                write!(f, "adopted {name} {fence} {token} {} {} {}", us(called), us(noted), us(until))
            }
            ReportLine::Extended(belief) => write!(f, "extended {} {}", us(&belief.noted), us(&belief.until)),
            ReportLine::ExtendedByToken(belief) => {
                write!(f, "extended-by-token {} {}", us(&belief.noted), us(&belief.until))
            }
            ReportLine::WrongFence { at } => write!(f, "wrong-fence {}", us(at)),
            ReportLine::GivenAway { handle } => write!(f, "given-away {handle}"),
            ReportLine::Forced { token, at } => write!(f, "forced {token} {}", us(at)),
            ReportLine::Tried => f.write_str("tried"),
            ReportLine::Lost { at } => write!(f, "lost {}", us(at)),
            ReportLine::LetGo { at, over } => write!(f, "let-go {} {over}", us(at)),
            ReportLine::Refused => f.write_str("refused"),
            ReportLine::Late => f.write_str("late"),
            ReportLine::FencedOff { at, held } => write!(f, "fenced-off {} {held}", us(at)),
            ReportLine::HeldAfterLoss { at } => write!(f, "undead {}", us(at)),
            ReportLine::Turn { name, got } => write!(f, "permit {name} {got}"),
            ReportLine::Done => f.write_str("done"),
        }
    }
}

impl FromStr for ReportLine {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let broken = || format!("a client said `{line}`");
        let number = |word: &str| word.parse::<u64>().map_err(|_| broken());
        let time = |word| number(word).map(Duration::from_micros);
        let truth = |word: &str| word.parse::<bool>().map_err(|_| broken());
        let belief = |noted, until| Ok::<_, String>(Belief { noted: time(noted)?, until: time(until)? });
        Ok(match words[..] {
            [what @ ("granted" | "adopted"), name, fence, token, called, noted, until] => {
                let (name, fence, token) = (name.to_owned(), number(fence)?, token.to_owned());
                let (called, belief) = (time(called)?, belief(noted, until)?);
                match what {
                    "granted" => ReportLine::Granted { name, fence, token, called, belief },
                    _ => ReportLine::Adopted { name, fence, token, called, belief },
                }
            }
            ["extended", noted, until] => ReportLine::Extended(belief(noted, until)?),
            ["extended-by-token", noted, until] => ReportLine::ExtendedByToken(belief(noted, until)?),
            ["wrong-fence", at] => ReportLine::WrongFence { at: time(at)? },
            ["given-away", handle] => ReportLine::GivenAway { handle: handle.to_owned() },
            ["forced", token, at] => ReportLine::Forced { token: token.to_owned(), at: time(at)? },
            ["tried"] => ReportLine::Tried,
            ["lost", at] => ReportLine::Lost { at: time(at)? },
            ["let-go", at, over] => ReportLine::LetGo { at: time(at)?, over: truth(over)? },
            ["refused"] => ReportLine::Refused,
            ["late"] => ReportLine::Late,
            ["fenced-off", at, held] => ReportLine::FencedOff { at: time(at)?, held: truth(held)? },
            ["undead", at] => ReportLine::HeldAfterLoss { at: time(at)? },
            ["permit", name, got] => ReportLine::Turn { name: name.to_owned(), got: truth(got)? },
            ["done"] => ReportLine::Done,
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
            ReportLine::Granted { name: "a".to_owned(), fence: 9, token: "f".to_owned(), called: at, belief },
            ReportLine::Adopted { name: "a".to_owned(), fence: 9, token: "f".to_owned(), called: at, belief },
            ReportLine::Extended(belief),
            ReportLine::ExtendedByToken(belief),
            ReportLine::WrongFence { at },
            ReportLine::GivenAway { handle: "{}".to_owned() },
            ReportLine::Forced { token: "f".to_owned(), at },
            ReportLine::Tried,
            ReportLine::Lost { at },
            ReportLine::LetGo { at, over: true },
            ReportLine::Refused,
            ReportLine::Late,
            ReportLine::FencedOff { at, held: true },
            ReportLine::HeldAfterLoss { at },
            ReportLine::Turn { name: "a".to_owned(), got: false },
            ReportLine::Done,
        ];
        for line in lines {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("granted a b".parse::<ReportLine>().is_err());
    }
}
