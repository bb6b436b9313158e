//! The mode `Node`: what kubelets may do.
//!
//! [`Node`] decides on requests of nodes ([`User::as_node`]) alone. A node may read the secrets, config maps,
//! claims, volumes and service accounts that its pods refer to. A graph of the pods, volumes and attachments
//! in the cache has these references; it is brought up to date before each decision that needs it, and only
//! for nodes. Which fields of its pods and of its own object a node may write is left to admission
//! (`NodeRestriction`), which sees the objects.
//!
//! With the feature gate `DynamicResourceAllocation`, a node may read and write its resource slices
//! ([`Node::with_slices`]); with `ClusterTrustBundle`, it may read trust bundles
//! ([`Node::with_trust_bundles`]). Without the gate `AuthorizeNodeWithSelectors`, it may read all pods and
//! nodes ([`Node::without_selectors`]). Another gate is taken at its default:
//! `KubeletServiceAccountTokenForCredentialProviders` is off.

mod graph;
mod references;
#[cfg(test)]
mod tests;

pub use references::secrets_of_pod;

use crate::rbac::{PolicyRequest, PolicyRule};
use crate::{Attributes, Authorize, Reason, Rules, Selectors, Target, User, Verdict};
use cache::{Cursor, Entry, Resource, Update};
use graph::{Graph, VertexKind};
use object::Text;
use object::field_selector::Operator;
use object::quote::Quoted;
use schema::stored::logged;
use std::sync::{Arc, PoisonError, RwLock};
use tasks::Deferred;

/// The namespace of the leases of nodes.
const LEASES: &str = "kube-node-lease";

/// The permissions of every node for resources that [`Node`] has no code for: verbs, group, resources.
const RULES: [(&[&str], &str, &[&str]); 8] = [
    (&["create"], "authentication.k8s.io", &["tokenreviews"]),
    (&["create"], "authorization.k8s.io", &["subjectaccessreviews", "localsubjectaccessreviews"]),
    (&["get", "list", "watch"], "", &["services"]),
    (&["create", "update", "patch"], "", &["events"]),
    (&["get"], "", &["endpoints"]),
    (&["create", "get", "list", "watch"], "certificates.k8s.io", &["certificatesigningrequests"]),
    (&["get", "watch", "list"], "storage.k8s.io", &["csidrivers"]),
    (&["get", "list", "watch"], "node.k8s.io", &["runtimeclasses"]),
];

/// The permissions of every node for nodes and pods, where it is not said which of them it may read.
const RULES_WITHOUT_SELECTORS: [(&[&str], &str, &[&str]); 7] = [
    (&["create", "get", "list", "watch"], "", &["nodes"]),
    (&["update", "patch"], "", &["nodes/status"]),
    (&["update", "patch"], "", &["nodes"]),
    (&["get", "list", "watch"], "", &["pods"]),
    (&["create", "delete"], "", &["pods"]),
    (&["update", "patch"], "", &["pods/status"]),
    (&["create"], "", &["pods/eviction"]),
];

/// What the gate `ClusterTrustBundle` adds.
const TRUST_BUNDLE_RULES: [(&[&str], &str, &[&str]); 1] =
    [(&["get", "list", "watch"], "certificates.k8s.io", &["clustertrustbundles"])];

/// Decides on requests of nodes.
pub struct Node {
    state: RwLock<State>,
    rules: Vec<PolicyRule>,
    /// Whether a node may read its own pods and its own object alone, and has to select them: the gate
    /// `AuthorizeNodeWithSelectors`.
    wants_selectors: bool,
}

