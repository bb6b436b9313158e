//! Makes certificates, and checks existing ones.

use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::validity::{NotValid, Validity, seconds};
use super::{Client, Error, Names, Pair};

const DAY: Duration = Duration::from_secs(24 * 3600);
const AUTHORITY_LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);
const LEAF_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long before its end a leaf is replaced, and by how much its end may exceed [`LEAF_LIFE`] from now: a
/// leaf that lasts longer was made while the clock was ahead.
const MARGIN: Duration = Duration::from_secs(30 * 24 * 3600);

/// What a certificate is for.
pub(super) enum Purpose<'a> {
    /// The server's side of TLS: the common name, and the names that clients verify.
    Serving { name: &'a str, names: &'a Names },
    /// A client's side of TLS.
    Client { user: &'a str, group: &'a str },
}

/// A certificate that signs others, with its key.
pub(super) struct Authority {
    pair: Pair,
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    validity: Validity,
}

impl Authority {
    /// Makes a new authority.
    pub(super) fn make(now: SystemTime) -> Result<Self, rcgen::Error> {
        Self::make_with(&format!("keelson-ca@{}", seconds(now)), Self::validity_from(now))
    }

    /// Makes a new authority with a name and a validity.
    pub(super) fn make_with(name: &str, validity: Validity) -> Result<Self, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = params(validity);
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key)?;
        let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
        Ok(Self { pair, der: certificate.der().clone(), issuer: Issuer::new(params, key), validity })
    }

    /// The validity of an authority that is made or renewed at `now`. It begins a day earlier: a clock that
    /// is set to another time zone by mistake is still within it.
    pub(super) fn validity_from(now: SystemTime) -> Validity {
        Validity::starting(now, DAY, AUTHORITY_LIFE)
    }

    /// The authority in `pair`, or why it is invalid.
    pub(super) fn load(pair: Pair) -> Result<Self, String> {
        let key = KeyPair::from_pem(&pair.key).map_err(|error| format!("its key: {error}"))?;
        let der =
            CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(|error| error.to_string())?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| error.to_string())?;
        if !parsed.is_ca() {
            return Err("it is no authority's certificate".into());
        }
        if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err("its key belongs to another certificate".into());
        }
        let validity = Validity::of(&parsed);
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(|error| error.to_string())?;
        Ok(Self { pair, der, issuer, validity })
    }

    /// The certificate in PEM.
    pub(super) fn certificate(&self) -> &str {
        &self.pair.certificate
    }

    /// The certificate in DER.
    pub(super) fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// The key.
    pub(super) fn key(&self) -> &KeyPair {
        self.issuer.key()
    }

    /// From when to when it is valid.
    pub(super) fn validity(&self) -> Validity {
        self.validity
    }

    /// The certificate and its key.
    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// A new certificate for a client.
    pub(super) fn client(&self, client: &Client<'_>, now: SystemTime) -> Result<Pair, Error> {
        client.issue(self, now)
    }

    /// Refuses to sign outside of its own life.
    pub(super) fn check_valid(&self, now: SystemTime) -> Result<(), Error> {
        let Self { validity, .. } = *self;
        validity.fault(now).map_or(Ok(()), |fault| Err(Error::Signing { fault, validity, now: seconds(now) }))
    }

    /// A new certificate for `purpose`. It begins with its authority, so that it is valid also for a clock
    /// that is behind, and after one that was ahead.
    pub(super) fn issue(&self, purpose: &Purpose<'_>, now: SystemTime) -> Result<Pair, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = params(self.leaf_validity(now));
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        match purpose {
            Purpose::Serving { name, names } => {
                params.distinguished_name.push(DnType::CommonName, *name);
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
                for name in &names.dns {
                    params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
                }
                params.subject_alt_names.extend(names.addresses.iter().copied().map(SanType::IpAddress));
            }
            Purpose::Client { user, group } => {
                params.distinguished_name.push(DnType::OrganizationName, *group);
                params.distinguished_name.push(DnType::CommonName, *user);
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            }
        }
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    fn leaf_validity(&self, now: SystemTime) -> Validity {
        let end = Validity::starting(now, Duration::ZERO, LEAF_LIFE).not_after;
        Validity { not_before: self.validity.not_before, not_after: end }.within(self.validity)
    }
}

