//! `quorlock watch`: who holds what, again and again.

mod full_screen;
mod snapshot;

use crate::args::Watch;
use crate::output::Output;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::process::signals::Signals;
use crate::settings::Settings;
use full_screen::FullScreen;
use rustix::process::Signal;
use snapshot::Snapshot;
use std::io::{self, ErrorKind, IsTerminal, Write};
use tokio::time::{MissedTickBehavior, interval};

/// Prints snapshots until the user quits.
pub(crate) fn watch(args: &Watch, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    runtime::start()?.block_on(print_snapshots(args, settings, output))
}

async fn print_snapshots(args: &Watch, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let locker = settings.build(settings.read_only_builder())?;
    // A name that cannot be used is reported once, not at every interval.
    args.name.as_ref().map(|name| locker.named(name)).transpose()?;
    let mut sink = Sink::open(output)?;
    let mut ticks = interval(args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = async {
            ticks.tick().await;
            match &args.name {
                Some(name) => Snapshot::of_name(&locker, name, args.slots).await,
                None => Snapshot::of_all(&locker).await,
            }
        };
        tokio::select! {
            biased;
            signal = signals.termination() => return Ok(exit_on(signal)),
            () = sink.quit() => return Ok(Exit::Success),
            snapshot = next => match sink.write(&snapshot, args) {
                Ok(()) => {}
                // The reader went away (`| head`).
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Success),
                Err(error) => return Err(cannot_write(error)),
            },
        }
    }
}

/// Ctrl-C is the usual end of a watch.
fn exit_on(signal: Signal) -> Exit {
    if signal == Signal::INT { Exit::Success } else { signal.into() }
}

/// Where the snapshots go.
enum Sink {
    /// Each replaces the one before.
    FullScreen(FullScreen),
    /// One line each.
    Lines,
    /// One line with a JSON object each.
    Objects,
}

impl Sink {
    fn open(output: Output) -> Result<Self, Failure> {
        if output.json {
            return Ok(Sink::Objects);
        }
        if !io::stdout().is_terminal() {
            return Ok(Sink::Lines);
        }
        Ok(Sink::FullScreen(FullScreen::open().map_err(cannot_write)?))
    }

    fn write(&mut self, snapshot: &Snapshot, args: &Watch) -> io::Result<()> {
        match self {
            Sink::FullScreen(screen) => screen.draw(&snapshot.to_page(args.interval)),
            Sink::Lines => write_line(&snapshot.to_line()),
            Sink::Objects => write_line(&snapshot.to_json().to_string()),
        }
    }

    /// Waits until the user quits by a key.
    async fn quit(&self) {
        match self {
            Sink::FullScreen(screen) => screen.quit().await,
            Sink::Lines | Sink::Objects => std::future::pending().await,
        }
    }
}

fn cannot_write(error: io::Error) -> Failure {
    Failure::new(Exit::CannotRun, "output", format!("the view could not be written: {error}"))
}

fn write_line(line: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}
