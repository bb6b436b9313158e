//! How many certificates were issued for a requested time, and how many of them for about that time.

use admission::{Attributes, Reservation, Settled};
use auth::Authorizer;
use object::Value;
use registry::WriteHook;
use schema::Status;
use schema::view::View as _;
use schema::views::certificates::v1::CertificateSigningRequest;
use tasks::BoxFuture;

use crate::families::{HONORED, REQUESTED};

/// Counts when the status of a signing request gets a certificate.
#[derive(Debug)]
pub struct CertificateDurations;

/// A certificate for a requested time.
#[derive(Debug, PartialEq, Eq)]
struct Issued {
    signer: String,
    is_honored: bool,
}

impl WriteHook for CertificateDurations {
    fn before_write<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _authorizer: &'a Authorizer,
        object: &'a mut Value,
    ) -> BoxFuture<'a, Result<Option<Reservation>, Status>> {
        let issued = issued(attributes, object);
        let reserved = issued.map(|issued| {
            Reservation::settled_by(move |settled| {
                if settled == Settled::Committed {
                    count(&issued);
                }
            })
        });
        Box::pin(std::future::ready(Ok(reserved)))
    }
}

fn count(issued: &Issued) {
    REQUESTED.with([&issued.signer]).inc();
    if issued.is_honored {
        HONORED.with([&issued.signer]).inc();
    }
}

/// The certificate that a write of the status adds.
fn issued(attributes: &Attributes<'_>, object: &Value) -> Option<Issued> {
    let old = attributes.old.filter(|_| attributes.subresource == "status" && !attributes.dry_run)?;
    let (old, new) =
        (CertificateSigningRequest::of(old.as_map()?), CertificateSigningRequest::of(object.as_map()?));
    let certificate = new.status().certificate();
    if certificate.is_empty() || !old.status().certificate().is_empty() {
        return None;
    }
    let wanted = old.spec().expiration_seconds()?;
    let name = old.spec().signer_name();
    let signer = if name.starts_with("kubernetes.io/") { name } else { "other" };
    let lasts = kinds::x509::lifetime(certificate);
    Some(Issued {
        signer: signer.to_owned(),
        is_honored: lasts.is_some_and(|lasts| is_honored(wanted, lasts)),
    })
}

/// Whether a certificate lasts about as long as was asked for, in seconds.
fn is_honored(wanted: i64, lasts: i64) -> bool {
    wanted.saturating_sub(lasts).abs() < 5 * 60 + wanted / 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_honored_within_a_twentieth_and_five_minutes() {
        for (wanted, lasts, expected) in [
            (3600, 3600, true),
            (3600, 3600 + 479, true),
            (3600, 3600 + 480, false),
            (3600, 3600 - 479, true),
            (600, 86_400, false),
        ] {
            assert_eq!(is_honored(wanted, lasts), expected, "{wanted} {lasts}");
        }
    }
}
