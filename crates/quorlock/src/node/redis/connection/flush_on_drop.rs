//! The last write on a connection that is dropped together with its runtime.

use crate::node::redis::connection::socket::Wire;
use crate::node::redis::link::Link;
use std::sync::Arc;

/// Writes the releases that wait when it is dropped, without waiting for their answers.
///
/// A program may end right after its guard. The runtime is then shut down, and the driver dropped, before it had
/// another turn; without this the lock would stay until its ttl is over.
pub(crate) struct Parting {
    link: Arc<Link>,
    pub(crate) wire: Wire,
}

impl Parting {
    pub(crate) fn new(link: Arc<Link>, wire: Wire) -> Self {
        Self { link, wire }
    }
}

impl Drop for Parting {
    fn drop(&mut self) {
        self.link.lock().outbox.last_words(&mut self.wire.out);
        self.wire.write_now();
    }
}
