//! What this client knows of its own holds and of names without asking the cluster.

use crate::context::mutex::Mutex;
use crate::node::consul::name_record::ReadRecord;
use crate::node::consul::sessions::Session;
use quorlock_core::{Mode, Name, Token};
use std::collections::HashMap;
use std::sync::Arc;

/// The most holds that are remembered. A release or an extension of a further one reads its key first.
const MAX_HOLDS: usize = 16_384;
/// The most names whose records are remembered. An acquire of a further one reads its record first.
const MAX_RECORDS: usize = 4096;
/// How many acquires of a name read its record first after another client has changed it.
const CAUTION: u32 = 8;

/// One hold, or an attempt to get it whose outcome is not known.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) session: Arc<Session>,
    /// What is stored; `None` as long as that is not known.
    pub(crate) stored: Option<StoredHold>,
}

/// A hold as the cluster stores it.
#[derive(Clone, Debug)]
pub(crate) struct StoredHold {
    pub(crate) mode: Mode,
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u64,
    /// Where in the history of the cluster its key was written.
    pub(crate) index: u64,
}

/// The names of a set have the same token.
type HoldId = (Name, Token);

/// The holds of this client. While one is remembered, its session is not ended.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<HashMap<HoldId, Hold>>);

impl Holds {
    pub(crate) fn get(&self, name: &Name, token: &Token) -> Option<Hold> {
        self.0.lock().get(&(name.clone(), *token)).cloned()
    }

    pub(crate) fn set(&self, name: &Name, token: &Token, hold: Hold) {
        let mut holds = self.0.lock();
        let id = (name.clone(), *token);
        if holds.len() < MAX_HOLDS || holds.contains_key(&id) {
            holds.insert(id, hold);
        } else {
            hold.session.keep();
        }
    }

    /// What is stored for the hold is not known any more.
    pub(crate) fn forget_stored(&self, name: &Name, token: &Token) {
        if let Some(hold) = self.0.lock().get_mut(&(name.clone(), *token)) {
            hold.stored = None;
        }
    }

    /// The hold does not exist.
    pub(crate) fn remove(&self, name: &Name, token: &Token) {
        self.0.lock().remove(&(name.clone(), *token));
    }
}

/// The records of names that no client held when this one last used them.
#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<HashMap<Name, KnownRecord>>);

#[derive(Debug)]
struct KnownRecord {
    read: ReadRecord,
    /// How many acquires shall read the record first.
    caution: u32,
}

impl Records {
    /// The record of `name`, if it is probably still the same. A transaction that replaces it finds out.
    pub(crate) fn get(&self, name: &Name) -> Option<ReadRecord> {
        let mut records = self.0.lock();
        let known = records.get_mut(name)?;
        if known.caution > 0 {
            known.caution -= 1;
            return None;
        }
        Some(known.read.clone())
    }

    /// No client shares the name since `read` was written.
    pub(crate) fn set(&self, name: &Name, read: ReadRecord) {
        let mut records = self.0.lock();
        if let Some(known) = records.get_mut(name) {
            known.read = read;
            return;
        }
        if records.len() >= MAX_RECORDS {
            records.clear();
        }
        records.insert(name.clone(), KnownRecord { read, caution: 0 });
    }

    /// Another client has changed the record.
    pub(crate) fn was_changed(&self, name: &Name) {
        if let Some(known) = self.0.lock().get_mut(name) {
            known.caution = CAUTION;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_another_client_changed_is_read_first_for_a_while() {
        let (records, name) = (Records::default(), Name::new("a").unwrap());
        assert_eq!(records.get(&name), None);
        records.set(&name, ReadRecord { index: 5, ..ReadRecord::default() });
        assert_eq!(records.get(&name).unwrap().index, 5);
        records.was_changed(&name);
        records.set(&name, ReadRecord { index: 9, ..ReadRecord::default() });
        for _ in 0..CAUTION {
            assert_eq!(records.get(&name), None);
        }
        assert_eq!(records.get(&name).unwrap().index, 9);
    }

    #[test]
    fn records_are_forgotten_when_there_are_too_many() {
        let records = Records::default();
        for number in 0..=MAX_RECORDS {
            records.set(&Name::new(format!("n{number}")).unwrap(), ReadRecord::default());
        }
        assert_eq!(records.0.lock().len(), 1);
    }
}
