//! `quorlock leader`: who leads an election, once or for each change.

use crate::args::Leader as LeaderArgs;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, json, shell_quote};
use crate::process::runtime;
use crate::process::signals::Signals;
use crate::settings::Settings;
use quorlock::{Election, Leader, LeaderChange};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{self, ErrorKind};
use std::slice;
use std::time::Duration;
use tokio::time::sleep;

/// How long to wait after too few nodes answered.
const RETRY: Duration = Duration::from_secs(1);

/// Prints the leader, or each change.
pub(crate) fn leader(args: &LeaderArgs, settings: &Settings, output: Output) -> Result<Exit, Failure> {
    runtime::start()?.block_on(async {
        let locker = settings.build(settings.read_only_builder())?;
        let election = locker.election(&args.name)?;
        if args.follow {
            return follow(&election, output).await;
        }
        let leader = election.leader().await?.ok_or_else(|| no_leader(&election))?;
        output.print(&to_json(&election, &leader), || line(&leader))?;
        Ok(Exit::Success)
    })
}

async fn follow(election: &Election, output: Output) -> Result<Exit, Failure> {
    let mut signals = Signals::listen()?;
    let mut leaders = election.observe();
    let mut is_reported = false;
    loop {
        tokio::select! {
            biased;
            // Ctrl-C is the usual end.
            signal = signals.termination() => {
                return Ok(if signal == Signal::INT { Exit::Success } else { signal.into() });
            }
            next = leaders.next() => match next {
                Ok(change) => {
                    is_reported = false;
                    match print(election, &change, output) {
                        Ok(()) => {}
                        // The reader went away (`| head`).
                        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::Success),
                        Err(error) => return Err(cannot_write(&error)),
                    }
                }
                Err(error) => {
                    if !is_reported {
                        output.warn(format_args!("{error}; still trying"));
                    }
                    is_reported = true;
                    sleep(RETRY).await;
                }
            },
        }
    }
}

fn print(election: &Election, change: &LeaderChange, output: Output) -> io::Result<()> {
    match change {
        LeaderChange::Elected(leader) => output.try_print(&to_json(election, leader), || line(leader)),
        LeaderChange::Vacant { last_term } => {
            let vacancy = json!({
                "name": election.name().as_str(),
                "value": null,
                "term": null,
                "last_term": last_term.get(),
            });
            output.try_print(&vacancy, || format!("-\t{last_term}\tno leader"))
        }
        // A later version may know of other changes.
        _ => Ok(()),
    }
}

fn line(leader: &Leader) -> String {
    let owner = &leader.owner;
    format!("{}\t{}\t{} (pid {})", leader.value, leader.term, owner.who, owner.pid)
}

fn to_json(election: &Election, leader: &Leader) -> Value {
    json!({
        "name": election.name().as_str(),
        "value": leader.value,
        "term": leader.term.get(),
        "owner": leader.owner.who,
        "pid": leader.owner.pid,
        "since": json::unix_seconds(leader.owner.since),
    })
}

fn no_leader(election: &Election) -> Failure {
    let name = election.name();
    let follow = shell_quote::quorlock_command("leader --follow", slice::from_ref(name), None);
    Failure::new(Exit::NoLeader, "no_leader", format!("election `{name}` has no leader"))
        .help(format!("`quorlock elect` campaigns; `{follow}` waits for a leader"))
        .detail("name", name.as_str())
}

fn cannot_write(error: &io::Error) -> Failure {
    Failure::new(Exit::CannotRun, "output", format!("the leader could not be written: {error}"))
}
