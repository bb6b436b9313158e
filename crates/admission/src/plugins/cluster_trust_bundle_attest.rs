//! `ClusterTrustBundleAttest`: whoever writes a trust bundle of a signer may attest for it.

use super::{Builtin, Parts, signers};
use crate::{Attributes, Operation, Plugin, Reservation, differ_in_ownership_only};
use auth::Authorizer;
use object::Value;
use schema::Status;
use tasks::Deferred;

/// The plugin.
pub struct ClusterTrustBundleAttest {
    authorizer: Authorizer,
}

impl Builtin for ClusterTrustBundleAttest {
    const NAME: &'static str = "ClusterTrustBundleAttest";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { authorizer: parts.authorizer.clone() })
    }
}

impl Plugin for ClusterTrustBundleAttest {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let is_meant = attributes.is_resource("certificates.k8s.io", "clustertrustbundles");
        let Some(bundle) = object.filter(|_| is_meant).and_then(Value::as_map) else {
            return Deferred::Now(Ok(None));
        };
        let signer = bundle.get("spec").and_then(|spec| spec.get("signerName"));
        let signer = signer.and_then(Value::as_str).unwrap_or_default();
        let old = attributes.old.and_then(Value::as_map);
        if signer.is_empty()
            || old.is_some_and(|old| differ_in_ownership_only(&attributes.resource.ty, bundle, old))
        {
            return Deferred::Now(Ok(None));
        }
        let asked = ("attest", "attest for");
        Deferred::later(signers::check(&self.authorizer, attributes, object, asked, signer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};
    use auth::{AlwaysDeny, Authorize};
    use std::sync::Arc;

    fn bundle(signer: &str, finalizers: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"a","finalizers":[{finalizers}]}},"spec":{{"signerName":"{signer}"}}}}"#
        )
    }

    #[tokio::test]
    async fn bundles_of_a_signer_need_its_permission() {
        let mut fixture = Fixture::new().await;
        let create =
            |bundle| Write { group: "certificates.k8s.io", ..Write::create("clustertrustbundles", bundle) };
        let (signed, unsigned) = (bundle("example.com/x", ""), bundle("", ""));
        let plugin: ClusterTrustBundleAttest = fixture.make(None).unwrap();
        assert!(create(&signed).validate(&plugin).await.is_ok());
        fixture.authorizer = Authorizer::new([Arc::new(AlwaysDeny) as Arc<dyn Authorize>]);
        let plugin: ClusterTrustBundleAttest = fixture.make(None).unwrap();
        let refused = create(&signed).validate(&plugin).await.err().unwrap().message;
        assert!(refused.ends_with(r#"not permitted to attest for signerName "example.com/x""#), "{refused}");
        assert!(create(&unsigned).validate(&plugin).await.is_ok());
        let collected = bundle("example.com/x", r#""a/b""#);
        let update = |new| Write { operation: Operation::Update, old: Some(&signed), ..create(new) };
        assert!(update(&collected).validate(&plugin).await.is_ok());
        let other = bundle("example.com/y", "");
        assert!(update(&other).validate(&plugin).await.is_err());
    }
}
