//! Servers that say what no server should, in the middle of a stream or from its start.
#![allow(clippy::unwrap_used)]

mod net;

use net::{NODE_TIMEOUT, kinds, release, until_granted};
use quorlock::{Event, Guard, Locker, RestartGuard};
use quorlock_testkit::proxy::{Fault, Proxy};
use quorlock_testkit::{Server, Servers, until};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Forwards to a server, and once puts other bytes in the place of the next reply.
#[derive(Clone, Default)]
struct Forger {
    next: Arc<Mutex<Option<Forgery>>>,
    /// How many connections there were so far.
    connections: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Forgery {
    /// Each is read by itself.
    pieces: Vec<Vec<u8>>,
    then_cut: bool,
}

impl Forger {
    /// Starts it; gives its address.
    async fn start(&self, server: u16) -> String {
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

    fn forge(&self, bytes: &[u8], then_cut: bool) {
        self.forge_pieces(&[bytes], then_cut);
    }

    fn forge_pieces(&self, pieces: &[&[u8]], then_cut: bool) {
        let pieces = pieces.iter().map(|piece| piece.to_vec()).collect();
        *self.next.lock().unwrap() = Some(Forgery { pieces, then_cut });
    }

    fn is_done(&self) -> bool {
        self.next.lock().unwrap().is_none()
    }
}

/// A locker of one server, with a forger between them.
async fn behind_a_forger() -> (Servers, Forger, Locker) {
    let servers = Servers::start(1);
    let forger = Forger::default();
    let url = forger.start(servers[0].port()).await;
    let locker = Locker::builder().nodes([url]).node_timeout(NODE_TIMEOUT).build().unwrap();
    (servers, forger, locker)
}

/// Replies that no server sends, and whether the stream then ends; all break the connection.
fn forgeries() -> Vec<(Vec<u8>, bool)> {
    let short = [
        "$999999999\r\n",
        "*99999999\r\n",
        "%99999999\r\n",
        ">99999999\r\n",
        "$-2\r\n",
        ":x\r\n",
        "+OK\rX",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "+OK\r\n:1\r\n$3\r\nabcdef",
        "\0\0\0\0",
    ];
    let mut all: Vec<_> = short.iter().map(|text| (text.as_bytes().to_vec(), false)).collect();
    all.push((b"*1\r\n".repeat(1000), false));
    all.push(([b"+".as_slice(), &[b'x'; 100_000]].concat(), false));
    let piece = [b"$60000\r\n".as_slice(), &[b'x'; 60_000], b"\r\n"].concat();
    all.push(([b"*1000\r\n".to_vec(), piece.repeat(30)].concat(), false));
    // Half a reply, and none, before the end.
    all.extend(["+O", "$32\r\nabc", "*3\r\n+OK\r\n", ""].map(|text| (text.as_bytes().to_vec(), true)));
    all
}

#[tokio::test]
async fn nonsense_in_the_middle_of_a_stream_costs_one_connection_and_no_time() {
    let servers = Servers::start(3);
    let forger = Forger::default();
    let first = forger.start(servers[0].port()).await;
    let breaks = Arc::new(Mutex::new(Vec::new()));
    let heard = breaks.clone();
    let locker = Locker::builder()
        .nodes([first, servers[1].url(), servers[2].url()])
        .node_timeout(NODE_TIMEOUT)
        .observe(move |event: &Event| {
            if let Event::NodeFailed { cause, .. } = event {
                heard.lock().unwrap().push(cause.kind());
            }
        })
        .build()
        .unwrap();
    net::init(&locker).await;
    for (bytes, then_cut) in forgeries() {
        until("the node is back", net::SOON, async || {
            let guard = locker.named("back").unwrap().acquire().await.unwrap();
            let is_there = servers[0].cli(&["EXISTS", "back"]) == "1";
            release(guard).await;
            is_there
        })
        .await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]).into_owned();
        let connections = forger.connections.load(Ordering::SeqCst);
        forger.forge(&bytes, then_cut);
        let start = Instant::now();
        while !forger.is_done() {
            let guard = locker.named("a").unwrap().acquire().await.unwrap();
            assert!(guard.extend().await.is_ok(), "{shown:?}");
            release(guard).await;
        }
        assert!(start.elapsed() < NODE_TIMEOUT, "{shown:?}: {:?}", start.elapsed());
        // The old connection may carry a vote before its end is noticed; the next forgery would find none.
        until("there is a new connection", net::SOON, async || {
            forger.connections.load(Ordering::SeqCst) > connections
        })
        .await;
    }
    for server in servers.iter() {
        until("nothing is left", net::SOON, async || server.cli(&["EXISTS", "a", "back"]) == "0").await;
    }
    let kinds = breaks.lock().unwrap().clone();
    assert!(!kinds.contains(&"abandoned"), "{kinds:?}");
}

