//! The shape of everyday use: take, work, stop when lost, release.
//!
//! `QUORLOCK_NODES=redis://127.0.0.1:7001,redis://127.0.0.1:7002,redis://127.0.0.1:7003 cargo run --example async_guard`

use quorlock::{AcquireError, Locker};
use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("async_guard: {}", with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let locker = Locker::from_env()?;
    let lock = locker.named("invoice:42")?;
    let guard = lock.acquire().await?;
    println!("{} valid for {:?}", guard.fence(), guard.remaining());
    match lock.try_acquire().await {
        Err(AcquireError::Held { holder, .. }) => println!("held by {holder}, as it should be"),
        other => return Err(format!("two hold it: {other:?}").into()),
    }
    tokio::select! {
        biased;
        lost = guard.lost() => eprintln!("{lost}"), // fires before the deadline
        () = do_work() => {}
    }
    println!("{}", guard.release().await);
    Ok(())
}

async fn do_work() {
    tokio::time::sleep(Duration::from_millis(500)).await;
}

/// The error, and each cause that its text does not contain yet.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
