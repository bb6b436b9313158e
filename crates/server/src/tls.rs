//! TLS of the server: its certificate, versions, protocols, and client certificates.
//!
//! A client certificate is requested and never required; TLS verifies only that the peer owns its key. The
//! crate `auth` verifies the certificate itself. The request names the authorities that it trusts, as they
//! are at the time of the handshake: clients with several certificates choose by them.

mod named;
mod suites;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use auth::Authenticators;
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
    DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme, SupportedProtocolVersion,
    version,
};
use tasks::PolledFiles;

use crate::set_clock;
use named::ByName;

pub use named::{NamedFiles, NamedPair};

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
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsConfig {
    /// The oldest version of TLS.
    pub oldest: Oldest,
    /// The versions of HTTP.
    pub protocols: Protocols,
    /// The names of the cipher suites of TLS 1.2; empty for all of them.
    pub suites: Vec<String>,
}

/// The certificates of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The certificate for every name that has no other one.
    pub pair: Pair,
    /// The certificates for some names.
    pub named: Vec<NamedPair>,
}

impl From<Pair> for Serving {
    fn from(pair: Pair) -> Self {
        Self { pair, named: Vec::new() }
    }
}

/// The serving certificates; they can be replaced while the server runs.
#[derive(Debug)]
pub struct Identity {
    provider: Arc<CryptoProvider>,
    current: RwLock<CurrentCertificates>,
}

#[derive(Debug)]
struct CurrentCertificates {
    serving: Serving,
    key: Arc<CertifiedKey>,
    by_name: ByName,
}

