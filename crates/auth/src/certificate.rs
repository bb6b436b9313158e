//! Client certificates: the name is the subject's common name, the groups are its organizations.

use crate::User;
use crate::families::CERTIFICATES;
use aws_lc_rs::digest::{SHA256, digest};
use clock::Instant;
use outbound::{Pool, Purpose};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DistinguishedName};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};
use x509_parser::parse_x509_certificate;

/// Authorities whose client certificates are trusted. They can be replaced while the server runs.
#[derive(Debug)]
pub struct Certificates {
    current: RwLock<Arc<Verifier>>,
    generation: AtomicU64,
}

impl Certificates {
    /// Trusts these authorities.
    pub fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Self, VerifierBuilderError> {
        Ok(Self { current: RwLock::new(Verifier::new(authorities)?), generation: AtomicU64::new(1) })
    }

    /// Trusts these authorities instead. Connections are certified again at their next request.
    pub fn replace(&self, authorities: Vec<CertificateDer<'static>>) -> Result<(), VerifierBuilderError> {
        let verifier = Verifier::new(authorities)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = verifier;
        self.generation.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// The subjects of the authorities.
    pub(crate) fn subjects(&self) -> Vec<DistinguishedName> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.pool.authorities().subjects()
    }

    /// A number that changes with the authorities.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// When the first of the certificates expires, in seconds since 1970, if the chain ends at an authority
    /// and the first certificate is for a client and valid now.
    pub(crate) fn verify(&self, chain: &[CertificateDer<'static>]) -> Option<i64> {
        let (own, intermediates) = chain.split_first()?;
        let verifier = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Err(error) = verifier.verify(own, intermediates, unix_time(clock::now())) {
            log::debug!(error:%; "a client certificate was not accepted");
            return None;
        }
        let ends = chain.iter().map(|each| Some(parse_x509_certificate(each).ok()?.1.validity().not_after));
        ends.collect::<Option<Vec<_>>>()?.into_iter().map(|end| end.timestamp()).min()
    }
}

/// Verifies the certificates of clients.
#[derive(Debug)]
struct Verifier {
    pool: Pool,
    /// Verifies chains up to an authority of the pool; `None` if the pool has no authority.
    chains: Option<Arc<dyn ClientCertVerifier>>,
}

impl Verifier {
    fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Arc<Self>, VerifierBuilderError> {
        let pool = Pool::new(authorities);
        let roots = pool.authorities();
        let chains = if roots.is_empty() {
            None
        } else {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            Some(WebPkiClientVerifier::builder_with_provider(roots.clone(), provider).build()?)
        };
        Ok(Arc::new(Self { pool, chains }))
    }

    fn verify(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        match (self.pool.check(own, Purpose::Client, now), &self.chains) {
            (Some(checked), _) => checked.map_err(Into::into),
            (None, Some(chains)) => chains.verify_client_cert(own, intermediates, now).map(drop),
            (None, None) => Err(CertificateError::UnknownIssuer.into()),
        }
    }
}

/// Client certificates as a method of authentication.
#[derive(Debug)]
pub struct ClientAuthority(Certificates);

impl ClientAuthority {
    /// Trusts these authorities.
    pub fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Self, VerifierBuilderError> {
        Certificates::new(authorities).map(Self)
    }

    /// The authorities.
    pub fn authorities(&self) -> &Certificates {
        &self.0
    }

    pub(crate) fn generation(&self) -> u64 {
        self.0.generation()
    }

