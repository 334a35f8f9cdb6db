//! The first words on a connection: who we are, whether this server can be a node, and what it remembers.

use super::classify::{classify, is_unknown_command};
use super::commands;
use super::encode::{EPOCH_KEY, Encoder};
use super::epoch::Reading;
use super::fast;
use super::resp::Value;
use super::script::{Hashes, Script};
use super::survey::{self, Survey};
use super::wire::{Wire, protocol};
use crate::node::{FastRelease, NodeError};
use crate::surroundings::{RestartGuard, Surroundings};
use quorlock_core::Wall;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// What is needed to log in.
#[derive(Clone)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) db: u32,
    pub(super) durable: bool,
}

/// What a handshake found out.
#[derive(Debug)]
pub(super) struct Greeting {
    pub(super) version: Arc<str>,
    pub(super) hashes: Hashes,
    /// What the server has to release without a script.
    pub(super) fast: Option<FastRelease>,
    /// `None` if the restart guard is off.
    pub(super) epoch: Option<Reading>,
    /// How far the server's wall clock is ahead of ours, in microseconds.
    pub(super) ahead_micros: i64,
    /// How many replicas follow the server.
    pub(super) replicas: u64,
    /// This connection.
    pub(super) visit: Visit,
}

/// One connection as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Visit {
    run_id: String,
    /// The server's number for the connection.
    client: Option<u64>,
}

/// Introduces us on `wire`. `longest` is the longest ttl known so far, `last` the connection before this one.
pub(super) async fn greet(
    wire: &mut Wire,
    login: &Login,
    around: &Surroundings,
    id: &Arc<str>,
    longest: Duration,
    last: Option<&Visit>,
) -> Result<Greeting, NodeError> {
    let client = hello(wire, login).await?;
    let (survey, hashes, fast) = look(wire, login).await?;
    survey.check(around.allow_eviction)?;
    if login.durable {
        survey.check_durable()?;
        commands::raw(&mut wire.out, &survey::FSYNC);
        survey::check_sync(survey::setting(&wire.reply().await?).as_deref())?;
    }
    around.siblings.claim(id, &survey.run_id)?;
    let visit = Visit { run_id: survey.run_id, client };
    if let Some(last) = last {
        bury(wire, last, &visit).await?;
    }
    let mut greeting = Greeting {
        version: survey.version.into(),
        hashes,
        fast,
        epoch: None,
        ahead_micros: 0,
        replicas: survey.replicas,
        visit,
    };
    let before = around.clock.wall();
    let there = match around.guard {
        RestartGuard::Strict => {
            let hashes = Some(&greeting.hashes);
            encode_verify(&mut wire.out, hashes, around, login.durable, longest);
            let answer = accepted(wire.reply().await?)?;
            greeting.epoch = Reading::parse(&answer);
            greeting.epoch.as_ref().map(|epoch| epoch.now)
        }
        RestartGuard::Off => {
            Encoder::command(&mut wire.out, 1).arg("TIME");
            time(&accepted(wire.reply().await?)?)
        }
    };
    let there = there.ok_or_else(|| protocol("the time or epoch is none"))?;
    greeting.ahead_micros = ahead(there, before, around.clock.wall());
    Ok(greeting)
}

