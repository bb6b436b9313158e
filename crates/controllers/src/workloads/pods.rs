//! Pods of a controller: which there are, and their creation and deletion, with the events about them.

use super::claim::{Claim, PODS};
use super::dependents::{Dependent, Dependents};
use super::owner::Owner;
use crate::events::Reporter;
use crate::{Context, EventType};
use cache::{Entry, Resource};
use kinds::object_meta;
use object::label::Selector;
use object::name::{Mode, name_is_dns_subdomain};
use object::{Map, Value};
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use std::sync::Arc;

/// The pods of a controller's objects.
#[derive(Clone)]
pub(crate) struct Pods {
    client: Client,
    reporter: Reporter,
    dependents: Arc<Dependents>,
}

impl Pods {
    /// `None` if pods are not served. `reporter` writes the events about the owners.
    pub(crate) fn new(context: &Context, reporter: Reporter) -> Option<Self> {
        let dependents = context.dependents("pods")?;
        Some(Self { client: context.client.clone(), reporter, dependents })
    }

    /// The type.
    pub(crate) fn resource(&self) -> &Arc<Resource> {
        self.dependents.resource()
    }

    /// The index of the pods by their owners.
    pub(crate) fn dependents(&self) -> &Arc<Dependents> {
        &self.dependents
    }

    /// The pods that an owner controls and selects, after it has adopted and released pods; only of those
    /// that pass `filter`.
    pub(crate) async fn claim(
        &self,
        owner: &Owner,
        selector: &Selector,
        filter: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Dependent>, Status> {
        self.claims(owner, selector, &[]).all(filter).await
    }

    /// The claim of an owner to pods, with the finalizers of the pods that it controls.
    pub(crate) fn claims<'a>(
        &'a self,
        owner: &'a Owner,
        selector: &'a Selector,
        finalizers: &'a [&'a str],
    ) -> Claim<'a> {
        let (client, dependents) = (&self.client, &*self.dependents);
        Claim { client, dependents, kind: PODS, owner, selector, finalizers }
    }

    /// Creates a pod, and reports that about its owner: also a failure, unless it comes from the end of the
    /// namespace. Gives the pod as it was created.
    pub(crate) async fn create(&self, owner: &Owner, pod: Map) -> Result<Value, Status> {
        let labels = object_meta::metadata(&pod).and_then(|metadata| metadata.get("labels"));
        if labels.and_then(Value::as_map).is_none_or(Map::is_empty) {
            return Err(Status::internal_error("unable to create pods, no labels"));
        }
        let created = self.client.create(Address::core("pods", owner.namespace()), pod.into()).await;
        match &created {
            Ok(pod) => {
                let name = pod.as_map().map(|pod| object_meta::text(pod, "name")).unwrap_or_default();
                let message = format!("Created pod: {name}");
                self.reporter.report(&owner.subject(), EventType::Normal, "SuccessfulCreate", message);
            }
            Err(error) if is_namespace_ending(error) => {}
            Err(error) => {
                let message = format!("Error creating: {}", error.message);
                self.reporter.report(&owner.subject(), EventType::Warning, "FailedCreate", message);
            }
        }
        created
    }

    /// Deletes a pod, and reports that about its owner. That the pod is gone already is an error, and no
    /// event.
    pub(crate) async fn delete(&self, owner: &Owner, name: &str) -> Result<(), Status> {
        let address = Address::core("pods", owner.namespace()).named(name);
        let deleted = self.client.delete(address, &DeleteOptions::default()).await;
        match &deleted {
            Ok(()) => {
                let message = format!("Deleted pod: {name}");
                self.reporter.report(&owner.subject(), EventType::Normal, "SuccessfulDelete", message);
            }
            Err(error) if error.reason == Reason::NotFound => {}
            Err(error) => {
                let message = format!("Error deleting: {}", error.message);
                self.reporter.report(&owner.subject(), EventType::Warning, "FailedDelete", message);
            }
        }
        deleted.map_err(|error| match error.reason {
            Reason::NotFound => error,
            _ => Status { message: format!("unable to delete pods: {}", error.message), ..error },
        })
    }
}

/// The pod that an owner makes of a template: with the labels, annotations and finalizers of the template, a
/// name that begins with that of the owner, and the owner as its controller.
pub(crate) fn pod_of_template(template: &Map, owner: &Owner) -> Map {
    let mut metadata = Map::new();
    metadata.insert("generateName", name_prefix(owner.name()));
    for field in ["labels", "annotations", "finalizers"] {
        let value = object_meta::metadata(template).and_then(|metadata| metadata.get(field));
        if let Some(value) = value.filter(|value| !value.is_null()) {
            metadata.insert(field, value.clone());
        }
    }
    metadata.insert("ownerReferences", owner.references());
    let mut pod = Map::new();
    pod.insert("metadata", metadata);
    pod.insert("spec", template.get("spec").cloned().unwrap_or_else(|| Map::new().into()));
    pod
}

/// The beginning of the names of an owner's pods: its name, with a dash if names allow it.
pub(crate) fn name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    if name_is_dns_subdomain(&prefix, Mode::Prefix).is_empty() { prefix } else { owner.to_owned() }
}

/// Whether a create failed because its namespace is being deleted: then no other can succeed.
pub(crate) fn is_namespace_ending(error: &Status) -> bool {
    let mut causes = error.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == "NamespaceTerminating")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_names_end_in_a_dash_where_they_can() {
        assert_eq!(name_prefix("web"), "web-");
        let long = "a".repeat(254);
        assert_eq!(name_prefix(&long), long);
    }
}
