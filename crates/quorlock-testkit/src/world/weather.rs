//! How the network behaves.

use std::time::Duration;

/// How the network between one client and one server behaves now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) delay: (Duration, Duration),
    /// Nothing gets to the server.
    pub(super) no_requests: bool,
    /// Nothing gets back.
    pub(super) no_replies: bool,
    /// Percent of requests that are executed once more, later.
    pub(super) duplicates: u64,
}

impl Weather {
    pub(super) const CALM: Weather = Weather {
        delay: (Duration::from_micros(50), Duration::from_millis(3)),
        no_requests: false,
        no_replies: false,
        duplicates: 0,
    };

    /// Whether everything passes, and soon.
    pub(super) fn is_calm(self) -> bool {
        !self.no_requests && !self.no_replies && self.delay.1 <= Weather::CALM.delay.1
    }
}
