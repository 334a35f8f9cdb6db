//! The task that keeps one server's connection: it connects, writes, reads, and connects again.

use crate::context::entropy;
use crate::node::NodeError;
use crate::node::redis::connection::activity::Activity;
use crate::node::redis::connection::flush_on_drop::FlushOnDrop;
use crate::node::redis::connection::handshake;
use crate::node::redis::connection::in_flight::InFlight;
use crate::node::redis::connection::reply_chunks::ReplyChunks;
use crate::node::redis::connection::socket::{Socket, broken};
use crate::node::redis::link::Link;
use crate::node::redis::link::greeting::Greeting;
use crate::node::redis::link::state::{LinkState, PendingWork, Phase};
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
    in_flight: InFlight,
    /// When everything must be flushed at the latest, once the node is gone.
    end_by: Option<Instant>,
    /// Whether it lets others go first before it takes over what is to be written.
    yields_first: bool,
}

/// Why a connection was left.
enum End {
    /// All is flushed, and the node is gone.
    Closed,
    Broken(NodeError),
}

/// What the driver's turn is about.
enum DriverEvent {
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
        let driver = Self { link, in_flight: InFlight::default(), end_by: None, yields_first: false };
        runtime.spawn(driver.run());
    }

    async fn run(mut self) {
        let mut backoff = Backoff::new(RECONNECT.0, RECONNECT.1);
        let mut replaced: Option<Instant> = None;
        loop {
            let cause = match self.connect().await {
                Ok((socket, greeting)) => {
                    self.link.ready(&greeting);
                    let cause = match self.serve(socket).await {
                        End::Closed => return,
                        End::Broken(cause) => cause,
                    };
                    if replaced.is_none_or(|replaced| replaced.elapsed() >= STEADY) {
                        // Most likely the server restarted: one attempt for which commands wait.
                        replaced = Some(Instant::now());
                        backoff.reset();
                        self.link.gone(self.in_flight.drain(), Phase::Connecting, &cause);
                        continue;
                    }
                    cause
                }
                Err(cause) => cause,
            };
            self.link.gone(self.in_flight.drain(), Phase::Down(cause.clone()), &cause);
            let delay = backoff.next(entropy::number(&*self.link.ctx.entropy));
            if self.rest(delay).await {
                return;
            }
        }
    }

    /// Connects and introduces us, all within the connect timeout.
    async fn connect(&self) -> Result<(Socket, Greeting), NodeError> {
        let link = &self.link;
        let limit = link.ctx.connect_timeout;
        let attempt = async {
            let mut socket = Socket::new(link.address.open(limit).await?);
            let last = link.lock().last_connection.clone();
            let last = last.as_ref();
            let greeting = handshake::greet(&mut socket, &link.login, &link.ctx, &link.id, last).await?;
            link.lock().last_connection = Some(greeting.connection.clone());
            Ok((socket, greeting))
        };
        match timeout(limit, attempt).await {
            Ok(outcome) => outcome,
            Err(_) => Err(NodeError::Timeout { after: limit }),
        }
    }

    /// Writes what comes and reads what is answered, until the connection breaks or is no longer needed.
    async fn serve(&mut self, socket: Socket) -> End {
        let link = self.link.clone();
        let mut flush = FlushOnDrop::new(link.clone(), socket);
        let socket = &mut flush.socket;
        let mut activity = Activity::new(link.ctx.clock.now());
        let mut tick = Box::pin(sleep(TICK));
        loop {
            let outcome =
                match poll_fn(|context| self.poll_event(context, &link, socket, &mut activity, &mut tick))
                    .await
                {
                    DriverEvent::Heard => {
                        // What came before has waited, and what comes while answers are handed out is what we would wait for.
                        self.yields_first = true;
                        self.read(socket, &mut activity).await
                    }
                    DriverEvent::Tick => {
                        tick.as_mut().reset(Instant::now() + TICK);
                        self.maintain(&mut activity)
                    }
                    DriverEvent::Over => {
                        socket.close(link.ctx.connect_timeout).await;
                        return End::Closed;
                    }
                    DriverEvent::Broken(cause) => Err(cause),
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
    fn poll_event(
        &mut self,
        context: &mut Context<'_>,
        link: &Link,
        socket: &mut Socket,
        activity: &mut Activity,
        tick: &mut Pin<Box<Sleep>>,
    ) -> Poll<DriverEvent> {
        let mut state = link.lock();
        state.register_waker(context.waker());
        self.yields_first = !self.yields_first && socket.out.is_empty() && state.may_grow();
        let work = if self.yields_first {
            let work = state.work(&link.ctx);
            drop(state);
            work
        } else {
            let work = self.take_over(state, socket, activity);
            if self.is_over(socket, work.has_unacked) {
                return Poll::Ready(DriverEvent::Over);
            }
            work
        };
        let has_chores = work.has_unacked || work.watched || work.unmarked;
        let is_busy = has_chores || !self.in_flight.is_empty() || self.end_by.is_some();
        // First, as a server that always has an answer ready must not keep us from it.
        if is_busy && tick.as_mut().poll(context).is_ready() {
            return Poll::Ready(DriverEvent::Tick);
        }
        if let Poll::Ready(outcome) = socket.poll_exchange(context) {
            return Poll::Ready(outcome.map_or_else(DriverEvent::Broken, |()| DriverEvent::Heard));
        }
        if self.yields_first {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Takes over what is to be written, once all before it is.
    fn take_over(
        &mut self,
        mut state: MutexGuard<'_, LinkState>,
        socket: &mut Socket,
        activity: &mut Activity,
    ) -> PendingWork {
        let before = self.in_flight.pending.len();
        state.take_over(&mut socket.out, &mut self.in_flight.pending);
        if let Some(round_trip) = activity.round_trip.take() {
            state.facts.round_trip = Some(round_trip);
        }
        let (work, closing) = (state.work(&self.link.ctx), state.closing);
        drop(state);
        if closing && self.end_by.is_none() {
            self.end_by = Some(Instant::now() + self.link.ctx.connect_timeout);
        }
        if activity.probe.is_none() && self.in_flight.pending.len() > before {
            let now = self.link.ctx.clock.now();
            if before == 0 {
                activity.heard = now;
            }
            activity.probe = Some((self.in_flight.answered + self.in_flight.pending.len() as u64, now));
            if now.since(activity.on_server_info) >= SURVEY {
                activity.on_server_info = now;
                self.server_info(now);
            }
        }
        work
    }

    /// Asks what the server is, with the next write.
    fn server_info(&self, now: Moment) {
        let mut state = self.link.lock();
        state.outbox.server_info(self.link.login.durable);
        state.outbox.fence_ttls.expire(now);
        drop(state);
        // It is the first of that write, and nobody else wakes us for what follows it.
        self.link.wake();
    }

    fn is_over(&self, socket: &Socket, has_unacked: bool) -> bool {
        self.end_by.is_some_and(|end_by| {
            let flushed = socket.is_written() && self.in_flight.is_empty() && !has_unacked;
            flushed || Instant::now() >= end_by
        })
    }

    /// Answers everything for which a reply has come, in pieces: between them it writes what those who were answered have
    /// sent.
    async fn read(&mut self, socket: &mut Socket, activity: &mut Activity) -> Result<(), NodeError> {
        // What is sent from now on cannot have been answered yet.
        let due = self.in_flight.answered + self.in_flight.pending.len() as u64;
        let mut chunks = ReplyChunks::new(self.link.ctx.is_single, self.in_flight.pending.len());
        while self.read_chunk(socket, activity, chunks.chunk(), due)? {
            chunks.yield_between(&*self.link.ctx.clock).await;
            let link = self.link.clone();
            self.take_over(link.lock(), socket, activity);
            if let Err(cause) = socket.begin_writing().await {
                // What was answered counts, also if the server is gone by now.
                self.read_chunk(socket, activity, u64::MAX, due)?;
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Answers at most `chunk` commands, none behind the one with the number `due`; `true` if there may be more replies.
    fn read_chunk(
        &mut self,
        socket: &mut Socket,
        activity: &mut Activity,
        chunk: u64,
        due: u64,
    ) -> Result<bool, NodeError> {
        let before = self.in_flight.answered;
        while self.in_flight.answered - before < chunk {
            let is_due = self.in_flight.answered < due;
            if is_due && self.in_flight.dispatch_plain_yes(socket, &self.link) {
                continue;
            }
            match socket.next_value()? {
                Some(value) if !is_due && !matches!(value, Value::Push(_)) => {
                    return Err(protocol("an answer to no question"));
                }
                Some(value) => self.in_flight.on_value(value, &self.link)?,
                None => break,
            }
        }
        if self.in_flight.answered > before {
            activity.answered(self.in_flight.answered, self.link.ctx.clock.now());
        }
        Ok(self.in_flight.answered - before >= chunk && socket.has_input())
    }

    /// Sends again what is owed, and gives a mute server up.
    fn maintain(&mut self, activity: &mut Activity) -> Result<(), NodeError> {
        let ctx = &self.link.ctx;
        let now = ctx.clock.now();
        let limit = MUTE.max(ctx.node_timeout.saturating_mul(20));
        if !self.in_flight.is_empty() && now.since(activity.heard) > limit {
            let words = format!("no answer for {limit:?}");
            return Err(broken(io::Error::new(io::ErrorKind::TimedOut, words)));
        }
        let mut state = self.link.lock();
        state.resend_unacked(now);
        if !state.wakeups.is_empty() && now.since(activity.waited) >= WAITING {
            activity.waited = now;
            state.outbox.announce_waiting();
        }
        if state.is_unmarked(ctx) {
            state.look_again(ctx, &self.link.login);
        }
        let is_due = !state.outbox.is_empty();
        drop(state);
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
            let mut state = link.lock();
            state.register_waker(context.waker());
            let (closing, has_unacked) = (state.closing, !state.unacked.is_empty());
            drop(state);
            if closing {
                let end_by = Instant::now() + link.ctx.connect_timeout;
                let end_by = *self.end_by.get_or_insert(end_by);
                if !has_unacked || Instant::now() >= end_by {
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
        self.link.gone(self.in_flight.drain(), Phase::Idle, &NodeError::Abandoned);
    }
}
