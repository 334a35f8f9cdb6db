//! What a client process reports to the harness, one line each.

use crate::nemesis::monotonic::now;
use crate::nemesis::resource::access::{Access, Answer, Step};
use crate::nemesis::slot_names;
use quorlock::{Lease, Mode};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// One report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReportLine {
    /// The client has a lock, or has it in another mode.
    Holds(Origin, Grant),
    /// Its lock was extended.
    Extended(Belief),
    /// It extended its lock by the token.
    ExtendedByToken(Belief),
    /// The nodes store another fence with its token than it was given.
    WrongFence { at: Duration },
    /// It handed its lock over: the handle as JSON.
    HandedOver { handle: String },
    /// It is about to release a name of this token by force.
    Forced { name: String, token: String, at: Duration },
    /// It calls the library: acquire, extend or release.
    Calling { operation: String, at: Duration },
    /// The call is over.
    Returned { at: Duration },
    /// It begins an access to the protected value that compares fences.
    Accessing { access: Access, at: Duration },
    /// The access is over.
    Accessed { answer: Answer, at: Duration },
    /// It tries to acquire once.
    Tried,
    /// The library announced the loss of its lock.
    Lost { at: Duration },
    /// It is about to release its lock, which is over already or not.
    Releasing { at: Duration, over: bool },
    /// An acquire call ended without a lock.
    Refused,
    /// A call to upgrade ended without it.
    NotUpgraded,
    /// It writes although its lock is over.
    Late,
    /// The resource refused its fence, and whether it held the lock even after that.
    FencedOff { name: String, at: Duration, held: bool },
    /// It shares the lock, and a value that compares no fences has changed since it read it before.
    Changed,
    /// It held a lock that was announced as lost.
    HeldAfterLoss { at: Duration },
    /// In the recovery phase it got this lock, or not.
    Recovered { name: String, got: bool },
    /// It finished the recovery phase.
    Done,
}

/// How a client got the lock, or got it in this mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was granted.
    Granted,
    /// It was adopted from the handle of another client.
    Adopted,
    /// It was shared and is exclusive now, with a new fence.
    Upgraded,
    /// It was exclusive and is shared now, with the same fence.
    Downgraded,
}

impl Origin {
    const ALL: [Origin; 4] = [Origin::Granted, Origin::Adopted, Origin::Upgraded, Origin::Downgraded];

    /// Whether the client had the lock before, in the other mode.
    pub(crate) fn changes_mode(self) -> bool {
        matches!(self, Origin::Upgraded | Origin::Downgraded)
    }

    fn word(self) -> &'static str {
        match self {
            Origin::Granted => "granted",
            Origin::Adopted => "adopted",
            Origin::Upgraded => "upgraded",
            Origin::Downgraded => "downgraded",
        }
    }
}

/// What a client has from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// All names that are held together.
    pub(crate) names: Vec<String>,
    pub(crate) mode: Mode,
    pub(crate) fence: u64,
    pub(crate) token: String,
    /// When the call began.
    pub(crate) called: Duration,
    pub(crate) belief: Belief,
}

impl Grant {
    /// Whether it is of slots of the semaphore.
    pub(crate) fn is_permit(&self) -> bool {
        slot_names().contains(&self.names[0])
    }
}

/// Behind the word of a shared hold. The clients of other libraries have none.
const SHARED: &str = "-shared";

/// Until when a client believes to have its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    pub(crate) noted: Duration,
    pub(crate) until: Duration,
}

impl Belief {
    /// What is believed right now. A pause between the two readings makes the belief shorter than
    /// it is, never longer.
    pub(crate) fn of(held: &Lease) -> Self {
        let noted = now();
        Self { noted, until: noted + held.remaining() }
    }
}

impl ReportLine {
    /// Whether there are too many of its kind for the story of a run.
    pub(crate) fn is_frequent(&self) -> bool {
        matches!(
            self,
            ReportLine::Calling { .. }
                | ReportLine::Returned { .. }
                | ReportLine::Accessing { .. }
                | ReportLine::Accessed { .. }
        )
    }
}

