//! Discovery: which groups, versions and resources there are.
//!
//! There are two forms. The older one has a [`Document`] for each group version, of a type in `schema`, in
//! every encoding. The newer one, [`aggregated`] discovery, has two documents for everything, in JSON.

use crate::served::{Group, GroupVersion, ServedResources};
use crate::tree::{Escape, Object, hash, json, texts};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kinds::{ResourceType, Subresource, SubresourceBody, Verb};
use object::{Text, Value};
use schema::Type;
use std::sync::Arc;

/// The server address for the clients in an address range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address range of the clients: `0.0.0.0/0`.
    pub client_cidr: String,
    /// Host and port of the server.
    pub server_address: String,
}

/// An object and its type.
pub struct Document {
    /// Its type.
    pub ty: &'static Type,
    /// The object.
    pub value: Value,
}

impl Document {
    /// The object as JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        schema::json::encode(self.ty, &self.value, &mut out);
        out
    }

    fn new(name: &str, object: Object) -> Option<Self> {
        Some(Self { ty: schema::builtin::by_name(name)?, value: object.into() })
    }
}

/// `/api`: the versions of the core group.
pub fn api_versions(served: &ServedResources, addresses: &[Address]) -> Option<Document> {
    let core = served.group("").into_iter().flat_map(|group| &group.versions);
    let addresses: Vec<Value> = addresses
        .iter()
        .map(|address| {
            let object = Object::new().with("clientCIDR", address.client_cidr.as_str());
            object.with("serverAddress", address.server_address.as_str()).into()
        })
        .collect();
    let object = Object::new()
        .with("kind", "APIVersions")
        .with("versions", texts(core.map(|version| version.name.as_str())))
        .with("serverAddressByClientCIDRs", addresses);
    Document::new("meta.v1.APIVersions", object)
}

/// `/apis`: all groups but the core group.
pub fn groups(served: &ServedResources) -> Option<Document> {
    let groups: Vec<Value> =
        served.named_groups().map(|group| of_group(Object::new(), group).into()).collect();
    let object = Object::new().with("kind", "APIGroupList").with("apiVersion", "v1").with("groups", groups);
    Document::new("meta.v1.APIGroupList", object)
}

/// `/apis/<group>`, if the group is served.
pub fn group(served: &ServedResources, name: &str) -> Option<Document> {
    let group = served.group(name).filter(|group| !group.name.is_empty())?;
    let object = Object::new().with("kind", "APIGroup").with("apiVersion", "v1");
    Document::new("meta.v1.APIGroup", of_group(object, group))
}

/// `/api/<version>` (with an empty group) and `/apis/<group>/<version>`, if the version is served.
pub fn resources(served: &ServedResources, group: &str, version: &str) -> Option<Document> {
    let resources = &served.version(group, version)?.resources;
    let mut object = Object::new().with("kind", "APIResourceList");
    if !group.is_empty() {
        object.put("apiVersion", "v1");
    }
    object.put("groupVersion", group_version(group, version));
    let mut list = Vec::new();
    for resource in resources {
        list.push(of_resource(resource).into());
        list.extend(subresources(resource).map(|subresource| of_subresource(resource, subresource).into()));
    }
    Document::new("meta.v1.APIResourceList", object.with("resources", list))
}

/// The versions of aggregated discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregated {
    /// `apidiscovery.k8s.io/v2`.
    V2,
    /// `apidiscovery.k8s.io/v2beta1`, which has the same fields. The reference no longer serves it.
    V2Beta1,
}

/// Which of the two documents of aggregated discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Root {
    /// `/api`.
    Api,
    /// `/apis`.
    Apis,
}

/// A document with its ETag.
pub struct Tagged {
    /// The document, as JSON.
    pub json: Vec<u8>,
    /// The ETag, without quotation marks. It does not depend on the version of aggregated discovery.
    pub etag: String,
}

/// `/api` and `/apis` for clients that accept an `APIGroupDiscoveryList`.
pub fn aggregated(served: &ServedResources, root: Root, version: Aggregated) -> Tagged {
    aggregated_of(served, root, version, |group, version| aggregated_version(served, group, version).into())
}

