//! Client certificates: the name is the subject's common name, the groups are its organizations.

use crate::User;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use std::sync::Arc;
use std::time::SystemTime;
use x509_parser::parse_x509_certificate;

/// The authorities whose client certificates are trusted.
#[derive(Debug)]
pub struct ClientAuthority(Arc<dyn ClientCertVerifier>);

impl ClientAuthority {
    /// Trusts these authorities.
    pub fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Self, VerifierBuilderError> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Self(verifier))
    }

    /// The user of the first certificate, if the chain ends at an authority and the certificate is for a client and valid now.
    /// This takes a tenth of a millisecond: the server keeps the result for the connection, while it is [valid](Certified::user).
    pub fn certify(&self, chain: &[CertificateDer<'static>]) -> Option<Certified> {
        let (own, intermediates) = chain.split_first()?;
        if let Err(error) = self.0.verify_client_cert(own, intermediates, unix_time(SystemTime::now())) {
            log::debug!(error:%; "a client certificate was not accepted");
            return None;
        }
        let (_, certificate) = parse_x509_certificate(own).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().filter_map(|name| name.as_str().ok()).last()?.to_owned();
        let groups =
            subject.iter_organization().filter_map(|name| name.as_str().ok()).map(str::to_owned).collect();
        let until = chain
            .iter()
            .filter_map(|each| Some(parse_x509_certificate(each).ok()?.1.validity().not_after))
            .min()?;
        (!name.is_empty())
            .then(|| Certified { user: User { name, groups, ..User::default() }, until: until.timestamp() })
    }
}

/// The user of a certificate, and when the certificate expires.
#[derive(Clone, Debug)]
pub struct Certified {
    user: User,
    /// In seconds since 1970.
    until: i64,
}

impl Certified {
    /// The user, unless the certificate has expired meanwhile.
    pub fn user(&self) -> Option<&User> {
        let now = unix_time(SystemTime::now());
        (now.as_secs() <= u64::try_from(self.until).ok()?).then_some(&self.user)
    }
}

/// A time for TLS and certificates, which know none before 1970: an earlier one is the first of that year.
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
        let certified = ours.certify(&[client(&issuer, ExtendedKeyUsagePurpose::ClientAuth)]).unwrap();
        let user = certified.user().unwrap();
        assert_eq!(
            (user.name.as_str(), user.groups.as_slice()),
            ("jane", ["system:masters".to_owned()].as_slice())
        );
    }

    #[test]
    fn expired_certificate_gives_no_user() {
        let user = User { name: "jane".into(), ..User::default() };
        let good = Certified { user: user.clone(), until: i64::MAX };
        assert_eq!(good.user(), Some(&user));
        assert_eq!(Certified { user, until: 1_000_000_000 }.user(), None);
    }

    #[test]
    fn certificates_of_other_authorities_and_of_servers_give_no_user() {
        let (certificate, issuer) = authority("ours");
        let (_, other) = authority("ours");
        let ours = ClientAuthority::new(vec![certificate]).unwrap();
        assert!(ours.certify(&[client(&other, ExtendedKeyUsagePurpose::ClientAuth)]).is_none());
        assert!(ours.certify(&[client(&issuer, ExtendedKeyUsagePurpose::ServerAuth)]).is_none());
        assert!(ours.certify(&[]).is_none());
        assert!(ours.certify(&[CertificateDer::from(vec![1, 2, 3])]).is_none());
    }
}
