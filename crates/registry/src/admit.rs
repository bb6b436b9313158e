//! What has to hold around a write, whatever its kind: the life of the namespace that it is in.

use crate::error::status;
use crate::{Registry, Target};
use cache::Freshness;
use schema::Status;
use schema::status::{Cause, Details};

/// Namespaces that stay.
const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

impl Registry {
    /// Refuses a create in a namespace that is not there, or is going. An object that leaves its name to the server is called by
    /// the beginning that it wants.
    pub(crate) async fn admit_create(&self, target: &Target<'_>, name: &str) -> Result<(), Status> {
        let kind = target.served.kind;
        if target.namespace.is_empty()
            || !kind.is_namespaced()
            || kind.resource == "localsubjectaccessreviews"
        {
            return Ok(());
        }
        let found =
            self.namespaces().get("", target.namespace, Freshness::MostRecent).await.map_err(status)?;
        let Some(namespace) = found else {
            return Err(Status::not_found("", "namespaces", target.namespace));
        };
        if namespace.field("status.phase") != Some("Terminating") {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            target.namespace
        );
        let refused = Status::forbidden(kind.group, kind.resource, name, &why);
        let cause = Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {} is being terminated", target.namespace),
            field: "metadata.namespace".into(),
        };
        let details = refused.details.clone().map_or_else(Details::default, |details| *details);
        Err(Status { details: Some(Details { causes: vec![cause], ..details }.into()), ..refused })
    }

    /// Refuses a change in a namespace that is not there.
    pub(crate) async fn admit_update(&self, target: &Target<'_>) -> Result<(), Status> {
        if target.namespace.is_empty() || !target.served.kind.is_namespaced() {
            return Ok(());
        }
        let found =
            self.namespaces().get("", target.namespace, Freshness::MostRecent).await.map_err(status)?;
        found.map(drop).ok_or_else(|| Status::not_found("", "namespaces", target.namespace))
    }

    /// Refuses the end of a namespace that has to stay.
    pub(crate) fn admit_delete(&self, target: &Target<'_>, name: &str) -> Result<(), Status> {
        let kind = target.served.kind;
        if kind.group.is_empty() && kind.resource == "namespaces" && IMMORTAL.contains(&name) {
            return Err(Status::forbidden("", "namespaces", name, "this namespace may not be deleted"));
        }
        Ok(())
    }
}
