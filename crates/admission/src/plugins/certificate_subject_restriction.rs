//! `CertificateSubjectRestriction`: nobody gets a client certificate of the group that may do everything.

use super::{Builtin, Parts};
use crate::{Attributes, Immediate, Operation};
use kinds::x509::SigningRequest;
use object::Value;
use schema::Status;
use schema::view::View as _;
use schema::views::certificates::v1::CertificateSigningRequest;

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const MASTERS: &str = "system:masters";

/// The plugin.
pub struct CertificateSubjectRestriction;

impl Builtin for CertificateSubjectRestriction {
    const NAME: &'static str = "CertificateSubjectRestriction";

    fn make(_parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self)
    }
}

impl Immediate for CertificateSubjectRestriction {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        if attributes.is_about("certificates.k8s.io", "certificatesigningrequests")
            && let Some(request) = object.and_then(Value::as_map)
            && let Err(why) = check(CertificateSigningRequest::of(request))
        {
            return Err(attributes.forbidden(object, &why));
        }
        Ok(())
    }
}

fn check(request: CertificateSigningRequest<'_>) -> Result<(), String> {
    if request.spec().signer_name() != SIGNER {
        return Ok(());
    }
    let asked = SigningRequest::parse(request.spec().request());
    let subject = asked.map_err(|why| format!("failed to parse CSR: {why}"))?.subject;
    match subject.organizations().iter().any(|group| group == MASTERS) {
        true => Err(format!("use of {SIGNER} signer with {MASTERS} group is not allowed")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};
    use base64::Engine as _;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn request(signer: &str, organization: &str) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let request = base64::engine::general_purpose::STANDARD.encode(pem);
        format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"signerName":"{signer}","request":"{request}"}}}}"#)
    }

    #[tokio::test]
    async fn client_certificates_of_masters_are_refused() {
        let fixture = Fixture::new().await;
        let plugin: CertificateSubjectRestriction = fixture.make(None).unwrap();
        let refusal = async |json: &str| {
            let write =
                Write { group: "certificates.k8s.io", ..Write::create("certificatesigningrequests", json) };
            write.validate(&plugin).await.err().map(|refused| refused.message)
        };
        assert_eq!(refusal(&request(SIGNER, "dev")).await, None);
        assert_eq!(refusal(&request("example.com/x", MASTERS)).await, None);
        let refused = refusal(&request(SIGNER, MASTERS)).await.unwrap();
        assert!(refused.ends_with("signer with system:masters group is not allowed"), "{refused}");
        let broken =
            format!(r#"{{"metadata":{{"name":"a"}},"spec":{{"signerName":"{SIGNER}","request":"eA=="}}}}"#);
        let refused = refusal(&broken).await.unwrap();
        assert!(
            refused.ends_with("failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"),
            "{refused}"
        );
    }
}
