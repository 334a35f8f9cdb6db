//! The task that keeps one server's connection: it connects, writes, reads, and connects again.

use crate::context::entropy;
use crate::context::injected_bug::InjectedBug;
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
/// How often the driver checks a connection that has answers pending or releases to send again.
const TICK: Duration = Duration::from_millis(250);
/// How often a server in use is checked again: whether it is a primary and evicts nothing.
const INFO_INTERVAL: Duration = Duration::from_secs(5);
/// How often the server is reminded that this process has waiters, while it has.
const ANNOUNCE_INTERVAL: Duration = Duration::from_secs(3);
/// A server that answers nothing for this long, or 20 node timeouts, is given up.
const MUTE: Duration = Duration::from_secs(2);

/// Drives one link until its node is dropped. If it is dropped itself, it leaves the link as if it had
/// never run.
pub(crate) struct Driver {
    link: Arc<Link>,
    in_flight: InFlight,
    /// When everything must be flushed at the latest, once the node was dropped.
    end_by: Option<Instant>,
    /// Whether it has just yielded to other tasks, and takes over what is to be written when it is polled
    /// next.
    has_yielded: bool,
}

/// Why a connection ended.
enum End {
    /// Everything is flushed, and the node was dropped.
    Closed,
    Broken(NodeError),
}

/// What the driver must handle next.
enum DriverEvent {
    /// Something was read, or there is room to write more.
    Progress,
    /// It is time for maintenance.
    Tick,
    /// Everything is flushed, and the node was dropped.
    Closed,
    Broken(NodeError),
}

impl Driver {
    /// Drives `link` in a task of `runtime`.
    pub(crate) fn spawn(link: Arc<Link>, runtime: &Handle) {
        let driver = Self { link, in_flight: InFlight::default(), end_by: None, has_yielded: false };
        runtime.spawn(driver.run());
    }

    async fn run(mut self) {
        let mut backoff = Backoff::new(RECONNECT.0, RECONNECT.1);
        let mut replaced: Option<Instant> = None;
        loop {
            let cause = match self.connect().await {
                Ok((socket, greeting)) => {
                    self.link.on_connected(&greeting);
                    let cause = match self.serve(socket).await {
                        End::Closed => return,
                        End::Broken(cause) => cause,
                    };
                    if replaced.is_none_or(|replaced| replaced.elapsed() >= STEADY) {
                        // Most likely the server restarted: one attempt for which commands wait.
                        replaced = Some(Instant::now());
                        backoff.reset();
                        self.link.on_disconnected(
                            self.in_flight.drain(self.link.ctx.injected),
                            Phase::Connecting,
                            &cause,
                        );
                        continue;
                    }
                    cause
                }
                Err(cause) => cause,
            };
            self.link.on_disconnected(
                self.in_flight.drain(self.link.ctx.injected),
                Phase::Down(cause.clone()),
                &cause,
            );
            let delay = backoff.next(entropy::number(&*self.link.ctx.entropy));
            if self.wait_to_reconnect(delay).await {
                return;
            }
        }
    }

