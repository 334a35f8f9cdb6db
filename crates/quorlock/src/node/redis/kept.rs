//! Names whose fence counter was told lately how long to be kept, so that not every release tells it again.

use quorlock_core::{Moment, Name};
use std::time::Duration;

/// How many names are remembered. Two that fall on the same place push each other out, and are told more often.
const MOST: usize = 16 * 1024;
/// How long telling once is enough: a counter is kept for a week.
const LATELY: Duration = Duration::from_secs(3600);

/// The names whose counters one connection has told to be kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The number of a name at the place that it gives, or zero. Made with the first name: most of it is never touched.
    names: Vec<u64>,
    since: Option<Moment>,
}

impl Kept {
    /// Notes that the counter of `name` is told now; `false` if that was done lately.
    ///
    /// Two names with the same number are taken for one: a counter may then be kept for ever.
    pub(super) fn tell(&mut self, name: &Name) -> bool {
        if self.names.is_empty() {
            self.names = vec![0; MOST];
        }
        let number = name.number();
        std::mem::replace(&mut self.names[number as usize % MOST], number) != number
    }

    /// Forgets what was told too long ago.
    pub(super) fn age(&mut self, now: Moment) {
        if self.since.is_none_or(|since| now.since(since) >= LATELY) {
            self.forget();
            self.since = Some(now);
        }
    }

    /// Forgets everything: the server may have, too.
    pub(super) fn forget(&mut self) {
        self.names = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_told_once_an_hour_and_after_the_server_forgot() {
        let at = |seconds| Moment::from_boot(Duration::from_secs(seconds));
        let name = Name::new("a").unwrap();
        let mut kept = Kept::default();
        kept.age(at(10));
        assert!(kept.tell(&name) && !kept.tell(&name));
        assert!(kept.tell(&Name::new("b").unwrap()));
        kept.age(at(3000));
        assert!(!kept.tell(&name));
        kept.age(at(3700));
        assert!(kept.tell(&name));
        kept.forget();
        assert!(kept.tell(&name));
    }

    #[test]
    fn many_names_are_remembered_and_too_many_are_told_more_often() {
        let names = |count| (0..count).map(|number| Name::new(format!("n{number}")).unwrap());
        let mut kept = Kept::default();
        let mut told = |count| names(count).filter(|name| kept.tell(name)).count();
        assert_eq!(told(1000), 1000);
        assert!(told(1000) < 150);
        assert!(told(8 * MOST) > 7 * MOST);
    }
}
