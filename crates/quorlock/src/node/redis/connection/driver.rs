//! The task that keeps one server's connection: it connects, writes, reads, and connects again.

use crate::context::entropy;
use crate::node::NodeError;
use crate::node::redis::connection::activity::Watch;
use crate::node::redis::connection::flush_on_drop::Parting;
use crate::node::redis::connection::handshake;
use crate::node::redis::connection::in_flight::Flight;
use crate::node::redis::connection::reply_chunks::Pace;
use crate::node::redis::connection::socket::{Wire, broken};
use crate::node::redis::link::Link;
use crate::node::redis::link::greeting::Greeting;
use crate::node::redis::link::state::{Chores, Phase, Queue};
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::protocol;
use quorlock_core::{Backoff, Moment};
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// The delays between attempts to connect.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// A connection that breaks again sooner than this is not replaced at once, but after a delay.
const STEADY: Duration = Duration::from_secs(1);
/// How often a connection that owes or is owed answers is looked at.
const TICK: Duration = Duration::from_millis(250);
/// How often a server that is in use is looked at again: whether it is a primary and evicts nothing.
const SURVEY: Duration = Duration::from_secs(5);
/// How often a server is told that somebody waits, while somebody does.
const WAITING: Duration = Duration::from_secs(3);
/// A server that answers nothing for this long, or 20 node timeouts, is given up.
const MUTE: Duration = Duration::from_secs(2);

/// Drives one link until its node is dropped. Dropped itself, it leaves the link as if it had never run.
pub(crate) struct Driver {
    link: Arc<Link>,
    flight: Flight,
    /// When everything must be flushed at the latest, once the node is gone.
    end_by: Option<Instant>,
    /// Whether it lets others go first before it takes over what is to be written.
    holds_back: bool,
}

/// Why a connection was left.
enum End {
    /// All is flushed, and the node is gone.
    Closed,
    Broken(NodeError),
}

/// What the driver's turn is about.
enum Turn {
    /// Something was read, or there is room to write more.
    Heard,
    /// It is time for chores.
    Tick,
    /// All is flushed, and the node is gone.
    Over,
    Broken(NodeError),
}

impl Driver {
    /// Drives `link` in a task of `runtime`.
    pub(crate) fn spawn(link: Arc<Link>, runtime: &Handle) {
        let driver = Self { link, flight: Flight::default(), end_by: None, holds_back: false };
        runtime.spawn(driver.run());
    }

    async fn run(mut self) {
        let mut backoff = Backoff::new(RECONNECT.0, RECONNECT.1);
        let mut replaced: Option<Instant> = None;
        loop {
            let cause = match self.connect().await {
                Ok((wire, greeting)) => {
                    self.link.ready(&greeting);
                    let cause = match self.serve(wire).await {
                        End::Closed => return,
                        End::Broken(cause) => cause,
                    };
                    if replaced.is_none_or(|replaced| replaced.elapsed() >= STEADY) {
                        // Most likely the server restarted: one attempt for which commands wait.
                        replaced = Some(Instant::now());
                        backoff.reset();
                        self.link.gone(self.flight.drain(), Phase::Connecting, &cause);
                        continue;
                    }
                    cause
                }
                Err(cause) => cause,
            };
            self.link.gone(self.flight.drain(), Phase::Down(cause.clone()), &cause);
            let delay = backoff.next(entropy::number(&*self.link.around.entropy));
            if self.rest(delay).await {
                return;
            }
        }
    }

    /// Connects and introduces us, all within the connect timeout.
    async fn connect(&self) -> Result<(Wire, Greeting), NodeError> {
        let link = &self.link;
        let limit = link.around.connect_timeout;
        let attempt = async {
            let mut wire = Wire::new(link.address.open(limit).await?);
            let last = link.lock().last_visit.clone();
            let last = last.as_ref();
            let greeting = handshake::greet(&mut wire, &link.login, &link.around, &link.id, last).await?;
            link.lock().last_visit = Some(greeting.visit.clone());
            Ok((wire, greeting))
        };
        match timeout(limit, attempt).await {
            Ok(outcome) => outcome,
            Err(_) => Err(NodeError::Timeout { after: limit }),
        }
    }

