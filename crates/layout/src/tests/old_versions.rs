//! Objects in versions that are not served any more.

use super::{key, layout};
use bytes::Bytes;
use kinds::Kind;
use schema::{Limits, builtin, protobuf};
use serde_json::{Value, json};
use store::{Codec as _, Patience};

/// The object in a store, in JSON and in Protobuf, as it is read: both are the same.
fn read(object: &Value) -> Value {
    let text = |name: &str| object[name].as_str().unwrap();
    let of =
        |kind: &&&'static Kind| kind.kind == text("kind") && kind.old_version(text("apiVersion")).is_some();
    let all: Vec<&'static Kind> = kinds::all().collect();
    let kind = all.iter().find(of).unwrap();
    let old = kind.old_version(text("apiVersion")).unwrap();
    let storage = kind.storage_version().unwrap();
    let ty = old.ty.map_or_else(|| builtin::by_kind(kind.group, storage.name, kind.kind).unwrap(), |ty| ty());
    let tree = schema::json::decode(ty, object.to_string().as_bytes(), &Limits::STORED).unwrap();
    assert!(tree.strict.is_empty(), "{:?}", tree.strict);
    let mut message = Vec::new();
    protobuf::encode(ty, &tree.value, &mut message);
    let at = key(&format!("{}/n/a", kinds::store_prefix(kind.group, kind.resource)));
    let [json, protobuf] = [object.to_string().into_bytes(), message].map(|stored| {
        let framed = layout().decode_value(&at, Bytes::from(stored), Patience::Now).unwrap();
        serde_json::from_slice::<Value>(cache::frame::json(&framed).unwrap()).unwrap()
    });
    assert_eq!(json, protobuf);
    assert_eq!(json["kind"], object["kind"]);
    assert_eq!(json["apiVersion"], *kinds::api_version(kind.group, storage.name));
    json
}

fn object(api_version: &str, kind: &str, rest: &Value) -> Value {
    let mut object =
        json!({"kind": kind, "apiVersion": api_version, "metadata": {"name": "a", "namespace": "n"}});
    for (name, value) in rest.as_object().unwrap() {
        object[name] = value.clone();
    }
    object
}

/// The fields of an object that is read, without those of the metadata that it has in any case.
fn upgraded(api_version: &str, kind: &str, rest: &Value) -> Value {
    let mut found = read(&object(api_version, kind, rest));
    for name in ["kind", "apiVersion"] {
        found.as_object_mut().unwrap().remove(name);
    }
    let metadata = found["metadata"].as_object_mut().unwrap();
    for name in ["name", "namespace", "creationTimestamp", "resourceVersion"] {
        metadata.remove(name);
    }
    if metadata.is_empty() {
        found.as_object_mut().unwrap().remove("metadata");
    }
    found
}