    /// The user of the first certificate, if it is valid; none if its subject has no common name.
    pub(crate) fn certify(&self, chain: &[CertificateDer<'static>]) -> Outcome<Option<Arc<User>>> {
        let Some((until, own)) = self.0.verify(chain).zip(chain.first()) else { return Outcome::Refused };
        match user(own) {
            Ok(user) => Outcome::Valid { value: user.map(|user| Arc::new(user.authenticated())), until },
            Err(why) => {
                log::debug!(why; "a client certificate was not accepted");
                Outcome::Refused
            }
        }
    }
}

/// The user that a certificate names.
fn user(own: &CertificateDer<'_>) -> Result<Option<User>, &'static str> {
    let (_, certificate) = parse_x509_certificate(own).map_err(|_| "it cannot be read")?;
    let Some(name) = common_name(own).filter(|name| !name.is_empty()) else { return Ok(None) };
    let subject = certificate.subject();
    let groups = subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned);
    let mut uids = subject.iter_attributes().filter(|part| part.attr_type().to_id_string() == UID);
    let uid = match (uids.next(), uids.next()) {
        (None, _) => "",
        (Some(uid), None) => uid.as_str().map_err(|_| "its UID cannot be read")?,
        (Some(_), Some(_)) => return Err("it has several UIDs"),
    };
    let fingerprint = digest(&SHA256, own);
    let hex: String = fingerprint.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(User {
        name,
        uid: uid.to_owned(),
        groups: groups.collect(),
        extra: vec![(User::CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hex}")])],
    }))
}

/// The part of a subject that is the uid of the user.
const UID: &str = "1.3.6.1.4.1.57683.2";

/// The common name of a certificate's subject; of several the last.
pub(crate) fn common_name(own: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = parse_x509_certificate(own).ok()?;
    let names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    names.last().map(str::to_owned)
}

/// The result of verifying the certificates of a connection.
#[derive(Debug)]
pub struct Certified {
    /// The generations of the authorities that decided.
    pub(crate) generations: [u64; 2],
    /// As credentials of a client.
    pub(crate) client: Option<Outcome<Option<Arc<User>>>>,
    /// As those of an authenticating proxy.
    pub(crate) proxy: Option<Outcome<()>>,
    /// When they were verified.
    pub(crate) verified: Instant,
}

/// How long refused certificates are not verified again. A certificate may become valid later, also because
/// the clock is corrected.
const REFUSED_FOR: Duration = Duration::from_secs(10);

impl Certified {
    /// Counts how long the certificate of the client is valid yet.
    pub(crate) fn count_remaining(&self) {
        if let Some(Outcome::Valid { until, .. }) = &self.client {
            let now = unix_time(clock::now()).as_secs();
            let remaining = u64::try_from(*until).unwrap_or_default().saturating_sub(now);
            CERTIFICATES.with([]).observe_time(Duration::from_secs(remaining));
        }
    }

    /// Whether the certificates have to be verified again: a part of them was refused a while ago.
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        let is_refused =
            matches!(self.client, Some(Outcome::Refused)) || matches!(self.proxy, Some(Outcome::Refused));
        is_refused && now.saturating_duration_since(self.verified) >= REFUSED_FOR
    }
}

/// The result of verifying certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome<T> {
    /// The certificates are valid.
    Valid {
        /// What the certificates prove.
        value: T,
        /// When they expire, in seconds since 1970.
        until: i64,
    },
    /// The certificates are not accepted.
    Refused,
}

impl<T> Outcome<T> {
    /// What valid certificates prove, unless they have expired meanwhile.
    pub(crate) fn valid(&self) -> Option<&T> {
        match self {
            Self::Valid { value, until } => {
                let now = unix_time(clock::now()).as_secs();
                (now <= u64::try_from(*until).ok()?).then_some(value)
            }
            Self::Refused => None,
        }
    }
}