fn rules(all: &[(&[&'static str], &'static str, &[&'static str])]) -> Vec<PolicyRule> {
    let list = |items: &[&'static str]| items.iter().map(|item| Text::known(item)).collect();
    let rules = all.iter().map(|(verbs, group, resources)| {
        PolicyRule::new(list(verbs), list(&[group]), list(resources), list(&[]), list(&[]))
    });
    rules.collect()
}

struct State {
    pods: Cursor,
    volumes: Cursor,
    attachments: Cursor,
    /// Resource slices, with the gate `DynamicResourceAllocation`.
    slices: Option<Cursor>,
    graph: Graph,
}

impl State {
    fn is_current(&self) -> bool {
        let Self { pods, volumes, attachments, slices, .. } = self;
        [pods, volumes, attachments].into_iter().chain(slices).all(Cursor::is_current)
    }

    fn advance(&mut self) {
        let Self { pods, volumes, attachments, slices, graph } = self;
        pods.advance(|update| match update {
            Update::Reset => graph.clear_pods(),
            Update::Change { before, after } => {
                let Some(entry) = after.or(before) else { return };
                let references = after.and_then(|pod| logged(pod, references::of_pod(pod)).flatten());
                graph.set_pod(entry.namespace(), entry.name(), references);
            }
        });
        volumes.advance(|update| match update {
            Update::Reset => graph.clear_volumes(),
            Update::Change { before, after } => {
                let Some(entry) = after.or(before) else { return };
                let references =
                    after.and_then(|volume| logged(volume, references::of_volume(volume)).flatten());
                graph.set_volume(entry.name(), references);
            }
        });
        follow(attachments, graph, VertexKind::VolumeAttachment, references::of_attachment);
        if let Some(slices) = slices {
            follow(slices, graph, VertexKind::ResourceSlice, references::of_slice);
        }
    }
}

/// Follows the objects of a kind that name one node.
fn follow(
    cursor: &mut Cursor,
    graph: &mut Graph,
    kind: VertexKind,
    node_of: fn(&Entry) -> Result<Text, schema::Error>,
) {
    cursor.advance(|update| match update {
        Update::Reset => graph.clear_owned(kind),
        Update::Change { before, after } => {
            let Some(entry) = after.or(before) else { return };
            let read = |object: &Arc<Entry>| logged(object, node_of(object));
            graph.set_owned(kind, entry.name(), &after.and_then(read).unwrap_or_default());
        }
    });
}

impl Node {
    /// Decides by the pods, persistent volumes and volume attachments of these types. The graph is built by
    /// the first decision that needs it.
    pub fn new(pods: Arc<Resource>, volumes: Arc<Resource>, attachments: Arc<Resource>) -> Self {
        let state = State {
            pods: Cursor::new(pods),
            volumes: Cursor::new(volumes),
            attachments: Cursor::new(attachments),
            slices: None,
            graph: Graph::default(),
        };
        Self { state: RwLock::new(state), rules: rules(&RULES), wants_selectors: true }
    }

    /// The same, but a node may read all pods, nodes and resource slices: without the gate
    /// `AuthorizeNodeWithSelectors`.
    #[must_use]
    pub fn without_selectors(mut self) -> Self {
        self.wants_selectors = false;
        self.rules.extend(rules(&RULES_WITHOUT_SELECTORS));
        self
    }

    /// The same, and a node may read trust bundles: the gate `ClusterTrustBundle`.
    #[must_use]
    pub fn with_trust_bundles(mut self) -> Self {
        self.rules.extend(rules(&TRUST_BUNDLE_RULES));
        self
    }

    /// The same, by the resource slices of this type besides: the gate `DynamicResourceAllocation`.
    #[must_use]
    pub fn with_slices(mut self, slices: Arc<Resource>) -> Self {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.slices = Some(Cursor::new(slices));
        self
    }

    /// Reads the graph, after it was brought up to date with every acknowledged change.
    fn with_graph<T>(&self, read: impl FnOnce(&Graph) -> T) -> T {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.is_current() {
            return read(&state.graph);
        }
        drop(state);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.advance();
        read(&state.graph)
    }

    fn check(&self, node: &str, attributes: &Attributes) -> Result<(), Reason> {
        let by_rules = || {
            let request = PolicyRequest::new(attributes);
            if self.rules.iter().any(|rule| rule.allows(&request)) { Ok(()) } else { Err(Reason::NONE) }
        };
        let Target::Resource { group, resource, subresource, namespace, name, .. } = &attributes.target
        else {
            return by_rules();
        };
        let asked = Asked {
            node,
            verb: &attributes.verb,
            subresource,
            namespace,
            name,
            selectors: attributes.selectors.as_deref(),
        };
        match (group.as_str(), resource.as_str()) {
            ("", "secrets") => self.read(&asked, VertexKind::Secret),
            ("", "configmaps") => self.read(&asked, VertexKind::ConfigMap),
            ("", "persistentvolumeclaims") if asked.subresource == "status" => self.write_status(&asked),
            ("", "persistentvolumeclaims") => self.get(&asked, VertexKind::PersistentVolumeClaim),
            ("", "persistentvolumes") => self.get(&asked, VertexKind::PersistentVolume),
            ("resource.k8s.io", "resourceclaims") => self.get(&asked, VertexKind::ResourceClaim),
            ("storage.k8s.io", "volumeattachments") => self.get(&asked, VertexKind::VolumeAttachment),
            ("", "serviceaccounts") => self.create_token(&asked),
            ("coordination.k8s.io", "leases") => lease(&asked),
            ("storage.k8s.io", "csinodes") => csi_node(&asked),
            ("resource.k8s.io", "resourceslices") => self.resource_slice(&asked),
            ("", "nodes") if self.wants_selectors => own_node(&asked),
            ("", "pods") if self.wants_selectors => self.pod(&asked),
            _ => by_rules(),
        }
    }

    /// Decides on a read of one object in a namespace.
    fn read(&self, asked: &Asked<'_>, kind: VertexKind) -> Result<(), Reason> {
        if !matches!(asked.verb, "get" | "list" | "watch") {
            return Err("can only read resources of this type".into());
        }
        if !asked.subresource.is_empty() {
            return Err("cannot read subresource".into());
        }
        if asked.namespace.is_empty() {
            return Err("can only read namespaced object of this type".into());
        }
        self.related(asked, kind)
    }

    fn get(&self, asked: &Asked<'_>, kind: VertexKind) -> Result<(), Reason> {
        if asked.verb != "get" {
            return Err("can only get individual resources of this type".into());
        }
        if !asked.subresource.is_empty() {
            return Err("cannot get subresource".into());
        }
        self.related(asked, kind)
    }

    /// Decides on a write of the status of a claim. As in the reference, the reason names the verb `get`.
    fn write_status(&self, asked: &Asked<'_>) -> Result<(), Reason> {
        if !matches!(asked.verb, "update" | "patch") {
            return Err("can only get/update/patch this type".into());
        }
        self.related(asked, VertexKind::PersistentVolumeClaim)
    }

    fn create_token(&self, asked: &Asked<'_>) -> Result<(), Reason> {
        if asked.verb == "get" && asked.subresource.is_empty() {
            return Err("not allowed to get service accounts".into());
        }
        if asked.verb != "create" || asked.name.is_empty() {
            return Err("can only create tokens for individual service accounts".into());
        }
        if asked.subresource != "token" {
            return Err("can only create token subresource of serviceaccount".into());
        }
        self.related(asked, VertexKind::ServiceAccount)
    }

    fn pod(&self, asked: &Asked<'_>) -> Result<(), Reason> {
        match (asked.subresource, asked.verb) {
            ("", "get") => self.get(asked, VertexKind::Pod),
            ("", "list" | "watch") if asked.selects_own() => Ok(()),
            ("", "list" | "watch") if asked.name.is_empty() => {
                Err("can only list/watch pods with spec.nodeName field selector".into())
            }
            ("", "list" | "watch") => self.related(asked, VertexKind::Pod),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(Reason::NONE),
        }
    }

    fn resource_slice(&self, asked: &Asked<'_>) -> Result<(), Reason> {
        if !asked.subresource.is_empty() {
            return Err("cannot authorize ResourceSlice subresources".into());
        }
        match asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(asked, VertexKind::ResourceSlice),
            // What a node deletes is left to admission.
            "watch" | "list" | "deletecollection" if asked.selects_own() || !self.wants_selectors => Ok(()),
            "watch" | "list" | "deletecollection" => {
                Err("can only list/watch/deletecollection resourceslices with nodeName field selector".into())
            }
            _ => Err("only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection".into()),
        }
    }

    /// Whether the object is related to the node.
    fn related(&self, asked: &Asked<'_>, kind: VertexKind) -> Result<(), Reason> {
        let Asked { node, namespace, name, .. } = *asked;
        if name.is_empty() {
            return Err("No Object name found".into());
        }
        if self.with_graph(|graph| graph.reaches(node, kind, namespace, name)) {
            Ok(())
        } else {
            Err(unrelated(asked))
        }
    }
}

/// A request of a node for a resource.
struct Asked<'a> {
    node: &'a str,
    verb: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    selectors: Option<&'a Selectors>,
}

impl Asked<'_> {
    /// Whether it selects objects with the node in `spec.nodeName`.
    fn selects_own(&self) -> bool {
        self.selectors.is_some_and(|selectors| {
            selectors.fields.iter().any(|of| {
                of.field == "spec.nodeName" && of.operator == Operator::Equals && of.value == self.node
            })
        })
    }
}

fn unrelated(asked: &Asked<'_>) -> Reason {
    format!("no relationship found between node '{}' and this object", asked.node).into()
}

/// Nodes have a lease of their own. Whether a new one has the right name is left to admission.
fn lease(asked: &Asked<'_>) -> Result<(), Reason> {
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err("can only get, create, update, patch, or delete a node lease".into());
    }
    if asked.namespace != LEASES {
        let reason = format!("can only access leases in the {} system namespace", Quoted(LEASES));
        return Err(reason.into());
    }
    if asked.verb != "create" && asked.name != asked.node {
        return Err("can only access node lease with the same name as the requesting node".into());
    }
    Ok(())
}

/// Whether a new CSI node has the right name is left to admission.
fn csi_node(asked: &Asked<'_>) -> Result<(), Reason> {
    if !matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete") {
        return Err("can only get, create, update, patch, or delete a CSINode".into());
    }
    if !asked.subresource.is_empty() {
        return Err("cannot authorize CSINode subresources".into());
    }
    if asked.verb != "create" && asked.name != asked.node {
        return Err("can only access CSINode with the same name as the requesting node".into());
    }
    Ok(())
}

