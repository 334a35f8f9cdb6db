//! Which locks get a label of their own: the first that come, up to a bound.

use ::metrics::SharedString;
use quorlock_core::Name;
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

/// The names that are told apart. They stay, so that no series changes its meaning.
#[derive(Debug)]
pub(crate) struct Names {
    most: usize,
    known: RwLock<BTreeMap<Name, SharedString>>,
}

impl Names {
    pub(crate) fn up_to(most: usize) -> Self {
        Self { most, known: RwLock::default() }
    }

    /// The label of `name`.
    pub(crate) fn label(&self, name: &Name) -> SharedString {
        let (known, is_full) = {
            let names = self.known.read().unwrap_or_else(PoisonError::into_inner);
            (names.get(name).cloned(), names.len() >= self.most)
        };
        match known {
            Some(label) => label,
            None if is_full => SharedString::const_str("other"),
            None => self.learn(name),
        }
    }

    fn learn(&self, name: &Name) -> SharedString {
        let mut names = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have come first.
        if names.len() >= self.most && !names.contains_key(name) {
            return SharedString::const_str("other");
        }
        names.entry(name.clone()).or_insert_with(|| name.as_str().to_owned().into()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_keep_their_label_and_the_rest_is_other() {
        let names = Names::up_to(2);
        let label = |text: &str| names.label(&Name::new(text).unwrap()).to_string();
        assert_eq!(["a", "b", "c", "a", "d", "b"].map(label), ["a", "b", "other", "a", "other", "b"]);
        assert_eq!(Names::up_to(0).label(&Name::new("a").unwrap()).as_ref(), "other");
    }
}
