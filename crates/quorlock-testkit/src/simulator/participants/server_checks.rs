//! The checks of what servers store and of what links report.

use crate::simulator::history::History;
use crate::simulator::machine_clock::WorldStart;
use crate::simulator::network::Path;
use crate::simulator::participants::Participants;
use crate::simulator::redis_server::{OriginCommand, StoredReader, StoredText};
use crate::simulator::server::Server;
use quorlock::node::NodeError;
use quorlock::{Event, Name, Token};
use sha1_smol::Sha1;
use std::collections::BTreeMap;
use std::sync::Mutex;
use tokio::time::Instant;

impl Participants {
    /// Checks what the servers store, which no client can see: only a vote or a repair creates a lock
    /// (S6), and a released lock does not stay on a server that could be reached (S8).
    pub(crate) fn check_servers(&self) {
        let mut found = Vec::new();
        for (node, host) in self.servers.iter().enumerate() {
            let server = host.lock();
            let Some(since) = server.undisturbed_since() else { continue };
            for stored in server.redis.stored_texts() {
                let Some((name, token)) = lock_of(&stored) else { continue };
                if !may_create(&stored.origin.command, &[REPAIR, UPGRADE]) {
                    found.push(format!("S6: neither a vote nor a repair created {name} on server {node}"));
                }
                let client = server.client_of(&stored);
                if client.is_some_and(|path| self.should_be_gone(path, &name, token, since)) {
                    let (by, command) = (&stored.origin.connection, &stored.origin.command);
                    let what = format!("S8: server {node} did not get the release of {name}");
                    found
                        .push(format!("{what} ({token}, by {command:?} over connection {by} of {client:?})"));
                }
            }
            found.extend(self.check_readers(node, &server, since));
        }
        let mut history = self.history();
        found.iter().for_each(|what| history.violate(self.now(), what));
    }

    /// The same for shared holders, whose labels say which process they belong to.
    fn check_readers(&self, node: usize, server: &Server, since: Instant) -> Vec<String> {
        let mut found = Vec::new();
        for stored in server.redis.stored_readers() {
            let Some((name, token, client)) = reader_of(&stored) else { continue };
            if !(may_create(&stored.origin.command, &[SHARE, DOWNGRADE])) {
                found
                    .push(format!("S6: neither a vote nor a repair made readers of {name} on server {node}"));
            }
            let path = self.path(client.0, node).filter(|path| path.incarnation() == client.1);
            let Some(path) = path.filter(|path| server.is_of(&stored, path)) else { continue };
            if self.should_be_gone(&path, &name, token, since) {
                found.push(format!("S8: server {node} did not get the release of {name} ({token}, shared)"));
            }
        }
        found
    }

    /// Whether the process at the other end of `path` has released `token` long ago.
    fn should_be_gone(&self, path: &Path, name: &Name, token: Token, server_undisturbed: Instant) -> bool {
        let machine = self.machines[path.client()].lock().unwrap();
        let is_current = machine.incarnation == path.incarnation();
        let Some(idle_since) = machine.idle_since.get(name).filter(|_| is_current) else { return false };
        path.should_be_gone(*idle_since, server_undisturbed) && !self.history().outlives_its_use(token)
    }
}

/// Whether `node`, as events name it, is the server with this number.
fn is_at(node: &str, number: usize) -> bool {
    node.contains(&format!("node{number}:"))
}

const REPAIR: &str = include_str!("../../../../quorlock/src/node/redis/protocol/lua/repair.lua");
const SHARE: &str = include_str!("../../../../quorlock/src/node/redis/protocol/lua/share.lua");
const UPGRADE: &str = include_str!("../../../../quorlock/src/node/redis/protocol/lua/upgrade.lua");
const DOWNGRADE: &str = include_str!("../../../../quorlock/src/node/redis/protocol/lua/downgrade.lua");

/// Whether a lock may come to be stored by this command: a vote by a plain command, or one of `scripts`.
fn may_create(command: &OriginCommand, scripts: &[&str]) -> bool {
    match command {
        OriginCommand::Set => true,
        OriginCommand::Script(hash) => scripts.iter().any(|script| **hash == *Sha1::from(script).hexdigest()),
        OriginCommand::Other => false,
    }
}

/// The lock of a shared holder, its token, and the number of its client with that of the process.
fn reader_of(stored: &StoredReader<'_>) -> Option<(Name, Token, (usize, u64))> {
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let name = Name::new(text(stored.name)?).ok()?;
    let mut label = text(stored.label)?.split(' ').skip(1);
    let client = label.next()?.strip_prefix("client")?.strip_suffix("@sim")?.parse().ok()?;
    Some((name, text(stored.token)?.parse().ok()?, (client, label.next()?.parse().ok()?)))
}

/// The lock that a stored text is, if it is one.
fn lock_of(stored: &StoredText<'_>) -> Option<(Name, Token)> {
    let name = Name::from_store(std::str::from_utf8(stored.key).ok()?).ok()?;
    let token = std::str::from_utf8(stored.value.get(..Token::LEN)?).ok()?;
    Some((name, token.parse().ok()?))
}

/// Checks the promises whenever a deadline moves, and that each reply is that to its command (S9).
pub(super) fn observe(
    event: &Event,
    (client, paths): (usize, &BTreeMap<usize, Path>),
    history: &Mutex<History>,
    start: WorldStart,
) {
    let mut history = history.lock().unwrap();
    match event {
        // Only replies that come twice make a link see replies in the wrong place.
        Event::NodeFailed { node, cause: cause @ NodeError::Protocol { .. } }
        | Event::NodeDown { node, cause: cause @ NodeError::Protocol { .. } } => {
            let is_explained = paths.iter().any(|(number, path)| is_at(node, *number) && path.has_repeats());
            if !is_explained {
                let what = format!("S9: client {client} took a reply of {node} for another: {cause}");
                history.violate(start.elapsed(), &what);
            }
        }
        Event::Extended { name, .. } => {
            history.recorder.extended(client, name);
            history.check(start.elapsed());
        }
        Event::ModeChanged { .. } => history.check(start.elapsed()),
        Event::Lost { name, fence, reason, .. } => {
            history.losses += 1;
            history.recorder.ended(client, name, fence.get());
            history.record(start.elapsed(), &format!("client {client} lost {name} ({fence}): {reason}"));
        }
        _ => {}
    }
}
