//! Nodes that misbehave: one that never answers, and a slow road to one that does.

use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// Accepts connections and never answers. Lives as long as this process. Its port.
pub fn mute() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    spawn(move || {
        for stream in listener.incoming().flatten() {
            spawn(move || swallow(stream));
        }
    });
    Ok(port)
}

/// Answers of the server at `to` come `later`. Lives as long as this process. Its port.
pub fn slow(to: u16, later: Duration) -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    spawn(move || {
        for client in listener.incoming().flatten() {
            // A client that is gone already is no loss.
            let _ = carry(client, to, later);
        }
    });
    Ok(port)
}

fn swallow(mut stream: TcpStream) {
    let mut buffer = [0; 4096];
    while matches!(stream.read(&mut buffer), Ok(1..)) {}
}

fn carry(client: TcpStream, to: u16, later: Duration) -> Result<()> {
    let server = TcpStream::connect(("127.0.0.1", to))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    one_way(client.try_clone()?, server.try_clone()?, Duration::ZERO);
    one_way(server, client, later);
    Ok(())
}

/// Bytes that came at one moment.
type Chunk = (Instant, Vec<u8>);

/// Chunks overlap on the way, as on a long wire: the delay costs latency, not throughput.
fn one_way(source: TcpStream, sink: TcpStream, later: Duration) {
    let (chunks, waiting) = channel();
    spawn(move || collect(source, &chunks));
    spawn(move || deliver(&waiting, sink, later));
}

fn collect(mut source: TcpStream, chunks: &Sender<Chunk>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = source.read(&mut buffer) {
        if chunks.send((Instant::now(), buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn deliver(waiting: &Receiver<Chunk>, mut sink: TcpStream, later: Duration) {
    for (came, bytes) in waiting {
        sleep((came + later).saturating_duration_since(Instant::now()));
        if sink.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = sink.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_road_delays_answers_and_loses_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut word = [0; 4];
            stream.read_exact(&mut word).unwrap();
            stream.write_all(&word).unwrap();
        });
        let later = Duration::from_millis(20);
        let mut stream = TcpStream::connect(("127.0.0.1", slow(port, later).unwrap())).unwrap();
        let start = Instant::now();
        stream.write_all(b"ping").unwrap();
        let mut word = [0; 4];
        stream.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"ping");
        assert!(start.elapsed() >= later);
    }

    #[test]
    fn a_mute_node_accepts_and_says_nothing() {
        let mut stream = TcpStream::connect(("127.0.0.1", mute().unwrap())).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        stream.write_all(b"PING\r\n").unwrap();
        assert!(stream.read(&mut [0; 4]).is_err());
    }
}
