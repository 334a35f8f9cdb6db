//! Carries bytes one way, with the fault that the proxy has.

use crate::faults::proxy::{DirectionFault, Fault, State};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes and when they came: a delay counts from there, so that delayed chunks overlap as on a long
/// wire.
struct Chunk {
    bytes: Vec<u8>,
    came: Instant,
}

/// Chunks that may wait inside. Beyond it the sender is held up, as by a full socket.
const WAITING: usize = 1_024;

const CHUNK_SIZE: usize = 16 * 1_024;

const LONGER_THAN_ANY_TEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Ends when the source is exhausted and all it sent was delivered, or when the sink is gone.
pub(crate) async fn pump(
    source: OwnedReadHalf,
    sink: OwnedWriteHalf,
    orders: watch::Receiver<State>,
    for_direction: fn(Fault) -> DirectionFault,
) {
    let (incoming, outgoing) = mpsc::channel(WAITING);
    // A broken socket on either side ends the connection; the other side sees it closed.
    let _ = tokio::join!(collect(source, incoming), deliver(outgoing, sink, orders, for_direction));
}

async fn collect(mut source: OwnedReadHalf, incoming: mpsc::Sender<Chunk>) {
    let mut buffer = vec![0; CHUNK_SIZE];
    while let Ok(length @ 1..) = source.read(&mut buffer).await {
        let chunk = Chunk { bytes: buffer[..length].to_vec(), came: Instant::now() };
        if incoming.send(chunk).await.is_err() {
            return;
        }
    }
}

async fn deliver(
    mut outgoing: mpsc::Receiver<Chunk>,
    mut sink: OwnedWriteHalf,
    mut orders: watch::Receiver<State>,
    for_direction: fn(Fault) -> DirectionFault,
) -> io::Result<()> {
    while let Some(chunk) = outgoing.recv().await {
        let mut left = chunk.bytes.as_slice();
        while !left.is_empty() {
            let fault = for_direction(orders.borrow_and_update().fault);
            let due = due(fault, chunk.came);
            if due > Instant::now() {
                // Only waiting is interrupted: a write that is given up half-way would be sent
                // twice.
                tokio::select! {
                    biased;
                    Ok(()) = orders.changed() => {}
                    () = sleep_until(due) => {}
                }
                continue;
            }
            let sent = send(fault, left, &mut sink).await?;
            left = &left[sent..];
        }
    }
    Ok(())
}

/// When bytes that came at `came` may be sent, if the fault does not change.
fn due(fault: DirectionFault, came: Instant) -> Instant {
    match fault {
        DirectionFault::Delay(by) => came + by,
        DirectionFault::Hold => Instant::now() + LONGER_THAN_ANY_TEST,
        _ => came,
    }
}

/// Sends the first bytes of `left` as `fault` demands, and returns how many are done.
async fn send(fault: DirectionFault, left: &[u8], sink: &mut OwnedWriteHalf) -> io::Result<usize> {
    match fault {
        DirectionFault::Pass | DirectionFault::Delay(_) | DirectionFault::Hold => {
            sink.write_all(left).await.map(|()| left.len())
        }
        DirectionFault::Swallow => Ok(left.len()),
        // The same length, or the reader would take it for a reply that is not complete yet. The
        // first byte is no RESP type.
        DirectionFault::Garbage => {
            let nonsense = vec![b'?'; left.len()];
            sink.write_all(&nonsense).await.map(|()| left.len())
        }
        DirectionFault::Precede(announcement) => {
            sink.write_all(&[announcement, left].concat()).await.map(|()| left.len())
        }
        DirectionFault::Twice => sink.write_all(&left.repeat(2)).await.map(|()| left.len()),
        DirectionFault::Drip(pause) => {
            sink.write_all(&left[..1]).await?;
            sleep(pause).await;
            Ok(1)
        }
    }
}
