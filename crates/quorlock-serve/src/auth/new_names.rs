//! Bounds how many new names each caller may use, because every node keeps the fence counter of a name
//! for a week.

use crate::auth::caller::{Caller, Peer};
use crate::limits::rate_limit::RateLimit;
use quorlock::Name;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many names are remembered at least, by their hashes; at most twice that number. A forgotten name
/// is new again.
const REMEMBERED: usize = 100_000;
/// How many seconds' worth of new names a caller may use at once. After a restart of the sidecar all
/// names are new.
const BURST: u32 = 100;

/// The names in use, and how many new ones each account may use.
#[derive(Debug)]
pub(crate) struct NewNames {
    /// Per second; 0 for no limit.
    rate: u32,
    hasher: RandomState,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Names used since `recent` was last moved to `before`.
    recent: HashSet<u64>,
    /// Names used in the period before.
    before: HashSet<u64>,
    /// One for each name in the token file, and one for each kind of caller without a secret.
    rate_limits: HashMap<Account, RateLimit>,
}

/// Callers that share a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Account {
    Secret(Arc<str>),
    Anonymous(Peer),
}

impl NewNames {
    /// Allows `rate` new names per second and account; 0 for any number.
    pub(crate) fn per_second(rate: u32) -> Self {
        Self { rate, hasher: RandomState::new(), state: Mutex::default() }
    }

    /// Checks whether `caller` may use `name` now.
    ///
    /// # Errors
    /// How long until the caller may use the next new name.
    pub(crate) fn admit(&self, name: &Name, caller: &Caller, now: Instant) -> Result<(), Duration> {
        if self.rate == 0 {
            return Ok(());
        }
        let hash = self.hasher.hash_one(name.as_str());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.recent.contains(&hash) {
            return Ok(());
        }
        if !state.before.contains(&hash) {
            let account = match &caller.secret {
                Some(secret) => Account::Secret(secret.clone()),
                None => Account::Anonymous(caller.peer),
            };
            let full = || RateLimit::new(f64::from(self.rate), f64::from(self.rate) * f64::from(BURST), now);
            state.rate_limits.entry(account).or_insert_with(full).try_acquire(now)?;
        }
        if state.recent.len() >= REMEMBERED {
            state.before = std::mem::take(&mut state.recent);
        }
        state.recent.insert(hash);
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::auth::scope::Scope;

    fn caller(secret: Option<&str>) -> Caller {
        let secret = secret.map(Into::into);
        Caller { scope: Scope::Lock, secret, peer: Peer::Loopback, source: Default::default() }
    }

    #[test]
    fn a_name_is_charged_once_and_each_account_separately() {
        let (names, start) = (NewNames::per_second(1), Instant::now());
        let admit = |name: &str, secret, now| names.admit(&Name::new(name).unwrap(), &caller(secret), now);
        for number in 0..BURST {
            assert_eq!(admit(&number.to_string(), None, start), Ok(()));
        }
        assert_eq!(admit("another", None, start), Err(Duration::from_secs(1)));
        assert_eq!(admit("7", None, start), Ok(()));
        assert_eq!(admit("theirs", Some("ann"), start), Ok(()));
        assert_eq!(admit("theirs", None, start), Ok(()), "it is not new any more");
        assert_eq!(admit("another", None, start + Duration::from_secs(1)), Ok(()));
        let any = NewNames::per_second(0);
        assert!(
            (0..1000).all(|n| any.admit(&Name::new(n.to_string()).unwrap(), &caller(None), start).is_ok())
        );
    }

    #[test]
    fn names_in_use_are_remembered_and_memory_is_bounded() {
        let (names, start) = (NewNames::per_second(u32::MAX), Instant::now());
        let admit = |name: String| names.admit(&Name::new(name).unwrap(), &caller(None), start).unwrap();
        let knows = |name: &str| {
            let (hash, state) = (names.hasher.hash_one(name), names.state.lock().unwrap());
            assert!(state.recent.len() <= REMEMBERED && state.before.len() <= REMEMBERED);
            state.recent.contains(&hash) || state.before.contains(&hash)
        };
        admit("used".to_owned());
        for number in 0..3 * REMEMBERED {
            admit(number.to_string());
            if number % (REMEMBERED / 2) == 0 {
                admit("used".to_owned());
            }
        }
        assert!(knows("used") && !knows("0"));
    }
}
