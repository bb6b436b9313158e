//! `NamespaceAutoProvision`: a namespace that an object is made in is made with it.

use super::{Builtin, Parts};
use crate::{Attributes, Operation, Plugin, Writer};
use cache::{Freshness, Resource};
use object::{Map, Value};
use schema::Status;
use schema::status::Reason;
use std::sync::Arc;
use tasks::Deferred;

/// The plugin.
pub struct NamespaceAutoProvision {
    namespaces: Arc<Resource>,
    writer: Writer,
}

impl NamespaceAutoProvision {
    async fn provide(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let name = attributes.namespace;
        match self.namespaces.get("", name, Freshness::MostRecent).await {
            Ok(None) => {}
            // It exists, and damage to it does not stop work on what is in it.
            Ok(Some(_)) | Err(cache::Error::Corrupt(_)) => return Ok(()),
            Err(error) => return Err(attributes.forbidden(None, &error.to_string())),
        }
        let mut metadata = Map::new();
        metadata.insert("name", name);
        let mut namespace = Map::new();
        namespace.insert("metadata", metadata);
        match self.writer.get()?.create_namespace(namespace.into()).await {
            Err(error) if error.reason != Reason::AlreadyExists => {
                Err(attributes.forbidden(None, &error.message))
            }
            _ => Ok(()),
        }
    }
}

impl Builtin for NamespaceAutoProvision {
    const NAME: &'static str = "NamespaceAutoProvision";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { namespaces: parts.resource("namespaces")?, writer: parts.shared.writer.clone() })
    }
}

impl Plugin for NamespaceAutoProvision {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        _object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        let is_namespace = attributes.is_resource("", "namespaces");
        if attributes.dry_run || attributes.namespace.is_empty() || is_namespace {
            return Deferred::Now(Ok(()));
        }
        Deferred::later(self.provide(attributes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};
    use std::sync::Mutex;
    use tasks::BoxFuture;

    /// Remembers what is made, and says that it exists the second time.
    #[derive(Default)]
    struct Made(Mutex<Vec<Value>>);

    impl crate::Write for Made {
        fn create_namespace(&self, namespace: Value) -> BoxFuture<'_, Result<(), Status>> {
            let mut made = self.0.lock().unwrap();
            let exists = made.contains(&namespace);
            made.push(namespace);
            let refused = Status::already_exists("", "namespaces", "n");
            Box::pin(std::future::ready(if exists { Err(refused) } else { Ok(()) }))
        }

        fn update_quota_status(&self, _quota: Value) -> BoxFuture<'_, Result<Value, Status>> {
            unreachable!("no quota is written")
        }
    }

    #[tokio::test]
    async fn missing_namespaces_are_made() {
        let fixture = Fixture::new().await;
        let made = Arc::new(Made::default());
        fixture.shared.writer.connect(made.clone());
        let plugin: NamespaceAutoProvision = fixture.make(None).unwrap();
        let namespace = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"here"}}"#;
        fixture.put("namespaces", namespace).await;
        let pod = |namespace: &str| format!(r#"{{"metadata":{{"name":"a","namespace":"{namespace}"}}}}"#);
        let dry_run = Write { dry_run: true, ..Write::create("pods", &pod("n")) }.mutate(&plugin).await;
        assert!(dry_run.is_ok() && made.0.lock().unwrap().is_empty());
        for namespace in ["here", "n", "n"] {
            Write::create("pods", &pod(namespace)).mutate(&plugin).await.unwrap();
        }
        let made = made.0.lock().unwrap();
        let [one, again] = made.as_slice() else { panic!("{made:?}") };
        assert_eq!(one, again);
        assert_eq!(
            one.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str),
            Some("n")
        );
    }
}
