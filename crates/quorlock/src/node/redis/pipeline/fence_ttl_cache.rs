//! Names whose fence counter was told lately how long to be kept, so that not every release tells it again.

use quorlock_core::{Moment, Name};
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How many names are remembered. Two that fall on the same place push each other out, and are told more often.
const MOST: usize = 16 * 1024;
/// How long telling once is enough: a counter is kept for a week.
const LATELY: Duration = Duration::from_secs(3600);

/// Which part of an entry tells the servers; the rest tells the name.
const SERVERS: u64 = u32::MAX as u64;

/// Which counters were told on which server of a locker. Cheap to clone.
///
/// The servers share one table, as a release goes to all of them: five tables would be five waits for memory.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Table>);

#[derive(Default)]
struct Table {
    /// At the place that a name gives: the upper half of its number, and behind that a bit for each server that was told. Made
    /// with the first release.
    names: OnceLock<Box<[AtomicU64]>>,
    servers: AtomicU32,
}

impl Kept {
    /// The part of one more server.
    pub(crate) fn join(&self) -> Told {
        let number = self.0.servers.fetch_add(1, Ordering::Relaxed);
        // Servers for which there is no bit are told with every release.
        Told { kept: self.clone(), bit: 1_u64.checked_shl(number).unwrap_or(0) & SERVERS, since: None }
    }
}

impl fmt::Debug for Kept {
    /// The table is long, and tells nothing to people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

/// What one server was told. A bit is set and cleared by its own server only, one call after another, so that no order among
/// servers is needed.
#[derive(Debug)]
pub(crate) struct Told {
    kept: Kept,
    bit: u64,
    since: Option<Moment>,
}

impl Told {
    /// Notes that the counter of `name` is told now; `false` if that was done lately.
    ///
    /// Two names at one place whose numbers have the same upper half are taken for one: a counter may then be kept for ever,
    /// or end a week after it was last told. Fences go on with the time of day.
    pub(crate) fn tell(&mut self, name: &Name) -> bool {
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
        // If the entry was changed for another server in this very moment, ours is told once more.
        let _ = entry.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed);
        true
    }

    /// Forgets what was told too long ago.
    pub(crate) fn age(&mut self, now: Moment) {
        if self.since.is_none_or(|since| now.since(since) >= LATELY) {
            self.forget(now);
        }
    }

    /// Forgets everything: the server may have, too.
    pub(crate) fn forget(&mut self, now: Moment) {
        self.since = Some(now);
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

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn a_counter_is_told_once_an_hour_and_after_the_server_forgot() {
        let name = Name::new("a").unwrap();
        let mut told = Kept::default().join();
        told.age(at(10));
        assert!(told.tell(&name) && !told.tell(&name));
        assert!(told.tell(&Name::new("b").unwrap()));
        told.age(at(3000));
        assert!(!told.tell(&name));
        told.age(at(3700));
        assert!(told.tell(&name));
        told.forget(at(3800));
        assert!(told.tell(&name));
        told.age(at(7350));
        assert!(!told.tell(&name), "an hour after it forgot is later");
    }

    #[test]
    fn what_one_server_was_told_or_forgot_means_nothing_to_another() {
        let kept = Kept::default();
        let name = Name::new("a").unwrap();
        let mut servers: Vec<Told> = (0..34).map(|_| kept.join()).collect();
        let tell = |servers: &mut [Told]| -> Vec<usize> {
            let told = servers.iter_mut().map(|told| told.tell(&name));
            told.enumerate().filter(|(_, told)| *told).map(|(server, _)| server).collect()
        };
        assert_eq!(tell(&mut servers).len(), 34);
        servers[1].forget(at(1));
        assert_eq!(tell(&mut servers), [1, 32, 33], "there are 32 bits");
        assert_eq!(tell(&mut servers), [32, 33]);
    }

    #[test]
    fn many_names_are_remembered_and_too_many_are_told_more_often() {
        let names = |count| (0..count).map(|number| Name::new(format!("n{number}")).unwrap());
        let mut server = Kept::default().join();
        let mut told = |count| names(count).filter(|name| server.tell(name)).count();
        assert_eq!(told(1000), 1000);
        assert!(told(1000) < 150);
        assert!(told(8 * MOST) > 7 * MOST);
    }

    #[test]
    fn a_locker_can_be_printed() {
        let kept = Kept::default();
        kept.join().tell(&Name::new("a").unwrap());
        assert_eq!(format!("{kept:?}"), "Kept { .. }");
    }
}