/// A time for TLS and certificates. They have no time before 1970: an earlier time becomes the start of 1970.
pub fn unix_time(time: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
        Issuer, KeyPair,
    };

    #[test]
    fn time_before_1970_is_the_first_of_1970() {
        let hour = std::time::Duration::from_secs(3600);
        assert_eq!(unix_time(SystemTime::UNIX_EPOCH - hour).as_secs(), 0);
        assert_eq!(unix_time(SystemTime::UNIX_EPOCH + hour).as_secs(), 3600);
    }

    fn authority(name: &str) -> (CertificateDer<'static>, Issuer<'static, KeyPair>) {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        (certificate, Issuer::new(params, key))
    }

    fn client(
        issuer: &Issuer<'static, KeyPair>,
        purpose: ExtendedKeyUsagePurpose,
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.extended_key_usages = vec![purpose];
        params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
    }

    #[test]
    fn certificate_of_the_authority_gives_user_and_groups() {
        let (certificate, issuer) = authority("ours");
        let ours = ClientAuthority::new(vec![certificate]).unwrap();
        let outcome = ours.certify(&[client(&issuer, ExtendedKeyUsagePurpose::ClientAuth)]);
        let user = outcome.valid().unwrap().as_ref().unwrap();
        assert_eq!(user.name, "jane");
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
        let [id] = user.extra(User::CREDENTIAL_ID) else { panic!("{user:?}") };
        assert_eq!((id.len(), id.starts_with("X509SHA256=")), ("X509SHA256=".len() + 64, true));
    }

    #[test]
    fn expired_certificate_gives_no_user() {
        assert_eq!(Outcome::Valid { value: 7, until: i64::MAX }.valid(), Some(&7));
        assert_eq!(Outcome::Valid { value: 7, until: 1_000_000_000 }.valid(), None);
    }

    #[test]
    fn certificates_of_other_authorities_and_of_servers_are_refused() {
        let (certificate, issuer) = authority("ours");
        let (_, other) = authority("ours");
        let ours = ClientAuthority::new(vec![certificate]).unwrap();
        for chain in [
            vec![client(&other, ExtendedKeyUsagePurpose::ClientAuth)],
            vec![client(&issuer, ExtendedKeyUsagePurpose::ServerAuth)],
            vec![],
            vec![CertificateDer::from(vec![1, 2, 3])],
        ] {
            assert_eq!(ours.certify(&chain), Outcome::Refused);
        }
    }

    #[test]
    fn refused_certificates_are_verified_again_after_a_while() {
        let verified = Instant::now();
        let certified =
            |client| Certified { generations: [1, 0], client: Some(client), proxy: None, verified };
        let refused = certified(Outcome::Refused);
        assert!(!refused.is_stale(verified));
        assert!(refused.is_stale(verified + REFUSED_FOR));
        let valid = certified(Outcome::Valid { value: None, until: i64::MAX });
        assert!(!valid.is_stale(verified + 2 * REFUSED_FOR));
    }

    #[test]
    fn subjects_are_those_of_clients_and_of_proxies_each_once() {
        let [ours, proxies] = [authority("ours").0, authority("proxies").0];
        let proxy = crate::Proxy {
            authorities: Certificates::new(vec![ours.clone(), proxies]).unwrap(),
            allowed_names: Vec::new(),
            username_headers: Vec::new(),
            uid_headers: Vec::new(),
            group_headers: Vec::new(),
            extra_prefixes: Vec::new(),
        };
        let methods = crate::Authenticators {
            certificates: Some(ClientAuthority::new(vec![ours]).unwrap()),
            proxy: Some(proxy),
            ..Default::default()
        };
        let generations = methods.authority_generations();
        assert_eq!(methods.authority_subjects().len(), 2);
        methods.proxy.as_ref().unwrap().authorities.replace(Vec::new()).unwrap();
        assert_eq!(methods.authority_subjects().len(), 1);
        assert_ne!(methods.authority_generations(), generations);
    }

    #[test]
    fn replaced_authorities_decide_from_then_on() {
        let (certificate, issuer) = authority("ours");
        let (next, next_issuer) = authority("next");
        let ours = ClientAuthority::new(vec![certificate]).unwrap();
        let generation = ours.generation();
        ours.authorities().replace(vec![next]).unwrap();
        assert_ne!(ours.generation(), generation);
        assert_eq!(ours.certify(&[client(&issuer, ExtendedKeyUsagePurpose::ClientAuth)]), Outcome::Refused);
        let outcome = ours.certify(&[client(&next_issuer, ExtendedKeyUsagePurpose::ClientAuth)]);
        assert!(outcome.valid().is_some());
    }
}