    /// Connects and runs the handshake, all within the connect timeout.
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
                    DriverEvent::Progress => {
                        // Commands that came before have waited already. Commands that come while answers
                        // are handed out are those that a yield would wait for.
                        self.has_yielded = true;
                        self.read(socket, &mut activity).await
                    }
                    DriverEvent::Tick => {
                        tick.as_mut().reset(Instant::now() + TICK);
                        self.maintain(&mut activity)
                    }
                    DriverEvent::Closed => {
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
    /// Commands that come together should go in one write. So if other tasks may be about to add
    /// commands, the driver yields once to the tasks that are ready, and then takes over what they have
    /// added as well.
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
        self.has_yielded = !self.has_yielded && socket.out.is_empty() && state.may_grow();
        let work = if self.has_yielded {
            let work = state.work(&link.ctx);
            drop(state);
            work
        } else {
            let work = self.take_over(state, socket, activity);
            if self.is_flushed(socket, work.has_unacked) {
                return Poll::Ready(DriverEvent::Closed);
            }
            work
        };
        let has_work = work.has_unacked || work.has_watchers || work.lacks_epoch;
        let is_busy = has_work || !self.in_flight.is_empty() || self.end_by.is_some();
        // Checked first: a server that always has an answer ready must not prevent it.
        if is_busy && tick.as_mut().poll(context).is_ready() {
            return Poll::Ready(DriverEvent::Tick);
        }
        if let Poll::Ready(outcome) = socket.poll_exchange(context) {
            return Poll::Ready(outcome.map_or_else(DriverEvent::Broken, |()| DriverEvent::Progress));
        }
        if self.has_yielded {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Takes over what is to be written, once everything before it is written.
    fn take_over(
        &mut self,
        mut state: MutexGuard<'_, LinkState>,
        socket: &mut Socket,
        activity: &mut Activity,
    ) -> PendingWork {
        let before = self.in_flight.pending.len();
        state.take_over(&mut socket.out, &mut self.in_flight.pending);
        if let Some(round_trip) = activity.round_trip.take() {
            state.stats.round_trip = Some(round_trip);
        }
        let (work, closing) = (state.work(&self.link.ctx), state.closing);
        drop(state);
        if closing && self.end_by.is_none() {
            self.end_by = Some(Instant::now() + self.link.ctx.connect_timeout);
        }
        if activity.probe.is_none() && self.in_flight.pending.len() > before {
            let now = self.link.ctx.clock.now();
            if before == 0 {
                activity.last_reply = now;
            }
            activity.probe = Some((self.in_flight.answered + self.in_flight.pending.len() as u64, now));
            if now.since(activity.info_requested) >= INFO_INTERVAL {
                activity.info_requested = now;
                self.request_info(now);
            }
        }
        work
    }

    /// Requests `INFO`, with the next write.
    fn request_info(&self, now: Moment) {
        let mut state = self.link.lock();
        state.outbox.request_info(self.link.login.durable);
        state.outbox.fence_ttls.expire(now);
        drop(state);
        // It is the first command of that write, and no sender wakes the driver for what follows it.
        self.link.wake();
    }

    fn is_flushed(&self, socket: &Socket, has_unacked: bool) -> bool {
        self.end_by.is_some_and(|end_by| {
            let flushed = socket.is_written() && self.in_flight.is_empty() && !has_unacked;
            flushed || Instant::now() >= end_by
        })
    }

    /// Answers everything for which a reply has come, in chunks: between them it writes what the callers
    /// of the last chunk have sent.
    async fn read(&mut self, socket: &mut Socket, activity: &mut Activity) -> Result<(), NodeError> {
        // What is sent from now on cannot have been answered yet.
        let due = self.in_flight.answered + self.in_flight.pending.len() as u64;
        let mut chunks = ReplyChunks::new(self.link.ctx.is_single, self.in_flight.pending.len());
        while self.read_chunk(socket, activity, chunks.chunk(), due)? {
            chunks.yield_between(&*self.link.ctx.clock).await;
            let link = self.link.clone();
            self.take_over(link.lock(), socket, activity);
            if let Err(cause) = socket.begin_writing().await {
                // Replies that came count, even if the server has closed the connection by now.
                self.read_chunk(socket, activity, u64::MAX, due)?;
                return Err(cause);
            }
        }
        Ok(())
    }

    /// Answers at most `chunk` commands, none after the one with the number `due`; `true` if there may be
    /// more replies.
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
                    if self.link.ctx.injected.is_on(InjectedBug::RepeatedReply) {
                        continue;
                    }
                    return Err(protocol("a reply without a command"));
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

    /// Sends unacknowledged releases again, and gives a mute server up.
    fn maintain(&mut self, activity: &mut Activity) -> Result<(), NodeError> {
        let ctx = &self.link.ctx;
        let now = ctx.clock.now();
        let limit = MUTE.max(ctx.node_timeout.saturating_mul(20));
        if !self.in_flight.is_empty() && now.since(activity.last_reply) > limit {
            let message = format!("no answer for {limit:?}");
            return Err(broken(io::Error::new(io::ErrorKind::TimedOut, message)));
        }
        let mut state = self.link.lock();
        state.resend_unacked(now);
        if !state.wakeups.is_empty() && now.since(activity.announced) >= ANNOUNCE_INTERVAL {
            activity.announced = now;
            state.outbox.announce_waiting();
        }
        if state.lacks_epoch(ctx) {
            state.reverify(ctx, &self.link.login);
        }
        let is_due = !state.outbox.is_empty();
        drop(state);
        if is_due {
            // An earlier write may still block these commands, and no sender wakes the driver for what is
            // behind the first.
            self.link.wake();
        }
        Ok(())
    }

    /// Waits before the next attempt; `true` if none is needed any more.
    async fn wait_to_reconnect(&mut self, delay: Duration) -> bool {
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
        self.link.on_disconnected(
            self.in_flight.drain(self.link.ctx.injected),
            Phase::Idle,
            &NodeError::Abandoned,
        );
    }
}
