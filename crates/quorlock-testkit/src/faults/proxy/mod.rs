//! A TCP proxy that can misbehave on demand.

mod pump;

use crate::processes::port::Port;
use pump::pump;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A proxy between a client and a server. Dropping it closes everything.
///
/// It connects to the server anew for each client, so a server that restarts on its port is found
/// again.
#[derive(Debug)]
pub struct Proxy {
    port: Port,
    state: watch::Sender<State>,
    listening: watch::Receiver<bool>,
    acceptor: JoinHandle<()>,
}

/// What the proxy does to the bytes that pass. A change takes effect at once, even for bytes that
/// wait inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: all passes.
    #[default]
    Pass,
    /// Replies come this much later.
    Delay(Duration),
    /// Requests and replies each come this much later, as on a long wire.
    Distance(Duration),
    /// Nothing passes in either direction, nothing is lost: bytes wait for the next change.
    Hold,
    /// Requests reach the server, replies wait for the next change.
    HoldReplies,
    /// Requests disappear; the server never sees them.
    Swallow,
    /// Requests reach the server, replies disappear.
    SwallowReplies,
    /// Requests reach the server, replies are overwritten with nonsense.
    Garbage,
    /// Replies come one byte at a time, with this pause between them.
    Drip(Duration),
    /// Requests reach the server; each piece of its replies is preceded by these bytes, which
    /// announce a longer reply.
    Huge(&'static [u8]),
    /// Each piece of the replies comes twice. No wire does that; a broken server or middlebox
    /// might.
    DuplicateReplies,
    /// Each piece of the requests reaches the server twice, and both are answered.
    DuplicateRequests,
    /// New connections are refused; those that exist stay.
    Refuse,
}

/// What the connections follow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) fault: Fault,
    /// Where new connections lead to.
    server_port: u16,
    /// How often all connections were cut.
    pub(crate) cuts: u64,
}

impl Proxy {
    /// Listens on a free loopback port for clients of `127.0.0.1:server_port`.
    pub async fn start(server_port: u16) -> Self {
        let port = Port::claim();
        let (state, orders) = watch::channel(State { server_port, ..State::default() });
        let (announce, listening) = watch::channel(false);
        let acceptor = tokio::spawn(accept_connections(port.number(), orders, announce));
        let proxy = Self { port, state, listening, acceptor };
        proxy.set(Fault::Pass).await;
        proxy
    }

    /// The port for clients. It never changes.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// Misbehaves in this way from now on. Returns when the port is open or closed accordingly.
    pub async fn set(&self, fault: Fault) {
        self.state.send_modify(|state| state.fault = fault);
        let open = fault != Fault::Refuse;
        self.listening
            .clone()
            .wait_for(|listening| *listening == open)
            .await
            .expect("the proxy runs as long as its runtime");
    }

    /// Leads to another server from now on: an address that moved. Connections that exist are
    /// closed.
    pub fn lead_to(&self, server_port: u16) {
        self.state.send_modify(|state| {
            state.server_port = server_port;
            state.cuts += 1;
        });
    }

    /// Closes all connections that exist; new ones are welcome. For a server that is gone,
    /// [`set`](Self::set) `Refuse` first.
    pub fn cut(&self) {
        self.state.send_modify(|state| state.cuts += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.acceptor.abort();
    }
}

/// Accepts clients while that is allowed. The connections end with this task.
async fn accept_connections(port: u16, mut orders: watch::Receiver<State>, announce: watch::Sender<bool>) {
    let mut connections = JoinSet::new();
    let watched = orders.clone();
    loop {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        announce.send_replace(true);
        tokio::select! {
            biased;
            _ = orders.wait_for(|state| state.fault == Fault::Refuse) => {}
            () = accept(&listener, &watched, &mut connections) => {}
        }
        close(listener);
        announce.send_replace(false);
        let reopened = orders.wait_for(|state| state.fault != Fault::Refuse).await;
        if reopened.is_err() {
            return;
        }
    }
}

/// Closes the port. Dropping is not enough: a process that is being started by another thread has a
/// copy until it runs.
fn close(listener: TcpListener) {
    let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
}

async fn accept(listener: &TcpListener, orders: &watch::Receiver<State>, connections: &mut JoinSet<()>) {
    loop {
        // A client that is gone before it was let in is no loss.
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        connections.spawn(serve(client, orders.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Carries one connection until either side closes it or it is cut.
async fn serve(client: TcpStream, mut orders: watch::Receiver<State>) {
    let State { cuts, server_port, .. } = *orders.borrow();
    let Ok(server) = TcpStream::connect(("127.0.0.1", server_port)).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    let requests = pump(client_read, server_write, orders.clone(), for_requests);
    let replies = pump(server_read, client_write, orders.clone(), for_replies);
    tokio::select! {
        biased;
        _ = orders.wait_for(|state| state.cuts != cuts) => {}
        () = requests => {}
        () = replies => {}
    }
}

/// What a fault means for bytes in one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DirectionFault {
    Pass,
    Delay(Duration),
    Hold,
    Swallow,
    Garbage,
    Drip(Duration),
    Precede(&'static [u8]),
    Twice,
}

fn for_requests(fault: Fault) -> DirectionFault {
    match fault {
        Fault::Distance(by) => DirectionFault::Delay(by),
        Fault::Hold => DirectionFault::Hold,
        Fault::Swallow => DirectionFault::Swallow,
        Fault::DuplicateRequests => DirectionFault::Twice,
        _ => DirectionFault::Pass,
    }
}

fn for_replies(fault: Fault) -> DirectionFault {
    match fault {
        Fault::Pass | Fault::Refuse | Fault::Swallow | Fault::DuplicateRequests => DirectionFault::Pass,
        Fault::Delay(by) | Fault::Distance(by) => DirectionFault::Delay(by),
        Fault::Hold | Fault::HoldReplies => DirectionFault::Hold,
        Fault::SwallowReplies => DirectionFault::Swallow,
        Fault::Garbage => DirectionFault::Garbage,
        Fault::Drip(pause) => DirectionFault::Drip(pause),
        Fault::Huge(announcement) => DirectionFault::Precede(announcement),
        Fault::DuplicateReplies => DirectionFault::Twice,
    }
}
