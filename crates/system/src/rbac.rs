//! The default roles and bindings, reconciled at every start as the reference does.
//!
//! A role or binding that is missing is created. An existing one gets the rules, subjects, labels and
//! annotations that it lacks and keeps what it has besides; a binding of another role is created anew. One
//! with the annotation `autoupdate: "false"` is left as it is. A start that finds everything in place writes
//! nothing.

use auth::rbac::{GROUP, PolicyRule, uncovered};
use object::{List, Map, Value};
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::view::View;
use schema::views::rbac::v1::ClusterRole;
use tokio::task::JoinSet;

/// One object a line: its resource and its JSON, without the label and the annotation that all have.
const DEFAULTS: &str = include_str!("rbac.txt");

/// What the gate `DynamicResourceAllocation` adds, in the same form.
const DEVICE_DEFAULTS: &str = include_str!("rbac_devices.txt");

/// What the gate `ClusterTrustBundle` adds, in the same form.
const TRUST_BUNDLE_DEFAULTS: &str = include_str!("rbac_trust_bundles.txt");

/// What the gate `StorageVersionAPI` adds, in the same form.
const STORAGE_VERSION_DEFAULTS: &str = include_str!("rbac_storage_versions.txt");

/// What the gates `ComponentFlagz` and `ComponentStatusz` add, by the path.
const PAGES: [(&str, &str); 2] = [
    (
        "/flagz",
        r#"clusterroles {"metadata":{"name":"system:monitoring"},"rules":[{"verbs":["get"],"nonResourceURLs":["/flagz"]}]}"#,
    ),
    (
        "/statusz",
        r#"clusterroles {"metadata":{"name":"system:monitoring"},"rules":[{"verbs":["get"],"nonResourceURLs":["/statusz"]}]}"#,
    ),
];

const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// How often an object is tried that another client changes at the same time.
const ATTEMPTS: usize = 4;

/// Creates or completes all default roles and bindings.
pub(super) async fn reconcile(client: &Client, gates: kinds::Gates, pages: &[&str]) -> Result<(), Status> {
    prime_aggregated_roles(client).await?;
    prime_public_info_viewer(client).await?;
    // All at the same time: the store commits what waits in one batch.
    let mut tasks = JoinSet::new();
    for default in defaults(client, gates, pages)? {
        let client = client.clone();
        tasks.spawn(async move {
            default.reconcile(&client).await.inspect_err(|error| {
                log::error!(resource = default.resource, name = default.name(), error:% = error.message; "a default of access control could not be reconciled");
            })
        });
    }
    super::finish(tasks).await
}

/// Leaves out what needs a gate that is off.
fn leave_out(defaults: &mut Vec<DefaultObject>, gates: kinds::Gates) {
    const WITHOUT_SERVICE_RANGES: &str = "system:controller:service-cidrs-controller";
    const WITHOUT_SELINUX_CHANGES: &str = "system:controller:selinux-warning-controller";
    defaults.retain(|one| match one.name() {
        WITHOUT_SERVICE_RANGES => gates.multi_cidr_service_allocator,
        WITHOUT_SELINUX_CHANGES => gates.selinux_change_policy,
        _ => true,
    });
    for one in defaults {
        let resource = match one.name() {
            "system:node-proxier" if !gates.multi_cidr_service_allocator => "servicecidrs",
            "system:kubelet-api-admin" if !gates.kubelet_fine_grained_authz => "nodes/configz",
            _ => continue,
        };
        let Some(rules) = one.object.as_map_mut().and_then(|object| object.get_mut("rules")) else {
            continue;
        };
        let names = |rule: &Value| list(rule, "resources").iter().any(|name| name.as_str() == Some(resource));
        let kept: Vec<Value> = match rules.as_list() {
            Some(rules) => rules.iter().filter(|rule| !names(rule)).cloned().collect(),
            None => continue,
        };
        *rules = Value::from_iter(kept);
    }
}

