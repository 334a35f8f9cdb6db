//! Three real servers, some of them behind a proxy that can misbehave.
#![allow(clippy::unwrap_used, unreachable_pub)]
#![allow(dead_code)]

pub use quorlock::Locker;
use quorlock::node::NodeError;
use quorlock::{AcquireError, Builder, NodeOutcome, ReleaseOutcome};
use quorlock_testkit::{Proxy, ServerBuilder, Servers, until};
use std::time::Duration;

pub const SOON: Duration = Duration::from_secs(20);
/// Long, so that a client that waits for a broken node is noticed even on a busy machine.
pub const NODE_TIMEOUT: Duration = Duration::from_millis(500);

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub struct Net {
    pub servers: Servers,
    pub proxies: Vec<Proxy>,
}

impl Net {
    /// The first `proxies` of three servers are behind a proxy each.
    pub async fn start(proxies: usize) -> Self {
        Self::start_like(&quorlock_testkit::Server::builder(), proxies).await
    }

    pub async fn start_like(options: &ServerBuilder, proxies: usize) -> Self {
        let servers = Servers::start_like(options, 3);
        let mut net = Self { servers, proxies: Vec::new() };
        for server in &net.servers[..proxies] {
            net.proxies.push(Proxy::start(server.port()).await);
        }
        net
    }

    pub fn builder(&self) -> Builder {
        let proxied = self.proxies.iter().map(Proxy::url);
        let direct = self.servers[self.proxies.len()..].iter().map(quorlock_testkit::Server::url);
        Locker::builder().nodes(proxied.chain(direct)).node_timeout(NODE_TIMEOUT).ttl(secs(30))
    }

    /// A locker on nodes that are declared fresh.
    pub async fn locker(&self) -> Locker {
        let locker = self.builder().build().unwrap();
        quorlock_testkit::init_nodes(&locker).await;
        locker
    }

    /// Waits until no server has a key that starts with `prefix`.
    pub async fn until_free(&self, prefix: &str) {
        let pattern = format!("{prefix}*");
        for server in self.servers.iter() {
            until("nothing is left", secs(10), async || server.cli(&["KEYS", &pattern]).is_empty()).await;
        }
    }

    /// Waits until all three servers vote again: a lock is stored on each.
    pub async fn until_whole(&self, locker: &Locker) {
        until("all three vote", SOON, async || {
            let Ok(guard) = locker.named("whole").unwrap().try_acquire().await else { return false };
            // The third vote may come after the majority.
            let mut copies = 0;
            for _ in 0..20 {
                copies = self.servers.iter().filter(|it| it.cli(&["EXISTS", "whole"]) == "1").count();
                if copies == 3 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            release(guard).await;
            copies == 3
        })
        .await;
    }
}

pub async fn release(guard: quorlock::Guard) {
    let outcome = guard.release().await;
    assert!(matches!(outcome, ReleaseOutcome::Released), "{outcome}");
}

/// The kinds of the causes that nodes gave, in order.
pub fn kinds(error: &AcquireError) -> Vec<&'static str> {
    let AcquireError::NoQuorum { nodes, .. } = error else { panic!("{error}") };
    let causes = nodes.iter().filter_map(|report| match &report.outcome {
        NodeOutcome::Failed(cause) => Some(cause),
        _ => None,
    });
    causes.map(NodeError::kind).collect()
}

/// Tries `name` until the first two nodes give causes of `kind`, and no other node gives any.
pub async fn until_refused(locker: &Locker, name: &str, kind: &str) {
    let mut last = Vec::new();
    until(&format!("two nodes say {kind}"), SOON, async || {
        match locker.named(name).unwrap().try_acquire().await {
            // The trouble may begin between grant and release.
            Ok(guard) => drop(guard),
            Err(refused @ AcquireError::NoQuorum { .. }) => last = kinds(&refused),
            Err(_) => {}
        }
        last == [kind, kind]
    })
    .await;
}

/// Tries `name` until it is granted, and lets it go.
pub async fn until_granted(locker: &Locker, name: &str) {
    until("it is granted", SOON, async || match locker.named(name).unwrap().try_acquire().await {
        Ok(guard) => {
            release(guard).await;
            true
        }
        Err(_) => false,
    })
    .await;
}
