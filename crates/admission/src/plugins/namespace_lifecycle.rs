//! `NamespaceLifecycle`: objects are made in namespaces that exist and are not terminating, and the system's
//! namespaces stay.

use super::{Builtin, Parts};
use crate::{Attributes, Operation, Plugin};
use cache::{Freshness, Resource};
use object::Value;
use schema::Status;
use schema::status::{Cause, Details};
use std::sync::Arc;
use tasks::Deferred;

/// The plugin.
pub struct NamespaceLifecycle {
    namespaces: Arc<Resource>,
}

impl NamespaceLifecycle {
    /// Looks namespaces up among these.
    pub fn new(namespaces: Arc<Resource>) -> Self {
        Self { namespaces }
    }

    async fn check(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        let namespace = attributes.namespace;
        let found = match self.namespaces.get("", namespace, Freshness::MostRecent).await {
            // It exists; damage to it does not stop work on what is in it.
            Err(cache::Error::Corrupt(_)) => return Ok(()),
            Err(error) => {
                log::error!(namespace, error:%; "a namespace cannot be looked up");
                return Err(Status::internal_error(&error.to_string()));
            }
            Ok(found) => found,
        };
        let Some(found) = found else { return Err(Status::not_found("", "namespaces", namespace)) };
        if attributes.operation != Operation::Create || found.field("status.phase") != Some("Terminating") {
            return Ok(());
        }
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let refused = attributes.forbidden(object, &why);
        let cause = Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        };
        let details = refused.details.clone().map_or_else(Details::default, |details| *details);
        Err(Status { details: Some(Details { causes: vec![cause], ..details }.into()), ..refused })
    }
}

impl Builtin for NamespaceLifecycle {
    const NAME: &'static str = "NamespaceLifecycle";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self::new(parts.resource("namespaces")?))
    }
}

/// The namespaces that cannot be deleted.
const UNDELETABLE: [&str; 3] = ["default", "kube-public", "kube-system"];

impl Plugin for NamespaceLifecycle {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update | Operation::Delete)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        let resource = attributes.resource;
        if attributes.operation == Operation::Delete {
            let stays = attributes.is_about("", "namespaces") && UNDELETABLE.contains(&attributes.name);
            let refused = || attributes.forbidden(None, "this namespace may not be deleted");
            return Deferred::Now(if stays { Err(refused()) } else { Ok(()) });
        }
        // An access review does not reveal whether the namespace exists.
        let is_review = resource.group == "authorization.k8s.io";
        if attributes.namespace.is_empty() || !resource.is_namespaced() || is_review {
            return Deferred::Now(Ok(()));
        }
        Deferred::later(async move { self.check(attributes, object.as_deref()).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    fn pod(namespace: &str) -> String {
        format!(r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"a","namespace":"{namespace}"}}}}"#)
    }

    #[tokio::test]
    async fn objects_are_made_only_in_namespaces_that_exist_and_stay() {
        let fixture = Fixture::new().await;
        let plugin: NamespaceLifecycle = fixture.make(None).unwrap();
        for (name, phase) in [("here", "Active"), ("going", "Terminating")] {
            let json = format!(
                r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{name}"}},"status":{{"phase":"{phase}"}}}}"#
            );
            fixture.put("namespaces", &json).await;
        }
        assert!(Write::create("pods", &pod("here")).mutate(&plugin).await.is_ok());
        let going = Write::create("pods", &pod("going")).mutate(&plugin).await.unwrap_err();
        assert!(going.message.ends_with("because it is being terminated"), "{}", going.message);
        assert!(Write::update("pods", &pod("going"), &pod("going")).mutate(&plugin).await.is_ok());
        let missing = Write::create("pods", &pod("nowhere")).mutate(&plugin).await.unwrap_err();
        assert_eq!(missing.code, 404);
        let system = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system"}}"#;
        let delete = Write { operation: Operation::Delete, ..Write::create("namespaces", system) };
        assert_eq!(delete.mutate(&plugin).await.unwrap_err().code, 403);
    }
}