/// Goal: once a reply cannot be one to its command, nothing that follows on that connection is believed.
#[tokio::test]
async fn a_reply_of_another_shape_ends_its_connection() {
    let (servers, forger, locker) = behind_a_forger().await;
    for shifted in [":1\r\n+OK\r\n", "+OK\r\n+OK\r\n", "+OK\r\n+OK\r\n:1\r\n", "*0\r\n:1\r\n"] {
        until_granted(&locker, "a").await;
        let before = connection(&servers[0]);
        forger.forge(shifted.as_bytes(), false);
        let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
        assert_eq!(kinds(&refused), ["protocol"], "{shifted:?}");
        until("another connection", net::SOON, async || connection(&servers[0]) != before).await;
    }
}

/// The number of the lock's connection, if there is one.
fn connection(server: &Server) -> Option<String> {
    let clients = server.cli(&["CLIENT", "LIST"]);
    let ours = clients.lines().find(|line| line.contains("name=quorlock"))?;
    ours.split(' ').next().map(str::to_owned)
}

/// Goal: answers are matched by their order, as the protocol has no numbers. A middlebox that repeats one shifts all that
/// follow; what is answered by the answer to another question must not count.
#[tokio::test]
async fn an_answer_that_comes_twice_counts_once() {
    let servers = Servers::start(1);
    let proxy = Proxy::start(servers[0].port()).await;
    let builder = Locker::builder().nodes([proxy.url()]).node_timeout(NODE_TIMEOUT);
    let locker = builder.restart_guard(RestartGuard::Strict).build().unwrap();
    net::init(&locker).await;
    let (one, other) = (locker.named("one").unwrap(), locker.named("other").unwrap());
    servers[0].cli(&["SET", "other", "taken by somebody else"]);

    proxy.set(Fault::HoldReplies).await;
    let first = in_flight(&servers[0], async move { one.try_acquire().await }).await;
    let second = in_flight(&servers[0], async move { other.try_acquire().await }).await;
    proxy.set(Fault::DuplicateReplies).await;
    let held = first.await.unwrap().unwrap();
    let stolen = second.await.unwrap();
    assert!(stolen.is_err(), "granted by another lock's vote: {stolen:?}");

    proxy.set(Fault::Pass).await;
    servers[0].cli(&["DEL", "other"]);
    let gone = until_acquired(&locker, "other").await;
    servers[0].cli(&["DEL", "other"]);
    proxy.set(Fault::HoldReplies).await;
    let first = in_flight(&servers[0], async move { held.extend().await.map(drop) }).await;
    let second = in_flight(&servers[0], async move { gone.extend().await.map(drop) }).await;
    proxy.set(Fault::DuplicateReplies).await;
    assert!(first.await.unwrap().is_ok());
    let extended = second.await.unwrap();
    assert!(extended.is_err(), "extended by another lock's answer");
}

