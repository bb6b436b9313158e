//! The strategies of the kinds of all groups but core.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use kinds::{Caller, Context, Dependents, Gates, Generation, Kind, NameRule, ResourceType, WrittenPart};
use object::{Map, Value};
use schema::{Limits, Shape, json};

const NOW: &str = "2024-05-06T07:08:09Z";

fn kind(name: &str) -> &'static Kind {
    kinds::all().find(|kind| kind.kind == name && !matches!(kind.group, "" | "events.k8s.io")).unwrap()
}

fn served(name: &str) -> ResourceType {
    let kind = kind(name);
    ResourceType::builtin(kind, kind.storage_version().unwrap()).unwrap()
}

fn any(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value
}

fn map(text: &str) -> Map {
    any(text).as_map().unwrap().clone()
}

fn context() -> Context<'static> {
    Context { now: NOW, caller: Caller::default(), gates: Gates::default() }
}

fn created(name: &str, text: &str) -> Value {
    let mut object = map(text);
    served(name).prepare_create(&mut object, &context());
    object.into()
}

fn updated(name: &str, old: &str, new: &str) -> Value {
    let mut object = map(new);
    served(name).prepare_update(None, &mut object, &map(old), &context());
    object.into()
}

fn reported(name: &str, old: &str, new: &str) -> Value {
    let mut object = map(new);
    served(name).prepare_update(Some(WrittenPart::Status), &mut object, &map(old), &context());
    object.into()
}

fn bumps_generation(name: &str, old: &str, new: &str) -> bool {
    kind(name).strategy.bumps_generation(&map(new), &map(old))
}

#[test]
fn listed_kinds_allow_create_on_update() {
    let creating: Vec<_> = kinds::all()
        .filter(|kind| !matches!(kind.group, "" | "events.k8s.io") && kind.strategy.allow_create_on_update())
        .map(|kind| kind.kind)
        .collect();
    assert_eq!(
        creating,
        [
            "ClusterRoleBinding",
            "ClusterRole",
            "RoleBinding",
            "Role",
            "Lease",
            "LeaseCandidate",
            "RuntimeClass"
        ]
    );
}

#[test]
fn listed_kinds_require_a_resource_version_on_update() {
    let mut conditional: Vec<_> = kinds::all()
        .filter(|kind| {
            !matches!(kind.group, "" | "events.k8s.io") && !kind.strategy.allow_unconditional_update()
        })
        .map(|kind| kind.kind)
        .collect();
    conditional.sort_unstable();
    assert_eq!(
        conditional,
        [
            "APIService",
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "ClusterTrustBundle",
            "CustomResourceDefinition",
            "Lease",
            "LeaseCandidate",
            "MutatingAdmissionPolicy",
            "MutatingAdmissionPolicyBinding",
            "MutatingWebhookConfiguration",
            "PodDisruptionBudget",
            "RuntimeClass",
            "StorageVersion",
            "ValidatingAdmissionPolicy",
            "ValidatingAdmissionPolicyBinding",
            "ValidatingWebhookConfiguration",
            "VolumeAttachment",
        ]
    );
}

#[test]
fn name_rules_match_the_reference() {
    for (name, rule) in [
        ("StatefulSet", NameRule::Label),
        ("Deployment", NameRule::Subdomain),
        ("ClusterRole", NameRule::PathSegment),
        ("RoleBinding", NameRule::PathSegment),
        ("PodDisruptionBudget", NameRule::PathSegment),
        ("CertificateSigningRequest", NameRule::PathSegment),
        ("APIService", NameRule::PathSegment),
        ("IPAddress", NameRule::IpAddress),
        ("StorageVersion", NameRule::GroupAndResource),
    ] {
        assert_eq!(kind(name).strategy.name_rule(), rule, "{name}");
    }
}

#[test]
fn storage_versions_match_the_reference() {
    for (name, version) in [
        ("HorizontalPodAutoscaler", "v2"),
        ("IPAddress", "v1beta1"),
        ("ServiceCIDR", "v1beta1"),
        ("VolumeAttributesClass", "v1beta1"),
        ("LeaseCandidate", "v1beta1"),
        ("DeviceClass", "v1beta1"),
        ("ResourceClaim", "v1beta1"),
        ("ResourceClaimTemplate", "v1beta1"),
        ("ResourceSlice", "v1beta1"),
        ("DeviceTaintRule", "v1alpha3"),
        ("ValidatingAdmissionPolicy", "v1"),
    ] {
        assert_eq!(kind(name).storage_version().map(|version| version.name), Some(version), "{name}");
    }
    assert_eq!(kind("CustomResourceDefinition").announced_storage, Some("v1beta1"));
}

