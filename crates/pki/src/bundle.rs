//! Bundles of certificates.

use super::template::pem;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self as pem_format, PemObject as _};
use std::net::IpAddr;
use std::time::SystemTime;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The certificates in a text of PEM, in their order.
pub fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, pem_format::Error> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
}

/// The certificates of several bundles in PEM, each once and in their order, without those that have expired.
/// A bundle that cannot be read is left out.
pub fn combine(bundles: &[&str], now: SystemTime) -> String {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_current = |der: &[u8]| {
        let end = X509Certificate::from_der(der).map(|(_, parsed)| parsed.validity().not_after.timestamp());
        end.is_ok_and(|end| u64::try_from(end).is_ok_and(|end| now <= end))
    };
    let mut kept = Vec::new();
    for certificate in bundles.iter().filter_map(|bundle| certificates(bundle).ok()).flatten() {
        if is_current(&certificate) && !kept.contains(&certificate) {
            kept.push(certificate);
        }
    }
    kept.iter().map(|certificate| pem("CERTIFICATE", certificate)).collect()
}

/// The DNS names that a server has by its certificate: the common name, if it is one, and the alternative
/// names.
pub fn serving_names(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return Vec::new() };
    let common = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let is_domain = |name: &&str| {
        let is_address = name.parse::<IpAddr>().is_ok();
        let plain = name.strip_prefix("*.").unwrap_or(name);
        *name == "*" || (!is_address && object::name::dns1123_subdomain(plain).is_empty())
    };
    let mut names: Vec<String> = common.filter(is_domain).map(str::to_owned).into_iter().collect();
    if let Ok(Some(extension)) = certificate.subject_alternative_name() {
        names.extend(extension.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        }));
    }
    names
}
