//! `NamespaceExists`: objects are written only in namespaces that exist.

use super::{Builtin, Parts};
use crate::{Attributes, Operation, Plugin, Reservation};
use cache::{Freshness, Resource};
use object::Value;
use schema::Status;
use std::sync::Arc;
use tasks::Deferred;

/// The plugin.
pub struct NamespaceExists {
    namespaces: Arc<Resource>,
}

impl Builtin for NamespaceExists {
    const NAME: &'static str = "NamespaceExists";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { namespaces: parts.resource("namespaces")? })
    }
}

impl Plugin for NamespaceExists {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update | Operation::Delete)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        _object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let name = attributes.namespace;
        if name.is_empty() || attributes.is_resource("", "namespaces") {
            return Deferred::Now(Ok(None));
        }
        Deferred::later(async move {
            match self.namespaces.get("", name, Freshness::MostRecent).await {
                Ok(Some(_)) | Err(cache::Error::Corrupt(_)) => Ok(None),
                Ok(None) => Err(Status::not_found("", "namespaces", name)),
                Err(error) => Err(Status::internal_error(&error.to_string())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    #[tokio::test]
    async fn writes_need_their_namespace() {
        let fixture = Fixture::new().await;
        let plugin: NamespaceExists = fixture.make(None).unwrap();
        let pod = r#"{"metadata":{"name":"a","namespace":"n"}}"#;
        let delete = Write { operation: Operation::Delete, new: None, ..Write::update("pods", pod, pod) };
        for write in [Write::create("pods", pod), Write::update("pods", pod, pod), delete.clone()] {
            assert_eq!(write.validate(&plugin).await.err().unwrap().message, r#"namespaces "n" not found"#);
        }
        assert!(Write::create("nodes", r#"{"metadata":{"name":"a"}}"#).validate(&plugin).await.is_ok());
        fixture.put("namespaces", r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"}}"#).await;
        assert!(delete.validate(&plugin).await.is_ok());
    }
}
