//! What each command does to the znode of its name. Every change is one write, and only to the version that the
//! decision was made on.
//!
//! So whatever is still on its way has no effect once the znode was written again.

use crate::context::clock::Clock;
use crate::context::entropy::Entropy;
use crate::node::engine::{Failure, Limits};
use crate::node::record::{Hold, Place, Record, RefusedClient, SlotsRecord, with_taken};
use crate::node::zookeeper::client::Client;
use crate::node::zookeeper::client::call::CallError;
use crate::node::zookeeper::client::jute::Stat;
use crate::node::zookeeper::client::operation::{Operation, Refusal};
use crate::node::zookeeper::known::{Found, KnownNames};
use crate::node::zookeeper::leader_clock::{LeaderClock, Missing, term_of};
use crate::node::zookeeper::paths::Paths;
use crate::node::zookeeper::stored::{Span, Stored, StoredHold, StoredSlots, Written};
use crate::node::zookeeper::sweep::Sweeper;
use crate::node::{AcquireKind, Command, Denied, NodeError, RecordSlots, Reply};
use quorlock_core::{Moment, Token};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How often a change is tried while other clients change the name first.
const MAX_TRIES: usize = 64;

/// A znode that was not written for as long, in milliseconds, is written with care: long before it is swept.
const MAX_YOUNG_MILLIS: u64 = 24 * 3600 * 1000;

/// The znodes of one ensemble. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) client: Client,
    pub(crate) paths: Arc<Paths>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) leader_clock: Arc<LeaderClock>,
    pub(crate) known: Arc<KnownNames>,
    pub(crate) sweeper: Arc<Sweeper>,
    pub(crate) limits: Limits,
}

/// Whether a command that changes nothing writes the znode all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// Only if something changes.
    IfChanged,
    /// In any case, so that what is still on its way has no effect.
    Always,
}

impl Store {
    pub(crate) async fn execute_command(
        &self,
        command: &Command,
        writing: Writing,
    ) -> Result<Reply, Failure> {
        if let Command::Acquire(acquire) = command
            && acquire.kind == AcquireKind::Repair
        {
            return Err(Failure::Unsent(NodeError::Server { message: "an ensemble needs no repair".into() }));
        }
        let (deadline, name) = (self.client.deadline(), command.name());
        let path = self.paths.of(name);
        let may_guess = writing == Writing::IfChanged && !is_read(command);
        let known = may_guess.then(|| self.known.find(name, self.clock.now())).flatten();
        let mut is_contended = known.as_ref().is_some_and(|(_, is_contended)| *is_contended);
        // No other client writes while we hold a name alone.
        let is_likely = !is_contended || !matches!(command, Command::Acquire(_));
        let mut guess = known.filter(|_| is_likely).map(|(found, _)| found);
        for _ in 0..MAX_TRIES {
            if Instant::now() >= deadline {
                return Err(Failure::Unsent(NodeError::Timeout { after: self.limits.request }));
            }
            let is_guess = guess.is_some();
            let found = match guess.take() {
                Some(found) => found,
                None => {
                    let found = self.load(&path, deadline).await.map_err(Failure::Unsent)?;
                    is_contended = self.known.is_contended(name, found.version);
                    self.ask_times(&found.stored, command, deadline).await.map_err(Failure::Unsent)?;
                    found
                }
            };
            let (reply, after) = self.decide(&found.stored, command);
            let after = match writing {
                Writing::IfChanged => after,
                Writing::Always => Some(after.unwrap_or_else(|| found.stored.clone())),
            };
            let Some(after) = after else {
                // Only a write shows whether what is known is still true.
                if is_guess {
                    continue;
                }
                if has_arrived_before(&found.stored, command) {
                    let message = "this attempt was executed before".into();
                    return Err(Failure::Unknown(NodeError::Server { message }));
                }
                self.known.put(name, found, self.clock.now(), true);
                return self.finish(&path, command, reply, deadline).await;
            };
            match self.store(&path, &after, &found, deadline).await {
                Ok(stat) => {
                    self.stored(command, after, stat, is_contended);
                    return self.finish(&path, command, reply, deadline).await;
                }
                Err(CallError::Refused(Refusal::BAD_VERSION | Refusal::NO_NODE | Refusal::NODE_EXISTS)) => {
                    is_contended = true;
                }
                Err(error) => {
                    self.known.forget(name);
                    return Err(match error {
                        CallError::Unknown(error) => Failure::Unknown(error),
                        error => Failure::Unsent(error.cause(&path)),
                    });
                }
            }
        }
        Err(Failure::Unsent(NodeError::Server { message: "others changed the lock again and again".into() }))
    }