impl fmt::Display for ReportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = Duration::as_micros;
        match self {
            ReportLine::Holds(origin, grant) => {
                let shared = if grant.mode == Mode::Shared { SHARED } else { "" };
                let Grant { names, fence, token, called, belief: Belief { noted, until }, .. } = grant;
                write!(f, "{}{shared} {} {fence} {token} ", origin.word(), names.join(","))?;
                write!(f, "{} {} {}", us(called), us(noted), us(until))
            }
            ReportLine::Extended(belief) => write!(f, "extended {} {}", us(&belief.noted), us(&belief.until)),
            ReportLine::ExtendedByToken(belief) => {
                write!(f, "extended-by-token {} {}", us(&belief.noted), us(&belief.until))
            }
            ReportLine::WrongFence { at } => write!(f, "wrong-fence {}", us(at)),
            ReportLine::HandedOver { handle } => write!(f, "handed-over {handle}"),
            ReportLine::Forced { name, token, at } => write!(f, "forced {name} {token} {}", us(at)),
            ReportLine::Calling { operation, at } => write!(f, "calling {operation} {}", us(at)),
            ReportLine::Returned { at } => write!(f, "returned {}", us(at)),
            ReportLine::Accessing { access: Access { name, fence, step }, at } => match step {
                Step::Show => write!(f, "showing {name} {fence} {}", us(at)),
                Step::Read => write!(f, "reading {name} {fence} {}", us(at)),
                Step::SharedRead => write!(f, "reading-shared {name} {fence} {}", us(at)),
                Step::Write { value, based_on } => {
                    write!(f, "writing {name} {fence} {} {value} {based_on}", us(at))
                }
            },
            ReportLine::Accessed { answer: Answer::Accepted(ok), at } => {
                write!(f, "accepted {} {ok}", us(at))
            }
            ReportLine::Accessed { answer: Answer::Value(value), at } => write!(f, "read {} {value}", us(at)),
            ReportLine::Tried => f.write_str("tried"),
            ReportLine::Lost { at } => write!(f, "lost {}", us(at)),
            ReportLine::Releasing { at, over } => write!(f, "releasing {} {over}", us(at)),
            ReportLine::Refused => f.write_str("refused"),
            ReportLine::NotUpgraded => f.write_str("not-upgraded"),
            ReportLine::Late => f.write_str("late"),
            ReportLine::FencedOff { name, at, held } => write!(f, "fenced-off {name} {} {held}", us(at)),
            ReportLine::Changed => f.write_str("changed"),
            ReportLine::HeldAfterLoss { at } => write!(f, "held-after-loss {}", us(at)),
            ReportLine::Recovered { name, got } => write!(f, "recovered {name} {got}"),
            ReportLine::Done => f.write_str("done"),
        }
    }
}

