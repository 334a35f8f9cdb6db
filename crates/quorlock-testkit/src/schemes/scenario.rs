//! One seeded run of a scheme on a single server, or on a master with its replica.

use super::TTL;
use super::client::{Client, Died, RunState};
use super::steps::{self, LOCK, REGISTER};
use super::record::{Record, Tally};
use super::scheme::{Flaw, Scheme};
use super::store::Command;
use crate::rng::Rng;
use std::time::Duration;
use tokio::time::sleep;

const CLIENTS: usize = 4;
/// How long a client tries to get the lock.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a lock may stay taken with nobody holding it.
const STUCK: Duration = Duration::from_secs(20);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) scheme: Scheme,
    pub(crate) seed: u64,
    /// How many acquisitions end the run.
    pub(crate) acquisitions: u64,
    /// How long after the death of the master the replica is promoted, if there is one.
    pub(crate) promotion: Option<Duration>,
    /// What to record the shortest story of.
    pub(crate) explained: Option<Flaw>,
}

/// Runs it: how often what went wrong, and the shortest story of what is to be explained.
pub(crate) fn perform(scenario: Scenario) -> (Tally, Option<Vec<String>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO").block_on(perform_on_paused_time(scenario))
}

async fn perform_on_paused_time(scenario: Scenario) -> (Tally, Option<Vec<String>>) {
    let mut rng = Rng::new(scenario.seed);
    let run = RunState::new(Record::explaining(scenario.explained));
    let clients = (0..CLIENTS).map(|number| {
        let client = Client::new(run.clone(), number, rng.fork());
        tokio::spawn(act(scenario, client))
    });
    let clients: Vec<_> = clients.collect();
    let watch = tokio::spawn(free_what_is_stuck(run.clone()));
    let failovers = scenario.promotion.map(|delay| tokio::spawn(fail_over(run.clone(), rng.fork(), delay)));
    for client in clients {
        client.await.expect("nobody panics");
    }
    watch.abort();
    failovers.inspect(|task| task.abort());
    let now = run.now();
    let value = run.store.lock().unwrap().value(now, REGISTER).unwrap_or_default();
    let mut record = std::mem::take(&mut *run.record.lock().unwrap());
    record.tally.lasted = now;
    if scenario.scheme == Scheme::Optimistic {
        // Who died before the answer made an update that it does not know of: the value may only be higher.
        record.tally.lost_updates = record.tally.acquisitions.saturating_sub(value);
    }
    (record.tally, record.into_story())
}

/// One client until the end of the run: processes, one after another.
async fn act(scenario: Scenario, mut client: Client) {
    while client.run.record.lock().unwrap().tally.acquisitions < scenario.acquisitions {
        client.begin_try();
        let result = match scenario.scheme {
            Scheme::Optimistic => update(&mut client).await,
            scheme => lock_and_work(scheme, &mut client).await,
        };
        if let Err(Died) = result {
            sleep(client.rng.span(TTL / 20, TTL / 4)).await;
        }
        client.rest().await;
    }
}

async fn update(client: &mut Client) -> Result<(), Died> {
    let is_made = steps::update_optimistically(client).await?;
    let now = client.now();
    let mut record = client.run.record.lock().unwrap();
    if is_made {
        record.tally.acquisitions += 1;
    } else {
        record.gave_up(now, client.who());
    }
    Ok(())
}

async fn lock_and_work(scheme: Scheme, client: &mut Client) -> Result<(), Died> {
    let end = client.now() + PATIENCE;
    while client.now() < end {
        if let Some(held) = steps::take(scheme, client).await? {
            let now = client.now();
            client.run.record.lock().unwrap().granted(now, client.who(), held.until);
            // What came too late is not used, as Redlock asks for.
            if now < held.until {
                client.work().await?;
            }
            let now = client.now();
            client.run.record.lock().unwrap().let_go(now, client.who());
            return steps::give_back(scheme, client, held).await;
        }
        client.rest().await;
    }
    client.run.record.lock().unwrap().tally.gave_up += 1;
    Ok(())
}

/// Finds locks that nobody holds and that do not go away, and deletes them as an operator would.
async fn free_what_is_stuck(run: RunState) {
    loop {
        sleep(TTL / 4).await;
        let now = run.now();
        let is_taken = run.store.lock().unwrap().value(now, LOCK).is_some();
        run.record_expiry();
        if is_taken && run.record.lock().unwrap().idle(now) > STUCK {
            run.record.lock().unwrap().deadlocked(now);
            run.store.lock().unwrap().execute(now, Command::Del(LOCK), Duration::ZERO);
        }
    }
}

/// Kills the master now and then; the replica takes over after `delay`.
async fn fail_over(run: RunState, mut rng: Rng, delay: Duration) {
    loop {
        sleep(rng.span(TTL * 4, TTL * 10)).await;
        let lost = run.store.lock().unwrap().die(run.now());
        let record = |text| run.record.lock().unwrap().record(run.now(), None, text);
        record(format!("the master dies; {lost} writes had not reached the replica"));
        sleep(delay).await;
        run.record.lock().unwrap().tally.unavailable += delay;
        run.store.lock().unwrap().promote();
        record("the replica is promoted".to_owned());
    }
}