/// All default roles and bindings. A gate adds rules to some roles, and objects.
fn defaults(client: &Client, gates: kinds::Gates, pages: &[&str]) -> Result<Vec<DefaultObject>, Status> {
    let read = |line: &'static str| {
        let (resource, text) = line.split_once(' ').unwrap_or_default();
        DefaultObject::read(client, resource, text)
    };
    let mut defaults = DEFAULTS.lines().map(read).collect::<Result<Vec<_>, _>>()?;
    leave_out(&mut defaults, gates);
    let of_gates = [
        (gates.dynamic_resource_allocation, DEVICE_DEFAULTS),
        (gates.cluster_trust_bundle, TRUST_BUNDLE_DEFAULTS),
        (gates.storage_version_api, STORAGE_VERSION_DEFAULTS),
    ];
    let of_gates = of_gates.into_iter().filter(|(is_on, _)| *is_on).flat_map(|(_, lines)| lines.lines());
    let of_pages = PAGES.iter().filter(|(path, _)| pages.contains(path)).map(|(_, line)| *line);
    for line in of_gates.chain(of_pages) {
        let more = read(line)?;
        let is_it = |one: &&mut DefaultObject| one.resource == more.resource && one.name() == more.name();
        match defaults.iter_mut().find(is_it) {
            Some(role) => push(role.object.as_map_mut(), "rules", list(&more.object, "rules").to_vec()),
            None => defaults.push(more),
        }
    }
    Ok(defaults)
}

/// A role or binding that has to be there.
struct DefaultObject {
    resource: &'static str,
    object: Value,
}

/// What has to be done to an existing object.
#[derive(Debug, PartialEq)]
enum Plan {
    Keep,
    Update(Value),
    Recreate,
}

impl DefaultObject {
    fn read(client: &Client, resource: &'static str, text: &str) -> Result<Self, Status> {
        let mut object = client.decode(Address::v1(GROUP, resource, ""), text)?;
        add_missing(&mut object, "labels", [BOOTSTRAPPING]);
        add_missing(&mut object, "annotations", [(AUTO_UPDATE, "true")]);
        Ok(Self { resource, object })
    }

    fn name(&self) -> &str {
        meta(&self.object, "name")
    }

