//! `CertificateSigning`: whoever issues a certificate may do so for its signer.

use super::{Builtin, Parts, signers};
use crate::{Attributes, Operation, Plugin, Reservation};
use auth::Authorizer;
use object::Value;
use schema::Status;
use schema::view::View as _;
use schema::views::certificates::v1::CertificateSigningRequest;
use tasks::Deferred;

/// The plugin.
pub struct CertificateSigning {
    authorizer: Authorizer,
}

impl Builtin for CertificateSigning {
    const NAME: &'static str = "CertificateSigning";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { authorizer: parts.authorizer.clone() })
    }
}

impl Plugin for CertificateSigning {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Update
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let is_meant = attributes.subresource == "status"
            && attributes.is_resource("certificates.k8s.io", "certificatesigningrequests");
        let Some(old) = attributes.old.and_then(Value::as_map).filter(|_| is_meant) else {
            return Deferred::Now(Ok(None));
        };
        let decided = |object: Option<&'a Value>| {
            let status = object.and_then(|object| object.get("status"));
            ["certificate", "conditions"].map(|key| status.and_then(|status| status.get(key)))
        };
        if decided(attributes.old) == decided(object) {
            return Deferred::Now(Ok(None));
        }
        // The signer of the state before: this way of writing cannot change it.
        let signer = CertificateSigningRequest::of(old).spec().signer_name();
        let asked = ("sign", "sign requests with");
        Deferred::later(signers::check(&self.authorizer, attributes, object, asked, signer))
    }
}