    /// What becomes of `before` by `command`; `None` if it stays as it is.
    fn decide(&self, before: &Stored, command: &Command) -> (Reply, Option<Stored>) {
        let now = self.clock.now();
        let mut record = self.record(before, now, is_read(command));
        record.drop_ended(|hold| now >= hold.deadline);
        let reply = record.execute(command, now, &Place::default());
        let after = || self.after(before, &record, command, now);
        let after = match (&reply, command) {
            // It is over but still there: what is on its way for it must not bring it back.
            (
                Reply::Denied(Denied::Gone),
                Command::Release { token, .. } | Command::Downgrade { token, .. },
            ) if has_token(before, token) => Some(after()),
            (Reply::Denied(_) | Reply::Failed(_), _) | (_, Command::Inspect { .. }) => None,
            (_, Command::Slots { record: RecordSlots::Nothing, .. }) => None,
            (_, Command::Slots { .. }) => Some(after()).filter(|after| after.slots != before.slots),
            (_, Command::HoldOffReaders { ttl, .. }) if ttl.is_zero() && before.no_readers.is_none() => None,
            // Even a downgrade that finds a shared hold: its upgrade may still be on its way.
            _ => Some(after()),
        };
        (reply, after)
    }

    /// `stored` with moments of our own clock.
    pub(crate) fn record(&self, stored: &Stored, now: Moment, is_report: bool) -> Record {
        let began = |hold: &StoredHold| match is_report {
            true => self.leader_clock.estimate(Some(hold.token()), &hold.span, now),
            false => self.leader_clock.began_by(Some(hold.token()), &hold.span, now),
        };
        let hold = |hold: &StoredHold| Hold {
            mode: hold.mode,
            value: hold.value.clone(),
            deadline: began(hold) + hold.span.length,
            span: hold.span.length,
            boot: Default::default(),
            tied: None,
        };
        // Only fairness and reports depend on these.
        let estimate = |span: &Span| self.leader_clock.estimate(None, span, now);
        let refused = |(count, span): (u32, Span)| RefusedClient {
            count,
            at: estimate(&span),
            boot: Default::default(),
        };
        let slots =
            |slots: StoredSlots| SlotsRecord { count: slots.count, refused: slots.refused.map(refused) };
        Record {
            counter: stored.counter,
            holds: stored.holds.iter().map(hold).collect(),
            no_readers_until: stored.no_readers.map(|span| estimate(&span) + span.length),
            slots: stored.slots.map(slots),
        }
    }

    /// What to store for `record`, which `command` made of `before`.
    fn after(&self, before: &Stored, record: &Record, command: &Command, now: Moment) -> Stored {
        let renewed = match command {
            Command::Acquire(acquire) => Some(&acquire.token),
            Command::Extend { token, .. } => Some(token),
            _ => None,
        };
        let span_of = |hold: &Hold| {
            let token = hold.value.split(' ').next().unwrap_or_default();
            let known = before.holds.iter().find(|known| known.token() == token);
            let kept = known.filter(|_| renewed.is_none_or(|renewed| renewed.as_str() != token));
            kept.map_or(Span::new(now.until(hold.deadline)), |kept| kept.span)
        };
        let hold =
            |hold: &Hold| StoredHold { mode: hold.mode, value: hold.value.clone(), span: span_of(hold) };
        let no_readers = match command {
            Command::HoldOffReaders { .. } => {
                record.no_readers_until.map(|until| Span::new(now.until(until)))
            }
            _ => before.no_readers.filter(|_| record.no_readers_until.is_some_and(|until| until > now)),
        };
        let slots = record.slots.map(|slots| StoredSlots {
            count: slots.count,
            refused: slots.refused.map(|refused| match command {
                Command::Slots { record: RecordSlots::Refused, .. } => {
                    (refused.count, Span::new(Duration::ZERO))
                }
                _ => before
                    .slots
                    .and_then(|before| before.refused)
                    .unwrap_or((refused.count, Span::new(Duration::ZERO))),
            }),
        });
        Stored { counter: record.counter, holds: record.holds.iter().map(hold).collect(), no_readers, slots }
    }

