//! Where a test server is to be found.

use super::Server;
use crate::servers::certs::Certs;
use std::path::{Path, PathBuf};

impl Server {
    /// `redis://127.0.0.1:PORT`, with the password if there is one.
    pub fn url(&self) -> String {
        let user = self.options.url_userinfo();
        format!("redis://{user}127.0.0.1:{}", self.port())
    }

    /// `rediss://localhost:PORT/?ca=FILE`.
    ///
    /// # Panics
    /// The server was built without TLS.
    pub fn tls_url(&self) -> String {
        let user = self.options.url_userinfo();
        let (port, ca) = (self.tls_port(), self.certs().ca());
        format!("rediss://{user}localhost:{port}/?ca={}", ca.display())
    }

    /// `unix://PATH`. Every test server has a Unix socket.
    pub fn unix_url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("server.sock")
    }

    /// The plain port. It stays the same over a restart.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The TLS port.
    ///
    /// # Panics
    /// The server was built without TLS.
    pub fn tls_port(&self) -> u16 {
        self.tls.as_ref().expect("built with tls()").0.number()
    }

    /// The certificates.
    ///
    /// # Panics
    /// The server was built without TLS.
    pub fn certs(&self) -> &Certs {
        &self.tls.as_ref().expect("built with tls()").1
    }

    /// Where the server keeps its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}
