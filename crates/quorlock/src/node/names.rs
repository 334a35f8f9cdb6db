//! The names that a node may know.

use quorlock_core::Name;

/// The names that a node may know, in order: every lock that it holds, and others that it has not
/// forgotten yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Names {
    /// The names, at most [`Names::MOST`].
    pub known: Vec<Name>,
    /// Whether these are all. Not if there were too many, if it took too long, or if the node does not
    /// know.
    pub complete: bool,
}

impl Names {
    /// The most names that a node returns.
    pub const MOST: usize = 10_000;

    /// All names of a node, in any order; those beyond [`Names::MOST`] are left out.
    pub fn new(names: impl IntoIterator<Item = Name>) -> Self {
        // One more than fits shows that there are more.
        let mut known: Vec<Name> = names.into_iter().take(Self::MOST + 1).collect();
        let complete = known.len() <= Self::MOST;
        known.truncate(Self::MOST);
        known.sort();
        known.dedup();
        Self { known, complete }
    }

    /// The same names, but not all that there are.
    pub fn incomplete(self) -> Self {
        Self { complete: false, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_left_out_and_the_list_says_so() {
        let name = |number| Name::new(format!("n{number}")).unwrap();
        let fits = Names::new((0..Names::MOST).rev().map(name));
        assert!(fits.complete && fits.known.len() == Names::MOST && fits.known.is_sorted());
        let cut = Names::new((0..=Names::MOST).map(name));
        assert!(!cut.complete && cut.known.len() == Names::MOST);
    }
}