    /// Writes what comes and reads what is answered, until the connection breaks or is no longer needed.
    async fn serve(&mut self, wire: Wire) -> End {
        let link = self.link.clone();
        let mut parting = Parting::new(link.clone(), wire);
        let wire = &mut parting.wire;
        let mut watch = Watch::new(link.around.clock.now());
        let mut tick = Box::pin(sleep(TICK));
        loop {
            let outcome =
                match poll_fn(|context| self.poll_turn(context, &link, wire, &mut watch, &mut tick)).await {
                    Turn::Heard => {
                        // What came before has waited, and what comes while answers are handed out is what we would wait for.
                        self.holds_back = true;
                        self.read(wire, &mut watch).await
                    }
                    Turn::Tick => {
                        tick.as_mut().reset(Instant::now() + TICK);
                        self.look(&mut watch)
                    }
                    Turn::Over => {
                        wire.close(link.around.connect_timeout).await;
                        return End::Closed;
                    }
                    Turn::Broken(cause) => Err(cause),
                };
            if let Err(cause) = outcome {
                return End::Broken(cause);
            }
        }
    }

    /// Takes over what is to be written, writes, and waits until there is something to do.
    ///
    /// What comes together should go in one write. So where others may be about to add something it lets the tasks that are
    /// ready go first, once, and takes over what they have added as well.
    fn poll_turn(
        &mut self,
        context: &mut Context<'_>,
        link: &Link,
        wire: &mut Wire,
        watch: &mut Watch,
        tick: &mut Pin<Box<Sleep>>,
    ) -> Poll<Turn> {
        let mut queue = link.lock();
        queue.expect(context.waker());
        self.holds_back = !self.holds_back && wire.out.is_empty() && queue.may_grow();
        let chores = if self.holds_back {
            let chores = queue.chores(&link.around);
            drop(queue);
            chores
        } else {
            let chores = self.hand_over(queue, wire, watch);
            if self.is_over(wire, chores.unpaid) {
                return Poll::Ready(Turn::Over);
            }
            chores
        };
        let has_chores = chores.unpaid || chores.watched || chores.unmarked;
        let is_busy = has_chores || !self.flight.is_empty() || self.end_by.is_some();
        // First, as a server that always has an answer ready must not keep us from it.
        if is_busy && tick.as_mut().poll(context).is_ready() {
            return Poll::Ready(Turn::Tick);
        }
        if let Poll::Ready(outcome) = wire.poll_exchange(context) {
            return Poll::Ready(outcome.map_or_else(Turn::Broken, |()| Turn::Heard));
        }
        if self.holds_back {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Takes over what is to be written, once all before it is.
    fn hand_over(&mut self, mut queue: MutexGuard<'_, Queue>, wire: &mut Wire, watch: &mut Watch) -> Chores {
        let before = self.flight.slots.len();
        queue.hand_over(&mut wire.out, &mut self.flight.slots);
        if let Some(round_trip) = watch.round_trip.take() {
            queue.facts.round_trip = Some(round_trip);
        }
        let (chores, closing) = (queue.chores(&self.link.around), queue.closing);
        drop(queue);
        if closing && self.end_by.is_none() {
            self.end_by = Some(Instant::now() + self.link.around.connect_timeout);
        }
        if watch.probe.is_none() && self.flight.slots.len() > before {
            let now = self.link.around.clock.now();
            if before == 0 {
                watch.heard = now;
            }
            watch.probe = Some((self.flight.answered + self.flight.slots.len() as u64, now));
            if now.since(watch.surveyed) >= SURVEY {
                watch.surveyed = now;
                self.survey(now);
            }
        }
        chores
    }

    /// Asks what the server is, with the next write.
    fn survey(&self, now: Moment) {
        let mut queue = self.link.lock();
        queue.outbox.survey(self.link.login.durable);
        queue.outbox.fence_ttls.expire(now);
        drop(queue);
        // It is the first of that write, and nobody else wakes us for what follows it.
        self.link.wake();
    }

    fn is_over(&self, wire: &Wire, unpaid: bool) -> bool {
        self.end_by.is_some_and(|end_by| {
            let flushed = wire.is_written() && self.flight.is_empty() && !unpaid;
            flushed || Instant::now() >= end_by
        })
    }

    /// Answers everything for which a reply has come, in pieces: between them it writes what those who were answered have
    /// sent.
    async fn read(&mut self, wire: &mut Wire, watch: &mut Watch) -> Result<(), NodeError> {
        // What is sent from now on cannot have been answered yet.
        let due = self.flight.answered + self.flight.slots.len() as u64;
        let mut pace = Pace::new(self.link.around.is_single, self.flight.slots.len());
        while self.read_piece(wire, watch, pace.piece(), due)? {
            pace.let_others_go(&*self.link.around.clock).await;
            let link = self.link.clone();
            self.hand_over(link.lock(), wire, watch);
            if let Err(cause) = wire.begin_writing().await {
                // What was answered counts, also if the server is gone by now.
                self.read_piece(wire, watch, u64::MAX, due)?;
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Answers at most `piece` commands, none behind the one with the number `due`; `true` if there may be more replies.
    fn read_piece(
        &mut self,
        wire: &mut Wire,
        watch: &mut Watch,
        piece: u64,
        due: u64,
    ) -> Result<bool, NodeError> {
        let before = self.flight.answered;
        while self.flight.answered - before < piece {
            let is_due = self.flight.answered < due;
            if is_due && self.flight.take_yes(wire, &self.link) {
                continue;
            }
            match wire.next_value()? {
                Some(value) if !is_due && !matches!(value, Value::Push(_)) => {
                    return Err(protocol("an answer to no question"));
                }
                Some(value) => self.flight.take(value, &self.link)?,
                None => break,
            }
        }
        if self.flight.answered > before {
            watch.answered(self.flight.answered, self.link.around.clock.now());
        }
        Ok(self.flight.answered - before >= piece && wire.has_input())
    }

    /// Sends again what is owed, and gives a mute server up.
    fn look(&mut self, watch: &mut Watch) -> Result<(), NodeError> {
        let around = &self.link.around;
        let now = around.clock.now();
        let limit = MUTE.max(around.node_timeout.saturating_mul(20));
        if !self.flight.is_empty() && now.since(watch.heard) > limit {
            let words = format!("no answer for {limit:?}");
            return Err(broken(io::Error::new(io::ErrorKind::TimedOut, words)));
        }
        let mut queue = self.link.lock();
        queue.pay(now);
        if !queue.bells.is_empty() && now.since(watch.waited) >= WAITING {
            watch.waited = now;
            queue.outbox.wait_openly();
        }
        if queue.is_unmarked(around) {
            queue.look_again(around, &self.link.login);
        }
        let is_due = !queue.outbox.is_empty();
        drop(queue);
        if is_due {
            // The turn before may have left something to be written first, and nobody else wakes us for what is behind it.
            self.link.wake();
        }
        Ok(())
    }

    /// Waits before the next attempt; `true` if none is needed any more.
    async fn rest(&mut self, delay: Duration) -> bool {
        let link = self.link.clone();
        let mut delay = pin!(sleep(delay));
        poll_fn(|context| {
            let mut queue = link.lock();
            queue.expect(context.waker());
            let (closing, unpaid) = (queue.closing, !queue.owed.is_empty());
            drop(queue);
            if closing {
                let end_by = Instant::now() + link.around.connect_timeout;
                let end_by = *self.end_by.get_or_insert(end_by);
                if !unpaid || Instant::now() >= end_by {
                    return Poll::Ready(true);
                }
            }
            delay.as_mut().poll(context).map(|()| false)
        })
        .await
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.link.gone(self.flight.drain(), Phase::Idle, &NodeError::Abandoned);
    }
}