    fn address(&self) -> Address<'_> {
        Address::v1(GROUP, self.resource, meta(&self.object, "namespace")).named(self.name())
    }

    async fn reconcile(&self, client: &Client) -> Result<(), Status> {
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            outcome = self.attempt(client).await;
            match &outcome {
                Err(changed) if matches!(changed.code, 404 | 409) => {}
                _ => break,
            }
        }
        outcome
    }

    async fn attempt(&self, client: &Client) -> Result<(), Status> {
        let address = self.address();
        let existing = match client.get(address).await {
            Ok(existing) => existing,
            Err(absent) if absent.code == 404 => return self.create(client).await,
            Err(damaged) if registry::is_damaged(&damaged) => {
                log::error!(error:% = damaged.message; "the start goes on without a default of access control");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let plan = self.plan(&existing);
        if plan != Plan::Keep && entry(&existing, "annotations", AUTO_UPDATE) == Some("false") {
            let (resource, name) = (self.resource, self.name());
            log::warn!(resource, name; "a default of access control lacks permissions and is left so, because its annotation says so");
            return Ok(());
        }
        match plan {
            Plan::Keep => Ok(()),
            Plan::Update(object) => client.update(address, object).await.map(drop),
            Plan::Recreate => {
                let uid = Some(meta(&existing, "uid").to_owned());
                match client.delete(address, &DeleteOptions { uid, ..DeleteOptions::default() }).await {
                    Err(error) if error.code != 404 => Err(error),
                    _ => self.create(client).await,
                }
            }
        }
    }

    async fn create(&self, client: &Client) -> Result<(), Status> {
        client.create(self.address(), self.object.clone()).await.map(drop)
    }

    fn plan(&self, existing: &Value) -> Plan {
        let mut new = existing.clone();
        for field in ["labels", "annotations"] {
            add_missing(&mut new, field, entries(&self.object, field));
        }
        if self.resource.ends_with("bindings") {
            if self.object.get("roleRef") != existing.get("roleRef") {
                return Plan::Recreate;
            }
            self.add_subjects(&mut new);
        } else {
            self.add_rules(&mut new);
            self.fit_aggregation(&mut new);
        }
        if new == *existing { Plan::Keep } else { Plan::Update(new) }
    }

    fn add_subjects(&self, new: &mut Value) {
        let missing = lacking(list(new, "subjects"), list(&self.object, "subjects"));
        push(new.as_map_mut(), "subjects", missing);
    }

    fn add_rules(&self, new: &mut Value) {
        // A role has the same rules as a cluster role.
        let read = |role: &Value| role.as_map().map(|role| PolicyRule::read(ClusterRole::of(role).rules()));
        let (Some(held), Some(wanted)) = (read(new), read(&self.object)) else { return };
        let missing = uncovered(&held.iter().collect::<Vec<_>>(), &wanted);
        push(new.as_map_mut(), "rules", missing.iter().map(PolicyRule::to_value).collect());
    }

    fn fit_aggregation(&self, new: &mut Value) {
        const RULE: &str = "aggregationRule";
        const SELECTORS: &str = "clusterRoleSelectors";
        let Some(new) = new.as_map_mut() else { return };
        let Some(wanted) = self.object.get(RULE) else {
            new.remove(RULE);
            return;
        };
        let rule = new.get_or_insert_with(RULE, || Map::new().into());
        let missing = lacking(list(rule, SELECTORS), list(wanted, SELECTORS));
        push(rule.as_map_mut(), SELECTORS, missing);
    }
}

/// Before a role of the system became one that aggregates others, it had rules of its own. They go to the
/// role that holds them now.
async fn prime_aggregated_roles(client: &Client) -> Result<(), Status> {
    for (old, new) in [
        ("admin", "system:aggregate-to-admin"),
        ("edit", "system:aggregate-to-edit"),
        ("view", "system:aggregate-to-view"),
    ] {
        let roles = Address::v1(GROUP, "clusterroles", "");
        if find(client, roles.named(new)).await?.is_some() {
            continue;
        }
        let Some(mut role) = find(client, roles.named(old)).await? else { continue };
        if role.get("aggregationRule").is_some() {
            continue;
        }
        rename(&mut role, new);
        super::unless_there(client.create(roles, role).await)?;
    }
    Ok(())
}

/// The binding `system:public-info-viewer` starts with the subjects of `system:discovery`, which it was a
/// part of.
async fn prime_public_info_viewer(client: &Client) -> Result<(), Status> {
    const NEW: &str = "system:public-info-viewer";
    let bindings = Address::v1(GROUP, "clusterrolebindings", "");
    let Some(mut binding) = find(client, bindings.named("system:discovery")).await? else { return Ok(()) };
    if find(client, bindings.named(NEW)).await?.is_some() {
        return Ok(());
    }
    rename(&mut binding, NEW);
    let role = binding.as_map_mut().and_then(|binding| binding.get_mut("roleRef"));
    if let Some(role) = role.and_then(Value::as_map_mut) {
        role.insert("name", NEW);
    }
    super::unless_there(client.create(bindings, binding).await)
}

async fn find(client: &Client, address: Address<'_>) -> Result<Option<Value>, Status> {
    match client.get(address).await {
        Ok(found) => Ok(Some(found)),
        // What cannot be read is no source of anything, and is reported when it is reconciled.
        Err(absent) if absent.code == 404 || registry::is_damaged(&absent) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A new object with the labels and annotations of another.
fn rename(object: &mut Value, name: &str) {
    let Some(metadata) = object.as_map_mut().and_then(|object| object.get_mut("metadata")) else { return };
    if let Some(metadata) = metadata.as_map_mut() {
        metadata.retain(|key, _| matches!(key.as_str(), "labels" | "annotations"));
        metadata.insert("name", name);
    }
}

/// A text of the metadata.
fn meta<'o>(object: &'o Value, field: &str) -> &'o str {
    let value = object.get("metadata").and_then(|metadata| metadata.get(field));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// The entries of a map of the metadata.
fn entries<'o>(object: &'o Value, field: &str) -> Vec<(&'o str, &'o str)> {
    let map = object.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_map);
    let entry = |(key, value): (&'o object::Key, &'o Value)| Some((key.as_str(), value.as_str()?));
    map.into_iter().flat_map(Map::iter).filter_map(entry).collect()
}

