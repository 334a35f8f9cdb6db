//! Trouble on the way from one client to one server.

use super::NODE_TIMEOUT;
use super::cast::Gate;
use super::fault::Fault;
use crate::proxy;
use crate::world::Rng;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;

/// What the proxy does; `None` for a mere cut.
pub(super) fn how(fault: Fault, rng: &mut Rng) -> Option<proxy::Fault> {
    Some(match fault {
        Fault::Delay => proxy::Fault::Delay(rng.span(NODE_TIMEOUT / 10, NODE_TIMEOUT + NODE_TIMEOUT / 5)),
        Fault::Hold => proxy::Fault::Hold,
        Fault::HoldReplies => proxy::Fault::HoldReplies,
        Fault::Swallow => proxy::Fault::Swallow,
        Fault::SwallowReplies => proxy::Fault::SwallowReplies,
        Fault::Garbage => proxy::Fault::Garbage,
        Fault::Drip => proxy::Fault::Drip(rng.span(Duration::from_millis(1), Duration::from_millis(10))),
        Fault::Refuse => proxy::Fault::Refuse,
        _ => return None,
    })
}

/// Troubles one way and clears it again, unless its client has died meanwhile and took it along.
pub(super) async fn strike_gate(
    gate: Arc<Gate>,
    _turn: OwnedSemaphorePermit,
    trouble: Option<proxy::Fault>,
    span: Duration,
) {
    let Some(trouble) = trouble else { return gate.proxy.cut() };
    gate.proxy.set(trouble).await;
    if trouble == proxy::Fault::Refuse {
        gate.proxy.cut();
    }
    let gate = {
        let left = Arc::downgrade(&gate);
        drop(gate);
        sleep(span).await;
        left
    };
    let Some(gate) = gate.upgrade() else { return };
    if matches!(trouble, proxy::Fault::Swallow | proxy::Fault::SwallowReplies | proxy::Fault::Garbage) {
        // TCP never goes on after a gap: a connection that lost bytes must end before others pass.
        gate.proxy.set(proxy::Fault::Hold).await;
        gate.proxy.cut();
        sleep(Duration::from_millis(20)).await;
    }
    gate.proxy.set(proxy::Fault::Pass).await;
}
