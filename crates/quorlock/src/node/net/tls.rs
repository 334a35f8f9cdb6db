//! The TLS settings of a connection: the authorities to trust, and our own certificate.

use crate::node::NodeError;
use crate::node::url::TlsFiles;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// How to speak TLS to one server.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) connector: TlsConnector,
    pub(crate) server: ServerName<'static>,
}

impl Tls {
    /// Reads the certificates that `files` name. Without an authority of its own, the system's are trusted.
    pub(crate) fn new(host: &str, files: &TlsFiles) -> Result<Self, NodeError> {
        Self::checking(host, files, None)
    }

    /// The same with another way to check the server's certificate.
    pub(crate) fn checking(
        host: &str,
        files: &TlsFiles,
        verifier: Option<Arc<dyn ServerCertVerifier>>,
    ) -> Result<Self, NodeError> {
        let server = ServerName::try_from(host.to_owned())
            .map_err(|_| tls(format!("`{host}` is no name that a certificate can have")))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| tls(error.to_string()))?;
        let config = match verifier {
            Some(verifier) => config.dangerous().with_custom_certificate_verifier(verifier),
            None => config.with_root_certificates(roots(files)?),
        };
        let config = match &files.identity {
            None => config.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| tls(format!("key {}: {error}", key.display())))?;
                config
                    .with_client_auth_cert(certificates(cert)?, key)
                    .map_err(|error| tls(format!("certificate {}: {error}", cert.display())))?
            }
        };
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), server })
    }

    /// The same, which asks for `protocol` on top of TLS.
    #[cfg(feature = "etcd")]
    pub(crate) fn with_alpn(&self, protocol: &[u8]) -> Self {
        let mut config = ClientConfig::clone(self.connector.config());
        config.alpn_protocols = vec![protocol.to_vec()];
        Self { connector: TlsConnector::from(Arc::new(config)), server: self.server.clone() }
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tls({:?})", self.server)
    }
}

/// The authorities to trust.
pub(crate) fn roots(files: &TlsFiles) -> Result<RootCertStore, NodeError> {
    match &files.ca {
        Some(path) => trusted(path),
        None => system_roots(),
    }
}

fn trusted(path: &Path) -> Result<RootCertStore, NodeError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| tls(format!("authority {}: {error}", path.display())))?;
    }
    Ok(roots)
}

fn system_roots() -> Result<RootCertStore, NodeError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Systems carry odd old certificates; those that cannot be read are of no use and do no harm.
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        let why = found.errors.first().map(ToString::to_string);
        return Err(tls(format!(
            "the system has no certificates to trust ({}); name an authority with `?ca=FILE`",
            why.unwrap_or_default()
        )));
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, NodeError> {
    let bad = |error: &dyn std::fmt::Display| tls(format!("certificate {}: {error}", path.display()));
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| bad(&error))?;
    if certificates.is_empty() {
        return Err(bad(&"no certificate in the file"));
    }
    Ok(certificates)
}

fn tls(reason: impl Into<Arc<str>>) -> NodeError {
    NodeError::Tls { reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_or_empty_authority_is_named() {
        let empty = tempfile::NamedTempFile::new().unwrap();
        for path in [empty.path(), Path::new("/nowhere/ca.pem")] {
            let files = TlsFiles { ca: Some(path.to_owned()), identity: None };
            let error = Tls::new("localhost", &files).unwrap_err();
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        }
    }
}
