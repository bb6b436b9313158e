//! The permission to act for a signer of certificates.

use crate::{Attributes, Reservation};
use auth::{Authorizer, Decision, Target, User};
use object::Value;
use object::quote::quote;
use schema::Status;

/// Refuses a write whose author may not do `verb` for a signer. `action` says it to the author: `approve
/// requests with`.
pub(super) async fn check(
    authorizer: &Authorizer,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
    (verb, action): (&'static str, &str),
    signer: &str,
) -> Result<Option<Reservation>, Status> {
    if may(authorizer, attributes.user, verb, signer).await {
        return Ok(None);
    }
    let why = format!("user not permitted to {action} signerName {}", quote(signer));
    Err(attributes.forbidden(object, &why))
}

/// Whether a user may `approve`, `sign` or `attest` for a signer: for this one, or for all of its domain.
async fn may(authorizer: &Authorizer, user: &User, verb: &'static str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    for name in [signer.to_owned(), format!("{domain}/*")] {
        let target = Target::Resource {
            group: "certificates.k8s.io".into(),
            version: "*".into(),
            resource: "signers".into(),
            subresource: String::new(),
            namespace: String::new(),
            name,
        };
        let verdict = authorizer.decide(user, &auth::Attributes::new(verb, target)).await;
        if verdict.decision == Decision::Allow {
            return true;
        }
    }
    false
}
