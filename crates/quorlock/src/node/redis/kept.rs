//! Names whose fence counter was told lately how long to be kept, so that not every release tells it again.

use quorlock_core::{Moment, Name};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How many names are remembered. Two that fall on the same place push each other out, and are told more often.
const MOST: usize = 16 * 1024;
/// How long telling once is enough: a counter is kept for a week.
const LATELY: Duration = Duration::from_secs(3600);

/// Which counters were told on which server of a locker. Cheap to clone.
///
/// The servers share one table, as a release goes to all of them: five tables would be five waits for memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    /// At the place that a name gives: a part of its number, and behind that a bit for each server that was told. Made with
    /// the first name: most of it is never touched.
    names: OnceLock<Box<[AtomicU64]>>,
    servers: AtomicU32,
}

impl Kept {
    /// The part of one more server.
    pub(super) fn join(&self) -> Told {
        let number = self.0.servers.fetch_add(1, Ordering::Relaxed);
        // Servers for which there is no bit are told with every release.
        Told { kept: self.clone(), bit: 1_u64.checked_shl(number).unwrap_or(0) & SERVERS, since: None }
    }
}

/// Which part of an entry tells the servers; the rest tells the name.
const SERVERS: u64 = u32::MAX as u64;

/// What one server was told.
#[derive(Debug)]
pub(super) struct Told {
    kept: Kept,
    /// Its bit.
    bit: u64,
    since: Option<Moment>,
}

impl Told {
    /// Notes that the counter of `name` is told now; `false` if that was done lately.
    ///
    /// Two names with the same number are taken for one: a counter may then be kept for ever.
    pub(super) fn tell(&self, name: &Name) -> bool {
        let names = self.kept.0.names.get_or_init(|| (0..MOST).map(|_| AtomicU64::new(0)).collect());
        let number = name.number();
        let entry = &names[number as usize % MOST];
        let before = entry.load(Ordering::Relaxed);
        let is_known = (before ^ number) & !SERVERS == 0;
        if is_known && before & self.bit != 0 {
            return false;
        }
        let servers = if is_known { before & SERVERS } else { 0 };
        let after = (number & !SERVERS) | servers | self.bit;
        // If another server was told or forgot in this very moment, ours is told once more.
        let _ = entry.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
        true
    }

    /// Forgets what was told too long ago.
    pub(super) fn age(&mut self, now: Moment) {
        if self.since.is_none_or(|since| now.since(since) >= LATELY) {
            self.forget();
            self.since = Some(now);
        }
    }

    /// Forgets everything: the server may have, too.
    pub(super) fn forget(&self) {
        for entry in self.kept.0.names.get().into_iter().flatten() {
            if entry.load(Ordering::Relaxed) & self.bit != 0 {
                entry.fetch_and(!self.bit, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_told_once_an_hour_and_after_the_server_forgot() {
        let at = |seconds| Moment::from_boot(Duration::from_secs(seconds));
        let name = Name::new("a").unwrap();
        let mut told = Kept::default().join();
        told.age(at(10));
        assert!(told.tell(&name) && !told.tell(&name));
        assert!(told.tell(&Name::new("b").unwrap()));
        told.age(at(3000));
        assert!(!told.tell(&name));
        told.age(at(3700));
        assert!(told.tell(&name));
        told.forget();
        assert!(told.tell(&name));
    }

    #[test]
    fn what_one_server_was_told_or_forgot_means_nothing_to_another() {
        let kept = Kept::default();
        let name = Name::new("a").unwrap();
        let servers: Vec<Told> = (0..34).map(|_| kept.join()).collect();
        let (known, unknown) = servers.split_at(32);
        assert!(known.iter().all(|told| told.tell(&name)));
        assert!(known.iter().all(|told| !told.tell(&name)));
        known[1].forget();
        let again: Vec<bool> = known.iter().map(|told| told.tell(&name)).collect();
        assert!(again[1] && again.iter().filter(|told| **told).count() == 1, "{again:?}");
        assert!((0..2).all(|_| unknown.iter().all(|told| told.tell(&name))), "there are 32 bits");
    }

    #[test]
    fn many_names_are_remembered_and_too_many_are_told_more_often() {
        let names = |count| (0..count).map(|number| Name::new(format!("n{number}")).unwrap());
        let server = Kept::default().join();
        let told = |count| names(count).filter(|name| server.tell(name)).count();
        assert_eq!(told(1000), 1000);
        assert!(told(1000) < 150);
        assert!(told(8 * MOST) > 7 * MOST);
    }
}