impl FromStr for ReportLine {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split(' ').collect();
        let broken = || format!("a client printed `{line}`");
        let number = |word: &str| word.parse::<u64>().map_err(|_| broken());
        let time = |word| number(word).map(Duration::from_micros);
        let truth = |word: &str| word.parse::<bool>().map_err(|_| broken());
        let belief = |noted, until| Ok::<_, String>(Belief { noted: time(noted)?, until: time(until)? });
        Ok(match words[..] {
            [what, names, fence, token, called, noted, until] => {
                let (word, mode) = match what.strip_suffix(SHARED) {
                    Some(word) => (word, Mode::Shared),
                    None => (what, Mode::Exclusive),
                };
                let origin = Origin::ALL.into_iter().find(|origin| origin.word() == word);
                let names = names.split(',').map(str::to_owned).collect();
                let (fence, token) = (number(fence)?, token.to_owned());
                let (called, belief) = (time(called)?, belief(noted, until)?);
                let grant = Grant { names, mode, fence, token, called, belief };
                ReportLine::Holds(origin.ok_or_else(broken)?, grant)
            }
            ["extended", noted, until] => ReportLine::Extended(belief(noted, until)?),
            ["extended-by-token", noted, until] => ReportLine::ExtendedByToken(belief(noted, until)?),
            ["wrong-fence", at] => ReportLine::WrongFence { at: time(at)? },
            ["handed-over", handle] => ReportLine::HandedOver { handle: handle.to_owned() },
            ["forced", name, token, at] => {
                ReportLine::Forced { name: name.to_owned(), token: token.to_owned(), at: time(at)? }
            }
            ["calling", operation, at] => {
                ReportLine::Calling { operation: operation.to_owned(), at: time(at)? }
            }
            ["returned", at] => ReportLine::Returned { at: time(at)? },
            [what @ ("showing" | "reading" | "reading-shared"), name, fence, at] => {
                let step = match what {
                    "showing" => Step::Show,
                    "reading" => Step::Read,
                    _ => Step::SharedRead,
                };
                let access = Access { name: name.to_owned(), fence: number(fence)?, step };
                ReportLine::Accessing { access, at: time(at)? }
            }
            ["writing", name, fence, at, value, based_on] => {
                let step = Step::Write { value: value.to_owned(), based_on: based_on.to_owned() };
                let access = Access { name: name.to_owned(), fence: number(fence)?, step };
                ReportLine::Accessing { access, at: time(at)? }
            }
            ["accepted", at, ok] => {
                ReportLine::Accessed { answer: Answer::Accepted(truth(ok)?), at: time(at)? }
            }
            ["read", at, value] => {
                ReportLine::Accessed { answer: Answer::Value(value.to_owned()), at: time(at)? }
            }
            ["tried"] => ReportLine::Tried,
            ["lost", at] => ReportLine::Lost { at: time(at)? },
            ["releasing", at, over] => ReportLine::Releasing { at: time(at)?, over: truth(over)? },
            ["refused"] => ReportLine::Refused,
            ["not-upgraded"] => ReportLine::NotUpgraded,
            ["late"] => ReportLine::Late,
            ["fenced-off", name, at, held] => {
                ReportLine::FencedOff { name: name.to_owned(), at: time(at)?, held: truth(held)? }
            }
            ["changed"] => ReportLine::Changed,
            ["held-after-loss", at] => ReportLine::HeldAfterLoss { at: time(at)? },
            ["recovered", name, got] => ReportLine::Recovered { name: name.to_owned(), got: truth(got)? },
            ["done"] => ReportLine::Done,
            _ => return Err(broken()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_as_it_was_printed() {
        let at = Duration::from_micros(7);
        let belief = Belief { noted: at, until: 2 * at };
        let access = |step| Access { name: "a".to_owned(), fence: 9, step };
        let grant = |names: &[&str], mode| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            Grant { names, mode, fence: 9, token: "f".to_owned(), called: at, belief }
        };
        let write = Step::Write { value: "0.0.1".to_owned(), based_on: String::new() };
        let lines = [
            ReportLine::Holds(Origin::Granted, grant(&["a"], Mode::Exclusive)),
            ReportLine::Holds(Origin::Granted, grant(&["a", "b"], Mode::Shared)),
            ReportLine::Holds(Origin::Adopted, grant(&["a"], Mode::Shared)),
            ReportLine::Holds(Origin::Upgraded, grant(&["a"], Mode::Exclusive)),
            ReportLine::Holds(Origin::Downgraded, grant(&["a"], Mode::Shared)),
            ReportLine::Extended(belief),
            ReportLine::ExtendedByToken(belief),
            ReportLine::WrongFence { at },
            ReportLine::HandedOver { handle: "{}".to_owned() },
            ReportLine::Forced { name: "a".to_owned(), token: "f".to_owned(), at },
            ReportLine::Calling { operation: "acquire".to_owned(), at },
            ReportLine::Returned { at },
            ReportLine::Accessing { access: access(Step::Show), at },
            ReportLine::Accessing { access: access(Step::Read), at },
            ReportLine::Accessing { access: access(Step::SharedRead), at },
            ReportLine::Accessing { access: access(write), at },
            ReportLine::Accessed { answer: Answer::Accepted(false), at },
            ReportLine::Accessed { answer: Answer::Value(String::new()), at },
            ReportLine::Tried,
            ReportLine::Lost { at },
            ReportLine::Releasing { at, over: true },
            ReportLine::Refused,
            ReportLine::NotUpgraded,
            ReportLine::Late,
            ReportLine::FencedOff { name: "a".to_owned(), at, held: true },
            ReportLine::Changed,
            ReportLine::HeldAfterLoss { at },
            ReportLine::Recovered { name: "a".to_owned(), got: false },
            ReportLine::Done,
        ];
        for line in lines {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("granted a b".parse::<ReportLine>().is_err());
        assert!("written a 9 f 7 7 14".parse::<ReportLine>().is_err());
    }
}
