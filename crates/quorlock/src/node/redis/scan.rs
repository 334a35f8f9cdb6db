//! Which names a server may know, found by walking over its fence keys.
//!
//! On a connection of its own: what a step finds would otherwise stand before the answers to votes.

use super::encode::FENCE_KEY;
use super::link::Link;
use super::resp::Value;
use super::session::Session;
use super::wire::protocol;
use crate::node::{Names, NodeError};
use bytes::Bytes;
use quorlock_core::Name;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::timeout;

/// How many keys the server looks at in one step, during which it answers nobody else.
const STEP: &[u8] = b"500";
/// How long all steps may take. What was found until then is told.
const LONGEST_WALK: Duration = Duration::from_secs(5);

/// The names whose fence keys the server has.
pub(super) async fn names(link: &Link) -> Result<Names, NodeError> {
    let (clock, limit) = (&link.around.clock, link.around.connect_timeout);
    let mut session = Session::visit(link).await?;
    let end = clock.now() + LONGEST_WALK;
    let pattern = format!("{FENCE_KEY}*");
    let mut cursor = Bytes::from_static(b"0");
    let mut found = BTreeSet::new();
    loop {
        let (key, count) = (pattern.as_bytes(), STEP);
        session.push(&[b"SCAN", &cursor, b"MATCH", key, b"COUNT", count, b"TYPE", b"zset"]);
        let step = timeout(limit, session.reply()).await;
        let step = step.map_err(|_| NodeError::Timeout { after: limit })??;
        cursor = take(&step, &mut found).ok_or_else(|| protocol("SCAN is answered by another shape"))?;
        if cursor == b"0"[..] {
            return Ok(Names::new(found));
        }
        if found.len() > Names::MOST || clock.now() >= end {
            return Ok(Names::new(found).incomplete());
        }
    }
}

/// Takes in what one step found; where the next one starts.
fn take(step: &Value, found: &mut BTreeSet<Name>) -> Option<Bytes> {
    let Value::Array(parts) = step else { return None };
    let [Value::Text(cursor), Value::Array(keys)] = parts.as_slice() else { return None };
    let names = keys.iter().filter_map(|key| {
        let name = key.text()?.strip_prefix(FENCE_KEY.as_bytes())?;
        Name::new(std::str::from_utf8(name).ok()?).ok()
    });
    found.extend(names);
    Some(cursor.clone())
}
