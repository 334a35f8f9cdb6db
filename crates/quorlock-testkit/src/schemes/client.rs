//! A client of a scheme: it sends commands, works, is paused at bad moments, and dies.

use crate::rng::Rng;
use crate::schemes::TTL;
use crate::schemes::history::{History, Try};
use crate::schemes::store::{Command, Reply, Store};
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
    pub(crate) history: Arc<Mutex<History>>,
    start: Instant,
}

impl RunState {
    pub(crate) fn new(history: History) -> Self {
        Self { store: Arc::default(), history: Arc::new(Mutex::new(history)), start: Instant::now() }
    }

    /// Time since the beginning.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Records which keys have expired.
    pub(crate) fn record_expiry(&self) {
        let expired = self.store.lock().unwrap().expired();
        let mut history = self.history.lock().unwrap();
        for (at, key) in expired {
            history.record(at, None, format!("{key} expires"));
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
        self.run.history.lock().unwrap().record(self.now(), Some(self.who()), text);
    }

    /// Sends a command and waits for the answer. The client may be paused, or die, before it uses
    /// the answer.
    pub(crate) async fn call(&mut self, command: Command) -> Result<Reply, Died> {
        self.travel(&format!("{command} is under way")).await;
        let reply = self.arrive(command);
        self.travel("the answer is under way").await;
        self.survive().await?;
        Ok(reply)
    }

    /// The command reaches the server.
    fn arrive(&mut self, command: Command) -> Reply {
        let lag = self.lag();
        let now = self.now();
        let reply = self.run.store.lock().unwrap().execute(now, command, lag);
        self.run.record_expiry();
        let mut history = self.run.history.lock().unwrap();
        let changes = !matches!(command, Command::Read(_) | Command::Watch(_));
        match reply {
            Reply::Denied if matches!(command, Command::SetNx(..) | Command::SetNxPx(..)) => {}
            Reply::Denied => history.record(now, Some(self.who()), format!("{command} changes nothing")),
            Reply::Down => {}
            // Clients record what they make of it.
            Reply::Value(_) if !changes => {}
            _ if changes => history.effect(now, self.who(), format!("{command} is done")),
            _ => history.record(now, Some(self.who()), format!("{command} is done")),
        }
        reply
    }

    /// Reads the protected value, works, and writes one more: without checking the clock, because
    /// no program can check and write in one step.
    pub(crate) async fn work(&mut self) -> Result<(), Died> {
        let (from, read) = (self.now(), self.run.history.lock().unwrap().read());
        self.record(format!("reads {read}"));
        self.think().await?;
        self.travel("the write is under way").await;
        let now = self.now();
        self.run.history.lock().unwrap().write(from, now, self.who(), read);
        Ok(())
    }

    /// Works on what it read: mostly short, now and then nearly as long as the ttl.
    pub(crate) async fn think(&mut self) -> Result<(), Died> {
        let longest = if self.rng.chance(20) { TTL * 9 / 10 } else { TTL / 10 };
        sleep(self.rng.span(Duration::from_millis(1), longest)).await;
        self.survive().await
    }

    pub(crate) async fn rest(&mut self) {
        sleep(self.rng.span(Duration::from_millis(10), Duration::from_millis(120))).await;
    }

    /// The next moment of its life, which may be long, or never come.
    async fn survive(&mut self) -> Result<(), Died> {
        match self.rng.below(1_000) {
            0..4 => {
                self.record("dies".to_owned());
                let now = self.now();
                self.run.history.lock().unwrap().released(now, self.who());
                Err(Died)
            }
            4..12 => {
                let span = self.rng.span(TTL / 4, TTL * 2);
                self.record(format!("is paused for {:.3} s", span.as_secs_f64()));
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
