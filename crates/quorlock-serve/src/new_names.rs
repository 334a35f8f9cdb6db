//! Bounds how many new names each caller may use: every node keeps the fence counter of a name for a week.

use crate::access::{Caller, Peer};
use crate::bucket::Bucket;
use quorlock::Name;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How many names are remembered at least, by their hashes; at most twice as many. One that was forgotten is new again.
const REMEMBERED: usize = 100_000;
/// A caller that used no new names for this long may use as many at once as the rate allows in it. After a restart of the
/// sidecar all names are new.
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
    /// Names that were used since `before` was set aside.
    recent: HashSet<u64>,
    /// Names that were used before that.
    before: HashSet<u64>,
    /// As many as the token file has names, and one for each kind of caller without a secret.
    buckets: HashMap<Account, Bucket>,
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

    /// Lets `caller` use `name`.
    ///
    /// # Errors
    /// When the caller may use the next new name.
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
            let full = || Bucket::new(f64::from(self.rate), f64::from(self.rate) * f64::from(BURST), now);
            state.buckets.entry(account).or_insert_with(full).take(now)?;
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
    use crate::access::Scope;

    fn caller(secret: Option<&str>) -> Caller {
        let secret = secret.map(Into::into);
        Caller { scope: Scope::Lock, secret, peer: Peer::Loopback, source: Default::default() }
    }

    #[test]
    fn a_name_is_charged_once_and_each_account_for_itself() {
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
