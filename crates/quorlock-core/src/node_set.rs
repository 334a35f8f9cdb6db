//! A subset of the nodes, by their numbers.

use std::fmt;

/// Which nodes, by their numbers in the configuration. It takes no heap memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeSet(u32);

impl NodeSet {
    /// The first `count` nodes, at most [`Quorum::MAX_NODES`](crate::Quorum::MAX_NODES).
    pub fn first(count: usize) -> Self {
        Self(!(u32::MAX << count.min(31)))
    }

    /// Adds a node.
    pub fn insert(&mut self, node: usize) {
        self.0 |= bit(node);
    }

    /// Removes a node; `false` if it was not there.
    pub fn remove(&mut self, node: usize) -> bool {
        let was_there = self.contains(node);
        self.0 &= !bit(node);
        was_there
    }

    /// Whether the node is there.
    pub fn contains(self, node: usize) -> bool {
        self.0 & bit(node) != 0
    }

    /// How many there are.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let next = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (next < u32::BITS).then_some(next as usize)
        })
    }
}

fn bit(node: usize) -> u32 {
    u32::try_from(node).ok().and_then(|node| 1_u32.checked_shl(node)).unwrap_or(0)
}

impl FromIterator<usize> for NodeSet {
    fn from_iter<I: IntoIterator<Item = usize>>(nodes: I) -> Self {
        let mut set = Self::default();
        nodes.into_iter().for_each(|node| set.insert(node));
        set
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Quorum;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_nodes_are_those_with_the_lowest_numbers() {
        assert_eq!(NodeSet::first(3).iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(NodeSet::first(0).is_empty() && !NodeSet::first(1).is_empty());
        assert_eq!(format!("{:?}", NodeSet::first(2)), "{0, 1}");
        assert_eq!(NodeSet::first(Quorum::MAX_NODES).len(), Quorum::MAX_NODES);
    }

    proptest! {
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0usize..40, any::<bool>()), 0..60)) {
            let (mut set, mut model) = (NodeSet::default(), BTreeSet::new());
            for (node, add) in steps {
                if add {
                    set.insert(node);
                    if node < 32 { model.insert(node); }
                } else {
                    prop_assert_eq!(set.remove(node), model.remove(&node));
                }
                prop_assert_eq!(set.len(), model.len());
            }
            prop_assert!(set.iter().eq(model.iter().copied()));
        }
    }
}
