//! Servers that answer with hostile text.

use crate::HOSTILE;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
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

/// An etcd member that refuses every request with `code` and hostile text.
pub(crate) fn refusing_etcd(code: i64) -> String {
    let refusal = move |_: &str| (400, json!({ "code": code, "message": HOSTILE, "error": HOSTILE }));
    format!("etcd://{}", start(move |stream| answer_http(stream, refusal)))
}

/// An etcd member that reports hostile text of itself, or answers JSON of another shape.
pub(crate) fn describing_etcd(is_readable: bool) -> String {
    let describe = move |path: &str| {
        let header = json!({ "cluster_id": "7", "revision": "5" });
        let status = json!({ "header": header, "version": HOSTILE, "leader": "1", "errors": [HOSTILE] });
        let range = json!({ "header": header, "kvs": HOSTILE, "succeeded": HOSTILE });
        match path {
            "/v3/maintenance/status" => (200, status),
            _ if is_readable => (200, json!({ "header": header })),
            _ => (200, range),
        }
    };
    format!("etcd://{}", start(move |stream| answer_http(stream, describe)))
}

fn answer_http(stream: TcpStream, reply: impl Fn(&str) -> (u16, Value)) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if stream.read_line(&mut request)? == 0 {
            return Ok(());
        }
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line)?;
            match line.trim().split_once(':') {
                Some((key, value)) if key.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap_or_default();
                }
                Some(_) => {}
                None => break,
            }
        }
        io::copy(&mut stream.by_ref().take(length), &mut io::sink())?;
        let (status, body) = reply(&path);
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.get_mut().write_all((head + &body).as_bytes())?;
    }
}
