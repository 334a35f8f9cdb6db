//! Carrying bytes one way, as well or as badly as the proxy was told.

use crate::faults::proxy::{Fault, State, Treatment};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until};

/// Bytes and when they came: a delay counts from there, so that delayed chunks overlap as on a long wire.
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
    treatment: fn(Fault) -> Treatment,
) {
    let (incoming, outgoing) = mpsc::channel(WAITING);
    // A broken socket on either side ends the connection; there is nobody to tell.
    let _ = tokio::join!(collect(source, incoming), deliver(outgoing, sink, orders, treatment));
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
    treatment: fn(Fault) -> Treatment,
) -> io::Result<()> {
    while let Some(chunk) = outgoing.recv().await {
        let mut left = chunk.bytes.as_slice();
        while !left.is_empty() {
            let treatment = treatment(orders.borrow_and_update().fault);
            let due = due(treatment, chunk.came);
            if due > Instant::now() {
                // Only waiting is interrupted: a write that is given up half-way would be sent twice.
                tokio::select! {
                    biased;
                    Ok(()) = orders.changed() => {}
                    () = sleep_until(due) => {}
                }
                continue;
            }
            let sent = treat(treatment, left, &mut sink).await?;
            left = &left[sent..];
        }
    }
    Ok(())
}

/// When bytes that came then may be dealt with, if nothing changes.
fn due(treatment: Treatment, came: Instant) -> Instant {
    match treatment {
        Treatment::Delay(by) => came + by,
        Treatment::Hold => Instant::now() + LONGER_THAN_ANY_TEST,
        _ => came,
    }
}

/// Deals with the first bytes of `left` and says how many.
async fn treat(treatment: Treatment, left: &[u8], sink: &mut OwnedWriteHalf) -> io::Result<usize> {
    match treatment {
        Treatment::Pass | Treatment::Delay(_) | Treatment::Hold => {
            sink.write_all(left).await.map(|()| left.len())
        }
        Treatment::Swallow => Ok(left.len()),
        // The same length, or the reader would take it for a reply that is not complete yet. The first byte is no RESP type.
        Treatment::Garbage => {
            let nonsense = vec![b'?'; left.len()];
            sink.write_all(&nonsense).await.map(|()| left.len())
        }
        Treatment::Precede(announcement) => {
            sink.write_all(&[announcement, left].concat()).await.map(|()| left.len())
        }
        Treatment::Twice => sink.write_all(&left.repeat(2)).await.map(|()| left.len()),
        Treatment::Drip(pause) => {
            sink.write_all(&left[..1]).await?;
            sleep(pause).await;
            Ok(1)
        }
    }
}
