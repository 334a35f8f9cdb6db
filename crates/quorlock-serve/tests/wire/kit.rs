//! A sidecar that listens, and callers that send plain bytes.

use quorlock::{Locker, Observer};
use quorlock_serve::{Address, CancellationToken, Limits, Sidecar, SidecarBuilder};
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinHandle;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A sidecar that listens on both kinds of addresses, and a client of the same nodes.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) tcp: SocketAddr,
    pub(crate) unix: PathBuf,
    pub(crate) nodes: Locker,
    pub(crate) shutdown: CancellationToken,
    pub(crate) serving: JoinHandle<()>,
    _dir: TempDir,
}

impl Lab {
    pub(crate) async fn start(nodes: &str, limits: Limits) -> Self {
        Self::observed(nodes, limits, |_: &quorlock::Event| {}).await
    }

    pub(crate) async fn observed(nodes: &str, limits: Limits, observer: impl Observer) -> Self {
        let builder = Locker::builder().nodes([nodes]).observer(observer);
        Self::bound(nodes, Sidecar::builder(builder).limits(limits), TempDir::new().unwrap()).await
    }

    /// With a token file.
    pub(crate) async fn guarded(nodes: &str, limits: Limits, tokens: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("tokens");
        std::fs::write(&file, tokens).unwrap();
        let builder = Sidecar::builder(Locker::builder().nodes([nodes])).limits(limits);
        Self::bound(nodes, builder.token_file(Some(file)), dir).await
    }

    async fn bound(nodes: &str, builder: SidecarBuilder, dir: TempDir) -> Self {
        let unix = dir.path().join("s");
        let sidecar = builder.build().unwrap();
        let addresses = ["127.0.0.1:0".parse().unwrap(), Address::Unix(unix.clone())];
        let bound = sidecar.bind(&addresses, None).await.unwrap();
        let tcp = bound.urls()[0].strip_prefix("http://").unwrap().parse().unwrap();
        let shutdown = CancellationToken::new();
        let serving = tokio::spawn(bound.serve(shutdown.clone()));
        let nodes = Locker::builder().nodes([nodes]).build().unwrap();
        Self { tcp, unix, nodes, shutdown, serving, _dir: dir }
    }

    pub(crate) async fn dial(&self) -> TcpStream {
        TcpStream::connect(self.tcp).await.unwrap()
    }

    pub(crate) async fn dial_unix(&self) -> UnixStream {
        UnixStream::connect(&self.unix).await.unwrap()
    }

    /// Whether a client holds `name`, by the nodes.
    pub(crate) async fn is_held(&self, name: &str) -> bool {
        self.nodes.named(name).unwrap().inspect().await.unwrap().is_held()
    }

    pub(crate) async fn overview(&self) -> Value {
        let mut stream = self.dial_unix().await;
        stream.write_all(b"GET /v1/overview HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let text = rest(&mut stream).await;
        serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    /// Waits until `count` calls wait for a lock.
    pub(crate) async fn waiters(&self, count: u64) {
        quorlock_testkit::until("the calls wait", LIMIT, async || {
            self.overview().await["waiters_total"] == count
        })
        .await;
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A request to acquire `name`.
pub(crate) fn acquire(name: &str, body: &str) -> Vec<u8> {
    let head = format!(
        "POST /v1/locks/{name}/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body.as_bytes()].concat()
}

/// All bytes until the sidecar closes the connection, or resets it.
pub(crate) async fn rest(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let _ = tokio::time::timeout(LIMIT, stream.read_to_end(&mut bytes)).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One response with a body.
pub(crate) async fn answer(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let reading = async {
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                if body.len() >= length.parse().unwrap() {
                    return text;
                }
            }
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the end after: {text}");
        }
    };
    tokio::time::timeout(LIMIT, reading).await.unwrap()
}
