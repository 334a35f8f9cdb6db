//! `quorlock watch`: who holds what, again and again.

mod look;
mod terminal;

use crate::args::Watch;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::runtime;
use crate::screen::Screen;
use crate::settings::Settings;
use crate::signals::Signals;
use look::Look;
use quorlock::{Lock, Locker};
use rustix::process::Signal;
use std::io::{self, ErrorKind, IsTerminal, Write};
use terminal::Terminal;
use tokio::time::{MissedTickBehavior, interval};

/// Looks until the user has seen enough.
pub(crate) fn watch(args: &Watch, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    runtime::start()?.block_on(live(args, settings, screen))
}

async fn live(args: &Watch, settings: &Settings, screen: Screen) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let locker = settings.build(settings.looking_builder())?;
    let lock = args.name.as_ref().map(|name| locker.named(name)).transpose()?;
    let mut shown = Shown::choose(screen)?;
    let mut ticks = interval(args.interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let next = async {
            ticks.tick().await;
            look(&locker, lock.as_ref()).await
        };
        tokio::select! {
            biased;
            signal = signals.end() => return Ok(ended(signal)),
            () = shown.quit() => return Ok(Exit::Success),
            look = next => match shown.show(&look, args) {
                Ok(()) => {}
                // The reader went away (`| head`).
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Success),
                Err(error) => return Err(cannot_show(error)),
            },
        }
    }
}

async fn look(locker: &Locker, lock: Option<&Lock>) -> Look {
    match lock {
        Some(lock) => Look::at_one(locker, lock).await,
        None => Look::at_all(locker).await,
    }
}

/// Ctrl-C is how a watch is meant to end.
fn ended(signal: Signal) -> Exit {
    if signal == Signal::INT { Exit::Success } else { signal.into() }
}

/// Where the looks go.
enum Shown {
    /// Drawn anew in place.
    Terminal(Terminal),
    /// One line each.
    Lines,
    /// One JSON object per line each.
    Objects,
}

impl Shown {
    fn choose(screen: Screen) -> Result<Self, Failure> {
        if screen.json {
            return Ok(Shown::Objects);
        }
        if !io::stdout().is_terminal() {
            return Ok(Shown::Lines);
        }
        Ok(Shown::Terminal(Terminal::open().map_err(cannot_show)?))
    }

    fn show(&mut self, look: &Look, args: &Watch) -> io::Result<()> {
        match self {
            Shown::Terminal(terminal) => terminal.draw(&look.page(args.interval)),
            Shown::Lines => write_line(&look.line()),
            Shown::Objects => write_line(&look.object().to_string()),
        }
    }

    /// Waits until the user wants no more.
    async fn quit(&self) {
        match self {
            Shown::Terminal(terminal) => terminal.quit().await,
            Shown::Lines | Shown::Objects => std::future::pending().await,
        }
    }
}

fn cannot_show(error: io::Error) -> Failure {
    Failure::new(Exit::CannotRun, "output", format!("cannot show what was seen: {error}"))
}

fn write_line(line: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    writeln!(out, "{line}")?;
    out.flush()
}
