//! The shipped link on simulated servers behind Unix sockets.

use quorlock::node::Facts;
use quorlock::{Locker, ReleaseOutcome, SystemClock};
use quorlock_testkit::init_nodes;
use quorlock_testkit::simulator::redis_server::{OriginCommand, RedisServer, Version};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// A server, and where the output of its connections goes.
struct Hub {
    server: Mutex<RedisServer>,
    outputs: Mutex<BTreeMap<u64, UnboundedSender<Vec<u8>>>>,
}

impl Hub {
    fn listen(version: Version, seed: u64, socket: &Path) -> Arc<Self> {
        let server = Mutex::new(RedisServer::new(version, Arc::new(SystemClock), seed));
        let hub = Arc::new(Self { server, outputs: Mutex::default() });
        let listener = UnixListener::bind(socket).unwrap();
        let accepting = hub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepting.clone().serve(stream));
            }
        });
        hub
    }

    async fn serve(self: Arc<Self>, stream: UnixStream) {
        let connection = self.server.lock().unwrap().connect();
        let (sender, mut output) = unbounded_channel::<Vec<u8>>();
        self.outputs.lock().unwrap().insert(connection, sender);
        let (mut reader, mut writer) = stream.into_split();
        let writing = tokio::spawn(async move {
            while let Some(bytes) = output.recv().await {
                if writer.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
        let mut buffer = [0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut buffer).await {
            self.server.lock().unwrap().receive(connection, &buffer[..length]);
            self.deliver();
        }
        self.server.lock().unwrap().disconnect(connection);
        self.outputs.lock().unwrap().remove(&connection);
        writing.await.unwrap();
    }

    fn deliver(&self) {
        let (mut server, mut outputs) = (self.server.lock().unwrap(), self.outputs.lock().unwrap());
        for connection in server.connections_with_output() {
            let bytes = server.take_output(connection);
            if let Some(output) = outputs.get(&connection) {
                let _ = output.send(bytes);
            }
        }
        for connection in server.take_closed() {
            outputs.remove(&connection);
        }
    }
}

/// Goal: the shipped link accepts every version, locks, waits for a hint, releases and examines.
#[tokio::test]
async fn the_shipped_link_locks_on_every_version() {
    for version in [Version::Redis62, Version::Redis7, Version::Redis84, Version::Valkey9] {
        let directory = tempfile::tempdir().unwrap();
        let sockets: Vec<_> = (0..3).map(|number| directory.path().join(format!("{number}.sock"))).collect();
        let hubs: Vec<_> =
            (1..).zip(&sockets).map(|(seed, socket)| Hub::listen(version, seed, socket)).collect();
        let urls: Vec<String> = sockets.iter().map(|socket| format!("unix://{}", socket.display())).collect();
        let locker = Locker::builder().nodes(&urls).ttl(Duration::from_secs(5)).build().unwrap();
        init_nodes(&locker).await;
        let other = Locker::builder().nodes(&urls).ttl(Duration::from_secs(5)).build().unwrap();

        let held = locker.named("invoice").unwrap().acquire().await.unwrap();
        let waiting = tokio::spawn(async move { other.named("invoice").unwrap().acquire().await.unwrap() });
        let votes = hubs.iter().filter(|hub| {
            let server = hub.server.lock().unwrap();
            server
                .stored_texts()
                .any(|text| text.key == b"invoice" && text.origin.command == OriginCommand::Set)
        });
        assert!(votes.count() >= 2, "{version:?}");
        let first = held.fence();
        assert!(matches!(held.release().await, ReleaseOutcome::Released));
        let second = tokio::time::timeout(Duration::from_secs(4), waiting).await.unwrap().unwrap();
        assert!(second.fence() > first, "{version:?}");
        assert!(matches!(second.release().await, ReleaseOutcome::Released));
        for examination in locker.examine().await {
            let Ok(Facts::Server(facts)) = &examination.found else { panic!("{examination:?}") };
            assert!(facts.refusal.is_none() && facts.denied.is_empty(), "{facts:?}");
            assert_eq!(facts.fast_release.is_some(), matches!(version, Version::Redis84 | Version::Valkey9));
        }
    }
}
