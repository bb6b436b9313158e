//! `NodeRestriction`: a kubelet changes its own node, the pods that run there, and little else.
//!
//! It restricts requests of nodes alone ([`auth::User::as_node`]). The gate `RecoverVolumeExpansionFailure`
//! is taken at its default, which is on.

mod audience;
mod nodes;
mod pods;
#[cfg(test)]
mod tests;

use super::{Builtin, Parts};
use crate::plugins::Gates;
use crate::{Attributes, Operation, Plugin};
use auth::Authorizer;
use cache::{Entry, Resource};
use kinds::x509::SigningRequest;
use object::quote::Quoted;
use object::{Map, Value};
use schema::Status;
use schema::stored;
use schema::view::View as _;
use schema::views::authentication::v1::TokenRequest;
use schema::views::certificates::v1::CertificateSigningRequest;
use schema::views::core::v1::Pod;
use std::sync::Arc;
use tasks::Deferred;

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";

/// The signers of the certificates of kubelets.
const KUBELET_SIGNERS: [&str; 2] =
    ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

/// The plugin.
pub struct NodeRestriction {
    pods: Arc<Resource>,
    nodes: Arc<Resource>,
    volumes: audience::Volumes,
    authorizer: Authorizer,
    gates: Gates,
}

impl Builtin for NodeRestriction {
    const NAME: &'static str = "NodeRestriction";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self {
            pods: parts.resource("pods")?,
            nodes: parts.resource("nodes")?,
            volumes: audience::Volumes {
                claims: parts.resource("persistentvolumeclaims")?,
                volumes: parts.resource("persistentvolumes")?,
                drivers: parts.resource("csidrivers.storage.k8s.io")?,
            },
            authorizer: parts.authorizer.clone(),
            gates: parts.settings.gates,
        })
    }
}

/// A request of a node.
struct NodeRequest<'a> {
    node: &'a str,
    attributes: &'a Attributes<'a>,
    object: Option<&'a Value>,
}

impl<'a> NodeRequest<'a> {
    fn forbid<T>(&self, why: impl AsRef<str>) -> Result<T, Status> {
        Err(self.attributes.forbidden(self.object, why.as_ref()))
    }

    /// The new state.
    fn new_map(&self) -> Result<&'a Map, Status> {
        self.object.and_then(Value::as_map).map_or_else(|| self.forbid("unexpected type <nil>"), Ok)
    }

    /// The state before.
    fn old_map(&self) -> Result<&'a Map, Status> {
        self.attributes.old.and_then(Value::as_map).map_or_else(|| self.forbid("unexpected type <nil>"), Ok)
    }
}

impl NodeRestriction {
    /// A pod in the namespace of a request; 404 if there is none.
    fn find_pod(&self, request: &NodeRequest<'_>, name: &str) -> Result<Arc<Entry>, Status> {
        match self.pods.lookup(request.attributes.namespace, name) {
            Ok(found) => found.ok_or_else(|| Status::not_found("", "pod", name)),
            Err(error) => request.forbid(error.to_string()),
        }
    }

    /// The node that a request is from; 404 if there is none.
    fn find_node(&self, request: &NodeRequest<'_>) -> Result<Arc<Entry>, Status> {
        let name = request.node;
        match self.nodes.lookup("", name) {
            Ok(found) => found.ok_or_else(|| Status::not_found("", "node", name)),
            Err(error) => request.forbid(format!("error looking up node {name} to verify uid: {error}")),
        }
    }

    fn admit<'a>(&'a self, request: NodeRequest<'a>) -> Deferred<'a, Result<(), Status>> {
        let attributes = request.attributes;
        let resource = attributes.resource;
        Deferred::Now(match (resource.group.as_ref(), resource.resource.as_ref()) {
            ("", "pods") => self.admit_pod(&request),
            ("", "nodes") => request.admit_node(),
            ("", "persistentvolumeclaims") => request.admit_claim(),
            ("", "serviceaccounts") => {
                let is_token = attributes.operation == Operation::Create && attributes.subresource == "token";
                match is_token {
                    true => return self.admit_token(request),
                    false => Ok(()),
                }
            }
            ("coordination.k8s.io", "leases") => request.admit_lease(),
            ("storage.k8s.io", "csinodes") => request.admit_csi_node(),
            ("resource.k8s.io", "resourceslices") => request.admit_resource_slice(),
            ("certificates.k8s.io", "certificatesigningrequests")
                if !self.gates.insecure_kubelet_requests =>
            {
                request.admit_certificate_request()
            }
            _ => Ok(()),
        })
    }

