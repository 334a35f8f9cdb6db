//! The handshake: logging in, whether this server can be a node, and what it remembers.

use crate::context::injected_bug::InjectedBug;
use crate::context::{Context, RestartGuard};
use crate::node::redis::connection::socket::Socket;
use crate::node::redis::link::epoch::Reading;
use crate::node::redis::link::greeting::{ConnectionId, Greeting, Login, ServerClock};
use crate::node::redis::protocol::commands;
use crate::node::redis::protocol::compare_and_delete;
use crate::node::redis::protocol::encode::Encoder;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::scripts::{Hashes, Script};
use crate::node::redis::protocol::server_errors::{classify, is_unknown_command, protocol};
use crate::node::redis::protocol::server_info::{self, ServerInfo, check_sync};
use crate::node::redis::protocol::verify::{Syncs, VerifyRequest};
use crate::node::{FastRelease, NodeError};
use quorlock_core::Wall;
use std::sync::Arc;

/// Runs the handshake on `socket`. `last` is the connection before this one.
///
/// It takes two round trips, and one more for a server that has no epoch yet.
pub(crate) async fn greet(
    socket: &mut Socket,
    login: &Login,
    ctx: &Context,
    id: &Arc<str>,
    last: Option<&ConnectionId>,
) -> Result<Greeting, NodeError> {
    encode_hello(&mut socket.out, login);
    encode_setup(&mut socket.out, login);
    let client = read_hello(socket, login).await?;
    let (server_info, hashes, fast, durable) = read_setup(socket, login).await?;
    server_info.check(ctx.allow_eviction)?;
    ctx.identities.claim(id, &server_info.run_id)?;
    let connection = ConnectionId { run_id: server_info.run_id, client };
    let mut greeting = Greeting {
        version: server_info.version.into(),
        hashes,
        fast,
        reading: None,
        clock: ServerClock::default(),
        replicas: server_info.replicas,
        connection,
    };
    let ends_last = !ctx.injected.is_on(InjectedBug::OldConnectionKept);
    let ends_last =
        ends_last && last.is_some_and(|last| end_connection(&mut socket.out, last, &greeting.connection));
    let syncs = match (login.durable, &durable) {
        (false, _) => Syncs::Unknown,
        (true, Ok(())) => Syncs::Always,
        (true, Err(_)) => Syncs::NotAlways,
    };
    let forgot = last.is_some_and(|last| greeting.connection.is_reverted(last));
    let request = VerifyRequest::new(ctx, login.db, syncs).forgot(forgot);
    request_time(&mut socket.out, &greeting.hashes, ctx, &request);
    if ends_last {
        // The connection has ended already, or we may not end it: either way there is no more to do.
        socket.reply().await?;
    }
    read_time(socket, &mut greeting, ctx).await?;
    if login.durable {
        durable?;
    }
    if greeting.reading.as_ref().is_some_and(|reading| reading.epoch.is_none()) && ctx.begins_epochs {
        ctx.longest.record(id, None);
        ctx.longest.wait_majority(ctx.node_timeout * 4).await;
        let request = VerifyRequest::new(ctx, login.db, syncs).forgot(forgot);
        request_time(&mut socket.out, &greeting.hashes, ctx, &request);
        read_time(socket, &mut greeting, ctx).await?;
    }
    Ok(greeting)
}

/// Requests the server's time, with its epoch if that matters.
fn request_time(out: &mut Vec<u8>, hashes: &Hashes, ctx: &Context, request: &VerifyRequest) {
    match ctx.guard {
        RestartGuard::Strict => request.encode(out, Some(hashes), ctx),
        RestartGuard::Off => {
            Encoder::command(out, 1).arg("TIME");
        }
    }
}

/// Reads the answer to [`request_time`].
async fn read_time(socket: &mut Socket, greeting: &mut Greeting, ctx: &Context) -> Result<(), NodeError> {
    let before = (ctx.clock.wall(), ctx.clock.now());
    let answer = accepted(socket.reply().await?)?;
    let there = match ctx.guard {
        RestartGuard::Strict => {
            greeting.reading = Reading::parse(&answer);
            greeting.reading.as_ref().map(|reading| reading.now)
        }
        RestartGuard::Off => time(&answer),
    };
    let there = there.ok_or_else(|| protocol("the time or epoch is none"))?;
    greeting.clock = ServerClock::read(there, before, ctx);
    Ok(())
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

/// Writes the commands that switch to RESP3 and log in.
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
    if let Some(password) = unneeded_password(login) {
        // The short form of AUTH is refused where no password is set.
        Encoder::command(out, 2).arg("AUTH").arg(password);
    }
}

