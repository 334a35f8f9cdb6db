//! What a client wants to hold, and the call that acquires it.

use crate::rng::Rng;
use crate::simulator::SLOTS;
use crate::simulator::history::Uses;
use crate::simulator::injected_bug::Favourite;
use quorlock::{AcquireError, Guard, Locker, Mode, Name, NameSet, Semaphore};

/// The semaphore of all worlds.
const SEMAPHORE: &str = "s";
/// A name that is only acquired together with others.
const THIRD_NAME: &str = "c";

/// What a client wants to hold.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    /// One name, or several together.
    Names(NameSet, Mode),
    /// This many slots of the semaphore.
    Permits(usize),
    /// To lead an election.
    Leadership(Name),
}

impl Wanted {
    pub(crate) fn exclusive(name: Name) -> Self {
        Wanted::Names(name.into(), Mode::Exclusive)
    }

    pub(crate) fn shared(name: Name) -> Self {
        Wanted::Names(name.into(), Mode::Shared)
    }

    /// All names together.
    pub(crate) fn all_names(names: &[Name]) -> Self {
        let third = Name::new(THIRD_NAME).expect("a good name");
        let all = names.iter().cloned().chain([third]);
        Wanted::Names(NameSet::new(all).expect("different names"), Mode::Exclusive)
    }

    /// Mostly `name` alone, exclusively or shared; else it and another one, permits, or a leadership. With a
    /// `favourite` mostly that.
    pub(crate) fn draw(name: Name, names: &[Name], favourite: Option<Favourite>, variety: &mut Rng) -> Self {
        let mode = |variety: &mut Rng| if variety.chance(40) { Mode::Shared } else { Mode::Exclusive };
        let drawn = match (variety.below(100), favourite) {
            (drawn, Some(Favourite::Sets)) if drawn < 70 => 70,
            (drawn, Some(Favourite::Permits)) if drawn < 70 => 82,
            (drawn, _) => drawn,
        };
        match drawn {
            0..40 => Self::exclusive(name),
            40..70 => Self::shared(name),
            70..82 => {
                let others = names.iter().map(Name::as_str).chain([THIRD_NAME]);
                let others: Vec<&str> = others.filter(|other| *other != name.as_str()).collect();
                let other = Name::new(*variety.pick(&others)).expect("a good name");
                Wanted::Names(NameSet::new([name, other]).expect("different names"), mode(variety))
            }
            82..95 => Wanted::Permits(if variety.chance(25) { SLOTS as usize } else { 1 }),
            _ => Wanted::Leadership(name),
        }
    }

    /// All names that an attempt may lock on a node.
    pub(crate) fn names(&self) -> Vec<Name> {
        match self {
            Wanted::Names(names, _) => names.as_slice().to_vec(),
            Wanted::Permits(_) => slots(),
            Wanted::Leadership(name) => vec![name.clone()],
        }
    }

    /// Counts that it was granted.
    pub(crate) fn count(&self, uses: &mut Uses) {
        match self {
            Wanted::Names(names, mode) => {
                uses.shared += u64::from(*mode == Mode::Shared);
                uses.sets += u64::from(!names.is_single());
            }
            Wanted::Permits(_) => uses.permits += 1,
            Wanted::Leadership(_) => uses.leaderships += 1,
        }
    }

    /// Whether it can be had without waiting.
    pub(crate) fn can_try(&self) -> bool {
        matches!(self, Wanted::Names(..) | Wanted::Permits(1))
    }

    /// Acquires it. `semaphore` is that of the process, which remembers what it knows of the slots.
    pub(crate) async fn acquire(
        &self,
        locker: &Locker,
        semaphore: &Semaphore,
        tries_once: bool,
    ) -> Result<Guard, AcquireError> {
        match self {
            Wanted::Names(names, mode) => {
                let lock = locker.stored(names.clone());
                let lock = if *mode == Mode::Shared { lock.shared() } else { lock };
                if tries_once { lock.try_acquire().await } else { lock.acquire().await }
            }
            Wanted::Permits(1) if tries_once => Ok(semaphore.try_acquire().await?.into_guard()),
            Wanted::Permits(count) => Ok(semaphore.acquire_many(*count).await?.into_guard()),
            Wanted::Leadership(name) => {
                let election = locker.election(name).expect("a good name");
                Ok(election.campaign("an address").await?.into_guard())
            }
        }
    }
}

/// The semaphore as a process uses it.
pub(crate) fn semaphore(locker: &Locker) -> Semaphore {
    locker.semaphore(SEMAPHORE, SLOTS).expect("a good semaphore")
}

/// The names of all slots.
pub(crate) fn slots() -> Vec<Name> {
    let semaphore = Name::new(SEMAPHORE).expect("a good name");
    (0..SLOTS).map(|slot| Name::of_slot(&semaphore, slot)).collect()
}
