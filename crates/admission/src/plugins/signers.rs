//! The permission to act for a signer of certificates.

use auth::{Authorizer, Decision, Target, User};

/// Whether a user may `approve`, `sign` or `attest` for a signer: for this one, or for all of its domain.
pub(super) async fn may(authorizer: &Authorizer, user: &User, verb: &'static str, signer: &str) -> bool {
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
