//! What is said of a certificate of a server that is refused: the words of Go's library, which people and
//! programs know. The faults come in its order: the time, the name, the authority.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, OtherError};
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use object::time::Time;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer as _;

/// The most names that are listed.
const MOST_NAMES: usize = 100;

/// Why a certificate is refused, in words.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls: failed to verify certificate: x509: {}", self.0)
    }
}

impl StdError for Refused {}

/// The error of a verification with its words, if there are some for it.
pub(crate) fn in_words(
    error: Error,
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Error {
    let Error::InvalidCertificate(kind) = &error else { return error };
    let words = match X509Certificate::from_der(certificate) {
        Err(_) => None,
        Ok((_, parsed)) => time_fault(&parsed, now)
            .or_else(|| name_fault(certificate, &parsed, name))
            .or_else(|| other_fault(kind)),
    };
    match words {
        Some(words) => CertificateError::Other(OtherError(Arc::new(Refused(words)))).into(),
        None => error,
    }
}

/// The words of an error of a connection, if its cause is a certificate that is refused.
pub(crate) fn words(error: &(dyn StdError + 'static)) -> Option<String> {
    let inner = match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref()?.downcast_ref::<Error>()?,
        None => error.downcast_ref::<Error>()?,
    };
    match inner {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => {
            why.downcast_ref::<Refused>().map(ToString::to_string)
        }
        _ => None,
    }
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn time_words(now: i64, side: &str, bound: i64) -> String {
    let [now, bound] = [now, bound].map(Time::from_unix);
    format!("certificate has expired or is not yet valid: current time {now} is {side} {bound}")
}

fn time_fault(certificate: &X509Certificate<'_>, now: UnixTime) -> Option<String> {
    let validity = certificate.validity();
    let (now, from, to) = (seconds(now), validity.not_before.timestamp(), validity.not_after.timestamp());
    if now < from {
        Some(time_words(now, "before", from))
    } else {
        (now > to).then(|| time_words(now, "after", to))
    }
}

fn name_fault(
    der: &CertificateDer<'_>,
    certificate: &X509Certificate<'_>,
    name: &ServerName<'_>,
) -> Option<String> {
    if ParsedCertificate::try_from(der).and_then(|parsed| verify_server_name(&parsed, name)).is_ok() {
        return None;
    }
    let wanted = name.to_str();
    let names = certificate.subject_alternative_name().ok().flatten();
    let common = certificate.subject().iter_common_name().next().and_then(|common| common.as_str().ok());
    let Some(names) = names else {
        return Some(match common.is_some_and(|common| common.eq_ignore_ascii_case(&wanted)) {
            true => "certificate relies on legacy Common Name field, use SANs instead".to_owned(),
            false => without_names(name, &wanted),
        });
    };
    let valid: Vec<String> = names
        .value
        .general_names
        .iter()
        .filter_map(|known| match (known, name) {
            (GeneralName::IPAddress(bytes), ServerName::IpAddress(_)) => Some(address(bytes)?.to_string()),
            (GeneralName::DNSName(known), ServerName::DnsName(_)) => Some((*known).to_owned()),
            _ => None,
        })
        .collect();
    Some(match valid.len() {
        0 => without_names(name, &wanted),
        MOST_NAMES.. => format!("certificate is valid for {} names, but none matched {wanted}", valid.len()),
        _ => format!("certificate is valid for {}, not {wanted}", valid.join(", ")),
    })
}

fn without_names(name: &ServerName<'_>, wanted: &str) -> String {
    match name {
        ServerName::IpAddress(_) => {
            format!("cannot validate certificate for {wanted} because it doesn't contain any IP SANs")
        }
        _ => format!("certificate is not valid for any names, but wanted to match {wanted}"),
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(bytes)
        .map(IpAddr::from)
        .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

fn other_fault(kind: &CertificateError) -> Option<String> {
    let words = match kind {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage"
        }
        // Of an authority: that of the server was looked at.
        CertificateError::ExpiredContext { time, not_after } => {
            return Some(time_words(seconds(*time), "after", seconds(*not_after)));
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            return Some(time_words(seconds(*time), "before", seconds(*not_before)));
        }
        _ => return None,
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, date_time_ymd};

    fn certificate(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    /// What is said of a certificate that no known authority signed.
    fn said(certificate: &CertificateDer<'_>, name: &str) -> String {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_750_000_000));
        let error = in_words(CertificateError::UnknownIssuer.into(), certificate, &name, now);
        let error: Box<dyn StdError + 'static> = Box::new(io::Error::other(error));
        words(&*error).unwrap().strip_prefix("tls: failed to verify certificate: x509: ").unwrap().to_owned()
    }

    #[test]
    fn words_are_those_of_go_in_its_order() {
        let authority = "certificate signed by unknown authority";
        let one = certificate(&["a.test", "b.test"], |_| ());
        assert_eq!(said(&one, "a.test"), authority);
        assert_eq!(said(&one, "c.test"), "certificate is valid for a.test, b.test, not c.test");
        let no_addresses = "cannot validate certificate for 10.0.0.1 because it doesn't contain any IP SANs";
        assert_eq!(said(&one, "10.0.0.1"), no_addresses);
        let addresses = certificate(&[], |params| {
            params.subject_alt_names =
                ["10.0.0.2", "fd00::1"].map(|ip| SanType::IpAddress(ip.parse().unwrap())).into();
        });
        assert_eq!(said(&addresses, "10.0.0.2"), authority);
        assert_eq!(said(&addresses, "10.0.0.1"), "certificate is valid for 10.0.0.2, fd00::1, not 10.0.0.1");
        let none = "certificate is not valid for any names, but wanted to match a.test";
        assert_eq!(said(&addresses, "a.test"), none);
        let named = certificate(&[], |params| params.distinguished_name.push(DnType::CommonName, "a.test"));
        assert_eq!(
            said(&named, "a.test"),
            "certificate relies on legacy Common Name field, use SANs instead"
        );
        let old = certificate(&["a.test"], |params| params.not_after = date_time_ymd(2020, 1, 1));
        assert_eq!(
            said(&old, "c.test"),
            "certificate has expired or is not yet valid: current time 2025-06-15T15:06:40Z is after 2020-01-01T00:00:00Z"
        );
        let new = certificate(&["a.test"], |params| params.not_before = date_time_ymd(2090, 1, 1));
        assert_eq!(
            said(&new, "a.test"),
            "certificate has expired or is not yet valid: current time 2025-06-15T15:06:40Z is before 2090-01-01T00:00:00Z"
        );
    }

    #[test]
    fn other_errors_stay_as_they_are() {
        let name = ServerName::try_from("a.test").unwrap();
        let unreadable = CertificateDer::from(vec![1, 2, 3]);
        let now = UnixTime::now();
        let error = in_words(CertificateError::UnknownIssuer.into(), &unreadable, &name, now);
        assert_eq!(error, CertificateError::UnknownIssuer.into());
        assert_eq!(words(&io::Error::other("lost")), None);
    }
}
