//! One HTTP/2 connection to one member, and gRPC on it.

use crate::node::NodeError;
use crate::node::etcd::client::errors::{CallError, Refusal, protocol};
use crate::node::net::stream::Address;
use crate::node::server_text::server_text;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use prost::Message;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest answer that is read, in bytes: the names of a full list fit in.
const LONGEST_ANSWER: usize = 64 << 20;
/// How much of one answer, and of all answers, may be on its way before it is read.
const WINDOWS: (u32, u32) = (1 << 20, 4 << 20);
/// The longest head of an answer.
const LONGEST_HEAD: u32 = 64 << 10;
/// What precedes each message: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// A connection, which many calls share.
#[derive(Clone, Debug)]
pub(crate) struct Channel {
    sender: SendRequest<Bytes>,
    uri: UriParts,
    is_closed: Arc<AtomicBool>,
}

#[derive(Clone, Debug)]
struct UriParts {
    scheme: Scheme,
    authority: Authority,
}

impl Channel {
    /// Connects to `address`, where the member `authority` is, as a part of an attempt that may take `limit`.
    pub(crate) async fn open(address: &Address, authority: &str, limit: Duration) -> Result<Self, NodeError> {
        let scheme = if address.is_tls() { Scheme::HTTPS } else { Scheme::HTTP };
        let authority = Authority::try_from(authority).map_err(|error| protocol(error.to_string()))?;
        let stream = address.open(limit).await?;
        let (sender, connection) = h2::client::Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_header_list_size(LONGEST_HEAD)
            // Each head is complete in itself, so that damaged bytes of one cannot change the next.
            .header_table_size(0)
            .handshake::<_, Bytes>(stream)
            .await
            .map_err(|error| lost(&error))?;
        let is_closed = Arc::new(AtomicBool::new(false));
        let closing = is_closed.clone();
        // It ends with its last sender, or with the server.
        tokio::spawn(async move {
            let _ = connection.await;
            closing.store(true, Ordering::Relaxed);
        });
        Ok(Self { sender, uri: UriParts { scheme, authority }, is_closed })
    }

    /// Whether it was closed by the member or by an error.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether both are the same connection.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.is_closed, &other.is_closed)
    }

    /// The answer to the one `message`, which [`frame`] made.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        path: &'static str,
        message: Bytes,
        auth_token: Option<&str>,
    ) -> Result<A, CallError> {
        let (response, mut request) = self.begin(path, auth_token).await?;
        request.send_data(message, true).map_err(|error| CallError::Failed(lost(&error)))?;
        let (head, mut body) = response.await.map_err(failed)?.into_parts();
        check_head(head.status, &head.headers, path)?;
        let whole = read_all(&mut body).await?;
        match body.trailers().await.map_err(failed)? {
            Some(trailers) => check_status(&trailers)?,
            None => return Err(CallError::Failed(protocol("an answer has no status"))),
        }
        decode_one(&whole).map_err(CallError::Failed)
    }

    /// Messages to a member, and messages from it, until either side ends them.
    pub(crate) async fn open_stream(
        &self,
        path: &'static str,
        auth_token: Option<&str>,
    ) -> Result<Messages, CallError> {
        let (response, request) = self.begin(path, auth_token).await?;
        Ok(Messages { path, request, response: Some(response), body: None, read: BytesMut::new() })
    }

    async fn begin(
        &self,
        path: &'static str,
        auth_token: Option<&str>,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), CallError> {
        let request = self.uri.request(path, auth_token).map_err(CallError::Unsent)?;
        let unsent = |error: h2::Error| CallError::Unsent(lost(&error));
        let mut sender = self.sender.clone().ready().await.map_err(unsent)?;
        sender.send_request(request, false).map_err(unsent)
    }
}

impl UriParts {
    fn request(&self, path: &'static str, auth_token: Option<&str>) -> Result<Request<()>, NodeError> {
        let bad = |error: &dyn std::fmt::Display| protocol(server_text(error.to_string()));
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(PathAndQuery::from_static(path));
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_parts(parts).map_err(|error| bad(&error))?;
        let head = request.headers_mut();
        head.insert("content-type", HeaderValue::from_static("application/grpc"));
        head.insert("te", HeaderValue::from_static("trailers"));
        // A member that sees no leader reports that, instead of keeping a watch open that reports nothing.
        head.insert("hasleader", HeaderValue::from_static("true"));
        if let Some(auth_token) = auth_token {
            let mut token = HeaderValue::try_from(auth_token)
                .map_err(|_| protocol("the token of the user cannot be sent"))?;
            token.set_sensitive(true);
            head.insert("token", token);
        }
        Ok(request)
    }
}

/// Messages in both directions.
#[derive(Debug)]
pub(crate) struct Messages {
    path: &'static str,
    request: SendStream<Bytes>,
    /// `None` once it has begun.
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    read: BytesMut,
}

impl Messages {
    pub(crate) fn send(&mut self, message: &impl Message) -> Result<(), NodeError> {
        self.request.send_data(frame(message), false).map_err(|error| lost(&error))
    }

