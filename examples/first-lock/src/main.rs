//! Takes a lock on the nodes that the arguments name, and shows that another client is refused.
//!
//! `cargo run -p first-lock -- redis://127.0.0.1:6379`

use quorlock::{AcquireError, Locker};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes: Vec<String> = std::env::args().skip(1).collect();
    let locker = Locker::builder().nodes(&nodes).build()?;
    // Otherwise a new node votes only after the longest ttl.
    locker.init_fresh_nodes().await;

    let lock = locker.named("first")?;
    let guard = lock.acquire().await?;
    println!("held with fence {}", guard.fence());
    println!("extended by {:.0?}", guard.extend().await?);

    let other = Locker::builder().nodes(&nodes).build()?;
    match other.named("first")?.try_acquire().await {
        Err(error @ AcquireError::Held { .. }) => println!("another client: {error}"),
        other => return Err(format!("another client is not refused: {other:?}").into()),
    }
    println!("{}", guard.release().await);
    Ok(())
}
