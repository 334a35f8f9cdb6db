//! The last write on a connection that is dropped together with its runtime.

use crate::node::redis::connection::socket::Socket;
use crate::node::redis::link::Link;
use std::sync::Arc;

/// Writes the releases that wait when it is dropped, without waiting for their answers.
///
/// A program may end right after its guard. The runtime is then shut down, and the driver dropped, before
/// it was polled again; without this the lock would stay until its ttl is over.
pub(crate) struct FlushOnDrop {
    link: Arc<Link>,
    pub(crate) socket: Socket,
}

impl FlushOnDrop {
    pub(crate) fn new(link: Arc<Link>, socket: Socket) -> Self {
        Self { link, socket }
    }
}

impl Drop for FlushOnDrop {
    fn drop(&mut self) {
        self.link.lock().outbox.encode_releases(&mut self.socket.out);
        self.socket.write_now();
    }
}
