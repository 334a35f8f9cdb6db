//! One seeded run of a scheme on a single server, or on a master with its replica.

use crate::rng::Rng;
use crate::schemes::TTL;
use crate::schemes::client::{Client, Died, RunState};
use crate::schemes::history::{History, Tally};
use crate::schemes::scheme::{Flaw, Scheme};
use crate::schemes::steps::{self, LOCK, PROTECTED_VALUE};
use crate::schemes::store::Command;
use std::time::Duration;
use tokio::time::sleep;

const CLIENTS: usize = 4;
/// How long a client tries to get the lock.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(8);
/// How long a lock may stay taken while no client holds it.
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
    /// The flaw of which to keep the shortest trace.
    pub(crate) explained: Option<Flaw>,
}

/// Runs it. Returns how often each thing went wrong, and the shortest trace of the flaw.
pub(crate) fn run(scenario: Scenario) -> (Tally, Option<Vec<String>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO").block_on(run_with_paused_time(scenario))
}

async fn run_with_paused_time(scenario: Scenario) -> (Tally, Option<Vec<String>>) {
    let mut rng = Rng::new(scenario.seed);
    let run = RunState::new(History::explaining(scenario.explained));
    let clients = (0..CLIENTS).map(|number| {
        let client = Client::new(run.clone(), number, rng.fork());
        tokio::spawn(run_client(scenario, client))
    });
    let clients: Vec<_> = clients.collect();
    let watch = tokio::spawn(delete_stuck_locks(run.clone()));
    let failovers = scenario.promotion.map(|delay| tokio::spawn(fail_over(run.clone(), rng.fork(), delay)));
    for client in clients {
        client.await.expect("no client panics");
    }
    watch.abort();
    failovers.inspect(|task| task.abort());
    let now = run.now();
    let value = run.store.lock().unwrap().value(now, PROTECTED_VALUE).unwrap_or_default();
    let mut history = std::mem::take(&mut *run.history.lock().unwrap());
    history.tally.lasted = now;
    if scenario.scheme == Scheme::Optimistic {
        // A client that died before the answer made an update that it does not know of: the value
        // may only be higher.
        history.tally.lost_updates = history.tally.acquisitions.saturating_sub(value);
    }
    (history.tally, history.into_trace())
}

/// One client until the end of the run: processes, one after another.
async fn run_client(scenario: Scenario, mut client: Client) {
    while client.run.history.lock().unwrap().tally.acquisitions < scenario.acquisitions {
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
    let mut history = client.run.history.lock().unwrap();
    if is_made {
        history.tally.acquisitions += 1;
    } else {
        history.gave_up(now, client.who());
    }
    Ok(())
}

async fn lock_and_work(scheme: Scheme, client: &mut Client) -> Result<(), Died> {
    let end = client.now() + ACQUIRE_TIMEOUT;
    while client.now() < end {
        if let Some(held) = steps::acquire(scheme, client).await? {
            let now = client.now();
            client.run.history.lock().unwrap().granted(now, client.who(), held.until);
            // What came too late is not used, as Redlock asks for.
            if now < held.until {
                client.work().await?;
            }
            let now = client.now();
            client.run.history.lock().unwrap().released(now, client.who());
            return steps::release(scheme, client, held).await;
        }
        client.rest().await;
    }
    client.run.history.lock().unwrap().tally.gave_up += 1;
    Ok(())
}

/// Finds locks that no client holds and that do not expire, and deletes them as an operator would.
async fn delete_stuck_locks(run: RunState) {
    loop {
        sleep(TTL / 4).await;
        let now = run.now();
        let is_taken = run.store.lock().unwrap().value(now, LOCK).is_some();
        run.record_expiry();
        if is_taken && run.history.lock().unwrap().idle(now) > STUCK {
            run.history.lock().unwrap().deadlocked(now);
            run.store.lock().unwrap().execute(now, Command::Del(LOCK), Duration::ZERO);
        }
    }
}

/// Kills the master now and then; the replica takes over after `delay`.
async fn fail_over(run: RunState, mut rng: Rng, delay: Duration) {
    loop {
        sleep(rng.span(TTL * 4, TTL * 10)).await;
        let lost = run.store.lock().unwrap().die(run.now());
        let record = |text| run.history.lock().unwrap().record(run.now(), None, text);
        record(format!("the master dies; {lost} writes had not reached the replica"));
        sleep(delay).await;
        run.history.lock().unwrap().tally.unavailable += delay;
        run.store.lock().unwrap().promote();
        record("the replica is promoted".to_owned());
    }
}
