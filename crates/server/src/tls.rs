//! TLS of the server: its certificate, versions, protocols, and client certificates.
//!
//! A client certificate is requested and never required; TLS verifies only that the peer owns its key. The
//! crate `auth` verifies the certificate itself.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use pki::Pair;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion, version,
};

use crate::clock;

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A given file could not be read.
    #[error("cannot read {}: {cause}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The certificates are not in PEM, or there are none.
    #[error("no certificate could be read: {0}")]
    Certificate(rustls::pki_types::pem::Error),
    /// The key is not in PEM, or there is none.
    #[error("no private key could be read: {0}")]
    Key(rustls::pki_types::pem::Error),
    /// The key does not belong to the certificate, or cannot be used.
    #[error("the certificate and the private key cannot be used together: {0}")]
    Pair(rustls::Error),
    /// The configuration cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Setup(rustls::Error),
}

/// The oldest accepted version of TLS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Oldest {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Which versions of HTTP are offered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/2 and HTTP/1.1.
    #[default]
    Both,
    /// HTTP/1.1 only.
    Http1,
}

/// The TLS configuration of the server.
#[derive(Debug, Clone, Default)]
pub struct TlsConfig {
    /// The oldest version of TLS.
    pub oldest: Oldest,
    /// The versions of HTTP.
    pub protocols: Protocols,
    /// Certificates in PEM whose subjects the server sends, so that clients can choose a certificate.
    pub client_authorities: String,
}

/// The serving certificate; it can be replaced while the server runs.
#[derive(Debug)]
pub struct Identity {
    provider: Arc<CryptoProvider>,
    current: RwLock<CurrentCertificate>,
}

#[derive(Debug)]
struct CurrentCertificate {
    pair: Pair,
    key: Arc<CertifiedKey>,
}

impl Identity {
    /// Serves with `pair`.
    pub fn new(pair: Pair) -> Result<Arc<Self>, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let current = CurrentCertificate::new(pair, &provider)?;
        Ok(Arc::new(Self { provider, current: RwLock::new(current) }))
    }

    /// Serves new connections with `pair`. Returns whether it differs from the current one; after an error
    /// the current one stays.
    pub fn replace(&self, pair: Pair) -> Result<bool, Error> {
        if self.current.read().unwrap_or_else(PoisonError::into_inner).pair == pair {
            return Ok(false);
        }
        let current = CurrentCertificate::new(pair, &self.provider)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(true)
    }

    /// The configuration of rustls to serve with this identity.
    pub fn server_config(self: &Arc<Self>, tls: &TlsConfig) -> Result<Arc<ServerConfig>, Error> {
        let versions: &[&SupportedProtocolVersion] = match tls.oldest {
            Oldest::Tls12 => &[&version::TLS13, &version::TLS12],
            Oldest::Tls13 => &[&version::TLS13],
        };
        let verifier = AskOnly {
            provider: Arc::clone(&self.provider),
            hints: subjects(tls.client_authorities.as_bytes())?,
        };
        let mut config = ServerConfig::builder_with_details(Arc::clone(&self.provider), Arc::new(Clock))
            .with_protocol_versions(versions)
            .map_err(Error::Setup)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = match tls.protocols {
            Protocols::Both => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Protocols::Http1 => vec![b"http/1.1".to_vec()],
        };
        Ok(Arc::new(config))
    }

    /// Replaces the pair by that of `source`, at an interval and when the clock was set. Errors are logged;
    /// the current pair stays.
    ///
    /// Runs until it is dropped.
    pub async fn keep_fresh<F, E>(self: Arc<Self>, every: Duration, source: F)
    where
        F: Fn() -> Result<Pair, E> + Send + Sync + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let source = Arc::new(source);
        loop {
            clock::sleep_until_set(every).await;
            let source = Arc::clone(&source);
            let outcome = match tokio::task::spawn_blocking(move || source()).await {
                Ok(Ok(pair)) => self.replace(pair).map_err(|error| error.to_string()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match outcome {
                Ok(true) => log::info!("the serving certificate was replaced"),
                Ok(false) => {}
                Err(error) => {
                    log::error!(error = error.as_str(); "the serving certificate was not replaced; the old one stays")
                }
            }
        }
    }
}

/// The time for rustls, whose own clock panics before 1970.
#[derive(Debug)]
struct Clock;

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(auth::unix_time(SystemTime::now()))
    }
}

impl CurrentCertificate {
    fn new(pair: Pair, provider: &CryptoProvider) -> Result<Self, Error> {
        let chain = CertificateDer::pem_slice_iter(pair.certificate.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .map_err(Error::Certificate)?;
        if chain.is_empty() {
            return Err(Error::Certificate(rustls::pki_types::pem::Error::NoItemsFound));
        }
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(Error::Key)?;
        let key = CertifiedKey::from_der(chain, key, provider).map_err(Error::Pair)?;
        Ok(Self { pair, key: Arc::new(key) })
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).key))
    }
}

/// A certificate and its key in two files that the administrator maintains.
#[derive(Debug, Clone)]
pub struct Files {
    /// The certificate, followed by those that signed it.
    pub certificate: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Files {
    /// Reads the files.
    pub fn read(&self) -> Result<Pair, Error> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|cause| Error::Read { path: path.clone(), cause })
        };
        Ok(Pair { certificate: read(&self.certificate)?, key: read(&self.key)? })
    }
}

fn subjects(pem: &[u8]) -> Result<Vec<DistinguishedName>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.map_err(Error::Certificate)?).map_err(Error::Setup)?;
    }
    Ok(roots.subjects())
}

/// Requests a client certificate, and verifies only that the peer owns its key.
#[derive(Debug)]
struct AskOnly {
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AskOnly {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
