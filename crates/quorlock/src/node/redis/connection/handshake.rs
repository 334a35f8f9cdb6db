//! The first words on a connection: who we are, whether this server can be a node, and what it remembers.

use crate::context::{CLOCK_TOLERANCE, RestartGuard, Surroundings};
use crate::node::redis::connection::socket::{Wire, protocol};
use crate::node::redis::link::epoch::Reading;
use crate::node::redis::protocol::commands;
use crate::node::redis::protocol::compare_and_delete;
use crate::node::redis::protocol::encode::{EPOCH_KEY, Encoder};
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::scripts::{Hashes, Script};
use crate::node::redis::protocol::server_errors::{classify, is_unknown_command};
use crate::node::redis::protocol::server_info::{self, Survey, check_sync};
use crate::node::{FastRelease, NodeError};
use quorlock_core::{Moment, Wall};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

/// What is needed to log in.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: u32,
    pub(crate) durable: bool,
}

/// What a handshake found out.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) version: Arc<str>,
    pub(crate) hashes: Hashes,
    /// What the server has to release without a script.
    pub(crate) fast: Option<FastRelease>,
    /// `None` if the restart guard is off.
    pub(crate) reading: Option<Reading>,
    /// The server's clock.
    pub(crate) clock: ServerClock,
    /// How many replicas follow the server.
    pub(crate) replicas: u64,
    /// This connection.
    pub(crate) visit: Visit,
}

/// What a server's wall clock showed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerClock {
    pub(crate) there: Wall,
    /// When it showed that, by our boot clock, to within half a round trip.
    pub(crate) at: Moment,
    /// How far it was ahead of our wall clock, in microseconds.
    pub(crate) ahead_micros: i64,
}

/// One connection as the server sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    run_id: String,
    /// The server's number for the connection.
    pub(crate) client: Option<u64>,
}

impl Visit {
    /// Whether the server went back to a state before `last`: it numbers connections upwards as long as it runs, so a number
    /// that is not above an earlier one belongs to a copy of its memory, as when a virtual machine returns to a snapshot.
    fn is_reverted(&self, last: &Visit) -> bool {
        self.run_id == last.run_id
            && matches!((self.client, last.client), (Some(this), Some(last)) if this <= last)
    }
}

/// What was found out about a server that is marked durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Syncs {
    /// Nothing: it is not marked, or was not asked.
    #[default]
    Unknown,
    /// It syncs every write.
    Always,
    /// It does not, whatever its mark says.
    NotAlways,
}

/// What the verify script is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VerifyRequest {
    /// The longest ttl that other nodes have recorded, if it is to be recorded here, too.
    recorded: Duration,
    /// The longest ttl of an epoch to begin, if there is none; zero to begin none.
    to_begin: Duration,
    /// Whether anything may be written at all.
    writes: bool,
    syncs: Syncs,
    db: u32,
    /// Whether the server is known to have forgotten.
    forgot: bool,
}

impl VerifyRequest {
    /// What may be asked for now. A node gets an epoch only once a majority was heard: it must record what others have.
    pub(crate) fn new(around: &Surroundings, login: &Login, syncs: Syncs) -> Self {
        let writes = around.begins_epochs;
        let recorded = if writes { around.longest.recorded() } else { Duration::ZERO };
        let begins = writes && around.longest.is_settled();
        let to_begin = if begins { around.longest_to_record() } else { Duration::ZERO };
        Self { recorded, to_begin, writes, syncs, db: login.db, forgot: false }
    }

    /// Writes the call; without hashes the script is sent whole.
    pub(crate) fn encode(&self, out: &mut Vec<u8>, hashes: Option<&Hashes>, around: &Surroundings) {
        let command = Encoder::command(out, 11);
        let command = match hashes {
            Some(hashes) => command.arg("EVALSHA").arg(hashes.of(Script::Verify)),
            None => command.arg("EVAL").arg(Script::Verify.body()),
        }
        .arg("1")
        .arg(EPOCH_KEY)
        .number(millis(self.recorded));
        let command = if self.writes { command.number(millis(self.to_begin)) } else { command.arg("-") };
        command
            .arg(nonce(around))
            .arg(match self.syncs {
                Syncs::Unknown => "0",
                Syncs::Always => "1",
                Syncs::NotAlways => "-",
            })
            .number(self.db.into())
            .arg(if self.forgot { "1" } else { "0" })
            .number(millis(2 * CLOCK_TOLERANCE));
    }
}

