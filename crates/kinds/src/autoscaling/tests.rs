//! The rules of autoscalers, and what their versions keep of each other.

use crate::testing::{create, status, update};

fn scaler(version: &str, metadata: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"autoscaling/{version}","kind":"HorizontalPodAutoscaler","metadata":{{{metadata}}},"spec":{{{spec}}}}}"#
    )
}

fn v2(spec: &str) -> String {
    let target = r#""scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3"#;
    scaler("v2", "", &format!("{target}{spec}"))
}

#[test]
fn numbers_and_target_are_checked() {
    assert_eq!(create(&v2("")), [""; 0]);
    assert_eq!(
        create(&scaler("v2", "", r#""scaleTargetRef":{"kind":"%"},"maxReplicas":-3,"minReplicas":-2"#)),
        [
            "spec.minReplicas: Invalid value: -2: must be greater than or equal to 1",
            "spec.maxReplicas: Invalid value: -3: must be greater than 0",
            "spec.maxReplicas: Invalid value: -3: must be greater than or equal to `minReplicas`",
            r#"spec.scaleTargetRef.kind: Invalid value: "%": may not contain '%'"#,
            "spec.scaleTargetRef.name: Required value",
        ]
    );
    let zero = v2(r#","minReplicas":0"#);
    let why = "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas";
    assert_eq!(
        create(&zero),
        ["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1", why]
    );
    assert_eq!(update(&zero, &zero), [why]);
}

#[test]
fn metrics_have_the_source_that_they_name() {
    let errors = |metric: &str| create(&v2(&format!(r#","metrics":[{metric}]"#)));
    let path = "spec.metrics[0]";
    let types = r#""ContainerResource", "External", "Object", "Pods", "Resource""#;
    let unknown = format!(r#"{path}.type: Unsupported value: "Q": supported values: {types}"#);
    assert_eq!(errors(r#"{"type":"Q"}"#), [unknown.as_str(), &unknown]);
    assert_eq!(
        errors(
            r#"{"type":"Pods","resource":{"name":"","target":{"type":"Utilization","averageUtilization":0,"averageValue":"1"}}}"#
        ),
        [
            format!("{path}.resource.name: Required value: must specify a resource name"),
            format!("{path}.resource.target.averageUtilization: Invalid value: 0: must be greater than 0"),
            format!(
                "{path}.resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization"
            ),
            format!("{path}.pods: Required value: must populate information for the given metric source"),
        ]
    );
    assert_eq!(
        errors(
            r#"{"type":"External","external":{"metric":{"name":"a"},"target":{"type":"Value","value":"0"}},"pods":{"metric":{"name":"a"},"target":{"type":"AverageValue","averageValue":"1"}}}"#
        ),
        [
            format!(
                r#"{path}.external.target.value: Invalid value: resource.Quantity{{i:resource.int64Amount{{value:0, scale:0}}, d:resource.infDecAmount{{Dec:(*inf.Dec)(nil)}}, s:"0", Format:"DecimalSI"}}: must be positive"#
            ),
            format!("{path}.pods: Forbidden: must populate the given metric source only"),
        ]
    );
    assert_eq!(
        errors(
            r#"{"type":"ContainerResource","containerResource":{"name":"foo","container":"A","target":{}}}"#
        )
        .len(),
        6
    );
}

#[test]
fn behavior_is_checked() {
    let errors = |behavior: &str| create(&v2(&format!(r#","behavior":{{{behavior}}}"#)));
    let path = "spec.behavior.scaleUp";
    assert_eq!(
        errors(r#""scaleUp":{"stabilizationWindowSeconds":-1,"selectPolicy":"Some","policies":[]}"#),
        [
            format!(
                "{path}.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero"
            ),
            format!(
                r#"{path}.selectPolicy: Unsupported value: "Some": supported values: "Disabled", "Max", "Min""#
            ),
            format!("{path}.policies: Required value: must specify at least one Policy"),
        ]
    );
    assert_eq!(
        errors(
            r#""scaleUp":{"stabilizationWindowSeconds":3601,"policies":[{"type":"X"},{"type":"Pods","value":1,"periodSeconds":1801}]}"#
        ),
        [
            format!(
                "{path}.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600"
            ),
            format!(
                r#"{path}.policies[0].type: Unsupported value: "X": supported values: "Percent", "Pods""#
            ),
            format!("{path}.policies[0].value: Invalid value: 0: must be greater than zero"),
            format!("{path}.policies[0].periodSeconds: Invalid value: 0: must be greater than zero"),
            format!(
                "{path}.policies[1].periodSeconds: Invalid value: 1801: must be less than or equal to 1800"
            ),
        ]
    );
}

#[test]
fn what_v1_carries_in_annotations_is_checked_as_v2() {
    let spec = r#""scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3"#;
    let v1 = |annotation: &str, text: &str| {
        let key = format!("autoscaling.alpha.kubernetes.io/{annotation}");
        scaler("v1", &format!(r#""annotations":{{"{key}":"{text}"}}"#), spec)
    };
    let metrics = create(&v1("metrics", r#"[{\"type\":\"Nope\"}]"#));
    assert_eq!(metrics.len(), 2);
    assert!(metrics[0].starts_with(r#"spec.metrics[0].type: Unsupported value: "Nope""#), "{metrics:?}");
    // The defaults of v2 are set when the object is stored.
    assert_eq!(
        create(&v1("behavior", r#"{\"ScaleUp\":{\"SelectPolicy\":\"Max\"}}"#)),
        ["spec.behavior.scaleUp.policies: Required value: must specify at least one Policy"]
    );
    assert_eq!(
        create(&scaler("v1", "", &format!(r#"{spec},"targetCPUUtilizationPercentage":0"#))),
        ["spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"]
    );
}

#[test]
fn replicas_in_the_status_are_not_negative() {
    let new = v2("").replace(r#""spec""#, r#""status":{"currentReplicas":-1,"desiredReplicas":-2},"spec""#);
    assert_eq!(
        status(&new, &v2("")),
        [
            "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
            "status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0",
        ]
    );
}