/// The same document, from the part of each group version that `part` returns: the output of
/// [`aggregated_version`].
pub fn aggregated_of(
    served: &ServedResources,
    root: Root,
    version: Aggregated,
    mut part: impl FnMut(&str, &str) -> Arc<str>,
) -> Tagged {
    let mut items = String::new();
    for group in served.groups().iter().filter(|group| group.name.is_empty() == (root == Root::Api)) {
        let mut metadata = Object::new();
        if !group.name.is_empty() {
            metadata.put("name", group.name.as_str());
        }
        let metadata = json(&metadata.with("creationTimestamp", Value::Null).into(), Escape::Markup);
        let versions: Vec<_> =
            group.versions.iter().map(|version| part(&group.name, &version.name)).collect();
        if !items.is_empty() {
            items.push(',');
        }
        items.push_str(r#"{"metadata":"#);
        items.push_str(&String::from_utf8_lossy(&metadata));
        items.push_str(r#","versions":["#);
        items.push_str(&versions.join(","));
        items.push_str("]}");
    }
    let api_version = match version {
        Aggregated::V2 => "apidiscovery.k8s.io/v2",
        Aggregated::V2Beta1 => "apidiscovery.k8s.io/v2beta1",
    };
    let content = format!(r#""metadata":{{}},"items":[{items}]}}"#);
    let head = format!(r#"{{"kind":"APIGroupDiscoveryList","apiVersion":"{api_version}","#);
    Tagged { etag: hash(format!("{{{content}").as_bytes()), json: format!("{head}{content}").into_bytes() }
}

/// The part of aggregated discovery for one group version, as JSON.
pub fn aggregated_version(served: &ServedResources, group: &str, version: &str) -> String {
    let resources = served.version(group, version).into_iter().flat_map(|version| &version.resources);
    let resources: Vec<Value> = resources.map(|resource| aggregated_resource(resource)).collect();
    let object = Object::new().with("version", version).with("resources", resources);
    let text = json(&object.with("freshness", "Current").into(), Escape::Markup);
    String::from_utf8_lossy(&text).into_owned()
}

fn aggregated_resource(resource: &ResourceType) -> Value {
    let below: Vec<Value> = subresources(resource)
        .map(|subresource| {
            let body = body(resource, &subresource.body);
            let kind = if body.version.is_empty() {
                own_kind(resource, body.kind)
            } else {
                response_kind(body.group, body.version, body.kind)
            };
            Object::new()
                .with("subresource", subresource.name)
                .with("responseKind", kind)
                .with("verbs", verbs(subresource.verbs))
                .into()
        })
        .collect();
    let object = Object::new()
        .with("resource", resource.resource.as_str())
        .with("responseKind", own_kind(resource, &resource.kind))
        .with("scope", if resource.is_namespaced() { "Namespaced" } else { "Cluster" })
        .with("singularResource", resource.singular.as_str())
        .with("verbs", texts(resource.announced_verbs()))
        .with_some("shortNames", some_texts(&resource.short_names))
        .with_some("categories", some_texts(&resource.categories));
    object.with_some("subresources", (!below.is_empty()).then_some(below)).into()
}

/// A kind in the group version of its resource. The reference does not name that of built-in kinds.
fn own_kind(resource: &ResourceType, kind: &str) -> Object {
    match resource.is_custom() {
        true => response_kind(&resource.group, &resource.version, kind),
        false => response_kind("", "", kind),
    }
}

fn response_kind(group: &str, version: &str, kind: &str) -> Object {
    Object::new().with("group", group).with("version", version).with("kind", kind)
}

fn of_group(object: Object, group: &Group) -> Object {
    let of_version = |GroupVersion { name, .. }: &GroupVersion| {
        Object::new().with("groupVersion", group_version(&group.name, name)).with("version", name.as_str())
    };
    let versions: Vec<Value> = group.versions.iter().map(|version| of_version(version).into()).collect();
    object
        .with("name", group.name.as_str())
        .with("versions", versions)
        .with_some("preferredVersion", group.versions.first().map(of_version))
}

fn of_resource(resource: &ResourceType) -> Object {
    Object::new()
        .with("name", resource.resource.as_str())
        .with("singularName", resource.singular.as_str())
        .with("namespaced", resource.is_namespaced())
        .with("kind", resource.kind.as_str())
        .with("verbs", texts(resource.announced_verbs()))
        .with_some("shortNames", some_texts(&resource.short_names))
        .with_some("categories", some_texts(&resource.categories))
        .with_some("storageVersionHash", storage_version_hash(resource))
}

fn of_subresource(resource: &ResourceType, subresource: &Subresource) -> Object {
    let body = body(resource, &subresource.body);
    let mut object = Object::new()
        .with("name", format!("{}/{}", resource.resource, subresource.name))
        .with("singularName", "")
        .with("namespaced", resource.is_namespaced());
    if !body.version.is_empty() {
        object = object.with("group", body.group).with("version", body.version);
    }
    object.with("kind", body.kind).with("verbs", verbs(subresource.verbs))
}

/// The kind of the bodies of a subresource; group and version only if they differ from those of the resource.
#[derive(Default)]
struct BodyKind<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

fn body<'a>(owner: &'a ResourceType, body: &'a SubresourceBody) -> BodyKind<'a> {
    match body {
        SubresourceBody::Object => BodyKind { kind: &owner.kind, ..BodyKind::default() },
        SubresourceBody::Options(kind) => BodyKind { kind, ..BodyKind::default() },
        SubresourceBody::Kind(ty) => match &ty().kind {
            Some(kind) if kind.group == owner.group => BodyKind { kind: &kind.kind, ..BodyKind::default() },
            Some(kind) => BodyKind { group: &kind.group, version: &kind.version, kind: &kind.kind },
            None => BodyKind::default(),
        },
    }
}

/// The subresources in the order of their names; of a custom kind, the status first.
fn subresources(resource: &ResourceType) -> impl Iterator<Item = &Subresource> {
    let mut sorted: Vec<_> = resource.subresources.iter().collect();
    sorted
        .sort_by_key(|subresource| (resource.is_custom() && subresource.name != "status", subresource.name));
    sorted.into_iter()
}

/// The storage version hash: it changes with the storage version.
fn storage_version_hash(resource: &ResourceType) -> Option<String> {
    let stored = resource.announced_storage.as_ref()?;
    Some(STANDARD.encode(digest(&SHA256, stored.as_bytes()).as_ref().get(..8)?))
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// By name.
fn verbs(verbs: &[Verb]) -> Value {
    let mut names: Vec<_> = verbs.iter().map(|verb| verb.as_str()).collect();
    names.sort_unstable();
    texts(names)
}

fn some_texts(list: &[Text]) -> Option<Value> {
    (!list.is_empty()).then(|| texts(list.iter().map(Text::as_str)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(document: Option<Document>) -> String {
        String::from_utf8(document.expect("a document").json()).expect("text")
    }

    #[test]
    fn core_versions_document_lists_server_addresses() {
        let address = Address { client_cidr: "0.0.0.0/0".into(), server_address: "10.0.0.1:6443".into() };
        assert_eq!(
            text(api_versions(&ServedResources::by_default(), &[address])),
            r#"{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.1:6443"}]}"#
        );
    }

    #[test]
    fn group_document_names_its_preferred_version() {
        assert_eq!(
            text(group(&ServedResources::by_default(), "autoscaling")),
            concat!(
                r#"{"kind":"APIGroup","apiVersion":"v1","name":"autoscaling","#,
                r#""versions":[{"groupVersion":"autoscaling/v2","version":"v2"},{"groupVersion":"autoscaling/v1","version":"v1"}],"#,
                r#""preferredVersion":{"groupVersion":"autoscaling/v2","version":"v2"}}"#
            )
        );
    }

    #[test]
    fn subresource_kind_of_another_group_has_group_and_version() {
        let resources = text(resources(&ServedResources::by_default(), "", "v1"));
        for expected in [
            r#"{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":"v1","kind":"Eviction","verbs":["create"]}"#,
            r#"{"name":"pods/exec","singularName":"","namespaced":true,"kind":"PodExecOptions","verbs":["create","get"]}"#,
            r#"{"name":"pods/binding","singularName":"","namespaced":true,"kind":"Binding","verbs":["create"]}"#,
        ] {
            assert!(resources.contains(expected), "{expected}");
        }
        assert!(resources.starts_with(r#"{"kind":"APIResourceList","groupVersion":"v1","resources":["#));
    }

    #[test]
    fn storage_version_hashes_match_the_reference() {
        let hash = |group: &str, resource: &str| {
            let everything = ServedResources::everything();
            let found = everything.group(group)?.versions.first()?.resources.iter();
            let mut found = found.filter(|known| known.resource == resource);
            storage_version_hash(found.next()?)
        };
        assert_eq!(hash("", "pods").as_deref(), Some("xPOwRZ+Yhw8="));
        assert_eq!(hash("apps", "deployments").as_deref(), Some("8aSe+NMegvE="));
        assert_eq!(
            hash("apiextensions.k8s.io", "customresourcedefinitions").as_deref(),
            Some("jfWCUB31mvA=")
        );
        assert_eq!(hash("events.k8s.io", "events"), hash("", "events"));
        assert_eq!(hash("authentication.k8s.io", "tokenreviews"), None);
    }

    #[test]
    fn group_versions_not_served_are_not_in_discovery() {
        let served = ServedResources::by_default();
        assert!(group(&served, "").is_none());
        assert!(group(&served, "nobody.example").is_none());
        assert!(resources(&served, "apps", "v9").is_none());
        assert!(resources(&served, "storage.k8s.io", "v1beta1").is_none());
        let apis = aggregated(&served, Root::Apis, Aggregated::V2Beta1).json;
        let apis = String::from_utf8(apis).expect("text");
        assert!(
            apis.starts_with(
                r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2beta1","#
            )
        );
        assert!(!apis.contains("v1alpha1"));
    }
}
