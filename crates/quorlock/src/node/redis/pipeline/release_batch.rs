//! Releases that wait for more of their kind, to go to the server in one call.

use crate::node::redis::pipeline::pending::PendingRelease;
use quorlock_core::Name;

/// The most releases in one call: a script blocks the server.
pub(crate) const MAX_BATCH: usize = 64;

/// Releases that are not encoded yet. Commands for other names may overtake them, so that releases
/// between other commands still share a call; a command for one of their names must not.
#[derive(Debug, Default)]
pub(crate) struct ReleaseBatch {
    releases: Vec<PendingRelease>,
    /// A bit for each name, so that most checks of a name need not search them all.
    bits: [u64; 4],
}

impl ReleaseBatch {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.releases.is_empty()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.releases.len()
    }

    /// Whether `release` can go in the same call as those before it.
    #[inline]
    pub(crate) fn fits(&self, release: &PendingRelease) -> bool {
        let alike = self.releases.first().is_none_or(|first| first.sends_script == release.sends_script);
        alike && self.releases.len() < MAX_BATCH
    }

    #[inline]
    pub(crate) fn push(&mut self, release: PendingRelease) {
        let (word, bit) = bit_of(release.name().number());
        self.bits[word] |= bit;
        self.releases.push(release);
    }

    /// Whether one of them is for `name`.
    #[inline]
    pub(crate) fn contains(&self, name: &Name) -> bool {
        let (word, bit) = bit_of(name.number());
        self.bits[word] & bit != 0 && self.releases.iter().any(|release| release.name() == name)
    }

    /// Takes those out for which `wanted` is true, in the order in which they came.
    pub(crate) fn extract(
        &mut self,
        wanted: impl FnMut(&mut PendingRelease) -> bool,
    ) -> impl Iterator<Item = PendingRelease> {
        // Bits of names that were taken cost a search, until all are taken.
        self.releases.extract_if(.., wanted)
    }

    /// Takes them all, in the order in which they came.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, PendingRelease> {
        self.bits = [0; 4];
        self.releases.drain(..)
    }

    pub(crate) fn clear(&mut self) {
        drop(self.take());
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [PendingRelease] {
        &mut self.releases
    }
}

fn bit_of(number: u64) -> (usize, u64) {
    ((number >> 6 & 3) as usize, 1 << (number & 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::Token;

    fn release(number: usize) -> PendingRelease {
        let name = Name::new(format!("n{number}")).unwrap();
        PendingRelease::without_reply(name, Token::from_random([0; 16]))
    }

    #[test]
    fn a_batch_knows_its_names_and_no_others() {
        let mut batch = ReleaseBatch::default();
        (0..MAX_BATCH).for_each(|number| batch.push(release(number)));
        assert!((0..MAX_BATCH).all(|number| batch.contains(release(number).name())));
        assert!((MAX_BATCH..9 * MAX_BATCH).all(|number| !batch.contains(release(number).name())));
        assert!(!batch.fits(&release(1)));
        assert_eq!(batch.take().count(), MAX_BATCH);
        assert!(batch.is_empty() && !batch.contains(release(1).name()) && batch.fits(&release(1)));
    }

    #[test]
    fn names_are_spread_over_all_bits() {
        let mut bits = [0_u64; 4];
        for number in 0..2000 {
            let (word, bit) = bit_of(release(number).name().number());
            bits[word] |= bit;
        }
        assert_eq!(bits, [u64::MAX; 4]);
    }
}
