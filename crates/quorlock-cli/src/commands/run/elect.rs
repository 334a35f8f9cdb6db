//! `quorlock elect`: campaign, run a command while leading, and campaign again after a loss.

use super::child::Child;
use super::command_config::CommandConfig;
use super::environment::Environment;
use super::release;
use super::report::RunReport;
use super::supervise::{CommandEnd, supervise};
use crate::args::{Elect, OnLost};
use crate::commands::acquire_lock::{LockObserver, interrupted, not_acquired};
use crate::output::Output;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::process::runtime;
use crate::process::signals::Signals;
use crate::settings::Settings;
use quorlock::{Election, Leadership, Locker};
use rustix::system::uname;
use std::time::Duration;
use tokio::time::sleep;

/// How long one campaign lasts. The next one follows at once; between them we can report that too few
/// nodes vote.
const CAMPAIGN: Duration = Duration::from_secs(10);
/// How long to wait after too few nodes could vote.
const RETRY: Duration = Duration::from_secs(1);

/// The validated arguments of a candidate.
#[derive(Debug)]
struct Candidate {
    name: String,
    value: String,
    command: CommandConfig,
    settings: Settings,
}

/// What is the same in every term.
struct Term<'a> {
    candidate: &'a Candidate,
    locker: &'a Locker,
    observer: &'a LockObserver,
    notice: Option<&'a str>,
    output: Output,
}

/// Campaigns and leads until the command ends by itself, and reports how it ended.
pub(crate) fn elect(args: &Elect, settings: Settings, output: Output) -> Result<Exit, Failure> {
    settings.check_shared_nodes()?;
    let candidate = Candidate::new(args, settings)?;
    let notice = candidate.settings.local_notice(true, output);
    candidate.command.warn_if_other_user(output);
    let done = runtime::start()?.block_on(campaign_and_lead(&candidate, notice, output));
    done.map_err(|failure| failure.notice(notice))
}

impl Candidate {
    fn new(args: &Elect, mut settings: Settings) -> Result<Self, Failure> {
        settings.ttl.set(args.ttl, "--ttl");
        settings.kill_grace.set(args.command.kill_grace.map(Some), "--kill-grace");
        // A former leader must have ended before it campaigns again.
        if settings.on_lost.value == OnLost::Warn {
            settings.on_lost.value = OnLost::Term;
        }
        let command = CommandConfig::new("elect", &args.name, &args.command, &settings)?;
        let value = args.value.clone().unwrap_or_else(host_name);
        Ok(Self { name: args.name.clone(), value, command, settings })
    }
}

fn host_name() -> String {
    let name = uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

async fn campaign_and_lead(
    candidate: &Candidate,
    notice: Option<&str>,
    output: Output,
) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let observer = LockObserver::new(output);
    let builder = candidate.command.builder(&candidate.settings).observer(observer.clone());
    let locker = candidate.settings.build(builder)?;
    let election = locker.election(&candidate.name)?.with(|lock| lock.wait_timeout(CAMPAIGN));
    let term = Term { candidate, locker: &locker, observer: &observer, notice, output };
    loop {
        let leadership = match campaign(&election, &candidate.value, &mut signals, output).await {
            Ok(leadership) => leadership,
            Err(failure) => {
                locker.flush().await;
                return Err(failure);
            }
        };
        output.info_on_terminal(format_args!(
            "leads election `{}` in term {}",
            candidate.name,
            leadership.term()
        ));
        if let Some(exit) = term.lead(leadership, &mut signals).await? {
            return Ok(exit);
        }
        output.info(format_args!("campaigns again for election `{}`", candidate.name));
    }
}

/// Campaigns until this candidate leads. That too few nodes can vote is reported once.
async fn campaign(
    election: &Election,
    value: &str,
    signals: &mut Signals,
    output: Output,
) -> Result<Leadership, Failure> {
    let what = || format!("the leadership of election `{}`", election.name());
    let mut is_reported = false;
    loop {
        let failure = tokio::select! {
            biased;
            signal = signals.termination() => return Err(interrupted(&what(), signal)),
            done = election.campaign(value) => match done {
                Ok(leadership) => return Ok(leadership),
                Err(error) => not_acquired(error),
            },
        };
        match failure.exit {
            Exit::Busy | Exit::Contended => {
                is_reported = false;
                continue;
            }
            Exit::NoQuorum if is_reported => {}
            Exit::NoQuorum => output.warn(format_args!("still campaigning, but {}", failure.message())),
            _ => return Err(failure),
        }
        is_reported = true;
        tokio::select! {
            biased;
            signal = signals.termination() => return Err(interrupted(&what(), signal)),
            () = sleep(RETRY) => {}
        }
    }
}

impl Term<'_> {
    /// Runs the command while leading. Returns how to exit; `None` if the leadership was lost and
    /// the command has ended, so that we can campaign again.
    async fn lead(&self, leadership: Leadership, signals: &mut Signals) -> Result<Option<Exit>, Failure> {
        let (config, guard) = (&self.candidate.command, leadership.into_guard());
        let environment = Environment { name: &self.candidate.name, is_election: true };
        let end = match Child::start(config, &guard, environment) {
            Ok(mut child) => supervise(&mut child, &guard, signals, config, self.observer, self.output).await,
            Err(failure) => {
                let _outcome = guard.release().await;
                self.locker.flush().await;
                return Err(failure);
            }
        };
        let report = RunReport::new(&self.candidate.name, &guard, self.observer, &end, self.notice);
        let mut report = report.of_term();
        report.add_release(&release(guard, &end, self.output).await, false);
        self.locker.flush().await;
        if may_campaign_again(&end) {
            report.print_before_next_term(self.output);
            return Ok(None);
        }
        Ok(Some(report.print(&end, self.output)))
    }
}

/// Whether the leadership was lost, nothing of the command still runs, and no signal asked us to end.
fn may_campaign_again(end: &CommandEnd) -> bool {
    end.lost.is_some() && end.exit.is_some() && end.unstoppable.is_empty() && !end.is_asked_to_end
}
