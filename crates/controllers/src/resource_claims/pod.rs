//! The claims of a pod: those that are missing are made, those that it may use are reserved for it.

use super::{GROUP, OF_POD_CLAIM, VERSION, Worker, claim_address, owning_pod, view};
use crate::objects::{annotation, decode, edit, failure};
use crate::workloads::pod::node;
use crate::{EventType, Subject};
use cache::{Entry, Filter, Freshness, Query};
use kinds::object_meta;
use object::quote::Quoted;
use object::{List, Map, Text, Value};
use registry::Address;
use schema::view::View as _;
use schema::views::core::v1::{Pod, PodResourceClaim};
use schema::views::resource::v1beta1::{ResourceClaim, ResourceClaimTemplate};
use schema::{Shape, Status, json};
use std::collections::BTreeMap;

/// The most bytes of the beginning of a generated name.
const MOST_OF_NAME: usize = 57;
/// The most pods that a claim is reserved for.
const MOST_USERS: usize = 256;

/// The claim of a pod.
enum Named<'a> {
    /// One that the pod names.
    Given(&'a str),
    /// One that was made for the pod.
    Made(&'a str),
    /// The pod does not need one after all.
    Unneeded,
    /// None was made so far.
    Unknown,
}

fn named<'a>(pod: Pod<'a>, claim: PodResourceClaim<'a>) -> Named<'a> {
    if let Some(name) = claim.resource_claim_name() {
        return Named::Given(name);
    }
    let mut statuses = pod.status().resource_claim_statuses().iter();
    match statuses.find(|status| status.name() == claim.name()) {
        None => Named::Unknown,
        Some(status) => status.resource_claim_name().map_or(Named::Unneeded, Named::Made),
    }
}

impl Worker {
    pub(super) async fn sync_pod(&self, namespace: &str, name: &str) -> Result<(), Status> {
        let Some(entry) = self.pods.lookup(namespace, name).map_err(registry::status)? else { return Ok(()) };
        if entry.is_deleting() {
            return Ok(());
        }
        let pod = decode(Pod::schema(), &entry)?;
        let mut made: BTreeMap<String, String> = BTreeMap::new();
        for claim in Pod::of(&pod).spec().resource_claims().iter() {
            match self.ensure(&entry, Pod::of(&pod), claim).await {
                Ok(Some(name)) => drop(made.insert(claim.name().to_owned(), name)),
                Ok(None) => {}
                Err(error) => {
                    let text = format!("PodResourceClaim {}: {}", claim.name(), error.message);
                    let subject = Subject::of(&entry, "v1", "Pod");
                    let reason = "FailedResourceClaimCreation";
                    self.recorder.record(&subject, EventType::Warning, reason, &text).await;
                    return Err(error);
                }
            }
        }
        if !made.is_empty() {
            self.name_claims(&entry, Pod::of(&pod), made).await?;
        }
        if node(&entry).is_empty() {
            // The scheduler reserves the claims of this pod.
            return Ok(());
        }
        for claim in Pod::of(&pod).spec().resource_claims().iter() {
            let (name, is_own) = match named(Pod::of(&pod), claim) {
                Named::Given(name) => (name, false),
                Named::Made(name) => (name, true),
                Named::Unneeded | Named::Unknown => continue,
            };
            self.reserve(&entry, name, is_own).await?;
        }
        Ok(())
    }

    /// Makes the claim of a pod, if it is missing; returns the name of a claim that the pod does not name
    /// yet.
    async fn ensure(
        &self,
        entry: &Entry,
        pod: Pod<'_>,
        claim: PodResourceClaim<'_>,
    ) -> Result<Option<String>, Status> {
        match named(pod, claim) {
            Named::Given(_) | Named::Unneeded => return Ok(None),
            Named::Made(name) => {
                let found = self.claims.lookup(entry.namespace(), name).map_err(registry::status)?;
                if let Some(found) = found
                    && let Some((uid, _)) = owning_pod(&decode(ResourceClaim::schema(), &found)?)
                    && uid == entry.uid()
                {
                    return Ok(None);
                }
            }
            Named::Unknown => {}
        }
        let Some(template) = claim.resource_claim_template_name() else { return Ok(None) };
        // An attempt before may have ended after it had made the claim.
        if let Some(known) = self.made_before(entry, claim.name()).await? {
            return Ok(Some(known));
        }
        let found = self.templates.lookup(entry.namespace(), template).map_err(registry::status)?;
        let found = found.ok_or_else(|| {
            let name = Quoted(template);
            failure(format!(
                "resource claim template {name}: resourceclaimtemplate.resource.k8s.io {name} not found"
            ))
        })?;
        let template = decode(ResourceClaimTemplate::schema(), &found)?;
        let object = of_template(entry, claim.name(), ResourceClaimTemplate::of(&template));
        let created = self.client.create(claim_address(entry.namespace(), ""), object.into()).await;
        let created = created.map_err(|error| Status {
            message: format!("create ResourceClaim : {}", error.message),
            ..error
        })?;
        Ok(created.as_map().map(|claim| object_meta::text(claim, "name").to_owned()))
    }

    /// The claim that was made for one of the claims of a pod.
    async fn made_before(&self, pod: &Entry, of: &str) -> Result<Option<String>, Status> {
        let query = Query::new(Freshness::MostRecent, Filter::namespace(pod.namespace()));
        for entry in self.claims.list(query).await.map_err(registry::status)? {
            if !entry.owners().any(|uid| uid == pod.uid()) {
                continue;
            }
            let claim = decode(ResourceClaim::schema(), &entry)?;
            let is_own = owning_pod(&claim).is_some_and(|(uid, _)| uid == pod.uid());
            if is_own && annotation(&claim, OF_POD_CLAIM) == of {
                return Ok(Some(entry.name().to_owned()));
            }
        }
        Ok(None)
    }

    /// Names the claims of a pod in its status: the new ones, and those that are there already.
    async fn name_claims(
        &self,
        entry: &Entry,
        pod: Pod<'_>,
        made: BTreeMap<String, String>,
    ) -> Result<(), Status> {
        let mut all: BTreeMap<String, Option<String>> = BTreeMap::new();
        for status in pod.status().resource_claim_statuses().iter() {
            all.insert(status.name().to_owned(), status.resource_claim_name().map(str::to_owned));
        }
        all.extend(made.into_iter().map(|(name, claim)| (name, Some(claim))));
        let statuses = all.iter().map(|(name, claim)| {
            let mut status: Map = [("name", name.as_str())].into_iter().collect();
            if let Some(claim) = claim {
                status.insert("resourceClaimName", claim.as_str());
            }
            status
        });
        let mut status = Map::new();
        status.insert("resourceClaimStatuses", Value::from_iter(statuses));
        let mut config: Map = [("apiVersion", "v1"), ("kind", "Pod")].into_iter().collect();
        let metadata = [("name", entry.name()), ("namespace", entry.namespace()), ("uid", entry.uid())];
        config.insert("metadata", Map::from_iter(metadata));
        config.insert("status", status);
        let mut bytes = Vec::new();
        json::encode_shape(&Shape::Any, &config.into(), &mut bytes);
        let address = Address::core("pods", entry.namespace()).named(entry.name()).subresource("status");
        self.of_status.apply(address, &bytes).await.map_err(|error| {
            let (namespace, name) = (entry.namespace(), entry.name());
            let message = format!("update pod {namespace}/{name} ResourceClaimStatuses: {}", error.message);
            Status { message, ..error }
        })
    }

    /// Reserves an allocated claim for a pod that is on a node.
    async fn reserve(&self, pod: &Entry, name: &str, is_own: bool) -> Result<(), Status> {
        let namespace = pod.namespace();
        let Some(entry) = self.claims.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(());
        };
        let mut claim = decode(ResourceClaim::schema(), &entry)?;
        if is_own && owning_pod(&claim).is_none_or(|(uid, _)| uid != pod.uid()) {
            let pod = pod.name();
            return Err(failure(format!(
                "ResourceClaim {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"
            )));
        }
        let status = view(&claim).status();
        let users = status.reserved_for();
        let is_reserved = users.iter().any(|user| user.uid() == pod.uid());
        if status.allocation().is_none() || is_reserved || users.len() >= MOST_USERS {
            return Ok(());
        }
        let mut users = users.values().to_vec();
        let user = Map::from_iter([("resource", "pods"), ("name", pod.name()), ("uid", pod.uid())]);
        users.push(user.into());
        edit(&mut claim, "status", |status| drop(status.insert("reservedFor", users)));
        let address = claim_address(namespace, name).subresource("status");
        let written = self.client.update(address, claim.into()).await;
        written.map(drop).map_err(|error| {
            let message = format!("reserve claim {namespace}/{name} for pod: {}", error.message);
            Status { message, ..error }
        })
    }
}

