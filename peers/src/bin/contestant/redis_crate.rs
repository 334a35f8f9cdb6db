//! A plain Redlock on the redis crate: one multiplexed connection per node, all nodes at once, waits for all.

use crate::drive::{self, Library};
use crate::{refuse_others, versions};
use anyhow::Result;
use futures_util::future::join_all;
use peers::protocol::Order;
use redis::aio::MultiplexedConnection;
use redis::{Script, Value};
use std::sync::atomic::{AtomicU64, Ordering};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

pub async fn run(order: Order) -> Result<()> {
    refuse_others(&order)?;
    let mut nodes = Vec::new();
    for url in &order.nodes {
        nodes.push(redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?);
    }
    let library =
        Plain { nodes, release: Script::new(RELEASE), ttl_ms: order.ttl_ms, next: AtomicU64::new(0) };
    drive::run(library, order).await
}

struct Plain {
    nodes: Vec<MultiplexedConnection>,
    release: Script,
    ttl_ms: u64,
    next: AtomicU64,
}

struct Held {
    name: String,
    token: String,
}

impl Library for Plain {
    type Lock = String;
    type Held = Held;

    fn version(&self) -> String {
        versions::of("redis").to_owned()
    }

    fn lock(&self, name: &str) -> String {
        name.to_owned()
    }

    async fn acquire(&self, name: &String) -> Option<Held> {
        // A counter is cheaper than any random token: this is a limit, not a lock to use.
        let token = format!("{:032x}", self.next.fetch_add(1, Ordering::Relaxed));
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&token).arg("NX").arg("PX").arg(self.ttl_ms);
        let votes = join_all(self.nodes.iter().map(async |node| {
            let vote = set.query_async::<Value>(&mut node.clone()).await;
            matches!(vote, Ok(Value::Okay))
        }))
        .await;
        let held = Held { name: name.clone(), token };
        if votes.iter().filter(|yes| **yes).count() > self.nodes.len() / 2 {
            return Some(held);
        }
        self.release(held).await;
        None
    }

    async fn release(&self, held: Held) {
        let mut invocation = self.release.prepare_invoke();
        invocation.key(held.name).arg(held.token);
        let releases =
            self.nodes.iter().map(async |node| invocation.invoke_async::<i64>(&mut node.clone()).await);
        // What a node does not free, its ttl does.
        let _ = join_all(releases).await;
    }
}
