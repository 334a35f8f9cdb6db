//! `quorlock bench`: how fast the configured nodes are, and how many of them may fail.

mod client;
mod histogram;
mod progress;
mod report;

use crate::args::Bench;
use crate::output::Output;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::process::signals::Signals;
use crate::settings::Settings;
use client::{Counters, LockNames};
use progress::Progress;
use quorlock::Locker;
use report::BenchReport;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

/// How often the progress is shown.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Measures the nodes and prints the result.
pub(crate) fn bench(args: &Bench, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let report = runtime::start_multi_thread()?.block_on(measure(args, settings, output))?;
    output.print(&report.to_json(), || report.to_text())?;
    Ok(report.exit())
}

async fn measure(args: &Bench, settings: &Settings, output: Output) -> Result<BenchReport, Failure> {
    let locker = settings.build(settings.builder())?;
    let names = LockNames::new(args.names);
    warm_up(&locker, &names).await?;
    let mut signals = Signals::listen()?;
    output.info(format_args!(
        "{} clients for {} s; this writes locks named `{}...` to your nodes and releases them",
        args.clients,
        args.seconds,
        client::PREFIX
    ));
    let counters = Arc::new(Counters::default());
    let start = Instant::now();
    let end = start + Duration::from_secs(args.seconds);
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        clients.spawn(client::run(locker.clone(), names.of_client(number), end, counters.clone()));
    }
    let progress = Progress::new(output, Duration::from_secs(args.seconds));
    tokio::select! {
        () = sleep_until(end.into()) => {}
        () = show_progress(&progress, &counters, start) => {}
        _ = signals.termination() => counters.stop(),
    }
    let lasted = start.elapsed();
    progress.finish();
    // Each client releases its lock and ends after its cycle.
    while clients.join_next().await.is_some() {}
    locker.flush().await;
    Ok(BenchReport::new(args, &locker, &counters, lasted))
}

/// One cycle before the measurement: makes the connections, and fails if too few nodes can vote.
async fn warm_up(locker: &Locker, names: &LockNames) -> Result<(), Failure> {
    // The acquire reports each node that cannot be reached.
    let _ = locker.connect().await;
    let guard = locker.named(names.of_client(0))?.acquire().await?;
    let _outcome = guard.release().await;
    Ok(())
}

/// Shows the progress for ever.
async fn show_progress(progress: &Progress, counters: &Counters, start: Instant) {
    loop {
        progress.show(start.elapsed(), counters.cycles());
        sleep(PROGRESS_INTERVAL).await;
    }
}
