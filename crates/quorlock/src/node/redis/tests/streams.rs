//! TCP and TLS, by a small proxy before the server's socket.

use super::*;
use crate::node::Done;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio_rustls::TlsAcceptor;

/// An authority, and what it signed, as files.
struct TestCa {
    directory: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl TestCa {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = CertifiedIssuer::self_signed(params, key).unwrap();
        let ca = Self { directory: tempfile::tempdir().unwrap(), authority };
        std::fs::write(ca.file("ca.pem"), ca.authority.pem()).unwrap();
        ca
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A certificate for `host` and its key.
    fn sign(&self, host: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
        (params.signed_by(&key, &self.authority).unwrap(), key)
    }

    /// A server that shows a certificate for `host` and wants one of the client.
    fn acceptor(&self, host: &str) -> TlsAcceptor {
        let (certificate, key) = self.sign(host);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients)
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Forwards a port of its own to `socket`; returns the port.
async fn forward(socket: &Path, tls: Option<TlsAcceptor>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let socket = socket.to_owned();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (socket, tls) = (socket.clone(), tls.clone());
            tokio::spawn(async move {
                let mut server = UnixStream::connect(socket).await.unwrap();
                // A client that is refused closes the connection, which is what some tests want to see.
                let _ = match tls {
                    None => copy_bidirectional(&mut stream, &mut server).await.map(drop),
                    Some(tls) => match tls.accept(stream).await {
                        Ok(mut stream) => copy_bidirectional(&mut stream, &mut server).await.map(drop),
                        Err(error) => Err(error),
                    },
                };
            });
        }
    });
    port
}

#[tokio::test]
async fn a_server_is_reached_over_tcp() {
    let server = Server::start(&[]);
    let port = forward(&server.socket(), None).await;
    let node = connect(&format!("redis://localhost:{port}"), calm());
    assert_eq!(node.id(), format!("localhost:{port}"));
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
}

#[tokio::test]
async fn a_server_is_reached_over_tls_with_certificates_on_both_sides() {
    let server = Server::start(&[]);
    let ca = TestCa::new();
    let port = forward(&server.socket(), Some(ca.acceptor("localhost"))).await;
    let (certificate, key) = ca.sign("client");
    let (ca, cert, private) = (ca.file("ca.pem"), ca.file("c.pem"), ca.file("k.pem"));
    std::fs::write(&cert, certificate.pem()).unwrap();
    std::fs::write(&private, key.serialize_pem()).unwrap();
    let url = format!(
        "rediss://localhost:{port}?ca={}&cert={}&key={}",
        ca.display(),
        cert.display(),
        private.display()
    );
    let node = connect(&url, guarded());
    node.init().await.unwrap();
    for number in 0..100 {
        let lock = format!("n{number}");
        assert!(matches!(ask(&node, vote(&lock, 1, 7)).await, Reply::Done(Done::Raised)));
    }
}

#[tokio::test]
async fn a_certificate_for_another_host_or_of_another_authority_is_refused() {
    let server = Server::start(&[]);
    let (ca, others) = (TestCa::new(), TestCa::new());
    for (acceptor, trusted) in [(ca.acceptor("example.org"), &ca), (ca.acceptor("localhost"), &others)] {
        let port = forward(&server.socket(), Some(acceptor)).await;
        let ca = trusted.file("ca.pem");
        let node = connect(&format!("rediss://localhost:{port}?ca={}", ca.display()), calm());
        let error = cause(ask(&node, vote("a", 1, 7)).await);
        assert!(matches!(error, NodeError::Tls { .. }), "{error}");
    }
}

/// Goal: a wrong scheme is reported as such, not as a server that is mute.
#[tokio::test]
async fn a_port_without_tls_is_distinct_from_a_mute_server() {
    let server = Server::start(&[]);
    let ca = TestCa::new();
    let port = forward(&server.socket(), None).await;
    let node = connect(&format!("rediss://localhost:{port}?ca={}", ca.file("ca.pem").display()), calm());
    let error = cause(ask(&node, vote("a", 1, 7)).await);
    assert!(error.to_string().contains("a port without TLS needs the scheme without TLS"), "{error}");
}
