//! What kubelets may change.

use super::*;
use crate::testing::{Fixture, Write};
use auth::{AlwaysDeny, User};

const POD: &str = r#""kind":"Pod","apiVersion":"v1""#;

fn kubelet(node: &str) -> User {
    let groups = vec![User::NODES.to_owned()];
    User { name: format!("{}{node}", User::NODE_PREFIX), groups, ..User::default() }
}

/// A server with the node `n1`, the pod `mine` on it, and the pod `theirs` elsewhere; only `system:masters`
/// may do anything.
async fn fixture() -> (Fixture, NodeRestriction) {
    let mut fixture = Fixture::new().await;
    fixture.authorizer = Authorizer::new([Arc::new(AlwaysDeny) as Arc<dyn auth::Authorize>]);
    fixture.put("nodes", r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u1"}}"#).await;
    for (name, node) in [("mine", "n1"), ("theirs", "n2")] {
        let json = format!(
            r#"{{{POD},"metadata":{{"name":"{name}","namespace":"n","uid":"{name}-uid"}},"spec":{{"nodeName":"{node}","volumes":[
                {{"name":"t","projected":{{"sources":[{{"serviceAccountToken":{{"audience":"vault","path":"t"}}}}]}}}},
                {{"name":"c","csi":{{"driver":"inline"}}}},
                {{"name":"e","ephemeral":{{"volumeClaimTemplate":{{"spec":{{}}}}}}}},
                {{"name":"d","gcePersistentDisk":{{"pdName":"x"}}}}]}}}}"#
        );
        fixture.put("pods", &json).await;
    }
    let plugin = fixture.make(None).unwrap();
    (fixture, plugin)
}

async fn why(plugin: &NodeRestriction, write: Write<'_>) -> String {
    let write = Write { user: kubelet("n1"), ..write };
    let refused = write.mutate(plugin).await.err();
    let message = refused.map(|status| status.message).unwrap_or_default();
    message.split_once(" is forbidden: ").map_or(message.clone(), |(_, why)| why.to_owned())
}

fn mirror(spec: &str) -> String {
    let owner = r#"[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"u1","controller":true}]"#;
    mirror_of(owner, "n1", spec)
}

fn mirror_of(owners: &str, node: &str, spec: &str) -> String {
    format!(
        r#"{{{POD},"metadata":{{"name":"m","namespace":"n","annotations":{{"kubernetes.io/config.mirror":"x"}},"ownerReferences":{owners}}},"spec":{{"nodeName":"{node}"{spec}}}}}"#
    )
}

#[tokio::test]
async fn other_users_are_not_restricted_and_a_node_without_a_name_is() {
    let (_fixture, plugin) = fixture().await;
    let node = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"other"}}"#;
    assert!(Write::create("nodes", node).mutate(&plugin).await.is_ok());
    let nameless = Write { user: kubelet(""), ..Write::create("nodes", node) };
    assert_eq!(
        nameless.mutate(&plugin).await.unwrap_err().message,
        r#"nodes "other" is forbidden: could not determine node from user "system:node:""#
    );
}

