//! Which locks get a label of their own: those in recent use, up to a bound.

use crate::metrics::catalog::HELD;
use crate::metrics::series::Series;
use ::metrics::SharedString;
use quorlock_core::Name;
use quorlock_core::hash::fnv1a;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A name that was not used for this long, and is not held, gives its label to another.
const IDLE: Duration = Duration::from_secs(600);
/// How often idle names are searched for while new ones come.
const SWEEP: Duration = Duration::from_secs(10);
/// The longest name that is a label as it is, in characters. A longer one is cut, and ends with its hash.
const MAX_LABEL: usize = 100;
/// The label of all names without their own.
const OTHER: SharedString = SharedString::const_str("other");

/// The names that have a label of their own.
///
/// A series keeps its meaning: a label always means the same name. Recorders that drop idle series see an
/// update of every counter of a name at least as often as [`Names::touch`] is called, until the name is
/// idle itself.
#[derive(Debug)]
pub(crate) struct Names {
    most: usize,
    start: Instant,
    slots: RwLock<Slots>,
    /// That of all names without a label of their own.
    other: Arc<Series>,
}

#[derive(Debug, Default)]
struct Slots {
    /// Names with their own label, and those without one that are held.
    by_name: BTreeMap<Name, Slot>,
    own: usize,
    swept: Duration,
}

#[derive(Debug)]
struct Slot {
    series: Arc<Series>,
    is_own: bool,
    /// Milliseconds since the start.
    used: AtomicU64,
    held: AtomicUsize,
}

impl Names {
    pub(crate) fn up_to(most: usize) -> Self {
        let other = Arc::new(Series::new(OTHER));
        Self { most, start: Instant::now(), slots: RwLock::default(), other }
    }

    /// The series of `name`.
    pub(crate) fn series(&self, name: &Name) -> Arc<Series> {
        self.series_at(name, self.start.elapsed())
    }

    /// Adds one to the locks that are held under `name`. It keeps its label until they are released.
    pub(crate) fn hold(&self, name: &Name) -> Arc<Series> {
        let new = || {
            // Gives it a label of its own, if there is room.
            self.series(name);
            self.hold_existing(name)
        };
        let series = self.hold_existing(name).or_else(new).unwrap_or_else(|| {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let without = || Slot { is_own: false, ..Slot::new(self.other.clone(), Duration::ZERO) };
            slots.by_name.entry(name.clone()).or_insert_with(without).hold()
        });
        series.gauge(HELD, |held| held.increment(1));
        series
    }

    fn hold_existing(&self, name: &Name) -> Option<Arc<Series>> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.by_name.get(name).map(Slot::hold)
    }

    /// Subtracts one from the locks that are held under `name`.
    pub(crate) fn release(&self, name: &Name) -> Arc<Series> {
        let (series, is_last) = self.release_existing(name).unwrap_or_else(|| (self.series(name), false));
        if is_last {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            // Another lock of this name may have been taken in the meantime.
            if slots.by_name.get(name).is_some_and(|slot| slot.held.load(Ordering::Relaxed) == 0) {
                slots.by_name.remove(name);
            }
        }
        series.gauge(HELD, |held| held.decrement(1));
        series
    }

    /// The series of `name`, and whether its slot is of no use any more.
    fn release_existing(&self, name: &Name) -> Option<(Arc<Series>, bool)> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.by_name.get(name)?;
        slot.used.store(millis(self.start.elapsed()), Ordering::Relaxed);
        let is_last = slot.release() == 0 && !slot.is_own;
        Some((slot.series.clone(), is_last))
    }

    /// Updates the series of names in use, so that recorders that drop idle series keep them.
    pub(crate) fn touch(&self) {
        let now = self.start.elapsed();
        self.other.touch();
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        for slot in slots.by_name.values() {
            if slot.held.load(Ordering::Relaxed) > 0 {
                slot.series.gauge(HELD, |held| held.increment(0));
            }
            if slot.is_own && !slot.is_idle(now) {
                slot.series.touch();
            }
        }
    }

    fn series_at(&self, name: &Name, now: Duration) -> Arc<Series> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.by_name.get(name) {
            slot.used.store(millis(now), Ordering::Relaxed);
            return slot.series.clone();
        }
        let may_fit = slots.own < self.most || (self.most > 0 && now >= slots.swept + SWEEP);
        drop(slots);
        if may_fit { self.add_name(name, now) } else { self.other.clone() }
    }

    fn add_name(&self, name: &Name, now: Duration) -> Arc<Series> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have added it first.
        if let Some(slot) = slots.by_name.get(name) {
            return slot.series.clone();
        }
        if slots.own >= self.most {
            slots.sweep(now);
        }
        if slots.own >= self.most {
            return self.other.clone();
        }
        slots.own += 1;
        let series = Arc::new(Series::new(SharedString::from(label_of(name.as_str()))));
        slots.by_name.insert(name.clone(), Slot::new(series.clone(), now));
        series
    }
}

