//! What users may grant: writes of roles and bindings by a user with few permissions.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::sync::Arc;

use auth::rbac::{GROUP, Rbac};
use auth::{Authenticators, Authorize, Authorizer, Credentials, SystemIdentity};
use cache::Cache;
use http::HeaderMap;
use registry::{
    Address, Client, Config, Escalation, Patch, Registry, Target, WriteHooks, WriteOptions, specs,
};
use schema::{Limits, Status, json};
use store::memory::Memory;

struct Fixture {
    registry: Arc<Registry>,
    admin: Client,
}

/// What all permissions of the user come from.
const GRANTS: &str = r#"{"metadata":{"name":"grants"},"rules":[
    {"verbs":["create","update","patch"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["*"]},
    {"verbs":["get","list"],"apiGroups":[""],"resources":["pods"]},
    {"verbs":["escalate"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles"],"resourceNames":["free"]},
    {"verbs":["bind"],"apiGroups":["rbac.authorization.k8s.io"],"resources":["roles","clusterroles"],"resourceNames":["free"]}]}"#;

fn of(resource: &'static str) -> Address<'static> {
    Address::v1(GROUP, resource, if resource.starts_with("cluster") { "" } else { "n" })
}

fn binding(kind: &str, role: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"b"}},"roleRef":{{"apiGroup":"{GROUP}","kind":"{kind}","name":"{role}"}},
            "subjects":[{{"kind":"User","apiGroup":"{GROUP}","name":"joe"}}]}}"#
    )
}

fn role(name: &str, resource: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}"}},"rules":[{{"verbs":["get"],"apiGroups":[""],"resources":["{resource}"]}}]}}"#
    )
}

impl Fixture {
    async fn new() -> Self {
        let store = Arc::new(Memory::default());
        let cache =
            Arc::new(Cache::open(store, specs().unwrap(), cache::CacheOptions::default()).await.unwrap());
        let kind = |name: &str| cache.resource(&format!("{name}.{GROUP}")).unwrap();
        let rbac = Arc::new(Rbac::new(
            kind("roles"),
            kind("clusterroles"),
            kind("rolebindings"),
            kind("clusterrolebindings"),
        ));
        let config = Config {
            authorizer: Authorizer::new([rbac.clone() as Arc<dyn Authorize>]),
            hooks: Escalation::add_to(WriteHooks::default(), &rbac),
            ..Config::new(&cache).unwrap()
        };
        let registry = Arc::new(Registry::new(cache, config).unwrap());
        let admin = Client::new(registry.clone(), SystemIdentity::ApiServer, "test");
        let fixture = Self { registry, admin };
        fixture.put(Address::core("namespaces", ""), r#"{"metadata":{"name":"n"}}"#).await;
        fixture.put(of("clusterroles"), GRANTS).await;
        let text = format!(
            r#"{{"metadata":{{"name":"grants"}},"roleRef":{{"apiGroup":"{GROUP}","kind":"ClusterRole","name":"grants"}},
                "subjects":[{{"kind":"User","apiGroup":"{GROUP}","name":"system:anonymous"}}]}}"#
        );
        fixture.put(of("clusterrolebindings"), &text).await;
        fixture
    }

    /// Creates an object as a member of `system:masters`.
    async fn put(&self, address: Address<'_>, text: &str) {
        let object = self.admin.decode(address, text).unwrap();
        self.admin.create(address, object).await.unwrap();
    }

    /// A write of the user: a POST without a name, a PUT, or a merge patch of what has no kind.
    async fn write(&self, verb: &'static str, address: Address<'_>, text: &str) -> Result<(), Status> {
        let target = auth::Target::Resource {
            group: address.group.into(),
            version: address.version.into(),
            resource: address.resource.into(),
            subresource: String::new(),
            namespace: address.namespace.into(),
            name: address.name.into(),
        };
        let credentials = Credentials { headers: &HeaderMap::new(), path: "/", certified: None };
        let caller = Authenticators::default().authenticate(&credentials).await.unwrap();
        let authorizer = &self.registry.config().authorizer;
        let proof = authorizer.authorize(caller, auth::Attributes::new(verb, target)).await.unwrap();
        let catalog = self.registry.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        let tree = || json::decode(&target.served().ty, text.as_bytes(), &Limits::REQUEST).unwrap().value;
        let options = WriteOptions::default();
        let outcome = match verb {
            "create" => self.registry.create(&target, tree(), &options).await,
            "update" => self.registry.update(&target, tree(), &options).await,
            _ => self.registry.patch(&target, Patch::Merge, text.as_bytes(), &options).await,
        };
        outcome.map(drop)
    }

    async fn refused(&self, verb: &'static str, address: Address<'_>, text: &str) -> (u16, String) {
        let status = self.write(verb, address, text).await.expect_err("the write is refused");
        (status.code, status.message)
    }
}

