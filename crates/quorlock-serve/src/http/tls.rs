//! TLS, with client certificates if a client CA is given.

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The files of certificates and keys, in PEM.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tls {
    cert: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be used.
    #[error("{what} `{}` cannot be used: {cause}", path.display())]
    File {
        /// What it should contain.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// Certificate and key do not match.
    #[error("the certificate and the key cannot be used together: {0}")]
    Mismatch(#[from] rustls::Error),
}

impl Tls {
    /// A certificate chain and its key.
    pub fn new(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self { cert: cert.into(), key: key.into(), client_ca: None }
    }

    /// Requires callers to have a certificate that one of these authorities signed.
    #[must_use]
    pub fn client_ca(mut self, ca: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(ca.into());
        self
    }

    /// Whether callers must have certificates.
    pub(crate) fn verifies_callers(&self) -> bool {
        self.client_ca.is_some()
    }

    /// Reads the files.
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let chain = certificates("the certificate", &self.cert)?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| file("the key", &self.key, &error))?;
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(ring.clone()).with_safe_default_protocol_versions()?;
        let config = match &self.client_ca {
            None => config.with_no_client_auth(),
            Some(path) => {
                let what = "the client CA";
                let mut roots = RootCertStore::empty();
                for authority in certificates(what, path)? {
                    roots.add(authority).map_err(|error| file(what, path, &error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), ring);
                let verifier = verifier.build().map_err(|error| file(what, path, &error))?;
                config.with_client_cert_verifier(verifier)
            }
        };
        let mut config = config.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

/// The certificates of a sidecar that listens. They can be reloaded while it serves.
#[derive(Clone, Debug)]
pub struct Certificates(Arc<Live>);

#[derive(Debug)]
struct Live {
    files: Tls,
    config: RwLock<Arc<ServerConfig>>,
}

impl Certificates {
    pub(crate) fn load(files: &Tls) -> Result<Self, TlsError> {
        let config = RwLock::new(files.config()?);
        Ok(Self(Arc::new(Live { files: files.clone(), config })))
    }

    /// The configuration for the next connection.
    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        self.0.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether callers must have certificates.
    pub(crate) fn verifies_callers(&self) -> bool {
        self.0.files.verifies_callers()
    }

    /// Reads the files again, for connections from now on. After a failure the old certificates stay.
    ///
    /// # Errors
    /// [`TlsError`], which says what is wrong with them.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = self.0.files.config()?;
        *self.0.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let read = read.map_err(|error| file(what, path, &error))?;
    if read.is_empty() {
        return Err(file(what, path, &"it contains no certificate"));
    }
    Ok(read)
}

fn file(what: &'static str, path: &Path, cause: &impl ToString) -> TlsError {
    TlsError::File { what, path: path.to_owned(), cause: cause.to_string() }
}
