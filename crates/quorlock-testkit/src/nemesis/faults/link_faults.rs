//! Faults of the link from one client to one server.

use crate::faults::proxy::{self, Proxy};
use crate::nemesis::NODE_TIMEOUT;
use crate::nemesis::faults::Fault;
use crate::rng::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

/// The link from one client to one server, through a proxy.
pub(crate) struct FaultyLink {
    pub(crate) proxy: Proxy,
    /// One fault at a time.
    pub(crate) permits: Arc<Semaphore>,
}

/// Lengths that no server sends. The last is one that a client may believe, and wait for.
const ANNOUNCEMENTS: [&[u8]; 5] =
    [b"$536870913\r\n", b"*2147483647\r\n", b"%1073741824\r\n", b">99999999\r\n", b"$60000\r\n"];

impl FaultyLink {
    pub(crate) async fn open(server_port: u16) -> Arc<Self> {
        Arc::new(Self { proxy: Proxy::start(server_port).await, permits: Arc::new(Semaphore::new(1)) })
    }

    /// Injects `fault` for `span`; `None` only cuts the connections.
    pub(crate) async fn inject(
        self: Arc<Self>,
        _permit: OwnedSemaphorePermit,
        fault: Option<proxy::Fault>,
        span: Duration,
    ) {
        let Some(fault) = fault else { return self.proxy.cut() };
        self.proxy.set(fault).await;
        if fault == proxy::Fault::Refuse {
            self.proxy.cut();
        }
        sleep(span).await;
        if loses_bytes(fault) {
            // TCP never continues after a gap: a connection that lost bytes must end before others
            // pass.
            self.proxy.set(proxy::Fault::Hold).await;
            self.proxy.cut();
            sleep(Duration::from_millis(20)).await;
        }
        self.proxy.set(proxy::Fault::Pass).await;
    }
}

/// What the proxy does; `None` for a cut.
pub(crate) fn proxy_fault(fault: Fault, rng: &mut Rng) -> Option<proxy::Fault> {
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

fn loses_bytes(fault: proxy::Fault) -> bool {
    use proxy::Fault::{Garbage, Huge, Swallow, SwallowReplies};
    matches!(fault, Swallow | SwallowReplies | Garbage | Huge(_))
}