impl Slots {
    fn sweep(&mut self, now: Duration) {
        self.swept = now;
        self.by_name.retain(|_, slot| !slot.is_own || !slot.is_idle(now));
        self.own = self.by_name.values().filter(|slot| slot.is_own).count();
    }
}

impl Slot {
    fn new(series: Arc<Series>, now: Duration) -> Self {
        Self { series, is_own: true, used: AtomicU64::new(millis(now)), held: AtomicUsize::new(0) }
    }

    fn hold(&self) -> Arc<Series> {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.series.clone()
    }

    /// Subtracts one; returns how many are still held.
    fn release(&self) -> usize {
        let less = |held: usize| Some(held.saturating_sub(1));
        let before = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        before.map_or(0, |before| before.saturating_sub(1))
    }

    fn is_idle(&self, now: Duration) -> bool {
        let used = Duration::from_millis(self.used.load(Ordering::Relaxed));
        self.held.load(Ordering::Relaxed) == 0 && now.saturating_sub(used) >= IDLE
    }
}

/// A label of bounded length. Two names have the same one only if their hashes are equal, too.
fn label_of(name: &str) -> String {
    match name.char_indices().nth(MAX_LABEL) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…#{:016x}", &name[..end], fnv1a(name.as_bytes())),
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn names_in_use_have_labels_and_the_rest_is_other() {
        let names = Names::up_to(2);
        let label = |text: &str, minutes: u64| {
            names.series_at(&name(text), Duration::from_secs(60 * minutes)).resource().to_owned()
        };
        assert_eq!(["a", "b", "c", "a"].map(|text| label(text, 0)), ["a", "b", "other", "a"]);
        assert_eq!(label("a", 9), "a");
        assert_eq!(label("c", 9), "other");
        assert_eq!(label("c", 11), "c", "`b` was not used for 10 minutes");
        assert_eq!(["a", "b", "c"].map(|text| label(text, 11)), ["a", "other", "c"]);
        assert_eq!(Names::up_to(0).series(&name("a")).resource(), "other");
    }

    #[test]
    fn a_held_name_keeps_its_label() {
        let names = Names::up_to(1);
        let late = Duration::from_secs(3600);
        assert_eq!(names.hold(&name("held")).resource(), "held");
        assert_eq!(names.hold(&name("late")).resource(), "other");
        assert_eq!(names.series_at(&name("new"), late).resource(), "other");
        assert_eq!(names.release(&name("held")).resource(), "held");
        assert_eq!(names.series_at(&name("new"), 2 * late).resource(), "new");
        assert_eq!(names.release(&name("late")).resource(), "other", "it was counted there");
        assert_eq!(names.slots.read().unwrap().by_name.len(), 1);
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let (one, two) = ("é".repeat(100) + "1", "é".repeat(100) + "2");
        let labels = [&one, &two].map(|name| label_of(name));
        assert_ne!(labels[0], labels[1]);
        for label in &labels {
            assert_eq!(label.chars().count(), 118, "{label}");
            assert!(label.starts_with(&"é".repeat(100)), "{label}");
        }
        assert_eq!(label_of(&"x".repeat(100)), "x".repeat(100));
        assert_eq!(label_of("é"), "é");
    }
}