/// A certificate found on disk.
pub(super) struct Leaf<'a>(pub(super) &'a Pair);

impl Leaf<'_> {
    /// Why this certificate cannot be used for `purpose` at `now`; `None` if it can.
    pub(super) fn fault(
        &self,
        authority: &Authority,
        purpose: &Purpose<'_>,
        now: SystemTime,
    ) -> Option<String> {
        self.check(authority, purpose, now).err()
    }

    fn check(&self, authority: &Authority, purpose: &Purpose<'_>, now: SystemTime) -> Result<(), String> {
        let unreadable = |what: &str| format!("the old one cannot be read: {what}");
        let der = CertificateDer::from_pem_slice(self.0.certificate.as_bytes())
            .map_err(|error| unreadable(&error.to_string()))?;
        let (_, leaf) = X509Certificate::from_der(&der).map_err(|error| unreadable(&error.to_string()))?;
        let (_, signer) =
            X509Certificate::from_der(&authority.der).map_err(|error| unreadable(&error.to_string()))?;
        let key = KeyPair::from_pem(&self.0.key).map_err(|error| unreadable(&error.to_string()))?;
        if leaf.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err("the old one does not fit its key".into());
        }
        if leaf.verify_signature(Some(signer.public_key())).is_err() {
            return Err("the old one was signed by another authority".into());
        }
        check_life(Validity::of(&leaf), authority, now)?;
        match purpose {
            Purpose::Serving { names, .. } if names_of(&leaf) != **names => {
                Err("the names of the host have changed".into())
            }
            Purpose::Client { user, group } if !is_subject(&leaf, user, group) => {
                Err("the old one is for another user".into())
            }
            _ => Ok(()),
        }
    }
}

fn params(validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(validity.not_before);
    params.not_after = epoch + Duration::from_secs(validity.not_after);
    params
}

/// Why a leaf with this validity has to be replaced at `now`. The validity of a new leaf is never a reason.
fn check_life(leaf: Validity, authority: &Authority, now: SystemTime) -> Result<(), String> {
    let margin = MARGIN.as_secs();
    let new = authority.leaf_validity(now);
    if leaf.within(authority.validity) != leaf {
        return Err("the old one is valid outside of the life of its authority".into());
    }
    if leaf.fault(now) == Some(NotValid::NotYet) {
        return Err("the old one is not valid yet, by the clock of this machine".into());
    }
    // A new leaf would not last longer than one that ends with its authority.
    if leaf.not_after < seconds(now).saturating_add(margin) && leaf.not_after < new.not_after {
        return Err("the old one has run out, or soon will".into());
    }
    if leaf.not_after > new.not_after.saturating_add(margin) {
        return Err("the old one was made while the clock was ahead".into());
    }
    Ok(())
}

fn names_of(certificate: &X509Certificate<'_>) -> Names {
    let mut names = Names::default();
    let Ok(Some(extension)) = certificate.subject_alternative_name() else { return names };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => {
                names.dns.insert((*name).to_owned());
            }
            GeneralName::IPAddress(octets) => {
                let v4 = <[u8; 4]>::try_from(*octets).map(std::net::IpAddr::from);
                let v6 = <[u8; 16]>::try_from(*octets).map(std::net::IpAddr::from);
                names.addresses.extend(v4.or(v6));
            }
            _ => {}
        }
    }
    names
}

fn is_subject(certificate: &X509Certificate<'_>, user: &str, group: &str) -> bool {
    let subject = certificate.subject();
    let users: Vec<_> = subject.iter_common_name().map(|name| name.as_str()).collect();
    let groups: Vec<_> = subject.iter_organization().map(|name| name.as_str()).collect();
    users == [Ok(user)] && groups == [Ok(group)]
}