    /// A token for one of the node's pods. Whether the pod asks for the audience may depend on the
    /// authorizer.
    fn admit_token<'a>(&'a self, request: NodeRequest<'a>) -> Deferred<'a, Result<(), Status>> {
        let pod = match self.pod_of_token(&request) {
            Ok(pod) => pod,
            Err(refused) => return Deferred::Now(Err(refused)),
        };
        if !self.gates.node_audience_restriction {
            return Deferred::Now(Ok(()));
        }
        let Some(token) = request.object.and_then(Value::as_map).map(TokenRequest::of) else {
            return Deferred::Now(Ok(()));
        };
        let audiences = token.spec().audiences();
        let audience = audiences.get(0).unwrap_or_default();
        if audiences.len() > 1 {
            return Deferred::Now(request.forbid("node may only request 0 or 1 audiences"));
        }
        match stored::decode(Pod::schema(), pod.bytes()) {
            Ok(pod) => match self.volumes.have_audience(Pod::of(&pod), audience) {
                Ok(true) => return Deferred::Now(Ok(())),
                Ok(false) => {}
                Err(error) => {
                    let why = format!("error validating audience {}: {error}", Quoted(audience));
                    return Deferred::Now(request.forbid(why));
                }
            },
            Err(error) => return Deferred::Now(request.forbid(error.to_string())),
        }
        Deferred::later(async move { self.authorize_audience(&request, audience).await })
    }

    /// The pod that a token is bound to.
    fn pod_of_token(&self, request: &NodeRequest<'_>) -> Result<Arc<Entry>, Status> {
        let bound = TokenRequest::of(request.new_map()?).spec().bound_object_ref();
        let is_pod = |reference: &schema::views::authentication::v1::BoundObjectReference<'_>| {
            reference.api_version() == "v1" && reference.kind() == "Pod" && !reference.name().is_empty()
        };
        let Some(bound) = bound.filter(is_pod) else {
            return request.forbid("node requested token not bound to a pod");
        };
        let uid = bound.uid();
        if uid.is_empty() {
            return request.forbid("node requested token with a pod binding without a uid");
        }
        let pod = self.find_pod(request, bound.name())?;
        if pod.uid() != uid {
            return request.forbid(format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            ));
        }
        if pod.field("spec.nodeName") != Some(request.node) {
            return request.forbid("node requested token bound to a pod scheduled on a different node");
        }
        Ok(pod)
    }

    async fn authorize_audience(&self, request: &NodeRequest<'_>, audience: &str) -> Result<(), Status> {
        let attributes = request.attributes;
        let target = auth::Target::Resource {
            group: String::new(),
            version: "v1".to_owned(),
            resource: audience.to_owned(),
            subresource: String::new(),
            namespace: attributes.namespace.to_owned(),
            name: attributes.name.to_owned(),
        };
        let asked = auth::Attributes::new("request-serviceaccounts-token-audience", target);
        let verdict = self.authorizer.decide(attributes.user, &asked).await;
        let (user, audience) = (&attributes.user.name, Quoted(audience));
        match (verdict.decision, verdict.error) {
            (auth::Decision::Allow, _) => Ok(()),
            (_, Some(error)) => request.forbid(format!(
                "audience {audience} not found in pod spec volume, error authorizing {user} to request tokens for this audience: {error}"
            )),
            (_, None) => request.forbid(format!(
                "audience {audience} not found in pod spec volume, {user} is not authorized to request tokens for this audience"
            )),
        }
    }
}

impl NodeRequest<'_> {
    fn admit_lease(&self) -> Result<(), Status> {
        if self.attributes.namespace != LEASES {
            return self.forbid(format!("can only access leases in the {} system namespace", Quoted(LEASES)));
        }
        match self.attributes.name == self.node {
            true => Ok(()),
            false => self.forbid("can only access node lease with the same name as the requesting node"),
        }
    }

    fn admit_csi_node(&self) -> Result<(), Status> {
        match self.attributes.name == self.node {
            true => Ok(()),
            false => self.forbid("can only access CSINode with the same name as the requesting node"),
        }
    }

    /// Updates are for the mode `Node` to decide, which knows the object.
    fn admit_resource_slice(&self) -> Result<(), Status> {
        let (slice, verb) = match self.attributes.operation {
            Operation::Create => (self.new_map()?, "create"),
            Operation::Delete => (self.old_map()?, "delete"),
            Operation::Update | Operation::Connect => return Ok(()),
        };
        let node = slice.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
        match node == Some(self.node) {
            true => Ok(()),
            false => self.forbid(format!(
                "can only {verb} ResourceSlice with the same NodeName as the requesting node"
            )),
        }
    }

    fn admit_certificate_request(&self) -> Result<(), Status> {
        if self.attributes.operation != Operation::Create {
            return Ok(());
        }
        let spec = CertificateSigningRequest::of(self.new_map()?).spec();
        if !KUBELET_SIGNERS.contains(&spec.signer_name()) {
            return Ok(());
        }
        let node = self.node;
        match SigningRequest::parse(spec.request()) {
            Err(error) => self.forbid(format!("unable to parse csr: {error}")),
            Ok(asked) if asked.subject.common_name().strip_prefix(auth::User::NODE_PREFIX) == Some(node) => {
                Ok(())
            }
            Ok(_) => self.forbid(format!("can only create a node CSR with CN=system:node:{node}")),
        }
    }
}

impl Plugin for NodeRestriction {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update | Operation::Delete)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        let Some(node) = attributes.user.as_node() else { return Deferred::Now(Ok(())) };
        let object = object.map(|object| &*object);
        let request = NodeRequest { node, attributes, object };
        if node.is_empty() {
            let user = Quoted(&attributes.user.name);
            return Deferred::Now(request.forbid(format!("could not determine node from user {user}")));
        }
        self.admit(request)
    }
}