/// A node reads its own object. Which one it writes is left to admission.
fn own_node(asked: &Asked<'_>) -> Result<(), Reason> {
    let Asked { node, name, .. } = *asked;
    match (asked.subresource, asked.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") if name == node => Ok(()),
        ("", "get" | "list" | "watch") if name.is_empty() => {
            Err(format!("node '{node}' cannot read all nodes, only its own Node object").into())
        }
        ("", "get" | "list" | "watch") => {
            Err(format!("node '{node}' cannot read '{name}', only its own Node object").into())
        }
        _ => Err(Reason::NONE),
    }
}

impl Authorize for Node {
    fn counted_as(&self) -> Option<(&'static str, &str)> {
        Some(("Node", "node"))
    }

    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        let checked = match user.as_node() {
            None => Err(Reason::NONE),
            Some("") => Err(format!("unknown node for user {}", Quoted(&user.name)).into()),
            Some(node) => self.check(node, attributes),
        };
        Deferred::Now(match checked {
            Ok(()) => Verdict::allow(Reason::NONE),
            Err(reason) => Verdict::no_opinion(reason),
        })
    }

    fn rules(&self, user: &User, _namespace: &str) -> Rules {
        let error =
            user.as_node().map(|_| "node authorizer does not support user rule resolution".to_owned());
        Rules { is_incomplete: error.is_some(), error, ..Rules::default() }
    }
}