/// The password of a user that needs none on a server without passwords. Such a server accepts any: a
/// client that gives one believes that it is protected and is not.
fn unneeded_password(login: &Login) -> Option<&str> {
    match (login.user.as_deref(), &login.password) {
        (None | Some("default"), Some(password)) => Some(password),
        _ => None,
    }
}

/// Switches to RESP3 and logs in.
pub(crate) async fn log_in(socket: &mut Socket, login: &Login) -> Result<(), NodeError> {
    encode_hello(&mut socket.out, login);
    read_hello(socket, login).await.map(drop)
}

/// Reads whether we are logged in; returns the server's number for this connection, if it reports one.
async fn read_hello(socket: &mut Socket, login: &Login) -> Result<Option<u64>, NodeError> {
    match socket.reply().await? {
        Value::Error(text) if is_unknown_command(&text) || text.starts_with(b"NOPROTO") => {
            Err(NodeError::TooOld { version: Arc::from("without RESP3") })
        }
        Value::Array(fields) => {
            if unneeded_password(login).is_some() {
                accepted(socket.reply().await?)?;
            }
            Ok(fields
                .chunks_exact(2)
                .find(|pair| pair[0].text() == Some(b"id"))
                .and_then(|pair| pair[1].number()))
        }
        other => Err(accepted(other).err().unwrap_or_else(|| protocol("HELLO is not answered"))),
    }
}

/// Writes the commands that request the server's properties and load the scripts.
fn encode_setup(out: &mut Vec<u8>, login: &Login) {
    Encoder::command(out, 3).arg("CLIENT").arg("SETNAME").arg("quorlock");
    Encoder::command(out, 1).arg("INFO");
    Encoder::command(out, 2).arg("SELECT").number(login.db.into());
    commands::raw(out, &compare_and_delete::WHICH.map(str::as_bytes));
    for script in Script::LOADED {
        Encoder::command(out, 3).arg("SCRIPT").arg("LOAD").arg(script.body());
    }
    if login.durable {
        commands::raw(out, &server_info::FSYNC);
    }
}

/// What the server is, the hashes of our scripts, and whether one that is marked durable is.
type Setup = (ServerInfo, Hashes, Option<FastRelease>, Result<(), NodeError>);

/// Reads the answers to [`encode_setup`].
async fn read_setup(socket: &mut Socket, login: &Login) -> Result<Setup, NodeError> {
    // The name is for operators; not every user may set one.
    socket.reply().await?;
    let info = accepted(socket.reply().await?)?;
    let server_info = ServerInfo::parse(&String::from_utf8_lossy(info.text().unwrap_or_default()));
    let selected = socket.reply().await?;
    let fast = compare_and_delete::supported(&socket.reply().await?);
    let mut hashes = Hashes::default();
    let mut loaded = Vec::with_capacity(Script::LOADED.len());
    for _ in Script::LOADED {
        loaded.push(socket.reply().await?);
    }
    let durable = match login.durable {
        true => server_info.check_durable().and(check_sync(&socket.reply().await?)),
        false => Ok(()),
    };
    // A server that is loading refuses the rest as well, and `INFO` gives the better reason.
    server_info.check(true)?;
    accepted(selected)?;
    for (script, answer) in Script::LOADED.into_iter().zip(loaded) {
        if !hashes.record(script, &accepted(answer)?) {
            return Err(protocol("a script got no hash"));
        }
    }
    Ok((server_info, hashes, fast, durable))
}

/// Writes the command that ends our last connection if the server still has it: a server that was stopped
/// would otherwise, once it runs again, execute old acquires after the releases that we send again.
/// `false` if there is none to end.
fn end_connection(out: &mut Vec<u8>, last: &ConnectionId, this: &ConnectionId) -> bool {
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

    fn connection(run_id: &str, client: u64) -> ConnectionId {
        ConnectionId { run_id: run_id.to_owned(), client: Some(client) }
    }

    #[test]
    fn only_a_connection_of_this_run_is_ended_and_never_our_own() {
        let ends = |last: &ConnectionId, this: &ConnectionId| end_connection(&mut Vec::new(), last, this);
        assert!(ends(&connection("a", 7), &connection("a", 9)));
        assert!(!ends(&connection("b", 7), &connection("a", 9)), "the number may belong to another client");
        assert!(!ends(&connection("a", 9), &connection("a", 9)));
    }
}