fn entry<'o>(object: &'o Value, field: &str, key: &str) -> Option<&'o str> {
    entries(object, field).into_iter().find(|(of, _)| *of == key).map(|(_, value)| value)
}

/// Adds the entries that a map of the metadata lacks.
fn add_missing<'e>(
    object: &mut Value,
    field: &'static str,
    wanted: impl IntoIterator<Item = (&'e str, &'e str)>,
) {
    let Some(metadata) = object.as_map_mut().and_then(|object| object.get_mut("metadata")) else { return };
    for (key, value) in wanted {
        let Some(metadata) = metadata.as_map_mut() else { return };
        if let Some(map) = metadata.get_or_insert_with(field, || Map::new().into()).as_map_mut()
            && !map.contains_key(key)
        {
            map.insert(key, value);
        }
    }
}

fn list<'o>(object: &'o Value, field: &str) -> &'o [Value] {
    object.get(field).and_then(Value::as_list).unwrap_or_default()
}

/// The items that a list lacks, each once.
fn lacking(held: &[Value], wanted: &[Value]) -> Vec<Value> {
    let mut missing: Vec<Value> = Vec::new();
    for item in wanted {
        if !held.contains(item) && !missing.contains(item) {
            missing.push(item.clone());
        }
    }
    missing
}