/// Introduces us on `wire`. `last` is the connection before this one.
///
/// It takes two round trips, and one more for a server that has no epoch yet.
pub(crate) async fn greet(
    wire: &mut Wire,
    login: &Login,
    around: &Surroundings,
    id: &Arc<str>,
    last: Option<&Visit>,
) -> Result<Greeting, NodeError> {
    encode_hello(&mut wire.out, login);
    encode_look(&mut wire.out, login);
    let client = hello(wire, login).await?;
    let (survey, hashes, fast, durable) = look(wire, login).await?;
    survey.check(around.allow_eviction)?;
    around.siblings.claim(id, &survey.run_id)?;
    let visit = Visit { run_id: survey.run_id, client };
    let mut greeting = Greeting {
        version: survey.version.into(),
        hashes,
        fast,
        reading: None,
        clock: ServerClock::default(),
        replicas: survey.replicas,
        visit,
    };
    let ends_last = last.is_some_and(|last| end_connection(&mut wire.out, last, &greeting.visit));
    let syncs = match (login.durable, &durable) {
        (false, _) => Syncs::Unknown,
        (true, Ok(())) => Syncs::Always,
        (true, Err(_)) => Syncs::NotAlways,
    };
    let forgot = last.is_some_and(|last| greeting.visit.is_reverted(last));
    let request = VerifyRequest { forgot, ..VerifyRequest::new(around, login, syncs) };
    ask_for_time(&mut wire.out, &greeting.hashes, around, &request);
    if ends_last {
        // The connection is gone already, or we may not end it: either way there is no more to do.
        wire.reply().await?;
    }
    hear_time(wire, &mut greeting, around).await?;
    if login.durable {
        durable?;
    }
    if greeting.reading.as_ref().is_some_and(|reading| reading.epoch.is_none()) && around.begins_epochs {
        around.longest.heard(id, None);
        around.longest.settle(around.node_timeout * 4).await;
        let request = VerifyRequest { forgot, ..VerifyRequest::new(around, login, syncs) };
        ask_for_time(&mut wire.out, &greeting.hashes, around, &request);
        hear_time(wire, &mut greeting, around).await?;
    }
    Ok(greeting)
}

/// Asks for the server's time, with its epoch if that matters.
fn ask_for_time(out: &mut Vec<u8>, hashes: &Hashes, around: &Surroundings, request: &VerifyRequest) {
    match around.guard {
        RestartGuard::Strict => request.encode(out, Some(hashes), around),
        RestartGuard::Off => {
            Encoder::command(out, 1).arg("TIME");
        }
    }
}

/// Takes the answer in.
async fn hear_time(wire: &mut Wire, greeting: &mut Greeting, around: &Surroundings) -> Result<(), NodeError> {
    let before = (around.clock.wall(), around.clock.now());
    let answer = accepted(wire.reply().await?)?;
    let there = match around.guard {
        RestartGuard::Strict => {
            greeting.reading = Reading::parse(&answer);
            greeting.reading.as_ref().map(|reading| reading.now)
        }
        RestartGuard::Off => time(&answer),
    };
    let there = there.ok_or_else(|| protocol("the time or epoch is none"))?;
    greeting.clock = ServerClock::read(there, before, around);
    Ok(())
}

impl ServerClock {
    /// A server's clock that showed `there` after `before` and by now.
    pub(crate) fn read(there: Wall, before: (Wall, Moment), around: &Surroundings) -> Self {
        let after = (around.clock.wall(), around.clock.now());
        Self {
            there,
            at: before.1 + after.1.since(before.1) / 2,
            ahead_micros: ahead(there, before.0, after.0),
        }
    }
}

