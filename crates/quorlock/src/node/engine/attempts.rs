//! What the release of an attempt must know of its acquire.

use crate::context::mutex::Mutex;
use quorlock_core::{Name, Token};
use std::collections::{HashMap, VecDeque};
use std::sync::MutexGuard;

/// How many attempts are remembered until they are released.
const MAX_ATTEMPTS: usize = 4096;

/// What became of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It left nothing behind, and its release need not ask the store.
    Nothing,
    /// It may have taken the name, or may take it later.
    Unknown,
}

/// Attempts whose acquire was not answered by a grant, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    fates: HashMap<Attempt, Fate>,
    order: VecDeque<Attempt>,
}

/// The names of a set have the same token.
type Attempt = (Token, Name);

impl Attempts {
    /// Remembers what became of the acquire of `name` with `token`.
    pub(crate) fn remember(&self, name: &Name, token: Token, fate: Fate) {
        let attempt = (token, name.clone());
        let mut remembered = self.lock();
        if remembered.fates.insert(attempt.clone(), fate).is_none() {
            remembered.order.push_back(attempt);
        }
        // One that was forgotten since is still in the order.
        while remembered.order.len() > MAX_ATTEMPTS {
            if let Some(oldest) = remembered.order.pop_front() {
                remembered.fates.remove(&oldest);
            }
        }
    }

    /// Forgets the attempt: it begins, or it was released.
    pub(crate) fn forget(&self, name: &Name, token: &Token) {
        let mut remembered = self.lock();
        if remembered.fates.is_empty() {
            return;
        }
        let attempt = (*token, name.clone());
        if remembered.fates.remove(&attempt).is_some() {
            remembered.order.retain(|known| *known != attempt);
        }
    }

    /// What became of the acquire, if it was not granted.
    pub(crate) fn fate(&self, name: &Name, token: &Token) -> Option<Fate> {
        let remembered = self.lock();
        if remembered.fates.is_empty() {
            return None;
        }
        remembered.fates.get(&(*token, name.clone())).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_remembered_by_name_and_token_and_the_oldest_goes_first() {
        let (a, b) = (Name::new("a").unwrap(), Name::new("b").unwrap());
        let token = |number: u32| {
            let mut random = [0; 16];
            random[..4].copy_from_slice(&number.to_le_bytes());
            Token::from_random(random)
        };
        let attempts = Attempts::default();
        attempts.remember(&a, token(0), Fate::Unknown);
        attempts.remember(&b, token(0), Fate::Nothing);
        assert_eq!(attempts.fate(&a, &token(0)), Some(Fate::Unknown));
        assert_eq!(attempts.fate(&b, &token(0)), Some(Fate::Nothing));
        attempts.forget(&a, &token(0));
        assert_eq!(attempts.fate(&a, &token(0)), None);
        for number in 1..=MAX_ATTEMPTS as u32 {
            attempts.remember(&a, token(number), Fate::Nothing);
        }
        assert_eq!(attempts.fate(&b, &token(0)), None, "the oldest");
        assert_eq!(attempts.fate(&a, &token(1)), Some(Fate::Nothing));
    }
}