/// A claim for a pod, made from a template.
fn of_template(pod: &Entry, of: &str, template: ResourceClaimTemplate<'_>) -> Map {
    let spec = template.spec();
    let mut owner: Map = [("apiVersion", "v1"), ("kind", "Pod"), ("name", pod.name()), ("uid", pod.uid())]
        .into_iter()
        .collect();
    owner.insert("controller", true);
    owner.insert("blockOwnerDeletion", true);
    let mut annotations = spec.metadata().annotations().map().clone();
    annotations.insert(OF_POD_CLAIM, of);
    let mut metadata = Map::new();
    metadata.insert("generateName", name_start(pod.name(), of));
    metadata.insert("ownerReferences", List::of([Value::from(owner)]));
    metadata.insert("annotations", annotations);
    let labels = spec.metadata().labels();
    if !labels.is_empty() {
        metadata.insert("labels", labels.map().clone());
    }
    let mut claim: Map =
        [("apiVersion", Text::from(format!("{GROUP}/{VERSION}"))), ("kind", "ResourceClaim".into())]
            .into_iter()
            .collect();
    claim.insert("metadata", metadata);
    claim.insert("spec", spec.spec().map().clone());
    claim
}

/// The beginning of the name of a claim: both names, each cut in proportion if they are long.
pub(super) fn name_start(pod: &str, of: &str) -> String {
    let whole = format!("{pod}-{of}-");
    if whole.len() <= MOST_OF_NAME {
        return whole;
    }
    let cut = |name: &str, length: usize| -> String {
        name.get(..name.len() * MOST_OF_NAME / length.max(1)).unwrap_or(name).to_owned()
    };
    format!("{}-{}", cut(pod, whole.len()), cut(of, whole.len()))
}
