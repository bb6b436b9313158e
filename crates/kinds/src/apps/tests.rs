//! The rules of workloads.

use crate::testing::{create, status, update, warnings};

const TEMPLATE: &str =
    r#""template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
const SELECTOR: &str = r#""selector":{"matchLabels":{"a":"b"}}"#;

fn object(kind: &str, metadata: &str, rest: &str) -> String {
    format!(r#"{{"apiVersion":"apps/v1","kind":"{kind}","metadata":{{{metadata}}},{rest}}}"#)
}

/// An object with a selector, a template, and more of a spec.
fn valid(kind: &str, spec: &str) -> String {
    object(kind, "", &format!(r#""spec":{{{SELECTOR},{TEMPLATE}{spec}}}"#))
}

fn with_selector(kind: &str, selector: &str) -> String {
    object(kind, "", &format!(r#""spec":{{{selector}{TEMPLATE}}}"#))
}

const KINDS: [&str; 4] = ["Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"];
const MISMATCH: &str = r#"spec.template.metadata.labels: Invalid value: map[string]string{"a":"b"}: `selector` does not match template `labels`"#;

#[test]
fn selectors_are_there_and_pick_the_template() {
    for kind in KINDS {
        assert_eq!(create(&valid(kind, "")), [""; 0], "{kind}");
        let missing = create(&with_selector(kind, ""));
        match kind {
            "DaemonSet" => assert_eq!(missing, [MISMATCH]),
            _ => assert_eq!(missing, ["spec.selector: Required value", MISMATCH]),
        }
        let of = if kind == "ReplicaSet" { "deployment".into() } else { kind.to_lowercase() };
        assert_eq!(
            create(&with_selector(kind, r#""selector":{},"#)),
            [format!(
                "spec.selector: Invalid value: v1.LabelSelector{{MatchLabels:map[string]string(nil), MatchExpressions:[]v1.LabelSelectorRequirement(nil)}}: empty selector is invalid for {of}"
            )]
        );
        let other = with_selector(kind, r#""selector":{"matchLabels":{"a":"b","c":"d"}},"#);
        assert_eq!(create(&other), [MISMATCH]);
        let unknown = r#""selector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"a","operator":"Odd","values":["x","y"]}]},"#;
        let errors = create(&with_selector(kind, unknown));
        let operator = r#"spec.selector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator"#;
        let shown = r#"spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string{"a":"b"}, MatchExpressions:[]v1.LabelSelectorRequirement{v1.LabelSelectorRequirement{Key:"a", Operator:"Odd", Values:[]string{"x", "y"}}}}"#;
        match kind {
            "DaemonSet" => assert_eq!(errors, [operator]),
            "StatefulSet" => assert_eq!(errors, [operator, shown]),
            _ => assert_eq!(errors, [operator, &format!("{shown}: invalid label selector")]),
        }
    }
}

#[test]
fn selectors_do_not_change() {
    let changed = r#""selector":{"matchExpressions":[{"key":"a","operator":"Exists"}]},"#;
    let shown = r#"spec.selector: Invalid value: v1.LabelSelector{MatchLabels:map[string]string(nil), MatchExpressions:[]v1.LabelSelectorRequirement{v1.LabelSelectorRequirement{Key:"a", Operator:"Exists", Values:[]string(nil)}}}: field is immutable"#;
    for kind in &KINDS[..3] {
        assert_eq!(update(&with_selector(kind, changed), &valid(kind, "")), [shown], "{kind}");
        assert_eq!(update(&valid(kind, r#","minReadySeconds":1"#), &valid(kind, "")), [""; 0]);
    }
    let why = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    assert_eq!(update(&with_selector("StatefulSet", changed), &valid("StatefulSet", "")), [why]);
    let many = r#","replicas":3,"ordinals":{"start":1},"updateStrategy":{"type":"OnDelete"},"revisionHistoryLimit":1,"minReadySeconds":1,"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}"#;
    assert_eq!(update(&valid("StatefulSet", many), &valid("StatefulSet", "")), [""; 0]);
}

#[test]
fn pods_of_workloads_are_always_restarted() {
    let spec = r#""restartPolicy":"Never","activeDeadlineSeconds":3,"#;
    for kind in KINDS {
        let text = valid(kind, "").replace(r#""containers""#, &format!(r#"{spec}"containers""#));
        let of = if kind == "Deployment" { "ReplicaSet" } else { kind };
        let errors = [
            r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#
                .into(),
            format!(
                "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {of} is not Supported"
            ),
        ];
        assert_eq!(create(&text), errors);
        let twice = matches!(kind, "ReplicaSet" | "DaemonSet");
        let times = if twice { 2 } else { 1 };
        assert_eq!(update(&text, &valid(kind, "")), vec![errors.clone(); times].concat(), "{kind}");
    }
}

#[test]
fn numbers_and_strategies_of_deployments_are_checked() {
    let errors = |spec: &str| create(&valid("Deployment", spec));
    assert_eq!(
        errors(
            r#","replicas":-1,"minReadySeconds":-1,"revisionHistoryLimit":-1,"progressDeadlineSeconds":-1"#
        ),
        [
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.progressDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
            "spec.progressDeadlineSeconds: Invalid value: -1: must be greater than minReadySeconds",
        ]
    );
    assert_eq!(
        errors(r#","strategy":{"type":"BlueGreen"}"#),
        [
            r#"spec.strategy: Unsupported value: apps.DeploymentStrategy{Type:"BlueGreen", RollingUpdate:(*apps.RollingUpdateDeployment)(nil)}: supported values: "Recreate", "RollingUpdate""#
        ]
    );
    assert_eq!(
        errors(r#","strategy":{"type":"Recreate","rollingUpdate":{}}"#),
        ["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"]
    );
    assert_eq!(
        errors(r#","strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":"0%"}}"#),
        [
            r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"0%"}: may not be 0 when `maxSurge` is 0"#
        ]
    );
    assert_eq!(
        errors(r#","strategy":{"rollingUpdate":{"maxSurge":-1,"maxUnavailable":"101%"}}"#),
        [
            "spec.strategy.rollingUpdate.maxSurge: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: intstr.IntOrString{Type:1, IntVal:0, StrVal:"101%"}: must not be greater than 100%"#,
        ]
    );
    let rollback = r#""annotations":{"deprecated.deployment.rollback.to":"-2"}"#;
    let rollback = object("Deployment", rollback, &format!(r#""spec":{{{SELECTOR},{TEMPLATE}}}"#));
    assert_eq!(
        create(&rollback),
        ["spec.rollback.version: Invalid value: -2: must be greater than or equal to 0"]
    );
}

#[test]
fn daemon_sets_surge_or_leave_gaps() {
    let errors = |update: &str| {
        create(&valid("DaemonSet", &format!(r#","updateStrategy":{{"rollingUpdate":{{{update}}}}}"#)))
    };
    let path = "spec.updateStrategy.rollingUpdate";
    assert_eq!(
        errors(r#""maxSurge":1,"maxUnavailable":1"#),
        [format!(
            r#"{path}.maxSurge: Invalid value: intstr.IntOrString{{Type:0, IntVal:1, StrVal:""}}: may not be set when maxUnavailable is non-zero"#
        )]
    );
    assert_eq!(
        errors(r#""maxUnavailable":0"#),
        [format!("{path}.maxUnavailable: Required value: cannot be 0 when maxSurge is 0")]
    );
    assert_eq!(errors(r#""maxSurge":"10%","maxUnavailable":0"#), [""; 0]);
    assert_eq!(
        create(&valid("DaemonSet", r#","updateStrategy":{"type":"Whenever"}"#)),
        [
            r#"spec.updateStrategy: Unsupported value: apps.DaemonSetUpdateStrategy{Type:"Whenever", RollingUpdate:(*apps.RollingUpdateDaemonSet)(nil)}: supported values: "RollingUpdate", "OnDelete""#
        ]
    );
}

#[test]
fn stateful_sets_have_their_own_rules() {
    let errors = |spec: &str| create(&valid("StatefulSet", spec));
    assert_eq!(
        errors(
            r#","podManagementPolicy":"x","updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":1}},"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Keep"},"ordinals":{"start":-1},"serviceName":"a.b""#
        ),
        [
            r#"spec.podManagementPolicy: Invalid value: "x": must be 'OrderedReady' or 'Parallel'"#,
            "spec.updateStrategy.rollingUpdate: Invalid value: apps.RollingUpdateStatefulSetStrategy{Partition:1, MaxUnavailable:(*intstr.IntOrString)(nil)}: only allowed for updateStrategy 'RollingUpdate'",
            r#"spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete""#,
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.serviceName: Invalid value: "a.b": must not contain dots"#,
        ]
    );
    assert_eq!(
        errors(r#","updateStrategy":{"type":"Now"}"#),
        [
            r#"spec.updateStrategy: Invalid value: apps.StatefulSetUpdateStrategy{Type:"Now", RollingUpdate:(*apps.RollingUpdateStatefulSetStrategy)(nil)}: must be 'RollingUpdate' or 'OnDelete'"#
        ]
    );
    let odd = valid("StatefulSet", r#","serviceName":"a.b""#);
    assert_eq!(update(&odd, &odd), [""; 0], "an invalid name of a service may stay");
    // The pod spec is not checked: its volumes may come from claims.
    assert_eq!(errors("").len(), 0);
    let claims = r#","revisionHistoryLimit":-1,"volumeClaimTemplates":[{"metadata":{"name":"d"},"spec":{"resources":{"requests":{"storage":"1500m"}}}}]"#;
    assert_eq!(
        warnings(&valid("StatefulSet", claims), None),
        [
            r#"spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ]
    );
}

#[test]
fn counts_of_replicas_fit_together() {
    let of = |kind: &str, counts: &str| object(kind, "", &format!(r#""status":{{{counts}}}"#));
    let all = "cannot be greater than status.replicas";
    let counts = r#""replicas":1,"readyReplicas":2,"availableReplicas":3"#;
    for (kind, ready) in [
        ("Deployment", "readyReplicas"),
        ("ReplicaSet", "readyReplicas"),
        ("StatefulSet", "status.readyReplicas"),
    ] {
        assert_eq!(
            status(&of(kind, counts), &of(kind, "")),
            [
                format!("status.readyReplicas: Invalid value: 2: {all}"),
                format!("status.availableReplicas: Invalid value: 3: {all}"),
                format!("status.availableReplicas: Invalid value: 3: cannot be greater than {ready}"),
            ],
            "{kind}"
        );
    }
    for kind in ["Deployment", "DaemonSet", "StatefulSet"] {
        let (new, old) = (of(kind, r#""observedGeneration":-1"#), of(kind, r#""collisionCount":1"#));
        assert_eq!(
            status(&new, &old),
            [
                "status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
                "status.collisionCount: Invalid value: 0: cannot be decremented",
            ],
            "{kind}"
        );
    }
}

#[test]
fn revisions_hold_an_object_that_does_not_change() {
    let of = |rest: &str| object("ControllerRevision", "", rest);
    assert_eq!(create(&of(r#""revision":1,"data":{"a":"b"}"#)), [""; 0]);
    assert_eq!(create(&of(r#""revision":1"#)), ["data: Required value: data is mandatory"]);
    assert_eq!(
        create(&of(r#""revision":-1,"data":[1]"#)),
        [
            "revision: Invalid value: -1: must be greater than or equal to 0",
            "data: Required value: data must be a valid JSON object",
        ]
    );
    assert_eq!(
        update(&of(r#""revision":1,"data":{"a":1}"#), &of(r#""revision":1,"data":{}"#)),
        [
            "data: Invalid value: runtime.RawExtension{Raw:[]uint8{0x7b, 0x22, 0x61, 0x22, 0x3a, 0x31, 0x7d}, Object:runtime.Object(nil)}: field is immutable"
        ]
    );
}

#[test]
fn names_with_dots_are_warned_of() {
    let spec = format!(r#""spec":{{{SELECTOR},{TEMPLATE}}}"#);
    let why = "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]";
    for kind in &KINDS[..2] {
        let dotted = object(kind, r#""name":"a.b""#, &spec);
        assert_eq!(warnings(&dotted, None), [why]);
        assert_eq!(warnings(&dotted, Some(&dotted)), [""; 0]);
    }
}
