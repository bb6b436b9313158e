//! From when to when a certificate is valid.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object::time::Time;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The first and the last second of a certificate, since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: u64,
    /// The last second.
    pub not_after: u64,
}

/// Why a certificate is not valid at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotValid {
    /// Its first second is later.
    NotYet,
    /// Its last second has passed.
    Expired,
}

impl Validity {
    /// That of the first certificate in PEM; `None` if there is none that can be read.
    pub fn read(pem: &[u8]) -> Option<Self> {
        let der = CertificateDer::from_pem_slice(pem).ok()?;
        X509Certificate::from_der(&der).ok().map(|(_, parsed)| Self::of(&parsed))
    }

    pub(super) fn of(certificate: &X509Certificate<'_>) -> Self {
        let seconds = |at: i64| u64::try_from(at).unwrap_or_default();
        let validity = certificate.validity();
        Self {
            not_before: seconds(validity.not_before.timestamp()),
            not_after: seconds(validity.not_after.timestamp()),
        }
    }

    /// A time from `now` on, and from as much earlier as `backdate`.
    pub(super) fn starting(now: SystemTime, backdate: Duration, life: Duration) -> Self {
        let now = seconds(now);
        Self {
            not_before: now.saturating_sub(backdate.as_secs()),
            not_after: now.saturating_add(life.as_secs()),
        }
    }

    /// Why it is not valid at `now`, if it is not.
    pub(super) fn fault(self, now: SystemTime) -> Option<NotValid> {
        match seconds(now) {
            now if now < self.not_before => Some(NotValid::NotYet),
            now if now > self.not_after => Some(NotValid::Expired),
            _ => None,
        }
    }

    /// As much of it as is within the life of an authority.
    pub(super) fn within(self, authority: Self) -> Self {
        Self {
            not_before: self.not_before.max(authority.not_before),
            not_after: self.not_after.min(authority.not_after),
        }
    }

    /// Both ends as the API writes times.
    pub fn first_and_last(self) -> [String; 2] {
        [self.not_before, self.not_after].map(shown)
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, last] = self.first_and_last();
        write!(f, "valid from {first} to {last}")
    }
}

impl fmt::Display for NotValid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotYet => "is not valid yet",
            Self::Expired => "has expired",
        })
    }
}

/// A time as the API writes it.
pub(super) fn shown(seconds: u64) -> String {
    Time::from_unix(i64::try_from(seconds).unwrap_or(i64::MAX)).to_string()
}

/// Seconds since 1970.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