/// Every version that the scheme of the reference still decodes and no server serves any more.
const ALL: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"),
    ("admissionregistration.k8s.io/v1beta1", "MutatingWebhookConfiguration ValidatingWebhookConfiguration"),
    ("apiregistration.k8s.io/v1beta1", "APIService"),
    ("apps/v1beta1", "ControllerRevision Deployment StatefulSet"),
    ("apps/v1beta2", "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet"),
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
    ("batch/v1beta1", "CronJob"),
    ("certificates.k8s.io/v1beta1", "CertificateSigningRequest"),
    ("coordination.k8s.io/v1beta1", "Lease"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice"),
    ("events.k8s.io/v1", "Event"),
    ("events.k8s.io/v1beta1", "Event"),
    ("extensions/v1beta1", "DaemonSet Deployment Ingress NetworkPolicy ReplicaSet"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "FlowSchema PriorityLevelConfiguration"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema PriorityLevelConfiguration"),
    ("networking.k8s.io/v1alpha1", "IPAddress ServiceCIDR"),
    ("networking.k8s.io/v1beta1", "Ingress IngressClass"),
    ("node.k8s.io/v1alpha1", "RuntimeClass"),
    ("node.k8s.io/v1beta1", "RuntimeClass"),
    ("policy/v1beta1", "PodDisruptionBudget"),
    ("rbac.authorization.k8s.io/v1alpha1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("rbac.authorization.k8s.io/v1beta1", "ClusterRole ClusterRoleBinding Role RoleBinding"),
    ("scheduling.k8s.io/v1alpha1", "PriorityClass"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"),
    ("storage.k8s.io/v1alpha1", "CSIStorageCapacity VolumeAttachment"),
    ("storage.k8s.io/v1beta1", "CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment"),
];

#[test]
fn every_version_that_the_reference_decodes_is_read() {
    let mut count = 0;
    for (api_version, kinds) in ALL {
        for kind in kinds.split(' ') {
            let found = read(&object(api_version, kind, &json!({})));
            assert_eq!(found["metadata"]["name"], "a");
            count += 1;
        }
    }
    assert_eq!(count, kinds::all().map(|kind| kind.old_versions.len()).sum::<usize>());
}

#[test]
fn an_object_of_another_version_is_damaged() {
    let stored = object("policy/v1alpha1", "PodDisruptionBudget", &json!({})).to_string();
    let at = key("poddisruptionbudgets.policy/n/a");
    assert!(layout().decode_value(&at, Bytes::from(stored), Patience::Now).is_err());
}

#[test]
fn what_is_written_is_in_the_storage_version() {
    let old = object("policy/v1beta1", "PodDisruptionBudget", &json!({"spec": {"minAvailable": 1}}));
    let at = key("poddisruptionbudgets.policy/n/a");
    let framed = layout().decode_value(&at, Bytes::from(old.to_string()), Patience::Now).unwrap();
    let written = layout().encode_value(&at, framed).unwrap();
    assert!(written.windows(9).any(|window| window == b"policy/v1"));
    assert!(!written.windows(14).any(|window| window == b"policy/v1beta1"));
}

#[test]
fn selectors_of_old_budgets_keep_their_meaning() {
    let label = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
    let selector = |selector: Value| {
        let budget =
            upgraded("policy/v1beta1", "PodDisruptionBudget", &json!({"spec": {"selector": selector}}));
        budget["spec"]["selector"].clone()
    };
    let with = |operator: &str| json!({"matchExpressions": [{"key": label, "operator": operator}]});
    assert_eq!(selector(json!({})), with("Exists"));
    assert_eq!(selector(with("DoesNotExist")), json!({}));
    let plain = json!({"matchLabels": {"a": "b"}});
    assert_eq!(selector(plain.clone()), plain);
}

#[test]
fn old_webhooks_have_their_own_defaults() {
    let config = |api_version: &str, hook: Value| {
        let found = upgraded(api_version, "MutatingWebhookConfiguration", &json!({"webhooks": [hook]}));
        found["webhooks"][0].clone()
    };
    let hook = json!({"name": "h.example", "clientConfig": {"service": {"namespace": "n", "name": "s"}},
        "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"]}]});
    assert_eq!(
        config("admissionregistration.k8s.io/v1beta1", hook),
        json!({"name": "h.example", "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 443}},
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["pods"], "scope": "*"}],
            "failurePolicy": "Ignore", "matchPolicy": "Exact", "namespaceSelector": {}, "objectSelector": {},
            "sideEffects": "Unknown", "timeoutSeconds": 30, "admissionReviewVersions": ["v1beta1"],
            "reinvocationPolicy": "Never"})
    );
}

