mod histories;

use super::*;
use crate::testing;
use cache::{Cache, Change, Field, Spec};
use std::collections::BTreeSet;

type Fixture = testing::Fixture<Node>;

impl Fixture {
    async fn new() -> Self {
        let pods = Spec::namespaced("pods").unwrap().field(Field::new("spec.nodeName").indexed());
        let [volumes, attachments] =
            ["persistentvolumes", "volumeattachments"].map(|name| Spec::cluster(name).unwrap());
        Self::with([pods, volumes, attachments], |of| {
            Node::new(of("pods"), of("persistentvolumes"), of("volumeattachments"))
        })
        .await
    }

    /// Puts a pod of a node: the fields of its spec besides.
    async fn pod(&self, key: &str, node: &str, spec: &str) {
        self.put("pods", key, &format!(r#""spec":{{"nodeName":"{node}",{spec}}}"#)).await;
    }

    /// The decision on a request of a node: `allow`, or the reason why not. The path is
    /// `resource[/subresource][.group]`, the object `[namespace/]name`, without a name `namespace/`.
    fn ask(&self, node: &str, verb: &'static str, path: &str, object: &str) -> String {
        self.ask_selecting(node, verb, path, object, "")
    }

    fn ask_selecting(
        &self,
        node: &str,
        verb: &'static str,
        path: &str,
        object: &str,
        fields: &str,
    ) -> String {
        let (path, group) = path.split_once('.').unwrap_or((path, ""));
        let (resource, subresource) = path.split_once('/').unwrap_or((path, ""));
        let (namespace, name) = object.split_once('/').unwrap_or(("", object));
        let target = Target::Resource {
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let selector = object::field_selector::Selector::parse(fields).unwrap();
        let fields = selector.requirements().unwrap().to_vec();
        let selectors = (!fields.is_empty()).then(|| Box::new(Selectors { fields, ..Selectors::default() }));
        shown(&self.authorizer, &user(node), &Attributes { selectors, ..Attributes::new(verb, target) })
    }

    /// What the graph holds, up to date.
    fn content(&self) -> BTreeSet<String> {
        self.authorizer.with_graph(Graph::content)
    }
}

fn node(cache: &Cache) -> Node {
    let of = |name| cache.resource(name).unwrap();
    Node::new(of("pods"), of("persistentvolumes"), of("volumeattachments"))
}

fn user(node: &str) -> User {
    let groups = vec![User::NODES.to_owned(), User::AUTHENTICATED.to_owned()];
    User { name: format!("system:node:{node}"), groups, ..User::default() }
}

fn shown(node: &Node, user: &User, attributes: &Attributes) -> String {
    let Deferred::Now(verdict) = node.decide(user, attributes) else { unreachable!() };
    assert_eq!(verdict.error, None);
    match verdict.decision {
        crate::Decision::Allow => "allow".into(),
        crate::Decision::NoOpinion => verdict.reason.to_string(),
        crate::Decision::Deny => unreachable!(),
    }
}

fn unrelated(node: &str) -> String {
    format!("no relationship found between node '{node}' and this object")
}

#[tokio::test]
async fn objects_that_pods_refer_to_are_related_to_their_node() {
    let fixture = Fixture::new().await;
    let spec = r#""serviceAccountName":"sa","imagePullSecrets":[{"name":"pull"},{}],
        "initContainers":[{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"init-env","key":"k"}}}]}],
        "containers":[{"envFrom":[{"secretRef":{"name":"env-from"}},{"configMapRef":{"name":"map-from"}}],
            "env":[{"name":"A","value":"x"},{"name":"B","valueFrom":{"configMapKeyRef":{"name":"map-env","key":"k"}}}]}],
        "ephemeralContainers":[{"envFrom":[{"secretRef":{"name":"debug"}}]}],
        "volumes":[{"name":"a","secret":{"secretName":"mounted"}},{"name":"b","configMap":{"name":"map-mounted"}},
            {"name":"c","projected":{"sources":[{"secret":{"name":"projected"}},{"configMap":{"name":"map-projected"}}]}},
            {"name":"d","persistentVolumeClaim":{"claimName":"claim"}},{"name":"e","ephemeral":{"volumeClaimTemplate":{}}},
            {"name":"f","azureFile":{"secretName":"azure"}},{"name":"g","cephfs":{"secretRef":{"name":"ceph"}}},
            {"name":"h","cinder":{"secretRef":{"name":"cinder"}}},{"name":"i","flexVolume":{"secretRef":{"name":"flex"}}},
            {"name":"j","rbd":{"secretRef":{"name":"rbd"}}},{"name":"k","scaleIO":{"secretRef":{"name":"scale"}}},
            {"name":"l","iscsi":{"secretRef":{"name":"iscsi"}}},{"name":"m","storageos":{"secretRef":{"name":"storageos"}}},
            {"name":"n","csi":{"nodePublishSecretRef":{"name":"csi"}}},{"name":"o","emptyDir":{}}],
        "resourceClaims":[{"name":"r","resourceClaimName":"device"},{"name":"s","resourceClaimTemplateName":"t"},
            {"name":"u","resourceClaimTemplateName":"t"}]"#;
    let status =
        r#""status":{"resourceClaimStatuses":[{"name":"s","resourceClaimName":"made"},{"name":"u"}]}"#;
    fixture.put("pods", "ns/p", &format!(r#""spec":{{"nodeName":"n1",{spec}}},{status}"#)).await;
    let of = |kind: &'static str, names: &'static [&'static str]| names.iter().map(move |name| (kind, *name));
    let all = of("configmaps", &["map-from", "map-env", "map-mounted", "map-projected"])
        .chain(of(
            "secrets",
            &["pull", "init-env", "env-from", "debug", "mounted", "projected", "azure", "ceph"],
        ))
        .chain(of("secrets", &["cinder", "flex", "rbd", "scale", "iscsi", "storageos", "csi"]))
        .chain(of("persistentvolumeclaims", &["claim", "p-e"]))
        .chain(of("resourceclaims.resource.k8s.io", &["device", "made"]))
        .chain(of("pods", &["p"]));
    for (resource, name) in all.clone() {
        let object = format!("ns/{name}");
        assert_eq!(fixture.ask("n1", "get", resource, &object), "allow", "{resource} {name}");
        assert_eq!(fixture.ask("n2", "get", resource, &object), unrelated("n2"), "{resource} {name}");
        let elsewhere = format!("other/{name}");
        assert_eq!(fixture.ask("n1", "get", resource, &elsewhere), unrelated("n1"), "{resource} {name}");
    }
    assert_eq!(fixture.ask("n1", "create", "serviceaccounts/token", "ns/sa"), "allow");
    assert_eq!(fixture.ask("n2", "create", "serviceaccounts/token", "ns/sa"), unrelated("n2"));
    let objects = fixture.authorizer.with_graph(|graph| graph.content());
    let held = objects.iter().filter(|line| line.ends_with(" 1")).count();
    assert_eq!(held, all.count(), "each object but the pod, and the service account");
}

#[tokio::test]
async fn volumes_of_claims_and_their_secrets_are_related_to_the_nodes_of_the_pods() {
    let fixture = Fixture::new().await;
    let claim = |name: &str| {
        format!(r#""volumes":[{{"name":"v","persistentVolumeClaim":{{"claimName":"{name}"}}}}]"#)
    };
    fixture.pod("ns/p", "n1", &claim("c")).await;
    fixture.pod("ns/q", "n2", &claim("d")).await;
    let volume = |claim: &str, source: &str| {
        format!(r#""spec":{{{source},"claimRef":{{"namespace":"ns","name":"{claim}"}}}}"#)
    };
    for (source, secret) in [
        (r#""azureFile":{"secretName":"s","secretNamespace":"far"}"#, "far/s"),
        (r#""azureFile":{"secretName":"s","secretNamespace":""}"#, "ns/s"),
        (r#""cephfs":{"secretRef":{"name":"s","namespace":"far"}}"#, "far/s"),
        (r#""cephfs":{"secretRef":{"name":"s"}}"#, "ns/s"),
        (r#""flexVolume":{"secretRef":{"name":"s"}}"#, "ns/s"),
        (r#""rbd":{"secretRef":{"name":"s"}}"#, "ns/s"),
        (r#""scaleIO":{"secretRef":{"name":"s"}}"#, "ns/s"),
        (r#""iscsi":{"secretRef":{"name":"s"}}"#, "ns/s"),
        (r#""cinder":{"secretRef":{"name":"s","namespace":"far"}}"#, "far/s"),
        (r#""storageos":{"secretRef":{"name":"s","namespace":"far"}}"#, "far/s"),
        (r#""csi":{"nodePublishSecretRef":{"name":"s","namespace":"far"}}"#, "far/s"),
        (r#""csi":{"nodeStageSecretRef":{"name":"s","namespace":"far"}}"#, "far/s"),
        (r#""csi":{"nodeExpandSecretRef":{"name":"s","namespace":"far"}}"#, "far/s"),
    ] {
        fixture.put("persistentvolumes", "pv", &volume("c", source)).await;
        assert_eq!(fixture.ask("n1", "get", "persistentvolumes", "pv"), "allow", "{source}");
        assert_eq!(fixture.ask("n1", "get", "secrets", secret), "allow", "{source}");
        assert_eq!(fixture.ask("n2", "get", "persistentvolumes", "pv"), unrelated("n2"), "{source}");
        assert_eq!(fixture.ask("n2", "get", "secrets", secret), unrelated("n2"), "{source}");
    }
    assert_eq!(
        fixture.ask("n1", "get", "persistentvolumes", "ns/pv"),
        unrelated("n1"),
        "volumes have no namespace"
    );
    let hidden = r#""csi":{"controllerPublishSecretRef":{"name":"x","namespace":"far"},"controllerExpandSecretRef":{"name":"x","namespace":"far"}}"#;
    fixture.put("persistentvolumes", "pv", &volume("c", hidden)).await;
    assert_eq!(fixture.ask("n1", "get", "secrets", "far/x"), unrelated("n1"));
    assert_eq!(fixture.ask("n1", "get", "secrets", "far/s"), unrelated("n1"), "the volume has it no more");

    let shared = r#""csi":{"nodeStageSecretRef":{"name":"s","namespace":"far"}}"#;
    fixture.put("persistentvolumes", "pv", &volume("c", shared)).await;
    fixture.put("persistentvolumes", "pw", &volume("d", shared)).await;
    assert_eq!(fixture.ask("n2", "get", "secrets", "far/s"), "allow");
    fixture
        .put(
            "persistentvolumes",
            "pw",
            r#""spec":{"csi":{"nodeStageSecretRef":{"name":"s","namespace":"far"}}}"#,
        )
        .await;
    assert_eq!(fixture.ask("n2", "get", "persistentvolumes", "pw"), unrelated("n2"), "it is for no claim");
    assert_eq!(fixture.ask("n2", "get", "secrets", "far/s"), unrelated("n2"));
    fixture.delete("pods", "ns/p").await;
    assert_eq!(fixture.ask("n1", "get", "persistentvolumes", "pv"), unrelated("n1"));
}

#[tokio::test]
async fn attachments_are_related_to_their_node() {
    let fixture = Fixture::new().await;
    let resource = "volumeattachments.storage.k8s.io";
    fixture.put("volumeattachments", "a", r#""spec":{"attacher":"x","nodeName":"n1","source":{}}"#).await;
    assert_eq!(fixture.ask("n1", "get", resource, "a"), "allow");
    assert_eq!(fixture.ask("n2", "get", resource, "a"), unrelated("n2"));
    assert_eq!(fixture.ask("n1", "list", resource, ""), "can only get individual resources of this type");
    fixture.put("volumeattachments", "a", r#""spec":{"nodeName":"n2"}"#).await;
    assert_eq!(fixture.ask("n1", "get", resource, "a"), unrelated("n1"));
    assert_eq!(fixture.ask("n2", "get", resource, "a"), "allow");
    fixture.delete("volumeattachments", "a").await;
    assert_eq!(fixture.ask("n2", "get", resource, "a"), unrelated("n2"));
    assert!(fixture.content().is_empty());
}

#[tokio::test]
async fn slices_are_related_to_their_node_only_with_dynamic_resource_allocation() {
    let resource = "resourceslices.resource.k8s.io";
    let specs = || {
        let slices = Spec::cluster("resourceslices").unwrap().field(Field::new("spec.nodeName").indexed());
        let pods = Spec::namespaced("pods").unwrap().field(Field::new("spec.nodeName").indexed());
        let [volumes, attachments] =
            ["persistentvolumes", "volumeattachments"].map(|name| Spec::cluster(name).unwrap());
        [pods, volumes, attachments, slices]
    };
    let of_pods = |of: &dyn Fn(&str) -> Arc<Resource>| {
        Node::new(of("pods"), of("persistentvolumes"), of("volumeattachments"))
    };
    let off = Fixture::with(specs(), |of| of_pods(&of)).await;
    let on = Fixture::with(specs(), |of| of_pods(&of).with_slices(of("resourceslices"))).await;
    for fixture in [&off, &on] {
        fixture.put("resourceslices", "a", r#""spec":{"driver":"d","nodeName":"n1"}"#).await;
        fixture.put("resourceslices", "b", r#""spec":{"driver":"d","allNodes":true}"#).await;
    }
    for verb in ["get", "update", "patch", "delete"] {
        assert_eq!(off.ask("n1", verb, resource, "a"), unrelated("n1"), "{verb}");
        assert_eq!(on.ask("n1", verb, resource, "a"), "allow", "{verb}");
        assert_eq!(on.ask("n2", verb, resource, "a"), unrelated("n2"), "{verb}");
        assert_eq!(on.ask("n1", verb, resource, "b"), unrelated("n1"), "{verb}");
        assert_eq!(on.ask("n1", verb, resource, ""), "No Object name found", "{verb}");
    }
    on.delete("resourceslices", "a").await;
    assert_eq!(on.ask("n1", "get", resource, "a"), unrelated("n1"));
}

#[tokio::test]
async fn nodes_read_all_pods_and_nodes_without_the_gate_for_selectors() {
    let specs = [
        Spec::namespaced("pods").unwrap().field(Field::new("spec.nodeName").indexed()),
        Spec::cluster("persistentvolumes").unwrap(),
        Spec::cluster("volumeattachments").unwrap(),
    ];
    let fixture = Fixture::with(specs, |of| {
        Node::new(of("pods"), of("persistentvolumes"), of("volumeattachments")).without_selectors()
    })
    .await;
    for (verb, resource, object, expected) in [
        ("list", "pods", "", "allow"),
        ("watch", "pods", "ns/", "allow"),
        ("get", "pods", "ns/p", "allow"),
        ("delete", "pods", "ns/p", "allow"),
        ("update", "pods/status", "ns/p", "allow"),
        ("create", "pods/eviction", "ns/p", "allow"),
        ("update", "pods", "ns/p", ""),
        ("deletecollection", "pods", "ns/", ""),
        ("list", "nodes", "", "allow"),
        ("get", "nodes", "n2", "allow"),
        ("patch", "nodes/status", "n1", "allow"),
        ("delete", "nodes", "n1", ""),
        ("list", "resourceslices.resource.k8s.io", "", "allow"),
        ("list", "secrets", "ns/", "No Object name found"),
    ] {
        assert_eq!(fixture.ask("n1", verb, resource, object), expected, "{verb} {resource} {object}");
    }
}

#[tokio::test]
async fn pods_count_from_their_binding_to_their_removal() {
    let fixture = Fixture::new().await;
    let volumes = r#""volumes":[{"name":"v","secret":{"secretName":"s"}}]"#;
    fixture.pod("ns/p", "", volumes).await;
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), unrelated("n1"));
    assert!(fixture.content().is_empty());
    fixture.pod("ns/p", "n1", volumes).await;
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), "allow");
    let finished = format!(r#""spec":{{"nodeName":"n1",{volumes}}},"status":{{"phase":"Succeeded"}}"#);
    fixture.put("pods", "ns/p", &finished).await;
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), "allow", "until it is removed");
    fixture.pod("ns/q", "n1", volumes).await;
    fixture.delete("pods", "ns/p").await;
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), "allow", "by another pod");
    assert_eq!(fixture.ask("n1", "get", "pods", "ns/p"), unrelated("n1"));
    fixture.delete("pods", "ns/q").await;
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), unrelated("n1"));
    assert!(fixture.content().is_empty());
}

#[tokio::test]
async fn mirror_pods_are_related_to_their_node_and_give_it_nothing() {
    let fixture = Fixture::new().await;
    let pods = fixture.cache.resource("pods").unwrap();
    let json = r#"{"metadata":{"name":"m","namespace":"ns","annotations":{"kubernetes.io/config.mirror":""}},
        "spec":{"nodeName":"n1","serviceAccountName":"sa","volumes":[{"name":"v","secret":{"secretName":"s"}}]}}"#;
    fixture.cache.commit(Change::put(&pods, "ns", "m", json)).await.unwrap();
    assert_eq!(fixture.ask("n1", "get", "pods", "ns/m"), "allow");
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), unrelated("n1"));
    assert_eq!(fixture.ask("n1", "create", "serviceaccounts/token", "ns/sa"), unrelated("n1"));
    fixture.delete("pods", "ns/m").await;
    assert_eq!(fixture.ask("n1", "get", "pods", "ns/m"), unrelated("n1"));
    assert!(fixture.content().is_empty());
}

#[tokio::test]
async fn pod_that_cannot_be_decoded_gives_nothing_until_it_is_mended() {
    let fixture = Fixture::new().await;
    fixture.pod("ns/p", "n1", r#""serviceAccountName":"a""#).await;
    assert_eq!(fixture.ask("n1", "create", "serviceaccounts/token", "ns/a"), "allow");
    fixture.pod("ns/p", "n1", r#""serviceAccountName":5"#).await;
    assert_eq!(fixture.ask("n1", "create", "serviceaccounts/token", "ns/a"), unrelated("n1"));
    fixture.pod("ns/p", "n1", r#""serviceAccountName":"b""#).await;
    assert_eq!(fixture.ask("n1", "create", "serviceaccounts/token", "ns/b"), "allow");
}

#[tokio::test]
async fn requests_for_related_objects_have_the_right_verb_and_a_name() {
    let fixture = Fixture::new().await;
    fixture.pod("ns/p", "n1", r#""serviceAccountName":"sa","imagePullSecrets":[{"name":"s"}]"#).await;
    let claim = r#""volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#;
    fixture.pod("ns/q", "n1", claim).await;
    let unrelated = &*unrelated("n1");
    for (verb, path, object, expected) in [
        ("get", "secrets", "ns/s", "allow"),
        ("list", "secrets", "ns/s", "allow"),
        ("watch", "secrets", "ns/s", "allow"),
        ("list", "secrets", "ns/", "No Object name found"),
        ("list", "secrets", "", "can only read namespaced object of this type"),
        ("get", "secrets/x", "ns/s", "cannot read subresource"),
        ("delete", "secrets", "ns/s", "can only read resources of this type"),
        ("get", "configmaps", "ns/x", unrelated),
        ("get", "persistentvolumeclaims", "ns/c", "allow"),
        ("get", "persistentvolumeclaims/x", "ns/c", "cannot get subresource"),
        ("list", "persistentvolumeclaims", "ns/", "can only get individual resources of this type"),
        ("get", "persistentvolumeclaims/status", "ns/c", "can only get/update/patch this type"),
        ("patch", "persistentvolumeclaims/status", "ns/c", "allow"),
        ("update", "persistentvolumeclaims/status", "ns/c", "allow"),
        ("update", "persistentvolumeclaims/status", "ns/d", unrelated),
        ("get", "persistentvolumes", "", "No Object name found"),
        ("get", "serviceaccounts", "ns/sa", "not allowed to get service accounts"),
        ("list", "serviceaccounts", "ns/", "can only create tokens for individual service accounts"),
        ("create", "serviceaccounts/token", "ns/", "can only create tokens for individual service accounts"),
        ("create", "serviceaccounts", "ns/sa", "can only create token subresource of serviceaccount"),
        ("create", "serviceaccounts/token", "ns/sa", "allow"),
        ("create", "serviceaccounts/token", "ns/other", unrelated),
        ("get", "pods", "ns/p", "allow"),
        ("get", "pods", "ns/x", unrelated),
        ("get", "pods/log", "ns/p", ""),
        ("list", "pods", "ns/", "can only list/watch pods with spec.nodeName field selector"),
        ("watch", "pods", "ns/p", "allow"),
        ("list", "pods", "ns/x", unrelated),
        ("create", "pods", "ns/", "allow"),
        ("delete", "pods", "ns/x", "allow"),
        ("patch", "pods", "ns/p", ""),
        ("deletecollection", "pods", "ns/", ""),
        ("patch", "pods/status", "ns/x", "allow"),
        ("get", "pods/status", "ns/p", ""),
        ("create", "pods/eviction", "ns/x", "allow"),
        ("create", "pods/exec", "ns/p", ""),
    ] {
        assert_eq!(fixture.ask("n1", verb, path, object), expected, "{verb} {path} {object}");
    }
}

#[tokio::test]
async fn lists_select_the_own_node() {
    let fixture = Fixture::new().await;
    let slices = "resourceslices.resource.k8s.io";
    let pods = "can only list/watch pods with spec.nodeName field selector";
    let slice = "can only list/watch/deletecollection resourceslices with nodeName field selector";
    for (verb, path, fields, expected) in [
        ("list", "pods", "spec.nodeName=n1", "allow"),
        ("watch", "pods", "status.phase=Pending,spec.nodeName=n1", "allow"),
        ("list", "pods", "spec.nodeName!=n1", pods),
        ("list", "pods", "spec.nodeName=n2", pods),
        ("list", "pods", "spec.host=n1", pods),
        ("list", slices, "spec.nodeName=n1", "allow"),
        ("deletecollection", slices, "spec.nodeName=n1", "allow"),
        ("watch", slices, "spec.nodeName=n2", slice),
    ] {
        assert_eq!(fixture.ask_selecting("n1", verb, path, "", fields), expected, "{verb} {path} {fields}");
    }
    for (verb, path, object, expected) in [
        ("create", "resourceslices.resource.k8s.io", "", "allow"),
        ("get", "resourceslices.resource.k8s.io", "x", &*unrelated("n1")),
        ("delete", "resourceslices.resource.k8s.io", "", "No Object name found"),
        ("create", "resourceslices/x.resource.k8s.io", "", "cannot authorize ResourceSlice subresources"),
        (
            "bind",
            "resourceslices.resource.k8s.io",
            "x",
            "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection",
        ),
    ] {
        assert_eq!(fixture.ask("n1", verb, path, object), expected, "{verb} {path} {object}");
    }
}

#[tokio::test]
async fn nodes_have_their_own_object_lease_and_csi_node() {
    let fixture = Fixture::new().await;
    let (leases, csi) = ("leases.coordination.k8s.io", "csinodes.storage.k8s.io");
    for (verb, path, object, expected) in [
        ("get", "nodes", "n1", "allow"),
        ("watch", "nodes", "n1", "allow"),
        ("get", "nodes", "n2", "node 'n1' cannot read 'n2', only its own Node object"),
        ("list", "nodes", "", "node 'n1' cannot read all nodes, only its own Node object"),
        ("create", "nodes", "", "allow"),
        ("patch", "nodes/status", "n2", "allow"),
        ("get", "nodes/status", "n1", ""),
        ("delete", "nodes", "n1", ""),
        ("get", "nodes/proxy", "n1", ""),
        ("get", leases, "kube-node-lease/n1", "allow"),
        ("create", leases, "kube-node-lease/", "allow"),
        ("delete", leases, "kube-node-lease/n1", "allow"),
        (
            "patch",
            leases,
            "kube-node-lease/n2",
            "can only access node lease with the same name as the requesting node",
        ),
        ("list", leases, "kube-node-lease/", "can only get, create, update, patch, or delete a node lease"),
        ("create", leases, "ns/", "can only access leases in the \"kube-node-lease\" system namespace"),
        ("get", csi, "n1", "allow"),
        ("create", csi, "", "allow"),
        ("update", csi, "n2", "can only access CSINode with the same name as the requesting node"),
        ("list", csi, "", "can only get, create, update, patch, or delete a CSINode"),
        ("get", "csinodes/x.storage.k8s.io", "n1", "cannot authorize CSINode subresources"),
    ] {
        assert_eq!(fixture.ask("n1", verb, path, object), expected, "{verb} {path} {object}");
    }
}

#[tokio::test]
async fn other_resources_have_rules_for_all_nodes() {
    let fixture = Fixture::new().await;
    for (verb, path, allowed) in [
        ("list", "services", true),
        ("create", "services", false),
        ("create", "events", true),
        ("list", "events", false),
        ("get", "endpoints", true),
        ("list", "endpoints", false),
        ("watch", "csidrivers.storage.k8s.io", true),
        ("get", "runtimeclasses.node.k8s.io", true),
        ("create", "tokenreviews.authentication.k8s.io", true),
        ("create", "localsubjectaccessreviews.authorization.k8s.io", true),
        ("create", "selfsubjectaccessreviews.authorization.k8s.io", false),
        ("watch", "certificatesigningrequests.certificates.k8s.io", true),
        ("patch", "certificatesigningrequests/approval.certificates.k8s.io", false),
        ("get", "clustertrustbundles.certificates.k8s.io", false),
        ("get", "secrets.example.com", false),
    ] {
        let expected = if allowed { "allow" } else { "" };
        assert_eq!(fixture.ask("n1", verb, path, "ns/x"), expected, "{verb} {path}");
    }
    assert_eq!(shown(&fixture.authorizer, &user("n1"), &Attributes::path("get", "/metrics")), "");
}

#[tokio::test]
async fn graph_is_for_requests_of_nodes_alone() {
    let fixture = Fixture::new().await;
    fixture.pod("ns/p", "n1", r#""imagePullSecrets":[{"name":"s"}]"#).await;
    let target = Target::Resource {
        group: String::new(),
        version: "v1".into(),
        resource: "secrets".into(),
        subresource: String::new(),
        namespace: "ns".into(),
        name: "s".into(),
    };
    let get = Attributes::new("get", target);
    let groupless = User { groups: vec![], ..user("n1") };
    let jane = User { name: "jane".into(), ..user("n1") };
    for other in [&groupless, &jane] {
        assert_eq!(shown(&fixture.authorizer, other, &get), "");
    }
    let nameless = "unknown node for user \"system:node:\"";
    assert_eq!(shown(&fixture.authorizer, &user(""), &get), nameless);
    assert!(!fixture.authorizer.state.read().unwrap().is_current(), "nothing was read");
    assert_eq!(shown(&fixture.authorizer, &user("n1"), &get), "allow");
    assert!(fixture.authorizer.state.read().unwrap().is_current());
}

#[tokio::test]
async fn rules_of_nodes_are_incomplete() {
    let fixture = Fixture::new().await;
    let rules = fixture.authorizer.rules(&user("n1"), "ns");
    assert!(rules.is_incomplete && rules.resources.is_empty());
    assert_eq!(rules.error.unwrap(), "node authorizer does not support user rule resolution");
    assert_eq!(fixture.authorizer.rules(&User::anonymous(), "ns"), Rules::default());
}

#[tokio::test]
async fn graph_starts_anew_when_the_log_is_gone() {
    let fixture = Fixture::new().await;
    fixture.pod("ns/p", "n1", r#""imagePullSecrets":[{"name":"s"}]"#).await;
    fixture.pod("ns/q", "n1", r#""imagePullSecrets":[{"name":"t"}]"#).await;
    fixture.put("persistentvolumes", "v", r#""spec":{"claimRef":{"namespace":"ns","name":"c"}}"#).await;
    fixture.put("volumeattachments", "a", r#""spec":{"nodeName":"n1"}"#).await;
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), "allow");
    fixture.delete("pods", "ns/p").await;
    fixture.delete("persistentvolumes", "v").await;
    fixture.delete("volumeattachments", "a").await;
    fixture.cache.forget(fixture.cache.committed()).await.unwrap();
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/s"), unrelated("n1"));
    assert_eq!(fixture.ask("n1", "get", "secrets", "ns/t"), "allow");
    assert_eq!(fixture.content(), node(&fixture.cache).with_graph(Graph::content));
}
