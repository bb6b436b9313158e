//! `CertificateApproval`: whoever approves a certificate may do so for its signer.

use super::{Builtin, Parts, signers};
use crate::{Attributes, Operation, Plugin, Reservation};
use auth::Authorizer;
use object::Value;
use schema::Status;
use schema::view::View as _;
use schema::views::certificates::v1::CertificateSigningRequest;
use tasks::Deferred;

/// The plugin.
pub struct CertificateApproval {
    authorizer: Authorizer,
}

impl Builtin for CertificateApproval {
    const NAME: &'static str = "CertificateApproval";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { authorizer: parts.authorizer.clone() })
    }
}

impl Plugin for CertificateApproval {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Update
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let is_meant = attributes.subresource == "approval"
            && attributes.is_resource("certificates.k8s.io", "certificatesigningrequests");
        let Some(old) = attributes.old.and_then(Value::as_map).filter(|_| is_meant) else {
            return Deferred::Now(Ok(None));
        };
        // The signer of the state before: this way of writing cannot change it.
        let signer = CertificateSigningRequest::of(old).spec().signer_name();
        let asked = ("approve", "approve requests with");
        Deferred::later(signers::check(&self.authorizer, attributes, object, asked, signer))
    }
}

#[cfg(test)]
mod tests {
    use super::super::CertificateSigning;
    use super::*;
    use crate::testing::{Fixture, Write};
    use auth::{AlwaysDeny, Authorize, Rules, User, Verdict};
    use std::sync::Arc;

    /// Allows one verb for one signer.
    struct Only(&'static str, &'static str);

    impl Authorize for Only {
        fn decide<'a>(&'a self, _user: &'a User, asked: &'a auth::Attributes) -> Deferred<'a, Verdict> {
            let allowed = matches!(&asked.target, auth::Target::Resource { group, version, resource, name, .. }
                if group == "certificates.k8s.io" && version == "*" && resource == "signers" && name == self.1);
            Deferred::Now(match allowed && asked.verb == self.0 {
                true => Verdict::allow(""),
                false => Verdict::no_opinion(""),
            })
        }

        fn rules(&self, _user: &User, _namespace: &str) -> Rules {
            Rules::default()
        }
    }

    fn request(status: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"signerName":"example.com/x"}},"status":{{{status}}}}}"#
        )
    }

    #[tokio::test]
    async fn approving_and_signing_need_the_permission_for_the_signer() {
        let mut fixture = Fixture::new().await;
        let (old, new) = (request(""), request(r#""certificate":"eA==""#));
        let write = |subresource| Write {
            group: "certificates.k8s.io",
            subresource,
            ..Write::update("certificatesigningrequests", &old, &new)
        };
        fixture.authorizer = Authorizer::new([Arc::new(AlwaysDeny) as Arc<dyn Authorize>]);
        let approval: CertificateApproval = fixture.make(None).unwrap();
        let refused = write("approval").validate(&approval).await.err().unwrap().message;
        let wanted = r#"user not permitted to approve requests with signerName "example.com/x""#;
        assert!(refused.ends_with(wanted), "{refused}");
        assert!(write("status").validate(&approval).await.is_ok());
        assert!(write("").validate(&approval).await.is_ok());
        let signing: CertificateSigning = fixture.make(None).unwrap();
        let refused = write("status").validate(&signing).await.err().unwrap().message;
        assert!(refused.contains("not permitted to sign requests"), "{refused}");
        let same = Write { new: Some(&old), ..write("status") };
        assert!(same.validate(&signing).await.is_ok());
        for signer in ["example.com/x", "example.com/*"] {
            fixture.authorizer = Authorizer::new([Arc::new(Only("approve", signer)) as Arc<dyn Authorize>]);
            let approval: CertificateApproval = fixture.make(None).unwrap();
            assert!(write("approval").validate(&approval).await.is_ok(), "{signer}");
            let signing: CertificateSigning = fixture.make(None).unwrap();
            assert!(write("status").validate(&signing).await.is_err(), "{signer}");
        }
    }
}
