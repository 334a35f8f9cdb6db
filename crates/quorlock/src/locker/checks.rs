//! What can be wrong with the settings of a locker.

use crate::context::Context;
use crate::context::options::setting;
use crate::error::ConfigError;
use crate::node::{Node, NodeKind, NodeUrl, open};
use quorlock_core::Quorum;
use std::sync::Arc;
use std::time::Duration;

/// The limit of one node's answer, if none was set: a disk takes longer than a network, and a consensus
/// waits for disks.
pub(crate) fn default_timeout(urls: &[NodeUrl], ttl: Duration) -> Duration {
    let (least, most) = (Duration::from_millis(50), Duration::from_millis(500));
    let on_disk = urls.iter().any(|url| !matches!(url.kind(), NodeKind::Redis | NodeKind::Memory));
    if on_disk { (ttl / 20).clamp(least, most) } else { least }
}

/// The limit of connecting, if none was set. A handshake takes up to six round trips, so nodes that are
/// far away, and got a longer node timeout for that, need more.
pub(crate) fn default_connect_timeout(node_timeout: Option<Duration>) -> Duration {
    let (least, most) = (Duration::from_secs(1), Duration::from_secs(60));
    node_timeout.map_or(least, |timeout| timeout.saturating_mul(10).clamp(least, most))
}

pub(crate) fn check_timeout(what: &'static str, timeout: Duration) -> Result<(), ConfigError> {
    if timeout < Duration::from_millis(1) || timeout > Duration::from_secs(60) {
        return Err(setting(what, format!("{timeout:?}"), "give 1 ms to 60 s"));
    }
    Ok(())
}

/// Opens the nodes, after checking that they are one kind and all different.
pub(crate) fn open_all(
    urls: &[NodeUrl],
    mut nodes: Vec<Arc<dyn Node>>,
    ctx: &Context,
) -> Result<Vec<Arc<dyn Node>>, ConfigError> {
    if urls.is_empty() && nodes.is_empty() {
        return Err(ConfigError::NoNodes);
    }
    Quorum::of(urls.len() + nodes.len())?;
    for (at, node) in nodes.iter().enumerate() {
        if nodes[..at].iter().any(|other| other.id() == node.id()) {
            return Err(ConfigError::SameNode { node: node.id().to_owned() });
        }
    }
    if let (Some(url), Some(node)) = (urls.first(), nodes.first()) {
        return Err(ConfigError::MixedKinds { first: url.to_string(), second: node.id().to_owned() });
    }
    for (at, url) in urls.iter().enumerate() {
        if let Some(other) = urls[..at].iter().find(|other| other.kind() != url.kind()) {
            return Err(ConfigError::MixedKinds { first: other.to_string(), second: url.to_string() });
        }
        if at > 0 && url.kind().decides_alone() {
            return Err(ConfigError::ManyClusters { first: urls[0].to_string(), second: url.to_string() });
        }
        if urls[..at].iter().any(|other| other.identity() == url.identity()) {
            return Err(ConfigError::SameNode { node: url.to_string() });
        }
    }
    for url in urls {
        let node = open(url, ctx).map_err(|source| ConfigError::Node { node: url.to_string(), source })?;
        // Two spellings may name the same directory.
        if nodes.iter().any(|other| other.id() == node.id()) {
            return Err(ConfigError::SameNode { node: url.to_string() });
        }
        nodes.push(node);
    }
    Ok(nodes)
}
