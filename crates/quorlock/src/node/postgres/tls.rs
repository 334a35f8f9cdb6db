//! TLS for connections to PostgreSQL, with the checks that `sslmode` asks for.

use crate::context::connector::Stream;
use crate::node::NodeError;
use crate::node::net::tls::{Tls, roots};
use crate::node::url::postgres::{Ssl, SslMode};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};
use tokio_rustls::client;

/// The handshake with one server; `None` where there is no TLS.
#[derive(Clone, Debug)]
pub(crate) struct Handshake(pub(crate) Option<Tls>);

impl Handshake {
    /// Reads the certificates that `ssl` names.
    pub(crate) fn new(host: &str, ssl: &Ssl) -> Result<Self, NodeError> {
        let verifier = match ssl.mode {
            SslMode::Disable => return Ok(Self(None)),
            SslMode::VerifyFull => None,
            // libpq does the same where an authority is named.
            SslMode::Require | SslMode::VerifyCa
                if ssl.mode == SslMode::VerifyCa || ssl.files.ca.is_some() =>
            {
                Some(Verifier::new(Some(roots(&ssl.files)?)))
            }
            SslMode::Prefer | SslMode::Require | SslMode::VerifyCa => Some(Verifier::new(None)),
        };
        Tls::checking(host, &ssl.files, verifier).map(|tls| Self(Some(tls)))
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Session;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Session>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let tls = self.0.ok_or_else(|| io::Error::other("TLS is disabled"))?;
            tls.connector.connect(tls.server, stream).await.map(Session)
        })
    }
}

/// A stream without TLS.
pub(crate) struct Socket(pub(crate) Box<dyn Stream>);

/// A stream with TLS.
pub(crate) struct Session(client::TlsStream<Socket>);

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl AsyncRead for Session {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Session {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl TlsStream for Session {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

/// Checks less than the name: only the authority, or nothing.
#[derive(Debug)]
struct Verifier {
    roots: Option<RootCertStore>,
    provider: CryptoProvider,
}

impl Verifier {
    #[allow(clippy::new_ret_no_self)]
    fn new(roots: Option<RootCertStore>) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { roots, provider: rustls::crypto::ring::default_provider() })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(roots) = &self.roots {
            let algorithms = self.provider.signature_verification_algorithms.all;
            let parsed = ParsedCertificate::try_from(certificate)?;
            verify_server_cert_signed_by_trust_anchor(&parsed, roots, intermediates, now, algorithms)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
