//! A throw-away certificate authority for TLS tests.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs;
use std::path::{Path, PathBuf};

/// PEM files of an authority, a server (`localhost`, `127.0.0.1`) and a client.
#[derive(Clone, Debug)]
pub struct Certs {
    directory: PathBuf,
}

impl Certs {
    /// Writes fresh certificates and keys into `directory`.
    pub fn generate(directory: &Path) -> Self {
        let certs = Self { directory: directory.to_owned() };
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = params("quorlock test authority", &[]);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        fs::write(certs.ca(), authority.self_signed(&authority_key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(authority, authority_key);

        let mut server = params("localhost", &["localhost", "127.0.0.1"]);
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        sign(&server, &issuer, &certs.server_cert(), &certs.server_key());
        let mut client = params("quorlock test client", &["client"]);
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        sign(&client, &issuer, &certs.client_cert(), &certs.client_key());
        certs
    }

    /// The authority that signed the others.
    pub fn ca(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// The server's certificate.
    pub fn server_cert(&self) -> PathBuf {
        self.directory.join("server.pem")
    }

    /// The server's key.
    pub fn server_key(&self) -> PathBuf {
        self.directory.join("server.key")
    }

    /// A client's certificate, for servers that ask for one.
    pub fn client_cert(&self) -> PathBuf {
        self.directory.join("client.pem")
    }

    /// The client's key.
    pub fn client_key(&self) -> PathBuf {
        self.directory.join("client.key")
    }
}

fn params(name: &str, alternatives: &[&str]) -> CertificateParams {
    let alternatives: Vec<String> = alternatives.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(alternatives).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn sign(params: &CertificateParams, issuer: &Issuer<'_, KeyPair>, cert: &Path, key: &Path) {
    let pair = KeyPair::generate().unwrap();
    fs::write(cert, params.signed_by(&pair, issuer).unwrap().pem()).unwrap();
    fs::write(key, pair.serialize_pem()).unwrap();
}