#[test]
fn job_deletion_orphans_dependents_by_default() {
    assert_eq!(kind("Job").dependents, Dependents::Orphan);
    assert_eq!(kind("CronJob").dependents, Dependents::Background);
}

#[test]
fn new_daemon_set_has_template_generation_one() {
    let set = created("DaemonSet", r#"{"metadata":{"name":"a"},"status":{"numberReady":1}}"#);
    let wanted =
        r#"{"metadata":{"name":"a","annotations":{"deprecated.daemonset.template.generation":"1"}}}"#;
    assert_eq!(set, any(wanted));
}

#[test]
fn daemon_set_template_generation_counts_template_changes_and_ignores_the_client() {
    let object = |generation: &str, image: &str, wait: i64| {
        format!(
            r#"{{"metadata":{{"annotations":{{"deprecated.daemonset.template.generation":"{generation}"}}}},
                 "spec":{{"minReadySeconds":{wait},"template":{{"spec":{{"containers":[{{"image":"{image}"}}]}}}}}}}}"#
        )
    };
    let old = object("4", "x", 1);
    assert_eq!(updated("DaemonSet", &old, &object("9", "x", 2)), any(&object("4", "x", 2)));
    assert_eq!(updated("DaemonSet", &old, &object("9", "y", 1)), any(&object("5", "y", 1)));
    assert_eq!(reported("DaemonSet", &old, &object("9", "y", 2)), any(&old));
}

