//! Executing commands on state files, one at a time under the file's kernel lock.

use crate::context::clock::Clock;
use crate::node::file::failed;
use crate::node::file::hold::is_over;
use crate::node::file::lockfile::{LockFile, Mode, peek};
use crate::node::file::path::file_name;
use crate::node::file::state::{Image, SLOT_BYTES, State};
use crate::node::record::{Place, Record, with_taken};
use crate::node::{Command, Done, NodeError, RecordSlots, Reply};
use quorlock_core::Name;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// For how many names it is remembered that their newest state is on disk. Forgetting costs nothing but a
/// longer-lived anchor.
const MAX_REMEMBERED: usize = 4096;

/// The state files of one directory, as seen from one place.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) dir: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) here: Place,
    /// How long to wait for a file's kernel lock.
    pub(crate) lock_timeout: Duration,
    /// The newest state of a name that this store synced.
    pub(crate) synced: BTreeMap<Name, u64>,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) reply: Reply,
    /// Whether the name was held before and is free now.
    pub(crate) freed: bool,
}

impl Store {
    /// Executes one command. Blocks for the file's lock and for the disk.
    pub(crate) fn execute(&mut self, command: &Command) -> Executed {
        let done = match command {
            Command::Inspect { name } => self.inspect(name, command),
            Command::Slots { name, count, .. } => self.slots(name, *count, command),
            _ => self.change(command),
        };
        done.unwrap_or_else(|error| Executed { reply: Reply::failed(error), freed: false })
    }

    fn inspect(&self, name: &Name, command: &Command) -> Result<Executed, NodeError> {
        let file = LockFile::open(&self.dir, name, Mode::Read, self.lock_timeout)?;
        let record = match file {
            Some(file) => file.load(name)?.state.record,
            None => Record::default(),
        };
        let (reply, _) = self.apply(&record, command);
        Ok(Executed { reply, freed: false })
    }

    /// Which slots of a semaphore are taken, as their files say without their locks.
    fn slots(&mut self, name: &Name, count: u32, command: &Command) -> Result<Executed, NodeError> {
        let executed = self.change(command)?;
        let now = self.clock.now();
        let is_taken = |slot| {
            let path = self.dir.join(file_name(&Name::of_slot(name, slot)));
            let holds = peek(&path).map(|image| image.state.record.holds).unwrap_or_default();
            holds.iter().any(|hold| !is_over(hold, now, &self.here))
        };
        let taken = (0..count).map(is_taken).collect();
        Ok(Executed { reply: with_taken(executed.reply, taken), ..executed })
    }

    fn change(&mut self, command: &Command) -> Result<Executed, NodeError> {
        let name = command.name();
        let mode = match command {
            Command::Slots { record: RecordSlots::Nothing, .. } => Mode::Read,
            Command::Acquire(_) | Command::Slots { .. } => Mode::Create,
            _ => Mode::Change,
        };
        let Some(file) = LockFile::open(&self.dir, name, mode, self.lock_timeout)? else {
            let (reply, _) = self.apply(&Record::default(), command);
            return Ok(Executed { reply, freed: false });
        };
        let image = file.load(name)?;
        let before = &image.state.record;
        let (reply, after) = self.apply(before, command);
        let freed = before.is_held() && !after.is_held();
        if after != *before {
            let confirmed = matches!(reply, Reply::Done(Done::Raised | Done::Stamped { .. }));
            self.write(&file, &image, after, confirmed)?;
        }
        Ok(Executed { reply, freed })
    }

    /// The reply to `command`, and what the record becomes.
    fn apply(&self, before: &Record, command: &Command) -> (Reply, Record) {
        let mut record = before.clone();
        // Read under the file's lock, so that commands and moments have the same order.
        let now = self.clock.now();
        record.drop_ended(|hold| is_over(hold, now, &self.here));
        let reply = record.execute(command, now, &self.here);
        (reply, record)
    }

    fn write(
        &mut self,
        file: &LockFile,
        image: &Image,
        record: Record,
        confirmed: bool,
    ) -> Result<(), NodeError> {
        let last = &image.state;
        let synced = self.synced.get(&last.name).copied();
        let mut anchor = synced.filter(|synced| image.has(*synced)).unwrap_or_default().max(last.anchor);
        if last.is_first() || !image.has(anchor) {
            file.sync_all(&self.dir)?;
            anchor = last.sequence;
        }
        let next = State { sequence: last.sequence + 1, anchor, name: last.name.clone(), record };
        let slot = next.encode().ok_or_else(|| {
            let limit = format!("the labels of all holders do not fit into {SLOT_BYTES} bytes");
            failed("write", &file.path, io::Error::other(limit))
        })?;
        file.write(&slot, image.next_slot(anchor))?;
        if confirmed {
            file.sync()?;
            if self.synced.len() >= MAX_REMEMBERED {
                self.synced.clear();
            }
            self.synced.insert(next.name, next.sequence);
        }
        Ok(())
    }
}
