//! A man in the middle who says what the server did not.

use crate::net::NODE_TIMEOUT;
use quorlock::Locker;
use quorlock_testkit::Servers;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};

/// Forwards to a server, and once puts other bytes in the place of the next reply.
#[derive(Clone, Default)]
pub struct Forger {
    next: Arc<Mutex<Option<Forgery>>>,
    /// How many connections there were so far.
    pub connections: Arc<AtomicUsize>,
}

#[derive(Clone)]
pub struct Forgery {
    /// Each is read by itself.
    pieces: Vec<Vec<u8>>,
    then_cut: bool,
}

impl Forger {
    /// Starts it; gives its address.
    pub async fn start(&self, server: u16) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let forger = self.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
                forger.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(forger.clone().carry(client, server));
            }
        });
        url
    }

    async fn carry(self, client: TcpStream, server: TcpStream) {
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let requests = tokio::spawn(async move { copy(&mut from_client, &mut to_server).await });
        let mut chunk = vec![0; 16 * 1024];
        'carry: while let Ok(length @ 1..) = from_server.read(&mut chunk).await {
            let forged = self.next.lock().unwrap().take();
            let Forgery { pieces, then_cut } =
                forged.unwrap_or_else(|| Forgery { pieces: vec![chunk[..length].to_vec()], then_cut: false });
            for (number, piece) in pieces.iter().enumerate() {
                if number > 0 {
                    tokio::time::sleep(NODE_TIMEOUT / 20).await;
                }
                if to_client.write_all(piece).await.is_err() {
                    break 'carry;
                }
            }
            if then_cut {
                break;
            }
        }
        requests.abort();
    }

    pub fn forge(&self, bytes: &[u8], then_cut: bool) {
        self.forge_pieces(&[bytes], then_cut);
    }

    pub fn forge_pieces(&self, pieces: &[&[u8]], then_cut: bool) {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        *self.next.lock().unwrap() = Some(Forgery { pieces, then_cut });
    }

    pub fn is_done(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

/// A locker of one server, with a forger between them.
pub async fn behind_a_forger() -> (Servers, Forger, Locker) {
    let servers = Servers::start(1);
    let forger = Forger::default();
    let url = forger.start(servers[0].port()).await;
    let locker = Locker::builder().nodes([url]).node_timeout(NODE_TIMEOUT).build().unwrap();
    (servers, forger, locker)
}