    /// The next message.
    ///
    /// # Cancel safety
    /// Nothing is lost if this is dropped before it returned.
    pub(crate) async fn next<A: Message + Default>(&mut self) -> Result<A, CallError> {
        if let Some(response) = &mut self.response {
            let (head, body) = response.await.map_err(failed)?.into_parts();
            self.response = None;
            check_head(head.status, &head.headers, self.path)?;
            self.body = Some(body);
        }
        loop {
            if let Some(message) = take_message(&mut self.read).map_err(CallError::Failed)? {
                return A::decode(message).map_err(|error| CallError::Failed(unreadable(&error)));
            }
            let ended = || CallError::Failed(protocol("the watch has ended"));
            let body = self.body.as_mut().ok_or_else(ended)?;
            match body.data().await {
                Some(piece) => {
                    let piece = piece.map_err(failed)?;
                    let _ = body.flow_control().release_capacity(piece.len());
                    self.read.extend_from_slice(&piece);
                }
                None => {
                    let trailers = body.trailers().await.map_err(failed)?;
                    trailers.as_ref().map_or(Ok(()), check_status)?;
                    return Err(ended());
                }
            }
        }
    }
}

/// `message` with what precedes it.
pub(crate) fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // It grows as needed.
    let _ = message.encode(&mut bytes);
    bytes.freeze()
}

/// All of an answer. Most come in one piece, which need not be copied.
async fn read_all(body: &mut RecvStream) -> Result<Bytes, CallError> {
    let (mut first, mut read) = (Bytes::new(), BytesMut::new());
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(failed)?;
        let _ = body.flow_control().release_capacity(piece.len());
        if first.is_empty() && read.is_empty() {
            first = piece;
            continue;
        }
        read.extend_from_slice(&std::mem::take(&mut first));
        if read.len() + piece.len() > LONGEST_ANSWER {
            return Err(CallError::Failed(protocol("an answer is too long")));
        }
        read.extend_from_slice(&piece);
    }
    Ok(if read.is_empty() { first } else { read.freeze() })
}

/// The one message of an answer.
fn decode_one<A: Message + Default>(whole: &Bytes) -> Result<A, NodeError> {
    let mut read = whole.clone();
    if read.len() < PREFIX || read.get_u8() != 0 || read.get_u32() as usize != read.remaining() {
        return Err(protocol("an answer is not one message"));
    }
    A::decode(read).map_err(|error| unreadable(&error))
}

/// The first whole message in `read`, without what precedes it.
fn take_message(read: &mut BytesMut) -> Result<Option<Bytes>, NodeError> {
    let Some(mut prefix) = read.get(..PREFIX) else { return Ok(None) };
    if prefix.get_u8() != 0 {
        return Err(protocol("a message is compressed"));
    }
    let length = prefix.get_u32() as usize;
    if length > LONGEST_ANSWER {
        return Err(protocol("a message is too long"));
    }
    if read.len() < PREFIX + length {
        return Ok(None);
    }
    read.advance(PREFIX);
    Ok(Some(read.split_to(length).freeze()))
}

fn check_head(status: StatusCode, head: &HeaderMap, path: &str) -> Result<(), CallError> {
    if status != StatusCode::OK {
        return Err(CallError::Failed(protocol(format!(
            "{path} answered {status}; it must be the client port of etcd 3.4 or newer"
        ))));
    }
    // An error without an answer comes at once.
    if head.contains_key("grpc-status") {
        check_status(head)?;
    }
    Ok(())
}

/// Whether the status in `fields` is a success.
fn check_status(fields: &HeaderMap) -> Result<(), CallError> {
    let code =
        fields.get("grpc-status").and_then(|code| code.to_str().ok()).and_then(|code| code.parse().ok());
    match code {
        Some(0) => Ok(()),
        Some(code) => {
            let message = fields.get("grpc-message").map(|text| percent_decoded(text.as_bytes()));
            Err(CallError::Refused(Refusal { code, message: message.unwrap_or_default() }))
        }
        None => Err(CallError::Failed(protocol("an answer has no status"))),
    }
}

/// gRPC writes what is not printable ASCII as `%` and two digits.
fn percent_decoded(text: &[u8]) -> String {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match (text[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn unreadable(error: &prost::DecodeError) -> NodeError {
    protocol(format!("an answer cannot be read: {}", server_text(error.to_string())))
}

fn failed(error: h2::Error) -> CallError {
    CallError::Failed(lost(&error))
}

/// The connection broke.
fn lost(error: &h2::Error) -> NodeError {
    NodeError::Disconnected { source: Arc::new(io::Error::other(server_text(error.to_string()))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::etcd::client::messages::RevokeRequest;

    #[test]
    fn an_answer_is_exactly_one_message() {
        let one = frame(&RevokeRequest { id: 300 });
        assert_eq!(&one[..], b"\0\0\0\0\x03\x08\xac\x02");
        assert_eq!(decode_one::<RevokeRequest>(&one).unwrap().id, 300);
        let twice = Bytes::from([&one[..], &one].concat());
        for bad in
            [Bytes::new(), one.slice(..7), one.slice(1..), twice, Bytes::from_static(b"\0\0\0\0\x01\xff")]
        {
            assert!(decode_one::<RevokeRequest>(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn messages_are_taken_one_by_one_as_they_arrive() {
        let one = frame(&RevokeRequest { id: 300 });
        let all = [&one[..], &one].concat();
        let mut read = BytesMut::new();
        let mut found = 0;
        for byte in all {
            read.put_u8(byte);
            found += usize::from(take_message(&mut read).unwrap().is_some());
        }
        assert_eq!((found, read.len()), (2, 0));
        assert!(take_message(&mut BytesMut::from(&b"\x01\0\0\0\0"[..])).is_err());
        assert!(take_message(&mut BytesMut::from(&b"\0\xff\0\0\0"[..])).is_err());
    }

    #[test]
    fn the_message_of_a_refusal_is_decoded() {
        assert_eq!(percent_decoded(b"a%20b%0A%e2%82%ac"), "a b\n\u{20ac}");
        assert_eq!(percent_decoded(b"100%, %zz%4"), "100%, %zz%4");
    }
}
