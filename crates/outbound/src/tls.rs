//! TLS towards other servers: which servers are trusted, and the certificate of the client.

use crate::pool::{Pool, Purpose};
use crate::refused::in_words;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Why TLS cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    /// The authorities cannot be used.
    #[error("no certificate authority could be read: {0}")]
    Authorities(String),
    /// The host has no authorities.
    #[error("no certificate authority is given, and this host has none: {0}")]
    System(String),
    /// The client's certificate cannot be used.
    #[error("the client certificate cannot be used: {0}")]
    Certificate(String),
    /// The client's key cannot be used. The text contains no part of the key.
    #[error("the client key cannot be used: {0}")]
    Key(&'static str),
    /// The expected name of the server's certificate is invalid.
    #[error("{0:?} is not the name of a server")]
    ServerName(String),
    /// The library refuses the configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(String),
}

/// Which servers are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those with a certificate of an authority that the host trusts.
    #[default]
    System,
    /// Those with one of these certificates, or with a certificate that one of these authorities signed.
    Authorities(Vec<CertificateDer<'static>>),
    /// Any server.
    Anyone,
}

impl Trust {
    /// Reads authorities from PEM.
    pub fn from_pem(pem: &[u8]) -> Result<Self, TlsError> {
        let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        match read {
            Ok(authorities) if authorities.is_empty() => {
                Err(TlsError::Authorities("there is no certificate in PEM".into()))
            }
            Ok(authorities) => Ok(Self::Authorities(authorities)),
            Err(error) => Err(TlsError::Authorities(error.to_string())),
        }
    }
}

/// A certificate of the client, those that signed it, and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain && self.key.secret_der() == other.key.secret_der()
    }
}

impl Identity {
    /// Reads a certificate and its key from PEM, and checks that they belong together.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(TlsError::Certificate("there is no certificate in PEM".into()));
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| TlsError::Key("there is no private key in PEM"))?;
        let signing = aws_lc_rs::sign::any_supported_type(&key)
            .map_err(|_| TlsError::Key("it is not of a supported type"))?;
        rustls::sign::CertifiedKey::new(chain.clone(), signing).keys_match().map_err(
            |error| match error {
                rustls::Error::InconsistentKeys(_) => TlsError::Key("it is not that of the certificate"),
                other => TlsError::Certificate(other.to_string()),
            },
        )?;
        Ok(Self { chain, key })
    }
}

/// TLS towards a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tls {
    /// Which servers are trusted.
    pub trust: Trust,
    /// The name that the server's certificate has to be for, if it is not that of its address.
    pub server_name: Option<String>,
    /// The certificate of the client.
    pub identity: Option<Arc<Identity>>,
}

static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(aws_lc_rs::default_provider()));

impl Tls {
    /// The configuration of connections to the server.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        let setup = |error: rustls::Error| TlsError::Setup(error.to_string());
        let builder = ClientConfig::builder_with_provider(PROVIDER.clone())
            .with_safe_default_protocol_versions()
            .map_err(setup)?
            .dangerous()
            .with_custom_certificate_verifier(self.trust.verifier()?);
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some(identity) => builder
                .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                .map_err(|error| TlsError::Certificate(error.to_string())),
        }
    }
}

impl Trust {
    fn verifier(&self) -> Result<Arc<Verifier>, TlsError> {
        let pool = match self {
            Self::Anyone => return Ok(Arc::new(Verifier { pool: None, chains: None })),
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                let pool = Pool::new(found.certs);
                if pool.authorities().is_empty() {
                    let why: Vec<_> = found.errors.iter().map(ToString::to_string).collect();
                    return Err(TlsError::System(why.join(", ")));
                }
                pool
            }
            Self::Authorities(authorities) => Pool::new(authorities.clone()),
        };
        let chains = if pool.authorities().is_empty() {
            None
        } else {
            let builder =
                WebPkiServerVerifier::builder_with_provider(pool.authorities().clone(), PROVIDER.clone());
            Some(builder.build().map_err(|error| TlsError::Authorities(error.to_string()))?)
        };
        Ok(Arc::new(Verifier { pool: Some(pool), chains }))
    }
}

/// Verifies the certificates of servers.
#[derive(Debug)]
struct Verifier {
    /// The trusted certificates; `None` trusts any server.
    pool: Option<Pool>,
    /// Verifies chains up to an authority of the pool; `None` if the pool has no authority.
    chains: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(pool) = &self.pool else { return Ok(ServerCertVerified::assertion()) };
        let verified = match (pool.check(certificate, Purpose::Server, now), &self.chains) {
            (Some(checked), _) => checked.map_err(Error::from).and_then(|()| {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                Ok(ServerCertVerified::assertion())
            }),
            (None, Some(chains)) => chains.verify_server_cert(certificate, intermediates, name, ocsp, now),
            (None, None) => Err(CertificateError::UnknownIssuer.into()),
        };
        verified.map_err(|error| in_words(error, certificate, name, now))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &PROVIDER.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &PROVIDER.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        PROVIDER.signature_verification_algorithms.supported_schemes()
    }
}
