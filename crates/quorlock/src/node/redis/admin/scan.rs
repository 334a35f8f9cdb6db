//! Which names a server holds, found by a scan of its fence keys, which outlive the locks by a week.
//!
//! On a connection of its own: the replies of a scan would otherwise delay the answers to votes.

use crate::node::redis::admin::session::Session;
use crate::node::redis::link::Link;
use crate::node::redis::protocol::encode::{FENCE_KEY, KEY_END};
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::protocol;
use crate::node::{Names, NodeError};
use bytes::Bytes;
use quorlock_core::Name;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// How many keys the server visits in one step, during which it serves no other client.
const STEP: &[u8] = b"500";
/// How long all steps may take. What was found until then is returned.
const SCAN_TIMEOUT: Duration = Duration::from_secs(5);

/// The names that the server holds, or may hold: a user that may not read a name cannot know.
pub(crate) async fn names(link: &Link) -> Result<Names, NodeError> {
    let (clock, limit) = (&link.ctx.clock, link.ctx.connect_timeout);
    let mut session = Session::open(link).await?;
    let end = clock.now() + SCAN_TIMEOUT;
    let mut cursor = Bytes::from_static(b"0");
    let mut held = BTreeSet::new();
    loop {
        let step = timeout(limit, step(&mut session, &cursor, &mut held)).await;
        cursor = step.map_err(|_| NodeError::Timeout { after: limit })??;
        if cursor == b"0"[..] {
            return Ok(Names::new(held));
        }
        if held.len() > Names::MOST || clock.now() >= end {
            return Ok(Names::new(held).incomplete());
        }
    }
}

/// Runs one step, and asks which of the names that it finds are held; returns where the next one starts.
async fn step(session: &mut Session, cursor: &[u8], held: &mut BTreeSet<Name>) -> Result<Bytes, NodeError> {
    let pattern = format!("{FENCE_KEY}*{KEY_END}");
    session.push(&[b"SCAN", cursor, b"MATCH", pattern.as_bytes(), b"COUNT", STEP, b"TYPE", b"zset"]);
    let answer = session.reply().await?;
    let (next, known) = parse_step(&answer).ok_or_else(|| protocol("SCAN is answered by another shape"))?;
    for name in &known {
        session.push(&[b"EXISTS", name.as_str().as_bytes()]);
    }
    for name in known {
        if !matches!(session.reply_raw().await?, Value::Integer(0)) {
            held.insert(name);
        }
    }
    Ok(next)
}

/// What one step found, and where the next one starts.
fn parse_step(step: &Value) -> Option<(Bytes, Vec<Name>)> {
    let Value::Array(parts) = step else { return None };
    let [Value::Text(cursor), Value::Array(keys)] = parts.as_slice() else { return None };
    let names = keys.iter().filter_map(|key| {
        let name = key.text()?.strip_prefix(FENCE_KEY.as_bytes())?.strip_suffix(KEY_END.as_bytes())?;
        Name::from_store(std::str::from_utf8(name).ok()?).ok()
    });
    Some((cursor.clone(), names.collect()))
}