fn push(object: Option<&mut Map>, field: &'static str, items: Vec<Value>) {
    if let (Some(object), false) = (object, items.is_empty()) {
        let list = object.get_or_insert_with(field, || List::new().into());
        if !matches!(list, Value::List(_)) {
            *list = List::new().into();
        }
        if let Some(list) = list.as_list_mut() {
            items.into_iter().for_each(|item| list.push(item));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::SystemIdentity;

    async fn client() -> Client {
        Client::new(crate::testing::registry().await, SystemIdentity::ApiServer, "test")
    }

    fn of(resource: &'static str) -> Address<'static> {
        Address::v1(GROUP, resource, "")
    }

    async fn edit(client: &Client, address: Address<'_>, change: impl FnOnce(&mut Value)) {
        let mut object = client.get(address).await.unwrap();
        change(&mut object);
        client.update(address, object).await.unwrap();
    }

    fn set(object: &mut Value, field: &'static str, json: &str) {
        let ty = schema::json::decode_shape(&schema::Shape::Any, json.as_bytes(), &schema::Limits::REQUEST);
        object.as_map_mut().unwrap().insert(field, ty.unwrap().value);
    }

    fn json(object: &Value, field: &str) -> String {
        let mut out = Vec::new();
        let value = object.get(field).unwrap_or(&Value::Null);
        schema::json::encode_shape(&schema::Shape::Any, value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn first_start_creates_all_defaults_and_the_second_writes_nothing() {
        let client = client().await;
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let mut count = 0;
        for resource in ["clusterroles", "clusterrolebindings", "roles", "rolebindings"] {
            let objects = client.list_objects(of(resource)).await.unwrap();
            for object in &objects {
                assert_eq!(entry(object, "labels", BOOTSTRAPPING.0), Some(BOOTSTRAPPING.1));
                assert_eq!(entry(object, "annotations", AUTO_UPDATE), Some("true"));
            }
            count += objects.len();
        }
        assert_eq!(count, DEFAULTS.lines().count());
        let admin = client.get(of("clusterroles").named("cluster-admin")).await.unwrap();
        assert_eq!(
            json(&admin, "rules"),
            r#"[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]},{"nonResourceURLs":["*"],"verbs":["*"]}]"#
        );
        let before = client.registry().cache().committed();
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        assert_eq!(client.registry().cache().committed(), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_needs_a_gate_that_is_off_is_left_out() {
        let client = client().await;
        let gates = kinds::Gates {
            multi_cidr_service_allocator: false,
            selinux_change_policy: false,
            kubelet_fine_grained_authz: false,
            ..kinds::Gates::default()
        };
        reconcile(&client, gates, &[]).await.unwrap();
        for name in ["service-cidrs-controller", "selinux-warning-controller"] {
            for resource in ["clusterroles", "clusterrolebindings"] {
                let absent = client.get(of(resource).named(&format!("system:controller:{name}"))).await;
                assert_eq!(absent.unwrap_err().code, 404, "{resource} {name}");
            }
        }
        for (role, absent, present) in [
            ("system:node-proxier", "servicecidrs", "endpointslices"),
            ("system:kubelet-api-admin", "nodes/configz", "nodes/proxy"),
        ] {
            let rules = json(&client.get(of("clusterroles").named(role)).await.unwrap(), "rules");
            assert!(!rules.contains(absent) && rules.contains(present), "{rules}");
        }
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let rules =
            json(&client.get(of("clusterroles").named("system:node-proxier")).await.unwrap(), "rules");
        assert!(rules.contains("servicecidrs"), "{rules}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn gates_add_rules_to_default_roles() {
        let client = client().await;
        let gates = kinds::Gates { dynamic_resource_allocation: true, ..kinds::Gates::default() };
        reconcile(&client, gates, &["/flagz"]).await.unwrap();
        for (role, last) in [
            ("system:monitoring", r#"{"nonResourceURLs":["/flagz"],"verbs":["get"]}]"#),
            (
                "system:node",
                r#"{"apiGroups":["resource.k8s.io"],"resources":["resourceslices"],"verbs":["deletecollection"]}]"#,
            ),
            (
                "system:aggregate-to-view",
                r#"{"apiGroups":["resource.k8s.io"],"resources":["resourceclaims","resourceclaims/status","resourceclaimtemplates"],"verbs":["get","list","watch"]}]"#,
            ),
            (
                "system:controller:resource-claim-controller",
                r#"{"apiGroups":["","events.k8s.io"],"resources":["events"],"verbs":["create","patch","update"]}]"#,
            ),
        ] {
            let role = client.get(of("clusterroles").named(role)).await.unwrap();
            assert!(json(&role, "rules").ends_with(last), "{}", json(&role, "rules"));
        }
        let before = client.registry().cache().committed();
        reconcile(&client, gates, &["/flagz"]).await.unwrap();
        assert_eq!(client.registry().cache().committed(), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn roles_get_what_they_lack_and_keep_what_they_have_besides() {
        let client = client().await;
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let role = of("clusterroles").named("system:public-info-viewer");
        edit(&client, role, |role| {
            set(
                role,
                "rules",
                r#"[{"verbs":["list"],"apiGroups":[""],"resources":["pods"]},
                    {"verbs":["get"],"nonResourceURLs":["/healthz","/livez","/readyz"]}]"#,
            );
            set(role, "aggregationRule", r#"{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}"#);
            let metadata = role.as_map_mut().unwrap().get_mut("metadata").unwrap().as_map_mut().unwrap();
            metadata.remove("annotations");
            metadata.get_mut("labels").unwrap().as_map_mut().unwrap().insert(BOOTSTRAPPING.0, "mine");
        })
        .await;
        let aggregated = of("clusterroles").named("view");
        edit(&client, aggregated, |role| {
            set(role, "rules", r#"[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#);
            set(role, "aggregationRule", r#"{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}"#);
        })
        .await;
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let role = client.get(role).await.unwrap();
        assert_eq!(
            json(&role, "rules"),
            r#"[{"apiGroups":[""],"resources":["pods"],"verbs":["list"]},{"nonResourceURLs":["/healthz","/livez","/readyz"],"verbs":["get"]},{"nonResourceURLs":["/version"],"verbs":["get"]},{"nonResourceURLs":["/version/"],"verbs":["get"]}]"#
        );
        assert_eq!(role.get("aggregationRule"), None);
        assert_eq!(entry(&role, "annotations", AUTO_UPDATE), Some("true"));
        assert_eq!(entry(&role, "labels", BOOTSTRAPPING.0), Some("mine"));
        let aggregated = client.get(aggregated).await.unwrap();
        assert_eq!(
            json(&aggregated, "aggregationRule"),
            r#"{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}},{"matchLabels":{"rbac.authorization.k8s.io/aggregate-to-view":"true"}}]}"#
        );
        assert_eq!(list(&aggregated, "rules").len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn bindings_get_missing_subjects_and_are_created_anew_for_another_role() {
        let client = client().await;
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let (basic, node) = (
            of("clusterrolebindings").named("system:basic-user"),
            of("clusterrolebindings").named("system:node"),
        );
        edit(&client, basic, |binding| {
            set(
                binding,
                "subjects",
                r#"[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"jane"}]"#,
            );
        })
        .await;
        let mut other = client.get(node).await.unwrap();
        let uid = meta(&other, "uid").to_owned();
        client.delete(node, &DeleteOptions::default()).await.unwrap();
        set(
            &mut other,
            "roleRef",
            r#"{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"}"#,
        );
        rename(&mut other, "system:node");
        client.create(of("clusterrolebindings"), other).await.unwrap();
        client
            .delete(of("clusterrolebindings").named("system:public-info-viewer"), &DeleteOptions::default())
            .await
            .unwrap();
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let names = |binding: &Value| {
            let names = list(binding, "subjects").iter().filter_map(|subject| subject.get("name")?.as_str());
            names.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(names(&client.get(basic).await.unwrap()), ["jane", "system:authenticated"]);
        let node = client.get(node).await.unwrap();
        assert_eq!(node.get("roleRef").unwrap().get("name").unwrap().as_str(), Some("system:node"));
        assert_ne!(meta(&node, "uid"), uid);
        let viewer = client.get(of("clusterrolebindings").named("system:public-info-viewer")).await.unwrap();
        assert_eq!(names(&viewer), ["system:authenticated", "system:unauthenticated"]);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn annotation_protects_from_changes() {
        let client = client().await;
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let role = of("clusterroles").named("system:discovery");
        edit(&client, role, |role| {
            set(role, "rules", "[]");
            let metadata = role.as_map_mut().unwrap().get_mut("metadata").unwrap().as_map_mut().unwrap();
            metadata.get_mut("annotations").unwrap().as_map_mut().unwrap().insert(AUTO_UPDATE, "false");
        })
        .await;
        let before = client.registry().cache().committed();
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        assert_eq!(client.registry().cache().committed(), before);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn rules_of_a_role_that_aggregates_others_now_are_kept() {
        let client = client().await;
        let roles = of("clusterroles");
        let text = r#"{"metadata":{"name":"view","labels":{"a":"b"}},"rules":[{"verbs":["x"],"apiGroups":[""],"resources":["pods"]}]}"#;
        client.create(roles, client.decode(roles, text).unwrap()).await.unwrap();
        reconcile(&client, kinds::Gates::default(), &[]).await.unwrap();
        let part = client.get(roles.named("system:aggregate-to-view")).await.unwrap();
        assert_eq!(list(&part, "rules")[0].get("verbs").unwrap().as_list().unwrap()[0].as_str(), Some("x"));
        assert!(list(&part, "rules").len() > 10);
        assert_eq!(entry(&part, "labels", "a"), Some("b"));
    }
}
