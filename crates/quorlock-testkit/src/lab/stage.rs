//! One seeded run of a scheme on a single server, or on a master with its replica.

use super::TTL;
use super::client::{Client, Died, Stage};
use super::recipe::{self, LOCK, REGISTER};
use super::record::{Record, Tally};
use super::scheme::{Flaw, Scheme};
use super::store::Command;
use crate::world::Rng;
use std::time::Duration;
use tokio::time::sleep;

const CLIENTS: usize = 4;
/// How long a client tries to get the lock.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a lock may stay taken with nobody holding it.
const STUCK: Duration = Duration::from_secs(20);

/// What to run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Play {
    pub(super) scheme: Scheme,
    pub(super) seed: u64,
    /// How many acquisitions end the run.
    pub(super) acquisitions: u64,
    /// How long after the death of the master the replica is promoted, if there is one.
    pub(super) promotion: Option<Duration>,
    /// What to tell the shortest story of.
    pub(super) explained: Option<Flaw>,
}

/// Runs it: how often what went wrong, and the shortest story of what is to be explained.
pub(super) fn perform(play: Play) -> (Tally, Option<Vec<String>>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO").block_on(perform_on_paused_time(play))
}

async fn perform_on_paused_time(play: Play) -> (Tally, Option<Vec<String>>) {
    let mut rng = Rng::new(play.seed);
    let stage = Stage::new(Record::explaining(play.explained));
    let clients = (0..CLIENTS).map(|number| {
        let client = Client::new(stage.clone(), number, rng.fork());
        tokio::spawn(act(play, client))
    });
    let clients: Vec<_> = clients.collect();
    let watch = tokio::spawn(free_what_is_stuck(stage.clone()));
    let failovers = play.promotion.map(|delay| tokio::spawn(fail_over(stage.clone(), rng.fork(), delay)));
    for client in clients {
        client.await.expect("nobody panics");
    }
    watch.abort();
    failovers.inspect(|task| task.abort());
    let now = stage.now();
    let value = stage.store.lock().unwrap().value(now, REGISTER).unwrap_or_default();
    let mut record = std::mem::take(&mut *stage.record.lock().unwrap());
    record.tally.lasted = now;
    if play.scheme == Scheme::Optimistic {
        // Who died before the answer made an update that it does not know of: the value may only be higher.
        record.tally.lost_updates = record.tally.acquisitions.saturating_sub(value);
    }
    (record.tally, record.into_story())
}

/// One client until the end of the run: processes, one after another.
async fn act(play: Play, mut client: Client) {
    while client.stage.record.lock().unwrap().tally.acquisitions < play.acquisitions {
        client.begin_try();
        let result = match play.scheme {
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
    let is_made = recipe::update_optimistically(client).await?;
    let now = client.now();
    let mut record = client.stage.record.lock().unwrap();
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
        if let Some(held) = recipe::take(scheme, client).await? {
            let now = client.now();
            client.stage.record.lock().unwrap().granted(now, client.who(), held.until);
            // What came too late is not used, as Redlock asks for.
            if now < held.until {
                client.work().await?;
            }
            let now = client.now();
            client.stage.record.lock().unwrap().let_go(now, client.who());
            return recipe::give_back(scheme, client, held).await;
        }
        client.rest().await;
    }
    client.stage.record.lock().unwrap().tally.gave_up += 1;
    Ok(())
}

/// Finds locks that nobody holds and that do not go away, and deletes them as an operator would.
async fn free_what_is_stuck(stage: Stage) {
    loop {
        sleep(TTL / 4).await;
        let now = stage.now();
        let is_taken = stage.store.lock().unwrap().value(now, LOCK).is_some();
        stage.note_expiry();
        if is_taken && stage.record.lock().unwrap().idle(now) > STUCK {
            stage.record.lock().unwrap().deadlocked(now);
            stage.store.lock().unwrap().execute(now, Command::Del(LOCK), Duration::ZERO);
        }
    }
}

/// Kills the master now and then; the replica takes over after `delay`.
async fn fail_over(stage: Stage, mut rng: Rng, delay: Duration) {
    loop {
        sleep(rng.span(TTL * 4, TTL * 10)).await;
        let lost = stage.store.lock().unwrap().die(stage.now());
        let tell = |text| stage.record.lock().unwrap().tell(stage.now(), None, text);
        tell(format!("the master dies; {lost} writes had not reached the replica"));
        sleep(delay).await;
        stage.record.lock().unwrap().tally.unavailable += delay;
        stage.store.lock().unwrap().promote();
        tell("the replica is promoted".to_owned());
    }
}