#[test]
fn annotation_change_bumps_the_generation_of_deployments_only() {
    let (old, new) = (r#"{"spec":{"a":1}}"#, r#"{"metadata":{"annotations":{"x":"y"}},"spec":{"a":1}}"#);
    assert!(bumps_generation("Deployment", old, new));
    assert!(!bumps_generation("ReplicaSet", old, new));
    assert!(!bumps_generation(
        "Deployment",
        old,
        r#"{"metadata":{"labels":{"x":"y"}},"spec":{"a":1},"status":{}}"#
    ));
    assert!(bumps_generation("ReplicaSet", old, r#"{"spec":{"a":2}}"#));
    assert!(bumps_generation("ReplicaSet", old, r#"{}"#));
}

#[test]
fn label_change_bumps_the_generation_of_endpoint_slices() {
    let (old, new) = (r#"{"ports":[]}"#, r#"{"metadata":{"labels":{"x":"y"}},"ports":[]}"#);
    assert!(bumps_generation("EndpointSlice", old, new));
    assert!(!bumps_generation("EndpointSlice", old, r#"{"metadata":{"annotations":{"x":"y"}},"ports":[]}"#));
}

#[test]
fn generation_modes_match_the_reference() {
    assert_eq!(kind("PriorityClass").generation, Generation::One);
    assert_eq!(kind("CSIDriver").generation, Generation::CountedLater);
    assert_eq!(kind("HorizontalPodAutoscaler").generation, Generation::Unused);
    assert_eq!(kind("ResourceClaim").generation, Generation::Unused);
    assert_eq!(kind("ResourceSlice").generation, Generation::Counted);
}

#[test]
fn deployment_status_update_keeps_labels() {
    let old = r#"{"metadata":{"labels":{"a":"b"}},"spec":{"replicas":1}}"#;
    let new = r#"{"metadata":{"labels":{"c":"d"},"annotations":{"e":"f"}},"spec":{"replicas":2},
                  "status":{"replicas":3,"terminatingReplicas":4}}"#;
    let wanted = r#"{"metadata":{"labels":{"a":"b"},"annotations":{"e":"f"}},"spec":{"replicas":1},
                     "status":{"replicas":3}}"#;
    assert_eq!(reported("Deployment", old, new), any(wanted));
}

#[test]
fn status_update_keeps_metadata() {
    let old = r#"{"metadata":{"labels":{"a":"b"},"generation":2},"spec":{"x":1}}"#;
    let new = r#"{"metadata":{"labels":{"c":"d"},"annotations":{"e":"f"},"generation":9,"managedFields":[{}]},
                  "spec":{"x":2},"status":{"y":3}}"#;
    let wanted = r#"{"metadata":{"labels":{"a":"b"},"generation":2,"managedFields":[{}]},"spec":{"x":1},"status":{"y":3}}"#;
    for name in
        ["VolumeAttachment", "ServiceCIDR", "ValidatingAdmissionPolicy", "StorageVersion", "ResourceClaim"]
    {
        assert_eq!(reported(name, old, new), any(wanted), "{name}");
    }
    for name in ["FlowSchema", "PriorityLevelConfiguration", "APIService"] {
        assert_eq!(reported(name, old, new), any(wanted), "{name}");
    }
}

#[test]
fn service_cidr_status_can_be_written_with_the_spec() {
    let new = r#"{"spec":{"x":1},"status":{"y":2}}"#;
    assert_eq!(created("ServiceCIDR", new), any(new));
    assert_eq!(updated("ServiceCIDR", r#"{"status":{"y":1}}"#, new), any(new));
}

#[test]
fn job_selects_its_pods_by_its_uid() {
    let text = r#"{"metadata":{"name":"n","uid":"u"},"spec":{"template":{"metadata":{"labels":{"job-name":"mine"}}}}}"#;
    let spec = created("Job", text).get("spec").cloned().unwrap();
    let labels = r#"{"job-name":"mine","batch.kubernetes.io/job-name":"n","controller-uid":"u",
                     "batch.kubernetes.io/controller-uid":"u"}"#;
    assert_eq!(spec.get("template").and_then(|it| it.get("metadata")?.get("labels")), Some(&any(labels)));
    let selector = any(r#"{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}}"#);
    assert_eq!(spec.get("selector"), Some(&selector));
}

#[test]
fn job_with_manual_selector_is_unchanged() {
    let text = r#"{"metadata":{"name":"n","uid":"u"},"spec":{"manualSelector":true,"template":{}}}"#;
    assert_eq!(created("Job", text), any(text));
}

#[test]
fn certificate_signing_request_records_the_requesting_user() {
    let mut object = map(
        r#"{"spec":{"request":"x","username":"other","uid":"o","groups":["g"],"extra":{"a":["b"]}},"status":{}}"#,
    );
    let caller = Caller {
        name: "me",
        uid: "",
        groups: &["staff".to_owned()],
        extra: &[("k".into(), vec!["v".into()])],
    };
    served("CertificateSigningRequest")
        .prepare_create(&mut object, &Context { now: NOW, caller, gates: Gates::default() });
    let wanted = r#"{"spec":{"request":"x","username":"me","groups":["staff"],"extra":{"k":["v"]}}}"#;
    assert_eq!(Value::from(object), any(wanted));
}

#[test]
fn certificate_signing_request_update_keeps_spec_and_status() {
    let old = r#"{"spec":{"a":1},"status":{"b":1}}"#;
    assert_eq!(updated("CertificateSigningRequest", old, r#"{"spec":{"a":2},"status":{"b":2}}"#), any(old));
}

#[test]
fn approval_changes_only_conditions_and_sets_their_times() {
    let old = map(r#"{"spec":{"a":1},"status":{"certificate":"x"}}"#);
    let mut new = map(
        r#"{"spec":{"a":2},"status":{"certificate":"y","conditions":[{"type":"Approved","status":"True"}]}}"#,
    );
    let part = Some(WrittenPart::Approval);
    served("CertificateSigningRequest").prepare_update(part, &mut new, &old, &context());
    let wanted = format!(
        r#"{{"spec":{{"a":1}},"status":{{"certificate":"x","conditions":[
            {{"type":"Approved","status":"True","lastUpdateTime":"{NOW}","lastTransitionTime":"{NOW}"}}]}}}}"#
    );
    assert_eq!(Value::from(new), any(&wanted));
}

#[test]
fn status_update_cannot_change_the_approved_condition() {
    let old = r#"{"status":{"conditions":[
        {"type":"Approved","status":"True","reason":"r","lastUpdateTime":"t1","lastTransitionTime":"t1"},
        {"type":"Failed","status":"True","lastTransitionTime":"t2","lastUpdateTime":"t2"}]}}"#;
    let new = r#"{"status":{"certificate":"x","conditions":[
        {"type":"Failed","status":"True"},{"type":"Approved","status":"True","reason":"other"}]}}"#;
    let wanted = format!(
        r#"{{"status":{{"certificate":"x","conditions":[
            {{"type":"Failed","status":"True","lastUpdateTime":"{NOW}","lastTransitionTime":"t2"}},
            {{"type":"Approved","status":"True","reason":"r","lastUpdateTime":"t1","lastTransitionTime":"t1"}}]}}}}"#
    );
    assert_eq!(reported("CertificateSigningRequest", old, new), any(&wanted));
}