impl Identity {
    /// Serves with these certificates.
    pub fn new(serving: impl Into<Serving>) -> Result<Arc<Self>, Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let current = CurrentCertificates::new(serving.into(), &provider)?;
        Ok(Arc::new(Self { provider, current: RwLock::new(current) }))
    }

    /// Serves new connections with these certificates. Returns whether they differ from the current ones;
    /// after an error the current ones stay.
    pub fn replace(&self, serving: impl Into<Serving>) -> Result<bool, Error> {
        let serving = serving.into();
        if self.current.read().unwrap_or_else(PoisonError::into_inner).serving == serving {
            return Ok(false);
        }
        let current = CurrentCertificates::new(serving, &self.provider)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
        Ok(true)
    }

    /// The certificate for a client that sent this name, or none and connected to this address.
    fn certificate(&self, name: Option<&str>, address: Option<IpAddr>) -> Arc<CertifiedKey> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        let named = match (name, address) {
            (Some(name), _) => current.by_name.find(name),
            (None, Some(address)) => current.by_name.of_address(&address.to_canonical().to_string()),
            (None, None) => None,
        };
        Arc::clone(named.unwrap_or(&current.key))
    }

    /// Whether clients that send no name get another certificate at this address.
    fn is_named(&self, address: IpAddr) -> bool {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.by_name.of_address(&address.to_canonical().to_string()).is_some()
    }

    /// Replaces the certificates by those of `source`: within about a second of a change of `files`, at an
    /// interval, and when the clock was set. Errors are logged; the current certificates stay.
    ///
    /// Runs until it is dropped.
    pub async fn keep_fresh<F, S, E>(self: Arc<Self>, every: Duration, files: Vec<PathBuf>, source: F)
    where
        F: Fn() -> Result<S, E> + Send + Sync + 'static,
        S: Into<Serving> + Send + 'static,
        E: std::fmt::Display + Send + 'static,
    {
        let source = Arc::new(source);
        let mut files = PolledFiles::new(files);
        loop {
            tokio::select! {
                () = set_clock::sleep_until_set(every) => {}
                contents = files.changed() => files.set_known(contents),
            }
            let source = Arc::clone(&source);
            let outcome = match tokio::task::spawn_blocking(move || source()).await {
                Ok(Ok(serving)) => self.replace(serving).map_err(|error| error.to_string()),
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
        Some(auth::unix_time(clock::now()))
    }
}

impl CurrentCertificates {
    fn new(serving: Serving, provider: &CryptoProvider) -> Result<Self, Error> {
        let key = Arc::new(certified(&serving.pair, provider)?);
        let by_name = ByName::new(&serving.named, provider)?;
        Ok(Self { serving, key, by_name })
    }
}

/// A pair as rustls uses it.
fn certified(pair: &Pair, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    let chain = pki::certificates(&pair.certificate).map_err(Error::Certificate)?;
    if chain.is_empty() {
        return Err(Error::Certificate(rustls::pki_types::pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(Error::Key)?;
    CertifiedKey::from_der(chain, key, provider).map_err(Error::Pair)
}

/// Chooses the certificate of a handshake.
#[derive(Debug)]
struct Chooser {
    identity: Arc<Identity>,
    /// The address that the client connected to, if it matters.
    address: Option<IpAddr>,
}

impl ResolvesServerCert for Chooser {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.identity.certificate(hello.server_name(), self.address))
    }
}

/// Makes the configuration of rustls for each connection: with the certificates of the server and the
/// authorities of clients as they are then.
#[derive(Debug)]
pub struct Acceptor {
    identity: Arc<Identity>,
    tls: TlsConfig,
    authenticators: Arc<Authenticators>,
    current: RwLock<CurrentConfig>,
}

/// The configuration for some authorities of client certificates.
#[derive(Debug)]
struct CurrentConfig {
    generations: [u64; 2],
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Serves with `identity`, and names the authorities of `authenticators` to clients.
    pub fn new(
        identity: Arc<Identity>,
        tls: TlsConfig,
        authenticators: Arc<Authenticators>,
    ) -> Result<Arc<Self>, Error> {
        let current = CurrentConfig::new(&identity, &tls, &authenticators)?;
        Ok(Arc::new(Self { identity, tls, authenticators, current: RwLock::new(current) }))
    }

    /// The configuration for a connection to this address of the server.
    pub(crate) fn config(&self, address: Option<IpAddr>) -> Arc<ServerConfig> {
        let config = self.of_authorities();
        match address.filter(|address| self.identity.is_named(*address)) {
            None => config,
            Some(address) => {
                let mut config = (*config).clone();
                let identity = Arc::clone(&self.identity);
                config.cert_resolver = Arc::new(Chooser { identity, address: Some(address) });
                Arc::new(config)
            }
        }
    }

    fn of_authorities(&self) -> Arc<ServerConfig> {
        let generations = self.authenticators.authority_generations();
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.generations == generations {
                return Arc::clone(&current.config);
            }
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        match CurrentConfig::new(&self.identity, &self.tls, &self.authenticators) {
            Ok(new) => *current = new,
            Err(error) => {
                log::error!(error:%; "TLS does not name the new authorities of client certificates")
            }
        }
        Arc::clone(&current.config)
    }
}

impl CurrentConfig {
    fn new(
        identity: &Arc<Identity>,
        tls: &TlsConfig,
        authenticators: &Authenticators,
    ) -> Result<Self, Error> {
        // Read first: authorities that change meanwhile have another number.
        let generations = authenticators.authority_generations();
        let versions: &[&SupportedProtocolVersion] = match tls.oldest {
            Oldest::Tls12 => &[&version::TLS13, &version::TLS12],
            Oldest::Tls13 => &[&version::TLS13],
        };
        let mut provider = (*identity.provider).clone();
        tls.choose(&mut provider.cipher_suites);
        let provider = Arc::new(provider);
        let hints = authenticators.authority_subjects();
        let verifier = AskOnly { provider: Arc::clone(&provider), hints };
        let mut config = ServerConfig::builder_with_details(provider, Arc::new(Clock))
            .with_protocol_versions(versions)
            .map_err(Error::Setup)?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(Chooser { identity: Arc::clone(identity), address: None }));
        config.alpn_protocols = match tls.protocols {
            Protocols::Both => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Protocols::Http1 => vec![b"http/1.1".to_vec()],
        };
        Ok(Self { generations, config: Arc::new(config) })
    }
}

/// A certificate and its key in two files that the administrator maintains.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// The paths of both files.
    pub fn paths(&self) -> [PathBuf; 2] {
        [self.certificate.clone(), self.key.clone()]
    }
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