    /// Reads the znode at `path` as the leader knows it now.
    pub(crate) async fn load(&self, path: &str, deadline: Instant) -> Result<Found, NodeError> {
        let failed = |error: CallError| error.cause(path);
        let mut directory = None;
        let mut found = self.client.read(path, deadline).await.map_err(failed)?;
        if found.as_ref().is_some_and(|(_, stat)| self.may_be_swept(*stat)) {
            let above = self.client.stat(self.paths.directory(path), deadline).await.map_err(failed)?;
            directory = above.map(|above| above.version);
            found = self.client.read(path, deadline).await.map_err(failed)?;
        }
        let Some((data, stat)) = found else {
            return Ok(Found { stored: Stored::default(), version: None, directory: None });
        };
        let stored = Stored::parse(&data, stat)?;
        self.see(&stored);
        Ok(Found { stored, version: Some(stat.version), directory })
    }

    /// Whether the znode is so old that a client may delete it. Clocks that are wrong by days make us say so too
    /// often, or never while the name is in use.
    fn may_be_swept(&self, stat: Stat) -> bool {
        let now = i64::try_from(self.clock.wall().as_micros() / 1000).unwrap_or(i64::MAX);
        now.abs_diff(stat.mtime) > MAX_YOUNG_MILLIS
    }

    /// Remembers when each hold was seen first.
    pub(crate) fn see(&self, stored: &Stored) {
        let now = self.clock.now();
        stored.holds.iter().for_each(|hold| self.leader_clock.see(hold.token(), &hold.span, now));
    }

    /// Asks for the time of the leader, if a hold may be over and we cannot know.
    async fn ask_times(
        &self,
        stored: &Stored,
        command: &Command,
        deadline: Instant,
    ) -> Result<(), NodeError> {
        // A release needs no time, and neither does a client that waits for others.
        if matches!(command, Command::Release { .. } | Command::HoldOffReaders { .. }) {
            return Ok(());
        }
        // A sample may show that there is another leader, whose mark is missing.
        for _ in 0..2 {
            let now = self.clock.now();
            let has_sample = self.leader_clock.term().is_some();
            let missing = stored.holds.iter().filter_map(|hold| self.leader_clock.missing(&hold.span, now));
            let asked = match missing.max_by_key(|missing| *missing == Missing::Sample) {
                Some(_) if is_read(command) && has_sample => return Ok(()),
                None if has_sample || stored.no_readers.is_none() => return Ok(()),
                None => self.ask_time(deadline).await,
                Some(Missing::Sample) => self.ask_time(deadline).await,
                Some(Missing::Mark) => self.ask_mark(deadline).await,
            };
            match asked {
                Ok(()) => {}
                // Without the right to write there, holds are over when we have watched them long enough.
                Err(CallError::Refused(_)) => return Ok(()),
                Err(error) => return Err(error.cause(&self.paths.clock)),
            }
        }
        Ok(())
    }

    /// Reads the clock of the leader by a write.
    pub(crate) async fn ask_time(&self, deadline: Instant) -> Result<(), CallError> {
        let stat = self.client.write(&self.paths.clock, &[], -1, deadline).await?;
        self.leader_clock.sample(stat.into(), self.clock.now());
        Ok(())
    }

