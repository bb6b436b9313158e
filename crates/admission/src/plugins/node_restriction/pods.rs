//! What a kubelet may do with pods: make mirror pods, delete and evict those on its node, and report their
//! status.

use super::super::pod;
use super::{NodeRequest, NodeRestriction};
use crate::Operation;
use object::Map;
use object::quote::Quoted;
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::Pod;

impl NodeRestriction {
    pub(super) fn admit_pod(&self, request: &NodeRequest<'_>) -> Result<(), Status> {
        let (operation, node) = (request.attributes.operation, Quoted(request.node));
        match (request.attributes.subresource, operation) {
            ("", Operation::Create) => self.admit_mirror_pod(request),
            ("", Operation::Delete) => match Pod::of(request.old_map()?).spec().node_name() == request.node {
                true => Ok(()),
                false => request
                    .forbid(format!("node {node} can only delete pods with spec.nodeName set to itself")),
            },
            ("", _) => request.forbid(format!(
                "unexpected operation {}, node {node} can only create and delete mirror pods",
                Quoted(operation.name())
            )),
            ("status", Operation::Update) => request.admit_status(),
            ("status", _) => request.forbid(format!("unexpected operation {}", Quoted(operation.name()))),
            ("eviction", Operation::Create) => self.admit_eviction(request),
            ("eviction", _) => request.forbid(format!("unexpected operation {}", operation.name())),
            (other, _) => request.forbid(format!(
                "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                Quoted(other)
            )),
        }
    }

    /// A mirror pod belongs to the node that runs it, and refers to nothing of the API.
    fn admit_mirror_pod(&self, request: &NodeRequest<'_>) -> Result<(), Status> {
        let new = Pod::of(request.new_map()?);
        let node = Quoted(request.node);
        if !pod::is_mirror(new) {
            return request.forbid(format!(
                "pod does not have {} annotation, node {node} can only create mirror pods",
                Quoted(pod::MIRROR)
            ));
        }
        let spec = new.spec();
        if spec.node_name() != request.node {
            return request
                .forbid(format!("node {node} can only create pods with spec.nodeName set to itself"));
        }
        self.check_owner(request, new)?;
        let mut sources = spec
            .volumes()
            .iter()
            .filter_map(|volume| volume.projected())
            .flat_map(|volume| volume.sources().iter());
        let what = if !pod::service_account(spec).is_empty() {
            "a service account"
        } else if pod::refers_to_secrets(spec) {
            "secrets"
        } else if pod::refers_to_config_maps(spec) {
            "configmaps"
        } else if sources.any(|source| source.cluster_trust_bundle().is_some()) {
            "clustertrustbundles"
        } else if spec.volumes().iter().any(|volume| volume.persistent_volume_claim().is_some()) {
            "persistentvolumeclaims"
        } else if !spec.resource_claims().is_empty() {
            "resourceclaims"
        } else {
            return Ok(());
        };
        request.forbid(format!("node {node} can not create pods that reference {what}"))
    }

    /// The node is the one owner of the pod, and its controller.
    fn check_owner(&self, request: &NodeRequest<'_>, new: Pod<'_>) -> Result<(), Status> {
        let node = Quoted(request.node);
        let owners = new.metadata().owner_references();
        if owners.len() > 1 {
            return request.forbid(format!(
                "node {node} can only create pods with a single owner reference set to itself"
            ));
        }
        let is_node = owners.get(0).filter(|owner| (owner.api_version(), owner.kind()) == ("v1", "Node"));
        let Some(owner) = is_node.filter(|owner| owner.name() == request.node) else {
            return request
                .forbid(format!("node {node} can only create pods with an owner reference set to itself"));
        };
        if owner.controller() != Some(true) {
            return request.forbid(format!(
                "node {node} can only create pods with a controller owner reference set to itself"
            ));
        }
        if owner.block_owner_deletion() == Some(true) {
            return request
                .forbid(format!("node {node} must not set blockOwnerDeletion on an owner reference"));
        }
        let found = self.find_node(request)?;
        match owner.uid() == found.uid() {
            true => Ok(()),
            false => request.forbid(format!(
                "node {} UID mismatch: expected {} got {}",
                request.node,
                owner.uid(),
                found.uid()
            )),
        }
    }

    fn admit_eviction(&self, request: &NodeRequest<'_>) -> Result<(), Status> {
        let of_eviction = || {
            let metadata = request.object.and_then(|eviction| eviction.get("metadata"));
            metadata
                .and_then(|metadata| metadata.get("name"))
                .and_then(object::Value::as_str)
                .unwrap_or_default()
        };
        let name = match request.attributes.name {
            "" => of_eviction(),
            name => name,
        };
        if name.is_empty() {
            return request.forbid("could not determine pod from request data");
        }
        let found = self.find_pod(request, name)?;
        match found.field("spec.nodeName") == Some(request.node) {
            true => Ok(()),
            false => request.forbid(format!(
                "node {} can only evict pods with spec.nodeName set to itself",
                request.node
            )),
        }
    }
}

impl NodeRequest<'_> {
    fn admit_status(&self) -> Result<(), Status> {
        let (new, old) = (Pod::of(self.new_map()?), Pod::of(self.old_map()?));
        let node = Quoted(self.node);
        if old.spec().node_name() != self.node {
            return self.forbid(format!(
                "node {node} can only update pod status for pods with spec.nodeName set to itself"
            ));
        }
        let labels = |pod: Pod<'_>| -> Map { pod.metadata().labels().map().clone() };
        if labels(new) != labels(old) {
            return self.forbid(format!("node {node} cannot update labels through pod status"));
        }
        let claims = |pod: Pod<'_>| -> Vec<(String, Option<String>)> {
            let statuses = pod.status().resource_claim_statuses();
            let of = statuses
                .iter()
                .map(|status| (status.name().to_owned(), status.resource_claim_name().map(str::to_owned)));
            of.collect()
        };
        match claims(new) == claims(old) {
            true => Ok(()),
            false => self.forbid(format!("node {node} cannot update resource claim statues")),
        }
    }
}
