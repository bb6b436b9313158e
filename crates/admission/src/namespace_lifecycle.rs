//! `NamespaceLifecycle`: objects are made in namespaces that exist and are not terminating, and the system's namespaces stay.

use crate::{Attributes, Operation, Plugin};
use auth::BoxFuture;
use cache::{Freshness, Resource};
use object::Value;
use schema::Status;
use schema::status::{Cause, Details};
use std::sync::Arc;

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

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update | Operation::Delete)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        let resource = attributes.resource;
        if attributes.operation == Operation::Delete {
            let stays = resource.undeletable.iter().any(|name| name == attributes.name);
            let refused = stays.then(|| attributes.forbidden(None, "this namespace may not be deleted"));
            return refused.map(|refused| Box::pin(std::future::ready(Err(refused))) as _);
        }
        // An access review does not reveal whether the namespace exists.
        let is_review = resource.group == "authorization.k8s.io";
        if attributes.namespace.is_empty() || !resource.is_namespaced() || is_review {
            return None;
        }
        Some(Box::pin(async move { self.check(attributes, object.as_deref()).await }))
    }
}
