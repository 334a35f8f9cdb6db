//! A client of the lab: it asks, thinks, stands still at bad moments, and dies.

use super::TTL;
use super::record::{Record, Try};
use super::store::{Command, Reply, Store};
use crate::rng::Rng;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The process died; a new one knows nothing of what it did.
#[derive(Debug)]
pub(crate) struct Died;

/// What the clients of a run share.
#[derive(Clone)]
pub(crate) struct RunState {
    pub(crate) store: Arc<Mutex<Store>>,
    pub(crate) record: Arc<Mutex<Record>>,
    start: Instant,
}

impl RunState {
    pub(crate) fn new(record: Record) -> Self {
        Self { store: Arc::default(), record: Arc::new(Mutex::new(record)), start: Instant::now() }
    }

    /// Time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// The record, with the expiry of keys told.
    pub(crate) fn record_expiry(&self) {
        let expired = self.store.lock().unwrap().expired();
        let mut record = self.record.lock().unwrap();
        for (at, key) in expired {
            record.record(at, None, format!("{key} expires"));
        }
    }
}

/// One client.
pub(crate) struct Client {
    pub(crate) run: RunState,
    pub(crate) rng: Rng,
    number: usize,
    tries: u64,
    /// How far its wall clock is ahead of a clock that lags 10 s.
    ahead: Duration,
}

impl Client {
    pub(crate) fn new(run: RunState, number: usize, mut rng: Rng) -> Self {
        let ahead = Duration::from_secs(9) + rng.span(Duration::ZERO, Duration::from_secs(2));
        Self { run, rng, number, tries: 0, ahead }
    }

    pub(crate) fn who(&self) -> Try {
        (self.number, self.tries)
    }

    pub(crate) fn now(&self) -> Duration {
        self.run.now()
    }

    /// Its own wall clock, in milliseconds.
    pub(crate) fn wall(&self) -> u64 {
        u64::try_from((self.now() + self.ahead).as_millis()).unwrap()
    }

    /// When its own wall clock will show `wall`.
    pub(crate) fn when(&self, wall: u64) -> Duration {
        Duration::from_millis(wall).saturating_sub(self.ahead)
    }

    pub(crate) fn begin_try(&mut self) {
        self.tries += 1;
    }

    pub(crate) fn record(&self, text: String) {
        self.run.record.lock().unwrap().record(self.now(), Some(self.who()), text);
    }

    /// Sends a command and waits for the answer. Trouble may come before the client does anything with it.
    pub(crate) async fn call(&mut self, command: Command) -> Result<Reply, Died> {
        self.travel(&format!("{command} is under way")).await;
        let reply = self.arrive(command);
        self.travel("the answer is under way").await;
        self.live_on().await?;
        Ok(reply)
    }

    /// The command reaches the server.
    fn arrive(&mut self, command: Command) -> Reply {
        let lag = self.lag();
        let now = self.now();
        let reply = self.run.store.lock().unwrap().execute(now, command, lag);
        self.run.record_expiry();
        let mut record = self.run.record.lock().unwrap();
        let changes = !matches!(command, Command::Read(_) | Command::Watch(_));
        match reply {
            Reply::Denied if matches!(command, Command::SetNx(..) | Command::SetNxPx(..)) => {}
            Reply::Denied => record.record(now, Some(self.who()), format!("{command} changes nothing")),
            Reply::Down => {}
            // Clients record what they make of it.
            Reply::Value(_) if !changes => {}
            _ if changes => record.effect(now, self.who(), format!("{command} is done")),
            _ => record.record(now, Some(self.who()), format!("{command} is done")),
        }
        reply
    }

    /// Reads the protected value, works, and writes one more: without a look at the clock, as no program can look and
    /// write in one step.
    pub(crate) async fn work(&mut self) -> Result<(), Died> {
        let (from, read) = (self.now(), self.run.record.lock().unwrap().read());
        self.record(format!("reads {read}"));
        self.think().await?;
        self.travel("the write is under way").await;
        let now = self.now();
        self.run.record.lock().unwrap().write(from, now, self.who(), read);
        Ok(())
    }

    /// Works on what it read: mostly short, now and then nearly as long as the ttl.
    pub(crate) async fn think(&mut self) -> Result<(), Died> {
        let longest = if self.rng.chance(20) { TTL * 9 / 10 } else { TTL / 10 };
        sleep(self.rng.span(Duration::from_millis(1), longest)).await;
        self.live_on().await
    }

    pub(crate) async fn rest(&mut self) {
        sleep(self.rng.span(Duration::from_millis(10), Duration::from_millis(120))).await;
    }

    /// The next moment of its life, which may be long, or never come.
    async fn live_on(&mut self) -> Result<(), Died> {
        match self.rng.below(1_000) {
            0..4 => {
                self.record("dies".to_owned());
                let now = self.now();
                self.run.record.lock().unwrap().let_go(now, self.who());
                Err(Died)
            }
            4..12 => {
                let span = self.rng.span(TTL / 4, TTL * 2);
                self.record(format!("stands still for {:.3} s", span.as_secs_f64()));
                sleep(span).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// One message, one way.
    async fn travel(&mut self, what: &str) {
        let is_late = self.rng.below(1_000) < 8;
        let longest = if is_late { TTL * 5 / 4 } else { Duration::from_millis(4) };
        let span = self.rng.span(Duration::from_millis(1), longest);
        if is_late {
            self.record(format!("{what} for {:.3} s", span.as_secs_f64()));
        }
        sleep(span).await;
    }

    /// How far the replica is behind.
    fn lag(&mut self) -> Duration {
        let longest = if self.rng.chance(20) { 800 } else { 20 };
        self.rng.span(Duration::from_millis(1), Duration::from_millis(longest))
    }
}