    /// Finds the mark of the leader of the last sample, or sets it.
    async fn ask_mark(&self, deadline: Instant) -> Result<(), CallError> {
        let path = &self.paths.term;
        let stat = self.client.stat(path, deadline).await?.unwrap_or_default();
        if Some(term_of(stat.mzxid)) == self.leader_clock.term() {
            self.leader_clock.set_mark(stat.into());
            return Ok(());
        }
        match self.client.write(path, &[], stat.version, deadline).await {
            Ok(stat) => {
                self.leader_clock.sample(stat.into(), self.clock.now());
                self.leader_clock.set_mark(stat.into());
                Ok(())
            }
            // Another client has set it, and the next command finds it.
            Err(CallError::Refused(Refusal::BAD_VERSION)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Stores `after` if the znode is still as it was `found`.
    pub(crate) async fn store(
        &self,
        path: &str,
        after: &Stored,
        found: &Found,
        deadline: Instant,
    ) -> Result<Stat, CallError> {
        let data = after.encode();
        match found.version {
            // ZooKeeper takes it for any version.
            Some(-1) => {
                let message =
                    "the versions of this name's znode are used up; delete it while no client uses it";
                Err(CallError::Unsent(NodeError::Server { message: message.into() }))
            }
            Some(version) => match found.directory {
                None => self.client.write(path, data.as_bytes(), version, deadline).await,
                Some(directory) => {
                    let unchanged = Operation::Check { path: self.paths.directory(path), version: directory };
                    let write = Operation::Write { path, data: data.as_bytes(), version };
                    self.client.all(&[unchanged, write], deadline).await
                }
            },
            None => match self.client.create(path, data.as_bytes(), deadline).await {
                Err(CallError::Refused(Refusal::NO_NODE)) => {
                    self.create_above(path, deadline).await?;
                    self.client.create(path, data.as_bytes(), deadline).await
                }
                created => created,
            },
        }
    }

    /// Creates the directory of a name, and the semaphore of a slot. Whether that is done never matters to what
    /// a command does.
    async fn create_above(&self, path: &str, deadline: Instant) -> Result<(), CallError> {
        for above in self.paths.above(path) {
            match self.client.create(&above, &[], deadline).await {
                Ok(_) | Err(CallError::Refused(Refusal::NODE_EXISTS)) => {}
                Err(CallError::Unknown(error)) => return Err(CallError::Unsent(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Remembers what `command` has stored.
    fn stored(&self, command: &Command, after: Stored, stat: Stat, is_contended: bool) {
        let (now, written) = (self.clock.now(), Written::from(stat));
        self.leader_clock.sample(written, now);
        let stored = after.stored_by(written);
        self.see(&stored);
        match command {
            Command::Release { token, .. } => self.leader_clock.forget(token.as_str()),
            Command::Acquire(_) => self.sweeper.count(self),
            _ => {}
        }
        let found = Found { stored, version: Some(stat.version), directory: None };
        self.known.put(command.name(), found, now, is_contended);
    }

    /// The reply, with which slots are taken.
    async fn finish(
        &self,
        path: &str,
        command: &Command,
        reply: Reply,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let Command::Slots { name, count, .. } = command else { return Ok(reply) };
        let taken = self.taken_slots(path, name, *count, deadline).await;
        Ok(with_taken(reply, taken.map_err(|error| Failure::Unknown(error.cause(path)))?))
    }
}

/// Whether `command` is a vote that took the name already. Its release must find the hold.
fn has_arrived_before(stored: &Stored, command: &Command) -> bool {
    let Command::Acquire(acquire) = command else { return false };
    acquire.kind == AcquireKind::Vote && has_token(stored, &acquire.token)
}

fn has_token(stored: &Stored, token: &Token) -> bool {
    stored.holds.iter().any(|hold| hold.token() == token.as_str())
}

/// Whether the command decides nothing by time.
fn is_read(command: &Command) -> bool {
    matches!(command, Command::Inspect { .. } | Command::Slots { .. })
}
