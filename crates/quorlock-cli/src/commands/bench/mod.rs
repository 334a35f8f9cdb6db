//! `quorlock bench`: how fast the configured nodes are, and how many of them may fail.

mod client;
mod progress;
mod report;
mod times;

use crate::args::Bench;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;
use crate::process::signals::Signals;
use client::{Load, Score};
use progress::Progress;
use quorlock::Locker;
use report::Report;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

/// How often the progress is shown.
const STEP: Duration = Duration::from_millis(100);

/// Measures, and tells what was measured.
pub(crate) fn bench(args: &Bench, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    // More than one thread, as many clients would have.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::CannotRun, "system", error.to_string()))?;
    let report = runtime.block_on(measure(args, settings, output))?;
    output.print(&report.to_json(), || report.to_text())?;
    Ok(report.exit())
}

async fn measure(args: &Bench, settings: &Settings, output: Output) -> Result<Report, Failure> {
    let locker = settings.build(settings.builder())?;
    let load = Load::new(args.names);
    warm_up(&locker, &load).await?;
    let mut signals = Signals::listen()?;
    output.info(format_args!(
        "{} clients for {} s; this writes locks named `{}...` to your nodes, which go by themselves",
        args.clients,
        args.seconds,
        client::PREFIX
    ));
    let score = Arc::new(Score::default());
    let start = Instant::now();
    let end = start + Duration::from_secs(args.seconds);
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        clients.spawn(client::work(locker.clone(), load.name(number), end, score.clone()));
    }
    let progress = Progress::new(output, Duration::from_secs(args.seconds));
    tokio::select! {
        () = sleep_until(end.into()) => {}
        () = follow(&progress, &score, start) => {}
        _ = signals.termination() => score.stop(),
    }
    let lasted = start.elapsed();
    progress.finish();
    // What they hold is released; each looks at the end between two cycles.
    while clients.join_next().await.is_some() {}
    locker.flush().await;
    Ok(Report::new(args, &locker, &score, lasted))
}

/// One cycle before the clock runs: connections are made, and nodes that cannot vote are found.
async fn warm_up(locker: &Locker, load: &Load) -> Result<(), Failure> {
    locker.connect().await;
    let guard = locker.named(load.name(0))?.acquire().await?;
    let _outcome = guard.release().await;
    Ok(())
}

/// Shows how far it is, for ever.
async fn follow(progress: &Progress, score: &Score, start: Instant) {
    loop {
        progress.show(start.elapsed(), score.cycles());
        sleep(STEP).await;
    }
}
