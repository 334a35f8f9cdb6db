//! Finds a lock, a slot of a semaphore, or the taken slots of a semaphore, by the name that the user gave.

use crate::args::{HeldLock, SlotArgs};
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{lock_json, lock_view, slots_view};
use quorlock::{Inspection, Lock, Locker, SlotsInspection, Token};
use serde_json::Value;
use std::iter;
use std::time::SystemTime;

/// How many slots are inspected if their number is not known: one round to the nodes.
const FIRST_SLOTS: u32 = 16;

/// What the nodes have under a name.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) lock: Inspection,
    /// How many slots the semaphore has, if the user said so or the nodes have recorded it.
    slots: Option<u32>,
    /// What the nodes have recorded for the semaphore of this name, if we may read that.
    record: Option<SlotsInspection>,
    /// The slots that are taken, if the name is that of a semaphore.
    pub(crate) permits: Vec<Inspection>,
}

impl Found {
    /// Inspects `name`. A lock that is free may be a semaphore that is in use.
    ///
    /// # Errors
    /// Too few nodes answered, or the name cannot be used.
    pub(crate) async fn inspect(locker: &Locker, name: &str, args: SlotArgs) -> Result<Self, Failure> {
        let lock = match args.slot {
            Some(slot) => locker.slot(name, slot)?,
            None => locker.named(name)?,
        };
        let record = match args.slot {
            Some(_) => None,
            None => lock.inspect_slots().await.ok(),
        };
        let lock = lock.inspect().await?;
        let is_lock = args.slot.is_some() || lock.is_held();
        let recorded = record.as_ref().and_then(|record| record.recorded).filter(|_| !is_lock);
        let (slots, permits) = match args.slots.or(recorded) {
            Some(slots) => (Some(slots), locker.semaphore(name, slots)?.permits().await?),
            None if is_lock => (None, Vec::new()),
            None => (None, first_permits(locker, name).await),
        };
        Ok(Self { lock, slots, record, permits })
    }

    /// Whether it is shown as a semaphore.
    pub(crate) fn is_semaphore(&self) -> bool {
        self.slots.is_some() || !self.permits.is_empty()
    }

    /// On what the clients of the semaphore disagree, one line each.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let Some(record) = self.record.as_ref().filter(|_| self.is_semaphore()) else { return Vec::new() };
        let mut lines: Vec<String> =
            slots_view::disagreements(record).iter().map(|disagreement| disagreement.line()).collect();
        if let (Some(recorded), Some(given)) = (record.recorded, self.slots)
            && recorded != given
        {
            lines.push(format!("semaphore `{}` has {recorded} slots, not {given}", record.name));
        }
        lines
    }

    /// For people.
    pub(crate) fn text(&self, now: SystemTime) -> String {
        if self.is_semaphore() {
            return lock_view::permits_text(self.lock.name.as_str(), self.slots, &self.permits, now);
        }
        lock_view::lock_text(&self.lock, now)
    }

    /// For programs, with tokens only if `show_token`.
    pub(crate) fn to_json(&self, now: SystemTime, show_token: bool) -> Value {
        let mut object = lock_json::lock_json(&self.lock, now, show_token);
        object["slots"] = self.slots.into();
        object["warnings"] = self.warnings().into();
        object["permits"] = lock_json::locks_json(&self.permits, now, show_token).into();
        object
    }
}

/// The taken ones of the first slots of `name`, if it is a semaphore. A client that may not read their
/// keys sees none: the user asked for a lock.
async fn first_permits(locker: &Locker, name: &str) -> Vec<Inspection> {
    match locker.semaphore(name, FIRST_SLOTS) {
        Ok(semaphore) => semaphore.permits().await.unwrap_or_default(),
        Err(_) => Vec::new(),
    }
}

/// The lock that `token` holds.
///
/// # Errors
/// A name cannot be used, or too few nodes answered when the slot was looked for.
pub(crate) async fn held_lock(locker: &Locker, args: &HeldLock, token: Token) -> Result<Lock, Failure> {
    if let Some(slot) = args.slot {
        return Ok(locker.slot(&args.name, slot)?);
    }
    if let Some(slots) = args.slots {
        let permits = locker.semaphore(&args.name, slots)?.permits().await?;
        let ours = permits.iter().find(|permit| lock_view::holder_with(permit, token).is_some());
        let (_, slot) = ours.and_then(|permit| permit.name.as_slot()).ok_or_else(|| no_slot(args))?;
        return Ok(locker.slot(&args.name, slot)?);
    }
    if args.also.is_empty() {
        return Ok(locker.named(&args.name)?);
    }
    Ok(locker.all(iter::once(&args.name).chain(&args.also))?)
}

fn no_slot(args: &HeldLock) -> Failure {
    let name = &args.name;
    let message = format!(
        "no slot of semaphore `{name}` is held under that token: its ttl ran out, or another client removed it"
    );
    Failure::new(Exit::Lost, "lost", message)
        .help("another client may have its slot; extend a lock before its time is over")
        .detail("name", name.as_str())
}
