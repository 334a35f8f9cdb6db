//! A lock at work between two processes of one machine, without any server.
//!
//! `cargo run --example hello`

use quorlock::{AcquireError, Locker};
use std::error::Error;
use std::process::{Command, ExitCode};
use std::time::Duration;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: {}", with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    // `file:` is the embedded node: a directory of this machine. Servers would be "redis://a", "redis://b", ...
    let locker = Locker::builder().nodes(["file:"]).build()?;
    let lock = locker.named("hello")?.reason("the hello example");
    match std::env::args().nth(1).as_deref() {
        Some("second") => second(lock).await,
        _ => first(lock).await,
    }
}

async fn first(lock: quorlock::Lock) -> Result<(), Box<dyn Error>> {
    let guard = lock.acquire().await?;
    println!("first : I hold `{}` with fence {} for {:?}", guard.name(), guard.fence(), guard.remaining());

    let mut other = Command::new(std::env::current_exe()?).arg("second").spawn()?;
    tokio::select! {
        biased;
        lost = guard.lost() => return Err(lost.into()),
        () = tokio::time::sleep(Duration::from_secs(1)) => println!("first : my work is done"),
    }
    println!("first : {}", guard.release().await);
    other.wait()?;
    Ok(())
}

async fn second(lock: quorlock::Lock) -> Result<(), Box<dyn Error>> {
    match lock.try_acquire().await {
        Err(busy @ AcquireError::Held { .. }) => println!("second: {busy}"),
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("two processes hold one lock".into()),
    }
    let guard = lock.acquire().await?; // waits, and is woken by the release
    println!("second: now I hold it, with the higher fence {}", guard.fence());
    println!("second: {}", guard.release().await);
    Ok(())
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
