//! The HTTP server of the sidecar without a sidecar: hyper answers each request at once, with the bytes that the
//! sidecar would send.

use anyhow::Result;
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::path::PathBuf;
use tokio::net::{UnixListener, UnixStream};

const LEASE: &str = r#"{"name":"bench:0:0:00","mode":"exclusive","token":"0123456789abcdef0123456789abcdef","fence":1794797504178366,"ttl_ms":10000,"remaining_ms":9890,"request_age_ms":1,"deadline_boot_ms":123456789,"votes":3,"nodes":5,"quorum":3}"#;
const RELEASED: &str = r#"{"outcome":"released"}"#;

/// Where it listens.
#[derive(Args)]
pub struct Where {
    #[arg(long)]
    listen: PathBuf,
}

/// Serves until the process is killed.
pub async fn run(at: Where) -> Result<()> {
    let listener = UnixListener::bind(&at.listen)?;
    println!("listening");
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve(stream));
    }
}

async fn serve(stream: UnixStream) {
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(respond)).await;
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let body = if request.uri().path().ends_with("/acquire") { LEASE } else { RELEASED };
    request.into_body().collect().await?;
    let mut response = Response::new(Full::from(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}