/// The answer to `TIME`.
pub(super) fn time(answer: &Value) -> Option<Wall> {
    match answer {
        Value::Array(fields) => match fields.as_slice() {
            [seconds, micros] => {
                let seconds = seconds.number()?.checked_mul(1_000_000)?;
                Some(Wall::from_micros(seconds.checked_add(micros.number()?)?))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Writes the call of the verify script; without hashes it is sent whole.
pub(super) fn encode_verify(
    out: &mut Vec<u8>,
    hashes: Option<&Hashes>,
    around: &Surroundings,
    durable: bool,
    longest: Duration,
) {
    let command = Encoder::command(out, 7);
    match hashes {
        Some(hashes) => command.arg("EVALSHA").arg(hashes.of(Script::Verify)),
        None => command.arg("EVAL").arg(Script::Verify.body()),
    }
    .arg("1")
    .arg(EPOCH_KEY)
    .number(millis(longest.max(around.longest_ttl)))
    .arg(nonce(around))
    .arg(if durable { "1" } else { "0" });
}

/// A number for a new epoch that nobody else will choose.
pub(super) fn nonce(around: &Surroundings) -> String {
    let mut random = [0; 16];
    around.entropy.fill(&mut random);
    random.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(super) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// How far a clock that showed `there` was ahead of ours, which went from `before` to `after` meanwhile.
pub(super) fn ahead(there: Wall, before: Wall, after: Wall) -> i64 {
    let here = before.as_micros() / 2 + after.as_micros() / 2;
    i64::try_from(i128::from(there.as_micros()) - i128::from(here)).unwrap_or(i64::MAX)
}

/// Switches to RESP3 and logs in; the server's number for this connection, if it tells.
pub(super) async fn hello(wire: &mut Wire, login: &Login) -> Result<Option<u64>, NodeError> {
    match (&login.user, &login.password) {
        (None, None) => {
            Encoder::command(&mut wire.out, 2).arg("HELLO").arg("3");
        }
        (user, password) => {
            Encoder::command(&mut wire.out, 5)
                .arg("HELLO")
                .arg("3")
                .arg("AUTH")
                .arg(user.as_deref().unwrap_or("default"))
                .arg(password.as_deref().unwrap_or_default());
        }
    }
    match wire.reply().await? {
        Value::Error(text) if is_unknown_command(&text) || text.starts_with(b"NOPROTO") => {
            Err(NodeError::TooOld { version: Arc::from("without RESP3") })
        }
        Value::Array(fields) => {
            refuse_needless_password(wire, login).await?;
            Ok(fields
                .chunks_exact(2)
                .find(|pair| pair[0].text() == Some(b"id"))
                .and_then(|pair| pair[1].number()))
        }
        other => Err(accepted(other).err().unwrap_or_else(|| protocol("HELLO is not answered"))),
    }
}

/// A server without a password accepts any: whoever gives one believes to be protected and is not.
async fn refuse_needless_password(wire: &mut Wire, login: &Login) -> Result<(), NodeError> {
    let (None | Some("default"), Some(password)) = (login.user.as_deref(), &login.password) else {
        return Ok(());
    };
    // The short form of AUTH is refused where no password is set.
    Encoder::command(&mut wire.out, 2).arg("AUTH").arg(password);
    accepted(wire.reply().await?).map(drop)
}

/// Looks at the server and loads the scripts, all in one round trip.
async fn look(wire: &mut Wire, login: &Login) -> Result<(Survey, Hashes, Option<FastRelease>), NodeError> {
    let out = &mut wire.out;
    Encoder::command(out, 3).arg("CLIENT").arg("SETNAME").arg("quorlock");
    Encoder::command(out, 1).arg("INFO");
    Encoder::command(out, 2).arg("SELECT").number(login.db.into());
    commands::raw(out, &fast::WHICH.map(str::as_bytes));
    for script in Script::ALL {
        Encoder::command(out, 3).arg("SCRIPT").arg("LOAD").arg(script.body());
    }
    // A name is a courtesy to operators; not every user may set one.
    wire.reply().await?;
    let info = accepted(wire.reply().await?)?;
    let survey = Survey::parse(&String::from_utf8_lossy(info.text().unwrap_or_default()));
    let selected = wire.reply().await?;
    let fast = fast::known(&wire.reply().await?);
    let mut hashes = Hashes::default();
    let mut loaded = Vec::with_capacity(Script::ALL.len());
    for _ in Script::ALL {
        loaded.push(wire.reply().await?);
    }
    // A server that is loading refuses the rest as well, and INFO tells the better reason.
    survey.check(true)?;
    accepted(selected)?;
    for (script, answer) in Script::ALL.into_iter().zip(loaded) {
        if !hashes.learn(script, &accepted(answer)?) {
            return Err(protocol("a script got no hash"));
        }
    }
    Ok((survey, hashes, fast))
}

/// Ends our last connection if the server still has it: a server that was stopped would otherwise, once it wakes,
/// carry out old acquires after the releases that we owe it.
async fn bury(wire: &mut Wire, last: &Visit, this: &Visit) -> Result<(), NodeError> {
    // The numbers of another run mean nothing here and may belong to others.
    let Some(client) = last.client.filter(|_| last.run_id == this.run_id) else {
        return Ok(());
    };
    Encoder::command(&mut wire.out, 4).arg("CLIENT").arg("KILL").arg("ID").number(client);
    // It is gone already, or we may not: either way there is no more to do.
    wire.reply().await.map(drop)
}

fn accepted(answer: Value) -> Result<Value, NodeError> {
    match answer {
        Value::Error(text) => Err(classify(&text)),
        answer => Ok(answer),
    }
}
