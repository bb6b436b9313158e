//! Trusted certificates, with the rules of Go's certificate pools, which every component of Kubernetes uses.

use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::{CertificateError, RootCertStore};
use std::sync::Arc;
use std::time::Duration;
use x509_parser::certificate::X509Certificate;
use x509_parser::parse_x509_certificate;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

/// What a certificate is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A server proves its identity to a client.
    Server,
    /// A client proves its identity to a server.
    Client,
}

/// Certificates that are trusted. A certificate in the pool is trusted whatever signed it, if its dates and
/// its extended key usage allow the use; those in the pool that are of an authority may sign others.
#[derive(Debug)]
pub struct Pool {
    certificates: Vec<CertificateDer<'static>>,
    authorities: Arc<RootCertStore>,
}

impl Pool {
    /// A pool of these certificates; those that cannot be read are left out.
    pub fn new(certificates: Vec<CertificateDer<'static>>) -> Self {
        let mut authorities = RootCertStore::empty();
        let signers = certificates.iter().filter(|certificate| may_sign(certificate)).cloned();
        authorities.add_parsable_certificates(signers);
        Self { certificates, authorities: Arc::new(authorities) }
    }

    /// The certificates that may sign others.
    pub fn authorities(&self) -> &Arc<RootCertStore> {
        &self.authorities
    }

    /// Whether a certificate of the pool may be used for a purpose now; `None` for a certificate that is not
    /// in the pool, which is trusted if an authority of the pool signed it.
    pub fn check(
        &self,
        certificate: &CertificateDer<'_>,
        purpose: Purpose,
        now: UnixTime,
    ) -> Option<Result<(), CertificateError>> {
        self.certificates
            .iter()
            .any(|trusted| trusted == certificate)
            .then(|| check_dates_and_usage(certificate, purpose, now))
    }
}

fn check_dates_and_usage(
    certificate: &CertificateDer<'_>,
    purpose: Purpose,
    now: UnixTime,
) -> Result<(), CertificateError> {
    let (_, parsed) = parse_x509_certificate(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let at = |time: ASN1Time| {
        UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(time.timestamp()).unwrap_or(0)))
    };
    let (not_before, not_after) = (at(parsed.validity().not_before), at(parsed.validity().not_after));
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before });
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after });
    }
    if !allows(&parsed, purpose)? {
        return Err(CertificateError::InvalidPurpose);
    }
    Ok(())
}

fn allows(certificate: &X509Certificate<'_>, purpose: Purpose) -> Result<bool, CertificateError> {
    let usage = certificate.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    Ok(usage.is_none_or(|usage| {
        usage.value.any
            || match purpose {
                Purpose::Server => usage.value.server_auth,
                Purpose::Client => usage.value.client_auth,
            }
    }))
}

/// Whether a certificate is of an authority. Those of X.509 version 1, which have no extensions, are.
fn may_sign(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = parse_x509_certificate(certificate) else { return false };
    parsed.version() != X509Version::V3 || parsed.is_ca()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
    };

    const NOW: u64 = 1_750_000_000;

    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(NOW))
    }

    /// A certificate that an authority outside of the pool signed.
    fn leaf(change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = Issuer::new(params, KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(["b.test".to_owned()]).unwrap();
        change(&mut params);
        params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().clone()
    }

    fn check(certificate: CertificateDer<'static>, purpose: Purpose) -> Option<Result<(), CertificateError>> {
        Pool::new(vec![certificate.clone()]).check(&certificate, purpose, now())
    }

    #[test]
    fn a_certificate_of_the_pool_is_trusted_whatever_signed_it() {
        for purpose in [Purpose::Server, Purpose::Client] {
            assert_eq!(check(leaf(|_| ()), purpose), Some(Ok(())));
        }
        assert_eq!(Pool::new(vec![leaf(|_| ())]).check(&leaf(|_| ()), Purpose::Server, now()), None);
    }

    #[test]
    fn dates_and_usages_of_a_certificate_of_the_pool_are_checked() {
        let old = leaf(|params| params.not_after = date_time_ymd(2020, 1, 1));
        assert!(matches!(check(old, Purpose::Server), Some(Err(CertificateError::ExpiredContext { .. }))));
        let new = leaf(|params| params.not_before = date_time_ymd(2090, 1, 1));
        assert!(matches!(
            check(new, Purpose::Server),
            Some(Err(CertificateError::NotValidYetContext { .. }))
        ));
        let of_client =
            || leaf(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
        assert_eq!(check(of_client(), Purpose::Client), Some(Ok(())));
        assert_eq!(check(of_client(), Purpose::Server), Some(Err(CertificateError::InvalidPurpose)));
        let of_any = leaf(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::Any]);
        assert_eq!(check(of_any, Purpose::Server), Some(Ok(())));
    }

    #[test]
    fn only_authorities_of_the_pool_may_sign() {
        let authority = leaf(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
        assert_eq!(Pool::new(vec![leaf(|_| ()), authority]).authorities().len(), 1);
        let unreadable = CertificateDer::from(vec![1, 2, 3]);
        assert!(Pool::new(vec![unreadable]).authorities().is_empty());
    }
}
