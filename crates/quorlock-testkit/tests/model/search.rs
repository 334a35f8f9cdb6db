//! Breadth-first search through all states, nearest first, so that a counterexample is as short as
//! can be.

use crate::rules::Rules;
use crate::state::{State, Violation};
use crate::timeline;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Instant;

/// What a search found.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// No violation, and every state was seen.
    Safe {
        states: usize,
    },
    /// No violation in as many states as the case allows.
    Bounded {
        states: usize,
    },
    Broken {
        violation: Violation,
        states: usize,
    },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Safe { states } => write!(f, "safe, all {states} states"),
            Self::Bounded { states } => write!(f, "no violation in the nearest {states} states, not all"),
            Self::Broken { violation, states } => write!(f, "{violation:?} after {states} states"),
        }
    }
}

/// Searches a case and prints what it found.
pub(crate) fn search<const N: usize, const C: usize>(case: &str, rules: Rules<N, C>) -> Outcome {
    let began = Instant::now();
    let outcome = Search::new(rules).run();
    println!("{case}: {outcome} in {:.1} s", began.elapsed().as_secs_f64());
    outcome
}

struct Search<const N: usize, const C: usize> {
    rules: Rules<N, C>,
    /// Every state found, with the place of the one it followed from.
    found: Vec<(State<N, C>, usize)>,
    seen: HashSet<u64, BuildHasherDefault<Fingerprint>>,
}

impl<const N: usize, const C: usize> Search<N, C> {
    fn new(rules: Rules<N, C>) -> Self {
        let first = State::initial();
        let seen = HashSet::from_iter([first.fingerprint()]);
        Self { rules, found: vec![(first, 0)], seen }
    }

    fn run(&mut self) -> Outcome {
        let mut next = Vec::new();
        let mut at = 0;
        while at < self.found.len() {
            if self.found.len() > self.rules.most_states {
                return Outcome::Bounded { states: self.found.len() };
            }
            self.rules.steps(&self.found[at].0, &mut next);
            for (_, after) in next.drain(..) {
                let after = after.canonical();
                if self.seen.insert(after.fingerprint()) {
                    self.found.push((after, at));
                    if let Some(violation) = after.broken {
                        timeline::print(&self.rules, &self.path_to_last());
                        return Outcome::Broken { violation, states: self.found.len() };
                    }
                }
            }
            at += 1;
        }
        Outcome::Safe { states: self.found.len() }
    }

    fn path_to_last(&self) -> Vec<State<N, C>> {
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
