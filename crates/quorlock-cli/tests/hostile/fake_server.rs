//! Servers that answer with hostile text.

use crate::HOSTILE;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Starts a server that answers each connection as `serve` does; its `host:port`. It ends with the
/// test.
fn start(serve: impl Fn(TcpStream) -> io::Result<()> + Copy + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client that goes away ends its connection.
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A Redis server that refuses every command with `code` and hostile text.
pub(crate) fn refusing(code: &'static str) -> String {
    format!("redis://{}", start(move |stream| answer(stream, |_| error(code))))
}

/// A Redis server that reports hostile text of itself, with this eviction policy.
pub(crate) fn describing(policy: &'static str) -> String {
    format!("redis://{}", start(move |stream| answer(stream, |words| describe(words, policy))))
}

fn answer(stream: TcpStream, reply: impl Fn(&[String]) -> Vec<u8>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let words = (0..number(&mut stream)?).map(|_| word(&mut stream)).collect::<io::Result<Vec<_>>>()?;
        stream.get_mut().write_all(&reply(&words))?;
    }
}

/// The number in a line such as `*3`.
fn number(stream: &mut impl BufRead) -> io::Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    line.get(1..).and_then(|digits| digits.trim().parse().ok()).ok_or(io::ErrorKind::InvalidData.into())
}

fn word(stream: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = vec![0; number(stream)? + 2];
    stream.read_exact(&mut bytes)?;
    bytes.truncate(bytes.len() - 2);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// An error that may contain line breaks.
fn error(code: &str) -> Vec<u8> {
    let text = format!("{code} {HOSTILE} to run it");
    format!("!{}\r\n{text}\r\n", text.len()).into_bytes()
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

fn describe(words: &[String], policy: &str) -> Vec<u8> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    // A field of INFO ends with its line.
    let hostile = HOSTILE.replace('\n', "");
    match words[..] {
        ["HELLO", ..] => format!("%1\r\n{}:7\r\n", bulk("id")),
        ["INFO", ..] => {
            let policy = policy.replace("HOSTILE", &hostile);
            let fields = ["redis_version:7.4.", "redis_mode:", "role:", "run_id:"]
                .map(|field| format!("{field}{hostile}"));
            bulk(&format!("{}\r\nmaxmemory_policy:{policy}\r\naof_enabled:1\r\n", fields.join("\r\n")))
        }
        ["CONFIG", "GET", name] => format!("*2\r\n{}{}", bulk(name.trim_matches('*')), bulk(HOSTILE)),
        ["ACL", "WHOAMI"] => bulk(HOSTILE),
        ["GET", "quorlock:epoch"] => bulk(&format!("v2:{hostile}:0:0:30000:0:n:{HOSTILE}")),
        ["TIME"] => format!("*2\r\n{}{}", bulk("1763240000"), bulk("0")),
        ["PING"] => "+PONG\r\n".to_owned(),
        _ => return error("NOPERM"),
    }
    .into_bytes()
}

/// What a fake etcd member answers to a call.
enum Answer {
    /// One message.
    Message(Vec<u8>),
    /// A code of gRPC, with hostile text.
    Refusal(u32),
}

/// An etcd member that refuses every request with `code` and hostile text.
pub(crate) fn refusing_etcd(code: u32) -> String {
    format!("etcd://{}", start(move |stream| answer_grpc(stream, |_| Answer::Refusal(code))))
}

/// An etcd member that reports hostile text of itself, or answers what cannot be read.
pub(crate) fn describing_etcd(is_readable: bool) -> String {
    // The cluster and its revision.
    let header = b"\x0a\x04\x08\x07\x18\x05".to_vec();
    // A length above 127 takes two bytes.
    let field = |tag: u8| {
        let length = [(HOSTILE.len() & 0x7f) as u8 | 0x80, (HOSTILE.len() >> 7) as u8];
        [&[tag][..], &length, HOSTILE.as_bytes()].concat()
    };
    // Version, leader and complaints.
    let status = [&header[..], &field(0x12), b"\x20\x01", &field(0x42)].concat();
    let (status, header): (&'static [u8], &'static [u8]) = (status.leak(), header.leak());
    let describe = move |path: &str| match path {
        "/etcdserverpb.Maintenance/Status" => Answer::Message(status.to_vec()),
        _ if is_readable => Answer::Message(header.to_vec()),
        // A field that another one should be in.
        _ => Answer::Message([header, &field(0x0a)].concat()),
    };
    format!("etcd://{}", start(move |stream| answer_grpc(stream, describe)))
}

fn answer_grpc(stream: TcpStream, reply: impl Fn(&str) -> Answer) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::from_std(stream)?;
        let mut connection = h2::server::handshake(stream).await.map_err(io::Error::other)?;
        while let Some(call) = connection.accept().await {
            let (request, mut respond) = call.map_err(io::Error::other)?;
            let status = |code: u32, text: &str| {
                let mut fields = http::HeaderMap::new();
                fields.insert("grpc-status", code.into());
                fields.insert("grpc-message", text.parse().unwrap());
                fields
            };
            let mut response = http::Response::new(());
            match reply(request.uri().path()) {
                Answer::Refusal(code) => {
                    *response.headers_mut() = status(code, &percent_encoded(HOSTILE));
                    let _ = respond.send_response(response, true);
                }
                Answer::Message(message) => {
                    let prefix = [&[0][..], &(message.len() as u32).to_be_bytes()].concat();
                    if let Ok(mut body) = respond.send_response(response, false) {
                        let _ = body.send_data([prefix, message].concat().into(), false);
                        let _ = body.send_trailers(status(0, ""));
                    }
                }
            }
        }
        Ok(())
    })
}

/// As gRPC writes what a head may not contain.
fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