const SECRETS_MISSING: &str = "user \"system:anonymous\" (groups=[\"system:unauthenticated\"]) is attempting to grant RBAC \
    permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}";

#[tokio::test]
async fn role_may_grant_only_what_its_author_holds() {
    let fixture = Fixture::new().await;
    fixture.write("create", of("roles"), &role("a", "pods")).await.unwrap();
    let (code, message) = fixture.refused("create", of("roles"), &role("b", "secrets")).await;
    let expected = format!("roles.rbac.authorization.k8s.io \"b\" is forbidden: {SECRETS_MISSING}");
    assert_eq!((code, message), (403, expected));
    let stale = role("a", "secrets").replace(r#""name":"a""#, r#""name":"a","resourceVersion":"1""#);
    assert_eq!(fixture.refused("update", of("roles").named("a"), &stale).await.0, 403);
    assert_eq!(fixture.refused("update", of("roles").named("new"), &role("new", "secrets")).await.0, 403);
    let generated = role("", "secrets").replace(r#""name":"""#, r#""generateName":"g-""#);
    let (_, message) = fixture.refused("create", of("roles"), &generated).await;
    assert!(message.starts_with("roles.rbac.authorization.k8s.io is forbidden: user"), "{message}");
}

#[tokio::test]
async fn escalate_by_name_is_for_existing_roles() {
    let fixture = Fixture::new().await;
    assert_eq!(fixture.refused("create", of("roles"), &role("free", "secrets")).await.0, 403);
    fixture.put(of("roles"), &role("free", "pods")).await;
    fixture.write("update", of("roles").named("free"), &role("free", "secrets")).await.unwrap();
}

#[tokio::test]
async fn aggregation_rule_needs_every_permission() {
    let fixture = Fixture::new().await;
    let aggregating =
        r#"{"metadata":{"name":"x"},"aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}}"#;
    let expected = "clusterroles.rbac.authorization.k8s.io \"x\" is forbidden: \
                    must have cluster-admin privileges to use the aggregationRule";
    assert_eq!(fixture.refused("create", of("clusterroles"), aggregating).await.1, expected);
    fixture.put(of("clusterroles"), aggregating).await;
    let without = r#"{"metadata":{"name":"x"},"rules":[]}"#;
    assert_eq!(fixture.refused("update", of("clusterroles").named("x"), without).await.1, expected);
}

#[tokio::test]
async fn binding_needs_the_permissions_of_its_role_or_the_verb_bind() {
    let fixture = Fixture::new().await;
    fixture.put(of("roles"), &role("pods", "pods")).await;
    fixture.put(of("roles"), &role("secrets", "secrets")).await;
    let (code, message) = fixture.refused("create", of("rolebindings"), &binding("Role", "secrets")).await;
    let expected = format!("rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: {SECRETS_MISSING}");
    assert_eq!((code, message), (403, expected));
    fixture.write("create", of("rolebindings"), &binding("Role", "pods")).await.unwrap();
    let change = r#"{"subjects":[]}"#;
    fixture.write("patch", of("rolebindings").named("b"), change).await.unwrap();
    // The role does not exist, which is no matter for those who may bind it.
    fixture.write("create", of("clusterrolebindings"), &binding("ClusterRole", "free")).await.unwrap();
}

#[tokio::test]
async fn missing_role_is_not_found_under_the_resource_of_the_binding() {
    let fixture = Fixture::new().await;
    for (resource, kind, name, code, message) in [
        ("rolebindings", "Role", "lost", 404, "rolebindings.rbac.authorization.k8s.io \"lost\" not found"),
        (
            "clusterrolebindings",
            "ClusterRole",
            "lost",
            404,
            "clusterrolebindings.rbac.authorization.k8s.io \"lost\" not found",
        ),
        ("clusterrolebindings", "Role", "lost", 400, "Namespace parameter required."),
        ("rolebindings", "ClusterRole", "", 400, "Name parameter required."),
        ("rolebindings", "Odd", "lost", 500, "unsupported role reference kind: \"Odd\""),
    ] {
        let refused = fixture.refused("create", of(resource), &binding(kind, name)).await;
        assert_eq!(refused, (code, message.to_owned()));
    }
}

#[tokio::test]
async fn garbage_collection_may_change_what_it_owns() {
    let fixture = Fixture::new().await;
    fixture.put(of("roles"), &role("secrets", "secrets")).await;
    fixture.put(of("rolebindings"), &binding("Role", "secrets")).await;
    let finalizers = r#"{"metadata":{"finalizers":["example.com/x"]}}"#;
    let labels = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    for address in [of("roles").named("secrets"), of("rolebindings").named("b")] {
        fixture.write("patch", address, finalizers).await.unwrap();
        assert_eq!(fixture.refused("patch", address, labels).await.0, 403);
    }
}