/// Goal: what nobody asked for is not taken for the answer to what is asked next, although both are read together.
#[tokio::test]
async fn a_second_answer_is_none_to_the_next_question() {
    let (servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    servers[0].cli(&["SET", "other", "taken by somebody else"]);
    forger.forge("+OK\r\n:1\r\n".repeat(2).as_bytes(), false);
    // A task has its turn as soon as it is answered, the test itself only now and then.
    let asked = tokio::spawn(async move {
        let _held = locker.named("one").unwrap().try_acquire().await.unwrap();
        locker.named("other").unwrap().try_acquire().await
    });
    let stolen = asked.await.unwrap();
    assert!(stolen.is_err(), "granted by another lock's vote: {stolen:?}");
}

/// Goal: a yes counts however it comes: in two reads, or with something that the server says unasked before or within it.
#[tokio::test]
async fn a_yes_in_pieces_counts() {
    const YES: &[u8] = b"+OK\r\n:1\r\n";
    const PUSH: &[u8] = b">3\r\n+message\r\n+nobody\r\n+hears it\r\n";
    let (servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    let before = connection(&servers[0]);
    let whole: &[&[u8]] = &[PUSH, YES];
    let within: &[&[u8]] = &[&YES[..5], PUSH, &YES[5..]];
    let together = [whole, within].map(|parts| vec![parts.concat()]);
    let apart = [whole, within].map(|parts| parts.iter().map(|part| part.to_vec()).collect::<Vec<_>>());
    let cut = (1..YES.len()).map(|at| vec![YES[..at].to_vec(), YES[at..].to_vec()]);
    for pieces in cut.chain(together).chain(apart) {
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        forger.forge_pieces(&pieces, false);
        let held = locker.named("b").unwrap().try_acquire().await;
        assert!(forger.is_done(), "{pieces:?}");
        release(held.unwrap_or_else(|refused| panic!("{pieces:?}: {refused}"))).await;
    }
    assert_eq!(connection(&servers[0]), before);
}

/// Goal: half a yes is none, neither on its own connection nor on the next.
#[tokio::test]
async fn half_a_yes_is_forgotten_with_its_connection() {
    let (servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    let before = forger.connections.load(Ordering::SeqCst);
    forger.forge(b"+OK\r\n", true);
    let half = locker.named("half").unwrap().try_acquire().await;
    assert!(half.is_err(), "{half:?}");
    servers[0].cli(&["SET", "other", "taken by somebody else"]);
    until_granted(&locker, "a").await;
    assert!(locker.named("other").unwrap().try_acquire().await.is_err());
    assert_eq!(forger.connections.load(Ordering::SeqCst), before + 1);
}

/// Goal: whoever was answered is told so, although the server goes away behind its answers.
#[tokio::test]
async fn all_answers_before_the_end_of_a_connection_count() {
    const LOCKS: usize = 32;
    let (_servers, forger, locker) = behind_a_forger().await;
    until_granted(&locker, "a").await;
    forger.forge("+OK\r\n:1\r\n".repeat(LOCKS).as_bytes(), true);
    let asked: Vec<_> = (0..LOCKS)
        .map(|number| {
            let lock = locker.named(format!("lock{number}")).unwrap();
            // Each is let go at once, so that something is written between the answers.
            tokio::spawn(async move { lock.try_acquire().await.map(drop) })
        })
        .collect();
    for answer in asked {
        assert!(answer.await.unwrap().is_ok());
    }
}

/// Starts `work`, and waits until the server has answered and the answer waits in the proxy, as a chunk of its own.
async fn in_flight<T: Send + 'static>(
    server: &Server,
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let before = votes_and_scripts(server);
    let work = tokio::spawn(work);
    until("the server has executed it", net::SOON, async || votes_and_scripts(server) != before).await;
    tokio::time::sleep(NODE_TIMEOUT / 20).await;
    work
}

/// What the server tells about the commands of locks that it has executed.
fn votes_and_scripts(server: &Server) -> Vec<String> {
    let stats = server.cli(&["INFO", "commandstats"]);
    let ours = stats.lines().filter(|line| line.contains("_zadd:") || line.contains("_evalsha:"));
    ours.map(str::to_owned).collect()
}

async fn until_acquired(locker: &Locker, name: &str) -> Guard {
    let mut taken = None;
    until("it is granted", net::SOON, async || {
        taken = locker.named(name).unwrap().try_acquire().await.ok();
        taken.is_some()
    })
    .await;
    taken.unwrap()
}

#[tokio::test]
async fn whatever_greets_us_instead_of_a_server_is_a_protocol_error() {
    for (bytes, then_cut) in forgeries() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let greeting = bytes.clone();
        let door = tokio::spawn(async move {
            let mut guests = Vec::new();
            while let Ok((mut guest, _)) = listener.accept().await {
                let _ = guest.read(&mut [0; 1024]).await;
                let _ = guest.write_all(&greeting).await;
                if !then_cut {
                    guests.push(guest);
                }
            }
        });
        let locker = Locker::builder().nodes([url]).node_timeout(NODE_TIMEOUT).build().unwrap();
        let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
        let expected = if then_cut { "disconnected" } else { "protocol" };
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]).into_owned();
        assert_eq!(kinds(&refused), [expected], "{shown:?}: {refused}");
        door.abort();
    }
}

#[tokio::test]
async fn a_server_that_never_greets_is_given_up_within_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let servers = Servers::start(2);
    let urls = [url, servers[0].url(), servers[1].url()];
    let locker = Locker::builder().nodes(urls).node_timeout(NODE_TIMEOUT).build().unwrap();
    let results = locker.init_fresh_nodes().await;
    assert_eq!(results[0].1.as_ref().unwrap_err().kind(), "timeout");
    let start = Instant::now();
    until_granted(&locker, "a").await;
    assert!(start.elapsed() < NODE_TIMEOUT, "{:?}", start.elapsed());
}