#[test]
fn old_workloads_take_their_selector_from_the_template() {
    let template =
        json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let workload = |api_version: &str, kind: &str, mut spec: Value| {
        spec["template"] = template.clone();
        let mut found = upgraded(api_version, kind, &json!({ "spec": spec }));
        assert_eq!(found["metadata"]["labels"], json!({"app": "a"}));
        assert_eq!(found["spec"]["selector"], json!({"matchLabels": {"app": "a"}}));
        assert_eq!(found["spec"]["template"]["spec"]["restartPolicy"], "Always");
        let spec = found["spec"].as_object_mut().unwrap();
        spec.remove("selector");
        spec.remove("template");
        (found["spec"].clone(), found["metadata"]["annotations"].clone())
    };
    assert_eq!(
        workload("extensions/v1beta1", "Deployment", json!({"rollbackTo": {"revision": 7}})),
        (
            json!({"replicas": 1, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
                "revisionHistoryLimit": 2147483647, "progressDeadlineSeconds": 2147483647}),
            json!({"deprecated.deployment.rollback.to": "7"})
        )
    );
    assert_eq!(
        workload("apps/v1beta1", "Deployment", json!({"strategy": {"type": "Recreate"}})),
        (
            json!({"replicas": 1, "strategy": {"type": "Recreate"}, "revisionHistoryLimit": 2, "progressDeadlineSeconds": 600}),
            Value::Null
        )
    );
    assert_eq!(
        workload("extensions/v1beta1", "DaemonSet", json!({"templateGeneration": 3})),
        (
            json!({"updateStrategy": {"type": "OnDelete"}, "revisionHistoryLimit": 10}),
            json!({"deprecated.daemonset.template.generation": "3"})
        )
    );
    let stored = object("apps/v1", "DaemonSet", &json!({})).to_string();
    let at = key("daemonsets.apps/n/a");
    let framed = layout().decode_value(&at, Bytes::from(stored), Patience::Now).unwrap();
    let read: Value = serde_json::from_slice(cache::frame::json(&framed).unwrap()).unwrap();
    let generation = &read["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
    assert_eq!(generation, "0", "as with the reference, every version has it");
    assert_eq!(workload("extensions/v1beta1", "ReplicaSet", json!({})).0, json!({"replicas": 1}));
    let set = workload("apps/v1beta1", "StatefulSet", json!({"serviceName": "s"})).0;
    assert_eq!(set["updateStrategy"], json!({"type": "OnDelete"}));
}

#[test]
fn old_autoscalers_have_flat_metrics() {
    let metrics = json!([
        {"type": "Resource", "resource": {"name": "cpu", "targetAverageUtilization": 70}},
        {"type": "Pods", "pods": {"metricName": "m", "targetAverageValue": "5"}},
        {"type": "ContainerResource", "containerResource": {"name": "cpu", "targetAverageValue": "1", "container": "c"}},
    ]);
    let spec =
        json!({"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "maxReplicas": 3, "metrics": metrics});
    let status = json!({"currentReplicas": 1, "desiredReplicas": 2, "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "currentAverageUtilization": 10, "currentAverageValue": "2"}}]});
    let found =
        upgraded("autoscaling/v2beta1", "HorizontalPodAutoscaler", &json!({"spec": spec, "status": status}));
    assert_eq!(
        found,
        json!({"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "minReplicas": 1, "maxReplicas": 3, "metrics": [
            {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}},
            {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
            {"type": "ContainerResource", "containerResource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}, "container": "c"}},
        ]}, "status": {"currentReplicas": 1, "desiredReplicas": 2, "currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 10, "averageValue": "2"}}}]}})
    );
    let annotations = json!({"annotations": {"autoscaling.alpha.kubernetes.io/scale-up-tolerance": "100m", "x": "y"},
        "name": "a", "namespace": "n"});
    let spec = json!({"scaleTargetRef": {"kind": "Deployment", "name": "a"}, "maxReplicas": 3});
    let found = upgraded(
        "autoscaling/v2beta2",
        "HorizontalPodAutoscaler",
        &json!({"metadata": annotations, "spec": spec}),
    );
    assert_eq!(found["metadata"], json!({"annotations": {"x": "y"}}));
    assert_eq!(found["spec"]["behavior"], json!({"scaleUp": {"tolerance": "100m"}}));
    assert_eq!(found["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
}

#[test]
fn backends_of_old_ingresses_have_a_service() {
    let spec = json!({"backend": {"serviceName": "s", "servicePort": "http"}, "rules": [{"http": {"paths": [
        {"path": "/", "backend": {"serviceName": "t", "servicePort": 80}},
        {"path": "/b", "backend": {"resource": {"kind": "K", "name": "r"}, "serviceName": "", "servicePort": 0}}]}}]});
    for api_version in ["extensions/v1beta1", "networking.k8s.io/v1beta1"] {
        assert_eq!(
            upgraded(api_version, "Ingress", &json!({ "spec": spec }))["spec"],
            json!({"defaultBackend": {"service": {"name": "s", "port": {"name": "http"}}}, "rules": [{"http": {"paths": [
                {"path": "/", "pathType": "ImplementationSpecific", "backend": {"service": {"name": "t", "port": {"number": 80}}}},
                {"path": "/b", "pathType": "ImplementationSpecific", "backend": {"resource": {"apiGroup": null, "kind": "K", "name": "r"}}}]}}]})
        );
    }
    let class = json!({"spec": {"controller": "c.example/x", "parameters": {"kind": "K", "name": "p", "scope": null}}});
    assert_eq!(upgraded("networking.k8s.io/v1beta1", "IngressClass", &class), class);
    let policy = json!({"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}], "egress": [{}]}});
    let found = upgraded("extensions/v1beta1", "NetworkPolicy", &policy);
    assert_eq!(found["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(found["spec"]["ingress"], policy["spec"]["ingress"]);
}

#[test]
fn old_roles_have_other_numbers_and_subjects_have_versions() {
    let role = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "nonResourceURLs": ["/x"]}]});
    assert_eq!(upgraded("rbac.authorization.k8s.io/v1alpha1", "ClusterRole", &role)["rules"], role["rules"]);
    let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "r", "apiGroup": ""}, "subjects": [
        {"kind": "User", "name": "*"}, {"kind": "User", "name": "u", "apiVersion": "rbac.authorization.k8s.io/v1alpha1"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "n", "apiVersion": "v1"},
        {"kind": "Robot", "name": "r", "apiVersion": "robots.example/v2"}]});
    let group = "rbac.authorization.k8s.io";
    let found = upgraded("rbac.authorization.k8s.io/v1alpha1", "ClusterRoleBinding", &binding);
    assert_eq!(
        found["subjects"],
        json!([{"kind": "Group", "apiGroup": group, "name": "system:authenticated"},
            {"kind": "User", "apiGroup": group, "name": "u"},
            {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            {"kind": "Robot", "apiGroup": "robots.example", "name": "r"}])
    );
    assert_eq!(found["roleRef"]["apiGroup"], group);
}

#[test]
fn zero_shares_count_as_absent_in_old_priority_levels() {
    let shares = |version: &str, limited: Value| {
        let api_version = format!("flowcontrol.apiserver.k8s.io/{version}");
        let rest = json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited": limited}});
        let found = upgraded(&api_version, "PriorityLevelConfiguration", &rest);
        assert_eq!(found["metadata"], Value::Null);
        found["spec"]["limited"]["nominalConcurrencyShares"].as_i64().unwrap()
    };
    assert_eq!(shares("v1beta2", json!({"assuredConcurrencyShares": 0})), 30);
    assert_eq!(shares("v1beta1", json!({"assuredConcurrencyShares": 9})), 9);
}

#[test]
fn other_old_objects_are_converted() {
    let class = json!({"spec": {"runtimeHandler": "h", "overhead": {"podFixed": {"cpu": "1"}}}});
    assert_eq!(
        upgraded("node.k8s.io/v1alpha1", "RuntimeClass", &class),
        json!({"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}})
    );
    let topology = json!({"kubernetes.io/hostname": "node", "topology.kubernetes.io/zone": "z", "x": "y"});
    let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}],
        "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "node", "topology": topology, "hints": {"forZones": [{"name": "z"}]}}]});
    let found = upgraded("discovery.k8s.io/v1beta1", "EndpointSlice", &slice);
    assert_eq!(found["ports"], json!([{"name": "", "protocol": "TCP", "port": 80}]));
    assert_eq!(
        found["endpoints"],
        json!([{"addresses": ["10.0.0.1"], "conditions": {}, "deprecatedTopology": {"x": "y"}, "nodeName": "node", "zone": "z",
            "hints": {"forZones": [{"name": "z"}]}}])
    );
    let event = json!({"eventTime": null, "note": "text", "reportingController": "c", "regarding": {"kind": "Pod"}, "deprecatedCount": 2});
    let found = upgraded("events.k8s.io/v1beta1", "Event", &event);
    let fields = ["message", "reportingComponent", "involvedObject", "count"].map(|name| found[name].clone());
    assert_eq!(fields, [json!("text"), json!("c"), json!({"kind": "Pod"}), json!(2)]);
    let request = json!({"spec": {"request": "bm90IG9uZQ=="}, "status": {"conditions": [{"type": "Approved", "status": ""}]}});
    let found = upgraded("certificates.k8s.io/v1beta1", "CertificateSigningRequest", &request);
    assert_eq!(found["spec"]["signerName"], "kubernetes.io/legacy-unknown");
    assert_eq!(found["spec"]["usages"], json!(["digital signature", "key encipherment"]));
    assert_eq!(found["status"]["conditions"][0]["status"], "True");
    let binding =
        json!({"spec": {"policyName": "p", "paramRef": {"name": "x"}, "validationActions": ["Deny"]}});
    let found =
        upgraded("admissionregistration.k8s.io/v1alpha1", "ValidatingAdmissionPolicyBinding", &binding);
    assert_eq!(found["spec"]["paramRef"]["parameterNotFoundAction"], "Deny");
}

#[test]
fn services_get_the_fields_that_older_servers_did_not_write() {
    let spec = |spec: Value| {
        let service = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n"}, "spec": spec});
        let layout = layout().with_families(["IPv6", "IPv4"]);
        let framed = layout
            .decode_value(&key("services/n/a"), Bytes::from(service.to_string()), Patience::Now)
            .unwrap();
        let read: Value = serde_json::from_slice(cache::frame::json(&framed).unwrap()).unwrap();
        ["clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"]
            .map(|name| read["spec"][name].clone())
    };
    let (single, dual, cluster) = (json!("SingleStack"), json!("RequireDualStack"), json!("Cluster"));
    assert_eq!(
        spec(json!({"clusterIP": "10.0.0.7"})),
        [json!(["10.0.0.7"]), json!(["IPv4"]), single.clone(), cluster.clone()]
    );
    assert_eq!(
        spec(json!({"clusterIP": "None", "selector": {"a": "b"}})),
        [json!(["None"]), json!(["IPv6"]), single, cluster.clone()]
    );
    assert_eq!(spec(json!({"clusterIP": "None"})), [json!(["None"]), json!(["IPv6", "IPv4"]), dual, cluster]);
    let name =
        json!({"type": "ExternalName", "externalName": "e.example", "internalTrafficPolicy": "Cluster"});
    assert_eq!(spec(name), [Value::Null, Value::Null, Value::Null, Value::Null]);
}