/// The answer to `TIME`.
pub(crate) fn time(answer: &Value) -> Option<Wall> {
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

/// A number for a new epoch that nobody else will choose.
pub(crate) fn nonce(around: &Surroundings) -> String {
    let mut random = [0; 16];
    around.entropy.fill(&mut random);
    random.iter().fold(String::with_capacity(32), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// How far a clock that showed `there` was ahead of ours, which went from `before` to `after` meanwhile.
pub(crate) fn ahead(there: Wall, before: Wall, after: Wall) -> i64 {
    let here = before.as_micros() / 2 + after.as_micros() / 2;
    i64::try_from(i128::from(there.as_micros()) - i128::from(here)).unwrap_or(i64::MAX)
}

/// Writes what switches to RESP3 and logs in.
fn encode_hello(out: &mut Vec<u8>, login: &Login) {
    match (&login.user, &login.password) {
        (None, None) => {
            Encoder::command(out, 2).arg("HELLO").arg("3");
        }
        (user, password) => {
            Encoder::command(out, 5)
                .arg("HELLO")
                .arg("3")
                .arg("AUTH")
                .arg(user.as_deref().unwrap_or("default"))
                .arg(password.as_deref().unwrap_or_default());
        }
    }
    if let Some(password) = needless(login) {
        // The short form of AUTH is refused where no password is set.
        Encoder::command(out, 2).arg("AUTH").arg(password);
    }
}

/// The password of a user that needs none on a server without passwords. Such a server accepts any: a client that gives one
/// believes to be protected and is not.
fn needless(login: &Login) -> Option<&str> {
    match (login.user.as_deref(), &login.password) {
        (None | Some("default"), Some(password)) => Some(password),
        _ => None,
    }
}

/// Switches to RESP3 and logs in.
pub(crate) async fn log_in(wire: &mut Wire, login: &Login) -> Result<(), NodeError> {
    encode_hello(&mut wire.out, login);
    hello(wire, login).await.map(drop)
}

/// Hears whether we are logged in; the server's number for this connection, if it says.
async fn hello(wire: &mut Wire, login: &Login) -> Result<Option<u64>, NodeError> {
    match wire.reply().await? {
        Value::Error(text) if is_unknown_command(&text) || text.starts_with(b"NOPROTO") => {
            Err(NodeError::TooOld { version: Arc::from("without RESP3") })
        }
        Value::Array(fields) => {
            if needless(login).is_some() {
                accepted(wire.reply().await?)?;
            }
            Ok(fields
                .chunks_exact(2)
                .find(|pair| pair[0].text() == Some(b"id"))
                .and_then(|pair| pair[1].number()))
        }
        other => Err(accepted(other).err().unwrap_or_else(|| protocol("HELLO is not answered"))),
    }
}

/// Writes what asks for the server's properties and loads the scripts.
fn encode_look(out: &mut Vec<u8>, login: &Login) {
    Encoder::command(out, 3).arg("CLIENT").arg("SETNAME").arg("quorlock");
    Encoder::command(out, 1).arg("INFO");
    Encoder::command(out, 2).arg("SELECT").number(login.db.into());
    commands::raw(out, &compare_and_delete::WHICH.map(str::as_bytes));
    for script in Script::ALL {
        Encoder::command(out, 3).arg("SCRIPT").arg("LOAD").arg(script.body());
    }
    if login.durable {
        commands::raw(out, &server_info::FSYNC);
    }
}

/// What the server is, what it calls our scripts, and whether one that is marked durable is.
type Look = (Survey, Hashes, Option<FastRelease>, Result<(), NodeError>);

/// Hears the answers to [`encode_look`].
async fn look(wire: &mut Wire, login: &Login) -> Result<Look, NodeError> {
    // A name is a courtesy to operators; not every user may set one.
    wire.reply().await?;
    let info = accepted(wire.reply().await?)?;
    let survey = Survey::parse(&String::from_utf8_lossy(info.text().unwrap_or_default()));
    let selected = wire.reply().await?;
    let fast = compare_and_delete::known(&wire.reply().await?);
    let mut hashes = Hashes::default();
    let mut loaded = Vec::with_capacity(Script::ALL.len());
    for _ in Script::ALL {
        loaded.push(wire.reply().await?);
    }
    let durable = match login.durable {
        true => survey.check_durable().and(check_sync(&wire.reply().await?)),
        false => Ok(()),
    };
    // A server that is loading refuses the rest as well, and INFO tells the better reason.
    survey.check(true)?;
    accepted(selected)?;
    for (script, answer) in Script::ALL.into_iter().zip(loaded) {
        if !hashes.learn(script, &accepted(answer)?) {
            return Err(protocol("a script got no hash"));
        }
    }
    Ok((survey, hashes, fast, durable))
}

/// Writes what ends our last connection if the server still has it: a server that was stopped would otherwise, once it wakes,
/// carry out old acquires after the releases that we owe it. `false` if there is none to end.
fn end_connection(out: &mut Vec<u8>, last: &Visit, this: &Visit) -> bool {
    // The numbers of another run mean nothing here and may belong to others.
    let Some(client) = last.client.filter(|_| last.run_id == this.run_id) else {
        return false;
    };
    // After a return to a snapshot our own number may be the same.
    if this.client == Some(client) {
        return false;
    }
    Encoder::command(out, 4).arg("CLIENT").arg("KILL").arg("ID").number(client);
    true
}

fn accepted(answer: Value) -> Result<Value, NodeError> {
    match answer {
        Value::Error(text) => Err(classify(&text)),
        answer => Ok(answer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(run_id: &str, client: u64) -> Visit {
        Visit { run_id: run_id.to_owned(), client: Some(client) }
    }

    #[test]
    fn a_connection_number_that_goes_back_within_a_run_shows_a_server_that_was_reverted() {
        assert!(visit("a", 7).is_reverted(&visit("a", 9)));
        assert!(visit("a", 9).is_reverted(&visit("a", 9)));
        assert!(!visit("a", 10).is_reverted(&visit("a", 9)));
        assert!(!visit("b", 7).is_reverted(&visit("a", 9)), "another run counts anew");
        assert!(!Visit { run_id: "a".to_owned(), client: None }.is_reverted(&visit("a", 9)));
    }

    #[test]
    fn only_a_connection_of_this_run_is_ended_and_never_our_own() {
        let ends = |last: &Visit, this: &Visit| end_connection(&mut Vec::new(), last, this);
        assert!(ends(&visit("a", 7), &visit("a", 9)));
        assert!(!ends(&visit("b", 7), &visit("a", 9)), "the number may belong to another client");
        assert!(!ends(&visit("a", 9), &visit("a", 9)));
    }
}
