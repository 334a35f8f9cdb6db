//! Trouble on the way from one client to one server.

use super::NODE_TIMEOUT;
use super::fault::Fault;
use crate::faults::proxy::{self, Proxy};
use crate::rng::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// The way from one client to one server.
pub(crate) struct FaultyLink {
    pub(crate) proxy: Proxy,
    /// One disturb at a time.
    pub(crate) permit: Arc<Semaphore>,
}

/// Lengths that nobody sends. The last is one that a client may believe, and wait for.
const ANNOUNCEMENTS: [&[u8]; 5] =
    [b"$536870913\r\n", b"*2147483647\r\n", b"%1073741824\r\n", b">99999999\r\n", b"$60000\r\n"];

impl FaultyLink {
    pub(crate) async fn open(server_port: u16) -> Arc<Self> {
        Arc::new(Self { proxy: Proxy::start(server_port).await, permit: Arc::new(Semaphore::new(1)) })
    }

    /// Troubles the way, and clears it again.
    pub(crate) async fn inject(
        self: Arc<Self>,
        _turn: OwnedSemaphorePermit,
        how: Option<proxy::Fault>,
        span: Duration,
    ) {
        let Some(disturb) = how else { return self.proxy.cut() };
        self.proxy.set(disturb).await;
        if disturb == proxy::Fault::Refuse {
            self.proxy.cut();
        }
        sleep(span).await;
        if loses_bytes(disturb) {
            // TCP never goes on after a gap: a connection that lost bytes must end before others pass.
            self.proxy.set(proxy::Fault::Hold).await;
            self.proxy.cut();
            sleep(Duration::from_millis(20)).await;
        }
        self.proxy.set(proxy::Fault::Pass).await;
    }
}

/// What the proxy does; `None` for a mere cut.
pub(crate) fn how(fault: Fault, rng: &mut Rng) -> Option<proxy::Fault> {
    Some(match fault {
        Fault::Delay => proxy::Fault::Delay(rng.span(NODE_TIMEOUT / 10, NODE_TIMEOUT + NODE_TIMEOUT / 5)),
        Fault::Hold => proxy::Fault::Hold,
        Fault::HoldReplies => proxy::Fault::HoldReplies,
        Fault::Swallow => proxy::Fault::Swallow,
        Fault::SwallowReplies => proxy::Fault::SwallowReplies,
        Fault::Garbage => proxy::Fault::Garbage,
        Fault::Huge => proxy::Fault::Huge(rng.pick::<&'static [u8]>(&ANNOUNCEMENTS)),
        Fault::DuplicateReplies => proxy::Fault::DuplicateReplies,
        Fault::DuplicateRequests => proxy::Fault::DuplicateRequests,
        Fault::Drip => proxy::Fault::Drip(rng.span(Duration::from_millis(1), Duration::from_millis(10))),
        Fault::Refuse => proxy::Fault::Refuse,
        _ => return None,
    })
}

fn loses_bytes(disturb: proxy::Fault) -> bool {
    use proxy::Fault::{Garbage, Huge, Swallow, SwallowReplies};
    matches!(disturb, Swallow | SwallowReplies | Garbage | Huge(_))
}