#[tokio::test]
async fn nodes_make_mirror_pods_that_refer_to_nothing() {
    let (_fixture, plugin) = fixture().await;
    let create = async |pod: String| why(&plugin, Write::create("pods", &pod)).await;
    assert_eq!(create(mirror("")).await, "");
    let plain = format!(r#"{{{POD},"metadata":{{"name":"m","namespace":"n"}}}}"#);
    assert_eq!(
        create(plain).await,
        r#"pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods"#
    );
    let owner = |more: &str| format!(r#"{{"apiVersion":"v1","kind":"Node","name":"n1","uid":"u1"{more}}}"#);
    let owned = |more: &str| format!("[{}]", owner(more));
    for (owners, node, expected) in [
        (owned(""), "n2", r#"node "n1" can only create pods with spec.nodeName set to itself"#),
        ("[]".into(), "n1", r#"node "n1" can only create pods with an owner reference set to itself"#),
        (
            owned("").replace("Node", "Pod"),
            "n1",
            r#"node "n1" can only create pods with an owner reference set to itself"#,
        ),
        (
            format!("[{},{}]", owner(""), owner("")),
            "n1",
            r#"node "n1" can only create pods with a single owner reference set to itself"#,
        ),
        (
            owned(r#","controller":false"#),
            "n1",
            r#"node "n1" can only create pods with a controller owner reference set to itself"#,
        ),
        (
            owned(r#","controller":true,"blockOwnerDeletion":true"#),
            "n1",
            r#"node "n1" must not set blockOwnerDeletion on an owner reference"#,
        ),
        (
            owned(r#","controller":true"#).replace("u1", "u2"),
            "n1",
            "node n1 UID mismatch: expected u2 got u1",
        ),
    ] {
        assert_eq!(create(mirror_of(&owners, node, "")).await, expected);
    }
    for (spec, expected) in [
        (r#","serviceAccountName":"a""#, "a service account"),
        (r#","volumes":[{"name":"v","secret":{"secretName":"s"}}]"#, "secrets"),
        (r#","containers":[{"name":"c","envFrom":[{"configMapRef":{"name":"m"}}]}]"#, "configmaps"),
        (
            r#","volumes":[{"name":"v","projected":{"sources":[{"clusterTrustBundle":{"path":"p"}}]}}]"#,
            "clustertrustbundles",
        ),
        (r#","volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c"}}]"#, "persistentvolumeclaims"),
        (r#","resourceClaims":[{"name":"r"}]"#, "resourceclaims"),
    ] {
        let expected = format!(r#"node "n1" can not create pods that reference {expected}"#);
        assert_eq!(create(mirror(spec)).await, expected);
    }
}

#[tokio::test]
async fn nodes_delete_evict_and_report_on_their_own_pods() {
    let (_fixture, plugin) = fixture().await;
    let pod = |name: &str, node: &str, more: &str| {
        format!(
            r#"{{{POD},"metadata":{{"name":"{name}","namespace":"n"{more}}},"spec":{{"nodeName":"{node}"}}}}"#
        )
    };
    let (mine, theirs) = (pod("mine", "n1", ""), pod("theirs", "n2", ""));
    let delete =
        |old| Write { operation: Operation::Delete, old: Some(old), new: None, ..Write::create("pods", "") };
    assert_eq!(why(&plugin, delete(&mine)).await, "");
    assert_eq!(
        why(&plugin, delete(&theirs)).await,
        r#"node "n1" can only delete pods with spec.nodeName set to itself"#
    );
    let status = |old, new| Write { subresource: "status", ..Write::update("pods", old, new) };
    assert_eq!(why(&plugin, status(&mine, &mine)).await, "");
    assert_eq!(
        why(&plugin, status(&theirs, &theirs)).await,
        r#"node "n1" can only update pod status for pods with spec.nodeName set to itself"#
    );
    let labelled = pod("mine", "n1", r#","labels":{"a":"b"}"#);
    assert_eq!(
        why(&plugin, status(&mine, &labelled)).await,
        r#"node "n1" cannot update labels through pod status"#
    );
    let claimed = mine.replace(
        r#""spec""#,
        r#""status":{"resourceClaimStatuses":[{"name":"c","resourceClaimName":"d"}]},"spec""#,
    );
    assert_eq!(
        why(&plugin, status(&mine, &claimed)).await,
        r#"node "n1" cannot update resource claim statues"#
    );
    assert_eq!(
        why(&plugin, Write::update("pods", &mine, &mine)).await,
        r#"unexpected operation "UPDATE", node "n1" can only create and delete mirror pods"#
    );
    for (name, expected) in [
        ("mine", ""),
        ("theirs", "node n1 can only evict pods with spec.nodeName set to itself"),
        ("none", r#"pod "none" not found"#),
    ] {
        let eviction = format!(
            r#"{{"kind":"Eviction","apiVersion":"policy/v1","metadata":{{"name":"{name}","namespace":"n"}}}}"#
        );
        let evict = Write { subresource: "eviction", ..Write::create("pods", &eviction) };
        assert_eq!(why(&plugin, evict).await, expected);
    }
    let resize = Write { subresource: "resize", ..Write::update("pods", &mine, &mine) };
    assert_eq!(
        why(&plugin, resize).await,
        r#"unexpected pod subresource "resize", only 'status' and 'eviction' are allowed"#
    );
}

#[tokio::test]
async fn nodes_change_their_own_node_but_not_what_steers_pods_to_it() {
    let (_fixture, plugin) = fixture().await;
    let node = |name: &str, labels: &str, more: &str| {
        format!(
            r#"{{"kind":"Node","apiVersion":"v1","metadata":{{"name":"{name}","labels":{{{labels}}}{more}}}}}"#
        )
    };
    let plain = node("n1", "", "");
    assert_eq!(why(&plugin, Write::create("nodes", &plain)).await, "");
    assert_eq!(
        why(&plugin, Write::create("nodes", &node("n2", "", ""))).await,
        r#"node "n1" is not allowed to modify node "n2""#
    );
    let allowed = r#""kubernetes.io/os":"l","x.node.kubernetes.io/y":"1","kubelet.kubernetes.io/z":"1","own":"1","example.com/a":"1""#;
    assert_eq!(why(&plugin, Write::create("nodes", &node("n1", allowed, ""))).await, "");
    let forbidden = r#""foo.kubernetes.io/x":"1","a.k8s.io/z":"1","b.node-restriction.kubernetes.io/x":"1","notkubernetes.io/x":"1""#;
    assert_eq!(
        why(&plugin, Write::create("nodes", &node("n1", forbidden, ""))).await,
        r#"node "n1" is not allowed to set the following labels: a.k8s.io/z, b.node-restriction.kubernetes.io/x, foo.kubernetes.io/x"#
    );
    let role = node("n1", r#""node-role.kubernetes.io/control-plane":"""#, "");
    let update = async |old: &str, new: &str| why(&plugin, Write::update("nodes", old, new)).await;
    assert_eq!(update(&role, &role).await, "");
    for (old, new) in [(&plain, &role), (&role, &plain)] {
        assert_eq!(
            update(old, new).await,
            "is not allowed to modify labels: node-role.kubernetes.io/control-plane"
        );
    }
    let tainted =
        plain.replace(r#""metadata""#, r#""spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},"metadata""#);
    assert_eq!(update(&tainted, &plain).await, r#"node "n1" is not allowed to modify taints"#);
    let owned =
        node("n1", "", r#","ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"y"}]"#);
    assert_eq!(update(&plain, &owned).await, r#"node "n1" is not allowed to modify ownerReferences"#);
    let configured = plain.replace(r#""metadata""#, r#""spec":{"configSource":{}},"metadata""#);
    assert_eq!(update(&configured, &configured).await, "");
    assert_eq!(update(&configured, &plain).await, "");
    assert_eq!(
        update(&plain, &configured).await,
        r#"node "n1" is not allowed to update configSource to a new non-nil configSource"#
    );
    assert_eq!(
        why(&plugin, Write::create("nodes", &configured)).await,
        r#"node "n1" is not allowed to create pods with a non-nil configSource"#
    );
}

#[tokio::test]
async fn nodes_report_sizes_and_conditions_of_claims() {
    let (_fixture, plugin) = fixture().await;
    let claim = |metadata: &str, status: &str| {
        format!(
            r#"{{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{{"name":"c","namespace":"n"{metadata}}},"status":{{{status}}}}}"#
        )
    };
    let old = claim(r#","resourceVersion":"1""#, r#""phase":"Bound""#);
    let resource = "persistentvolumeclaims";
    let status = |new| Write { subresource: "status", ..Write::update(resource, &old, new) };
    let resized = claim(
        "",
        r#""phase":"Bound","capacity":{"storage":"2Gi"},"conditions":[{"type":"Resizing","status":"True"}],"allocatedResources":{"storage":"2Gi"}"#,
    );
    assert_eq!(why(&plugin, status(&resized)).await, "");
    let changed = claim(r#","labels":{"a":"b"}"#, r#""phase":"Lost""#);
    assert_eq!(
        why(&plugin, status(&changed)).await,
        r#"node "n1" is not allowed to update fields other than status.quantity and status.conditions: metadata.labels, status.phase"#
    );
    assert_eq!(why(&plugin, Write::update(resource, &old, &old)).await, "may only update PVC status");
}

fn token(audiences: &str, reference: &str) -> String {
    format!(
        r#"{{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{{"name":"default","namespace":"n"}},"spec":{{"audiences":[{audiences}]{reference}}}}}"#
    )
}

#[tokio::test]
async fn nodes_get_tokens_for_the_audiences_of_their_pods() {
    let (mut fixture, plugin) = fixture().await;
    let bound = |name: &str, uid: &str| {
        format!(r#","boundObjectRef":{{"kind":"Pod","apiVersion":"v1","name":"{name}","uid":"{uid}"}}"#)
    };
    let ask = async |plugin: &NodeRestriction, audiences: &str, reference: &str| {
        let json = token(audiences, reference);
        why(plugin, Write { subresource: "token", ..Write::create("serviceaccounts", &json) }).await
    };
    let mine = bound("mine", "mine-uid");
    assert_eq!(ask(&plugin, r#""vault""#, "").await, "node requested token not bound to a pod");
    assert_eq!(
        ask(&plugin, r#""vault""#, &bound("mine", "")).await,
        "node requested token with a pod binding without a uid"
    );
    assert_eq!(
        ask(&plugin, r#""vault""#, &bound("mine", "x")).await,
        "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated"
    );
    assert_eq!(
        ask(&plugin, r#""vault""#, &bound("theirs", "theirs-uid")).await,
        "node requested token bound to a pod scheduled on a different node"
    );
    assert_eq!(ask(&plugin, r#""vault""#, &bound("none", "x")).await, r#"pod "none" not found"#);
    assert_eq!(ask(&plugin, r#""vault""#, &mine).await, "");
    assert_eq!(ask(&plugin, r#""vault","b""#, &mine).await, "node may only request 0 or 1 audiences");
    assert_eq!(
        ask(&plugin, r#""b""#, &mine).await,
        r#"error validating audience "b": [csidriver.storage.k8s.io "inline" not found, persistentvolumeclaim "mine-e" not found, csidriver.storage.k8s.io "pd.csi.storage.gke.io" not found]"#
    );
    for (name, audience) in
        [("inline", "of-inline"), ("of-claim", "of-claim"), ("pd.csi.storage.gke.io", "of-disk")]
    {
        let json = format!(
            r#"{{"kind":"CSIDriver","apiVersion":"storage.k8s.io/v1","metadata":{{"name":"{name}"}},"spec":{{"tokenRequests":[{{"audience":"{audience}"}}]}}}}"#
        );
        fixture.put("csidrivers.storage.k8s.io", &json).await;
    }
    fixture
        .put(
            "persistentvolumeclaims",
            r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"mine-e","namespace":"n"},"spec":{"volumeName":"pv"}}"#,
        )
        .await;
    fixture
        .put(
            "persistentvolumes",
            r#"{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"pv"},"spec":{"csi":{"driver":"of-claim","volumeHandle":"h"}}}"#,
        )
        .await;
    for audience in ["of-inline", "of-claim", "of-disk"] {
        assert_eq!(ask(&plugin, &format!("{audience:?}"), &mine).await, "");
    }
    assert_eq!(
        ask(&plugin, r#""b""#, &mine).await,
        r#"audience "b" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"#
    );
    fixture.settings.gates.node_audience_restriction = false;
    assert_eq!(ask(&fixture.make(None).unwrap(), r#""b""#, &mine).await, "");
    fixture.settings.gates.node_audience_restriction = true;
    fixture.authorizer = Authorizer::always_allow();
    assert_eq!(ask(&fixture.make(None).unwrap(), r#""b""#, &mine).await, "");
}

#[tokio::test]
async fn nodes_write_leases_and_more_under_their_own_name() {
    let (_fixture, plugin) = fixture().await;
    for (group, resource, kind, namespace, name, expected) in [
        ("coordination.k8s.io", "leases", "Lease", "kube-node-lease", "n1", ""),
        (
            "coordination.k8s.io",
            "leases",
            "Lease",
            "kube-node-lease",
            "n2",
            "can only access node lease with the same name as the requesting node",
        ),
        (
            "coordination.k8s.io",
            "leases",
            "Lease",
            "n",
            "n1",
            r#"can only access leases in the "kube-node-lease" system namespace"#,
        ),
        ("storage.k8s.io", "csinodes", "CSINode", "", "n1", ""),
        (
            "storage.k8s.io",
            "csinodes",
            "CSINode",
            "",
            "n2",
            "can only access CSINode with the same name as the requesting node",
        ),
    ] {
        let json = format!(
            r#"{{"kind":"{kind}","apiVersion":"{group}/v1","metadata":{{"name":"{name}","namespace":"{namespace}"}}}}"#
        );
        let create = Write { group, ..Write::create(resource, &json) };
        assert_eq!(why(&plugin, create.clone()).await, expected);
        let update = Write { operation: Operation::Update, old: Some(&json), ..create };
        assert_eq!(why(&plugin, update).await, expected);
    }
    for (node, expected) in [("n1", false), ("n2", true)] {
        let json = format!(
            r#"{{"kind":"ResourceSlice","apiVersion":"resource.k8s.io/v1beta1","metadata":{{"name":"s"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        let create = Write { group: "resource.k8s.io", ..Write::create("resourceslices", &json) };
        let message = |verb: &str| match expected {
            true => format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"),
            false => String::new(),
        };
        assert_eq!(why(&plugin, create.clone()).await, message("create"));
        let delete = Write { operation: Operation::Delete, old: Some(&json), new: None, ..create };
        assert_eq!(why(&plugin, delete).await, message("delete"));
    }
}

#[tokio::test]
async fn nodes_ask_for_certificates_in_their_own_name() {
    let (mut fixture, plugin) = fixture().await;
    let request = |common_name: &str, signer: &str| {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        csr_json(signer, pem.as_bytes())
    };
    let create = async |plugin: &NodeRestriction, json: &str| {
        let resource = "certificatesigningrequests";
        why(plugin, Write { group: "certificates.k8s.io", ..Write::create(resource, json) }).await
    };
    for signer in KUBELET_SIGNERS {
        assert_eq!(create(&plugin, &request("system:node:n1", signer)).await, "");
        let other = request("system:node:n2", signer);
        assert_eq!(create(&plugin, &other).await, "can only create a node CSR with CN=system:node:n1");
        fixture.settings.gates.insecure_kubelet_requests = true;
        assert_eq!(create(&fixture.make(None).unwrap(), &other).await, "");
        fixture.settings.gates.insecure_kubelet_requests = false;
    }
    assert_eq!(create(&plugin, &request("anybody", "example.com/s")).await, "");
    assert_eq!(
        create(&plugin, &csr_json(KUBELET_SIGNERS[0], b"no PEM")).await,
        "unable to parse csr: PEM block type must be CERTIFICATE REQUEST"
    );
}

fn csr_json(signer: &str, request: &[u8]) -> String {
    let mut encoded = Vec::new();
    schema::json::encode_shape(&schema::Shape::Any, &Value::Bytes(request.into()), &mut encoded);
    let encoded = String::from_utf8(encoded).unwrap();
    format!(
        r#"{{"kind":"CertificateSigningRequest","apiVersion":"certificates.k8s.io/v1","metadata":{{"name":"c"}},"spec":{{"signerName":"{signer}","request":{encoded}}}}}"#
    )
}
