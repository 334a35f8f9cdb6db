//! Breadth-first search through all states, nearest first, so that a counterexample is as short as
//! can be.

use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::Instant;

/// A world whose states can be searched.
pub(crate) trait Model {
    type State: Copy + Hash;
    type Action;
    type Violation: Copy + fmt::Debug;

    fn initial(&self) -> Self::State;

    /// Puts all that can follow `state` into `next`.
    fn steps(&self, state: &Self::State, next: &mut Vec<(Self::Action, Self::State)>);

    /// The same for all states that differ only in the order of things that are alike.
    fn canonical(&self, state: Self::State) -> Self::State;

    /// What is wrong in `state`.
    fn violation(state: &Self::State) -> Option<Self::Violation>;

    /// After how many states the search ends without having seen all.
    fn most_states(&self) -> usize;

    /// Prints how `path`, whose states are canonical, comes about.
    fn print(&self, path: &[Self::State]);
}

/// What a search found.
#[derive(Debug)]
pub(crate) enum Outcome<V> {
    /// No violation, and every state was seen.
    Safe {
        states: usize,
    },
    /// No violation in as many states as the case allows.
    Bounded {
        states: usize,
    },
    Broken {
        violation: V,
        states: usize,
    },
}

impl<V: fmt::Debug> fmt::Display for Outcome<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Safe { states } => write!(f, "safe, all {states} states"),
            Self::Bounded { states } => write!(f, "no violation in the nearest {states} states, not all"),
            Self::Broken { violation, states } => write!(f, "{violation:?} after {states} states"),
        }
    }
}

/// Searches a case and prints what it found.
pub(crate) fn search<M: Model>(case: &str, model: M) -> Outcome<M::Violation> {
    let began = Instant::now();
    let outcome = Search::new(model).run();
    println!("{case}: {outcome} in {:.1} s", began.elapsed().as_secs_f64());
    outcome
}

struct Search<M: Model> {
    model: M,
    /// Every state found, with the place of the one it followed from.
    found: Vec<(M::State, usize)>,
    seen: HashSet<u64, BuildHasherDefault<Fingerprint>>,
}

impl<M: Model> Search<M> {
    fn new(model: M) -> Self {
        let first = model.initial();
        let seen = HashSet::from_iter([fingerprint(&first)]);
        Self { model, found: vec![(first, 0)], seen }
    }

    fn run(&mut self) -> Outcome<M::Violation> {
        let mut next = Vec::new();
        let mut at = 0;
        while at < self.found.len() {
            if self.found.len() > self.model.most_states() {
                return Outcome::Bounded { states: self.found.len() };
            }
            self.model.steps(&self.found[at].0, &mut next);
            for (_, after) in next.drain(..) {
                let after = self.model.canonical(after);
                if self.seen.insert(fingerprint(&after)) {
                    self.found.push((after, at));
                    if let Some(violation) = M::violation(&after) {
                        self.model.print(&self.path_to_last());
                        return Outcome::Broken { violation, states: self.found.len() };
                    }
                }
            }
            at += 1;
        }
        Outcome::Safe { states: self.found.len() }
    }

    fn path_to_last(&self) -> Vec<M::State> {
        let mut at = self.found.len() - 1;
        let mut path = vec![self.found[at].0];
        while at != 0 {
            at = self.found[at].1;
            path.push(self.found[at].0);
        }
        path.reverse();
        path
    }
}

/// 64 bits that stand for a state in the set of seen ones.
fn fingerprint(state: &impl Hash) -> u64 {
    let mut mixer = Mixer(0);
    state.hash(&mut mixer);
    mixer.finish()
}

/// Passes on fingerprints, which are hashes already.
#[derive(Default)]
struct Fingerprint(u64);

impl Hasher for Fingerprint {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only fingerprints are looked up")
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// A quick hash: each word is mixed by multiplication.
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, word: u8) {
        self.write_u64(u64::from(word));
    }

    fn write_isize(&mut self, word: isize) {
        self.write_u64(word as u64);
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word ^ 0x5851_f42d_4c95_7f2d).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }
}
