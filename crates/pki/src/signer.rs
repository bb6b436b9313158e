//! Certificates for signing requests.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use kinds::x509::SigningRequest;

use super::issue::Authority;
use super::template::Template;
use super::validity::Validity;
use super::{Error, Pair};

/// How much earlier than now certificates begin, for clients with a slow clock.
const BACKDATE: Duration = Duration::from_secs(5 * 60);
/// A certificate with a shorter life ends that long after now; another that long after its beginning.
const SHORT: Duration = Duration::from_secs(8 * 3600);

/// What keys may be for, by the names of the API, and the bit of each in certificates.
const KEY_USAGES: [(&str, u16); 10] = [
    ("signing", 0),
    ("digital signature", 0),
    ("content commitment", 1),
    ("key encipherment", 2),
    ("data encipherment", 3),
    ("key agreement", 4),
    ("cert sign", 5),
    ("crl sign", 6),
    ("encipher only", 7),
    ("decipher only", 8),
];

/// What certificates may be for, by the names of the API, in the order in which certificates list them.
const PURPOSES: [(&str, &[u64]); 13] = [
    ("any", &[2, 5, 29, 37, 0]),
    ("server auth", &[1, 3, 6, 1, 5, 5, 7, 3, 1]),
    ("client auth", &[1, 3, 6, 1, 5, 5, 7, 3, 2]),
    ("code signing", &[1, 3, 6, 1, 5, 5, 7, 3, 3]),
    ("email protection", EMAIL_PROTECTION),
    ("s/mime", EMAIL_PROTECTION),
    ("ipsec end system", &[1, 3, 6, 1, 5, 5, 7, 3, 5]),
    ("ipsec tunnel", &[1, 3, 6, 1, 5, 5, 7, 3, 6]),
    ("ipsec user", &[1, 3, 6, 1, 5, 5, 7, 3, 7]),
    ("timestamping", &[1, 3, 6, 1, 5, 5, 7, 3, 8]),
    ("ocsp signing", &[1, 3, 6, 1, 5, 5, 7, 3, 9]),
    ("microsoft sgc", &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
    ("netscape sgc", &[2, 16, 840, 1, 113_730, 4, 1]),
];
const EMAIL_PROTECTION: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 4];

/// A requested certificate.
#[derive(Debug, Clone, Copy)]
pub struct Order<'a> {
    /// The request, whose signature was checked.
    pub request: &'a SigningRequest,
    /// What the certificate is for, by the names of the API.
    pub usages: &'a [&'a str],
    /// How long it is valid, at most to the end of the authority.
    pub life: Duration,
}

/// An authority that signs requested certificates.
pub struct Signer(Authority);

impl Signer {
    /// The authority in a pair, or why it is invalid.
    pub fn new(pair: Pair) -> Result<Self, String> {
        Authority::load(pair).map(Self)
    }

    /// A certificate in PEM. It has the subject, alternative names and key of the request, and no other
    /// extension of it.
    pub fn sign(&self, order: &Order<'_>, now: SystemTime) -> Result<String, Error> {
        self.0.check_valid(now)?;
        let life = if order.life < SHORT { order.life } else { order.life.saturating_sub(BACKDATE) };
        let (key_usage, purposes) = usages(order.usages)?;
        let request = order.request;
        let template = Template {
            subject: request.subject.attributes().collect(),
            public_key: &request.public_key,
            validity: Validity::starting(now, BACKDATE, life).within(self.0.validity()),
            key_usage,
            purposes,
            names: names(request),
        };
        template.sign(self.0.der(), self.0.key())
    }
}

type Purposes = Vec<&'static [u64]>;

fn usages(usages: &[&str]) -> Result<(u16, Purposes), Error> {
    let is_known = |usage: &str| {
        KEY_USAGES.iter().any(|(name, _)| *name == usage) || PURPOSES.iter().any(|(name, _)| *name == usage)
    };
    if let Some(unknown) = usages.iter().find(|usage| !is_known(usage)) {
        return Err(Error::Usage((*unknown).to_owned()));
    }
    let bits = KEY_USAGES.iter().filter(|(name, _)| usages.contains(name)).map(|(_, bit)| 1 << bit);
    let mut purposes: Purposes =
        PURPOSES.iter().filter(|(name, _)| usages.contains(name)).map(|(_, purpose)| *purpose).collect();
    purposes.dedup();
    Ok((bits.fold(0, |all, bit: u16| all | bit), purposes))
}

/// The alternative names, each with the tag of its kind.
fn names(request: &SigningRequest) -> Vec<(u64, Vec<u8>)> {
    let texts = |tag: u64, texts: &[String]| -> Vec<(u64, Vec<u8>)> {
        texts.iter().map(|text| (tag, text.as_bytes().to_vec())).collect()
    };
    let octets = |address: &IpAddr| match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let addresses = request.ip_addresses.iter().map(|address| (7, octets(address))).collect();
    [texts(2, &request.dns_names), texts(1, &request.email_addresses), addresses, texts(6, &request.uris)]
        .concat()
}