#[test]
fn crd_status_collects_stored_versions() {
    let spec = |stored: &str| {
        format!(r#""spec":{{"versions":[{{"name":"a"}},{{"name":"{stored}","storage":true}}]}}"#)
    };
    let new = created("CustomResourceDefinition", &format!(r#"{{{},"status":{{"x":1}}}}"#, spec("b")));
    assert_eq!(new.get("status"), Some(&any(r#"{"storedVersions":["b"]}"#)));
    let old = format!(r#"{{{},"status":{{"storedVersions":["b"]}}}}"#, spec("b"));
    let changed = updated("CustomResourceDefinition", &old, &format!(r#"{{{}}}"#, spec("c")));
    assert_eq!(changed.get("status"), Some(&any(r#"{"storedVersions":["b","c"]}"#)));
    let same = updated("CustomResourceDefinition", &old, &format!(r#"{{{}}}"#, spec("b")));
    assert_eq!(same, any(&old));
}

#[test]
fn crd_deletion_adds_the_cleanup_finalizer_and_terminating_condition() {
    let mut object =
        map(r#"{"metadata":{"finalizers":["x"]},"status":{"conditions":[{"type":"Established"}]}}"#);
    let strategy = kind("CustomResourceDefinition").strategy;
    assert!(strategy.deletes_in_two_phases() && !strategy.propagates_in_first_phase());
    strategy.prepare_deletion(&mut object, &context());
    let wanted = format!(
        r#"{{"metadata":{{"finalizers":["x","customresourcecleanup.apiextensions.k8s.io"]}},
             "status":{{"conditions":[{{"type":"Established"}},{{"type":"Terminating","status":"True",
             "lastTransitionTime":"{NOW}","reason":"InstanceDeletionPending",
             "message":"CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"}}]}}}}"#
    );
    assert_eq!(Value::from(object.clone()), any(&wanted));
    strategy.prepare_deletion(&mut object, &Context { now: "2030-01-01T00:00:00Z", ..context() });
    assert_eq!(Value::from(object), any(&wanted));
}

#[test]
fn local_api_service_is_available_at_creation() {
    let local = created("APIService", r#"{"spec":{"version":"v1"},"status":{"conditions":[]}}"#);
    let wanted = format!(
        r#"{{"conditions":[{{"type":"Available","status":"True","lastTransitionTime":"{NOW}","reason":"Local",
            "message":"Local APIServices are always available"}}]}}"#
    );
    assert_eq!(local.get("status"), Some(&any(&wanted)));
    let remote = created("APIService", r#"{"spec":{"service":{"name":"s"}},"status":{"conditions":[]}}"#);
    assert_eq!(remote.get("status"), None);
}

#[test]
fn status_of_a_deallocated_device_is_dropped() {
    let device = |name: &str| format!(r#"{{"driver":"d","pool":"p","device":"{name}"}}"#);
    let claim = |allocated: &str, devices: &[&str]| {
        let devices = devices.iter().map(|name| device(name)).collect::<Vec<_>>().join(",");
        format!(
            r#"{{"metadata":{{}},"status":{{"allocation":{{"devices":{{"results":[{}]}}}},"devices":[{devices}]}}}}"#,
            device(allocated)
        )
    };
    let old = claim("a", &["a"]);
    assert_eq!(reported("ResourceClaim", &old, &claim("b", &["a", "b", "c"])), any(&claim("b", &["b", "c"])));
}

/// Fields of disabled features: a kind, and an object with and without them.
const OFF: &[[&str; 3]] = &[
    [
        "StatefulSet",
        r#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1,"maxUnavailable":2}}}}"#,
        r#"{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}}}}"#,
    ],
    [
        "HorizontalPodAutoscaler",
        r#"{"spec":{"behavior":{"scaleUp":{"tolerance":"1"},"scaleDown":{"tolerance":"2","selectPolicy":"Max"}}}}"#,
        r#"{"spec":{"behavior":{"scaleUp":{},"scaleDown":{"selectPolicy":"Max"}}}}"#,
    ],
    [
        "Lease",
        r#"{"spec":{"holderIdentity":"a","strategy":"s","preferredHolder":"p"}}"#,
        r#"{"spec":{"holderIdentity":"a"}}"#,
    ],
    [
        "CSIDriver",
        r#"{"spec":{"seLinuxMount":true,"nodeAllocatableUpdatePeriodSeconds":60}}"#,
        r#"{"spec":{"seLinuxMount":true}}"#,
    ],
    [
        "EndpointSlice",
        r#"{"endpoints":[{"hints":{"forZones":[{"name":"z"}],"forNodes":[{"name":"n"}]}}]}"#,
        r#"{"endpoints":[{"hints":{"forZones":[{"name":"z"}]}}]}"#,
    ],
    [
        "ResourceClaim",
        r#"{"spec":{"devices":{"requests":[{"name":"a","adminAccess":true},{"name":"b","firstAvailable":[{"name":"c"}]}]}}}"#,
        r#"{"spec":{"devices":{"requests":[{"name":"a"},{"name":"b"}]}}}"#,
    ],
    [
        "ResourceClaimTemplate",
        r#"{"spec":{"spec":{"devices":{"requests":[{"name":"a","adminAccess":true,"firstAvailable":[{"name":"c"}]}]}}}}"#,
        r#"{"spec":{"spec":{"devices":{"requests":[{"name":"a"}]}}}}"#,
    ],
    [
        "ResourceSlice",
        r#"{"spec":{"sharedCounters":[{"name":"c"}],"perDeviceNodeSelection":true,"devices":[{"name":"d","basic":{
            "attributes":{},"taints":[{"key":"k","timeAdded":"t"}],"consumesCounters":[{}],"nodeName":"n","allNodes":true}}]}}"#,
        r#"{"spec":{"devices":[{"name":"d","basic":{"attributes":{}}}]}}"#,
    ],
    [
        "CronJob",
        r#"{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"resources":{"limits":{"cpu":"1"}},"hostname":"h"}}}}}}"#,
        r#"{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"hostname":"h"}}}}}}"#,
    ],
    [
        "Deployment",
        r#"{"spec":{"template":{"spec":{"resources":{"limits":{"cpu":"1"}},"hostname":"h"}}}}"#,
        r#"{"spec":{"template":{"spec":{"hostname":"h"}}}}"#,
    ],
];

#[test]
fn fields_of_disabled_features_are_dropped_from_new_use() {
    for [name, with, without] in OFF {
        assert_eq!(created(name, with), any(without), "{name}");
        assert_eq!(updated(name, without, with), any(without), "{name}");
    }
}

#[test]
fn fields_of_disabled_features_are_kept_when_already_in_use() {
    for [name, with, _] in OFF {
        assert_eq!(updated(name, with, with), any(with), "{name}");
    }
}

#[test]
fn deprecated_topology_becomes_node_name() {
    let old = r#"{"endpoints":[{"deprecatedTopology":{"kubernetes.io/hostname":"n1"}}]}"#;
    let new = r#"{"endpoints":[{"deprecatedTopology":{"kubernetes.io/hostname":"n1"}},
        {"deprecatedTopology":{"kubernetes.io/hostname":"n2"}},{"nodeName":"n3","deprecatedTopology":{"kubernetes.io/hostname":"n1"}}]}"#;
    assert_eq!(
        updated("EndpointSlice", old, new),
        any(r#"{"endpoints":[{"nodeName":"n1"},{},{"nodeName":"n3"}]}"#)
    );
    assert_eq!(updated("EndpointSlice", old, old), any(old));
    assert_eq!(created("EndpointSlice", old), any(r#"{"endpoints":[{}]}"#));
}

#[test]
fn taint_without_time_added_gets_the_request_time() {
    let rule = created("DeviceTaintRule", r#"{"spec":{"taint":{"key":"k"}}}"#);
    assert_eq!(rule, any(&format!(r#"{{"spec":{{"taint":{{"key":"k","timeAdded":"{NOW}"}}}}}}"#)));
}