#[cfg(test)]
mod tests {
    use super::super::validity::seconds;
    use super::*;
    use rcgen::{
        CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519,
        PKCS_RSA_SHA256,
    };
    use x509_parser::extensions::GeneralName;
    use x509_parser::prelude::{FromDer as _, X509Certificate};

    const MINUTE: Duration = Duration::from_secs(60);
    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// A time within the life of new authorities, in whole seconds.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds(clock::now()))
    }

    fn request() -> SigningRequest {
        let mut params = CertificateParams::new(["a.example".to_owned(), "192.0.2.1".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, "system:node:ä");
        let key = KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        SigningRequest::parse(pem.as_bytes()).unwrap()
    }

    fn der(pem: &str) -> rustls::pki_types::CertificateDer<'static> {
        crate::certificates(pem).unwrap().remove(0)
    }

    #[test]
    fn certificates_have_what_was_asked_for() {
        let authority = Authority::make(now()).unwrap();
        let (request, signer) = (request(), Signer::new(authority.pair().clone()).unwrap());
        let usages = ["s/mime", "digital signature", "email protection", "decipher only", "server auth"];
        let order = Order { request: &request, usages: &usages, life: DAY };
        let der = der(&signer.sign(&order, now()).unwrap());
        let (_, issued) = X509Certificate::from_der(&der).unwrap();
        let (_, parent) = X509Certificate::from_der(authority.der()).unwrap();
        issued.verify_signature(Some(parent.public_key())).unwrap();
        assert_eq!(issued.subject().to_string(), "O=system:nodes, CN=system:node:ä");
        assert_eq!(issued.issuer(), parent.subject());
        assert_eq!(issued.public_key().raw, request.public_key);
        assert!(!issued.is_ca());
        let usage = issued.key_usage().unwrap().unwrap();
        assert!(usage.critical && usage.value.digital_signature() && usage.value.decipher_only());
        assert!(!usage.value.key_encipherment() && !usage.value.key_cert_sign());
        let purposes = issued.extended_key_usage().unwrap().unwrap().value;
        assert!(purposes.server_auth && purposes.email_protection && !purposes.client_auth);
        let names = issued.subject_alternative_name().unwrap().unwrap();
        assert!(!names.critical);
        assert_eq!(
            names.value.general_names,
            [GeneralName::DNSName("a.example"), GeneralName::IPAddress(&[192, 0, 2, 1])]
        );
    }

    #[test]
    fn authorities_sign_with_the_keys_that_they_have() {
        let request = request();
        let order = Order { request: &request, usages: &["client auth"], life: DAY };
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_RSA_SHA256, &PKCS_ED25519] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let mut params = CertificateParams::default();
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap();
            let pair = Pair { certificate: certificate.pem(), key: key.serialize_pem() };
            let der = der(&Signer::new(pair).unwrap().sign(&order, now()).unwrap());
            let (_, issued) = X509Certificate::from_der(&der).unwrap();
            let (_, parent) = X509Certificate::from_der(certificate.der()).unwrap();
            issued.verify_signature(Some(parent.public_key())).unwrap();
        }
    }

    #[test]
    fn certificates_begin_earlier_and_end_with_their_authority() {
        let now = now();
        let authority = Authority::make(now).unwrap();
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(authority.validity().not_after);
        let (request, signer) = (request(), Signer::new(authority.pair().clone()).unwrap());
        for (life, at, expected) in [
            (10 * MINUTE, now, now + 10 * MINUTE),
            (DAY, now, now + DAY - BACKDATE),
            (20_000 * DAY, now, end),
            (DAY, end - MINUTE, end),
        ] {
            let order = Order { request: &request, usages: &["client auth"], life };
            let der = der(&signer.sign(&order, at).unwrap());
            let (_, issued) = X509Certificate::from_der(&der).unwrap();
            let validity = [issued.validity().not_before, issued.validity().not_after];
            let validity = validity.map(|time| u64::try_from(time.timestamp()).unwrap());
            assert_eq!(validity, [at - BACKDATE, expected].map(seconds));
        }
        let order = Order { request: &request, usages: &["client auth"], life: DAY };
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(authority.validity().not_before);
        for (at, says) in [(end + MINUTE, "has expired"), (begin - MINUTE, "is not valid yet")] {
            let error = signer.sign(&order, at).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let der = der(&signer.sign(&order, begin).unwrap());
        let (_, issued) = X509Certificate::from_der(&der).unwrap();
        assert_eq!(Validity::of(&issued).not_before, seconds(begin));
        let order = Order { usages: &["x"], ..order };
        assert!(matches!(signer.sign(&order, now), Err(Error::Usage(usage)) if usage == "x"));
    }
}
