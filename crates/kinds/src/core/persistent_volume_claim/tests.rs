use crate::Gates;
use crate::testing::{create, created_with, status, update, warnings};
use object::Value;

fn claim(spec: &str, status: &str) -> String {
    annotated("", spec, status)
}

fn annotated(class: &str, spec: &str, status: &str) -> String {
    let annotations = match class {
        "" => String::new(),
        class => format!(r#""annotations":{{"volume.beta.kubernetes.io/storage-class":"{class}"}}"#),
    };
    format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{{annotations}}},"spec":{{"accessModes":["ReadWriteOnce"],{spec}}},"status":{{{status}}}}}"#
    )
}

const SIZE: &str = r#""resources":{"requests":{"storage":"1Gi"}}"#;
/// The error of a change of fields that stay.
fn immutable(fields: &str) -> String {
    format!(
        "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{fields}"
    )
}

fn sized(size: &str, status: &str) -> String {
    claim(&SIZE.replace("1Gi", size), status)
}

#[test]
fn finalizers_that_protect_volumes_and_claims_are_left_to_admission() {
    let volume = r#"{"apiVersion":"v1","kind":"PersistentVolume","spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/a"}}}"#;
    for text in [volume.to_owned(), claim(SIZE, "")] {
        let created = created_with(Gates::DEFAULT, &text).unwrap();
        let metadata = created.get("metadata").and_then(Value::as_map).unwrap();
        assert!(metadata.get("finalizers").is_none(), "{text}");
    }
}

#[test]
fn size_and_modes_are_checked() {
    let text = claim(r#""volumeMode":"X","resources":{"requests":{"storage":"0"}}"#, "");
    let mode = r#"spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem""#;
    assert_eq!(
        create(&text),
        [r#"spec.resources[storage]: Invalid value: "0": must be greater than zero"#, mode]
    );
    assert_eq!(
        create(&text.replace(r#""storage":"0""#, "").replace(r#"["ReadWriteOnce"]"#, "[]")),
        [
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
            mode
        ]
    );
}

#[test]
fn data_sources_agree_and_name_a_claim_or_a_group() {
    let with = |fields: &str| create(&claim(&format!("{SIZE},{fields}"), ""));
    assert!(with(r#""dataSource":{"kind":"X","name":"x"}"#).is_empty(), "it is dropped");
    let kind = |field: &str| {
        format!(
            r#"spec.{field}: Invalid value: "X": must be 'PersistentVolumeClaim' when referencing the default apiGroup"#
        )
    };
    assert_eq!(
        with(r#""dataSourceRef":{"kind":"X","name":"x"}"#),
        [kind("dataSource"), kind("dataSourceRef")]
    );
    assert_eq!(
        with(
            r#""dataSource":{"kind":"PersistentVolumeClaim","name":"a"},"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"b"}"#
        ),
        ["spec: Invalid value: spec.dataSource: must match dataSourceRef"]
    );
    let group = claim(&format!(r#"{SIZE},"dataSourceRef":{{"apiGroup":"a_b","kind":"X","name":"x"}}"#), "");
    assert_eq!(create(&group).len(), 2);
    assert!(update(&group, &group).is_empty(), "a group that is there already may stay");
}

#[test]
fn selector_of_a_stored_claim_may_have_invalid_values() {
    let text = claim(
        &format!(
            r#"{SIZE},"selector":{{"matchExpressions":[{{"key":"a","operator":"In","values":["a b"]}}]}}"#
        ),
        "",
    );
    assert_eq!(create(&text).len(), 1);
    assert!(update(&text, &text).is_empty());
}

#[test]
fn only_a_bound_claim_grows() {
    let bound = r#""phase":"Bound","capacity":{"storage":"1Gi"}"#;
    assert!(update(&sized("2Gi", bound), &sized("1Gi", bound)).is_empty());
    assert_eq!(update(&sized("2Gi", ""), &sized("1Gi", "")), [immutable("resources")]);
    assert!(update(&sized("1073741824", ""), &sized("1Gi", "")).is_empty(), "the same amount");
    let smaller = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity";
    assert_eq!(update(&sized("1Gi", bound), &sized("3Gi", bound)), [smaller]);
    assert!(
        update(&sized("2Gi", bound), &sized("3Gi", bound)).is_empty(),
        "an expansion that failed can be taken back"
    );
}

#[test]
fn volume_name_is_set_once_and_the_rest_stays() {
    let with = |fields: &str| claim(&format!("{SIZE}{fields}"), "");
    let named = with(r#","volumeName":"a""#);
    assert!(update(&named, &with("")).is_empty());
    assert_eq!(update(&with(""), &named), [immutable("volumeName")]);
    assert_eq!(
        update(&with(r#","volumeMode":"Block""#), &with("")),
        [immutable("volumeMode"), r#"volumeMode: Invalid value: "Block": field is immutable"#.to_owned()]
    );
}

#[test]
fn storage_class_is_given_to_a_claim_without_one() {
    let with = |class: &str| format!(r#"{SIZE},"storageClassName":"{class}""#);
    let none = claim(SIZE, "");
    assert!(update(&claim(&with("a"), ""), &none).is_empty());
    assert_eq!(update(&claim(&with("b"), ""), &claim(&with("a"), "")), [immutable("storageClassName")]);
    let old = annotated("a", SIZE, "");
    assert!(
        update(&annotated("", &with("a"), ""), &old).is_empty(),
        "the field takes the place of the annotation"
    );
    let annotation = |class: &str| {
        format!(
            r#"metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "{class}": field is immutable"#
        )
    };
    assert_eq!(update(&annotated("b", &with("a"), ""), &old), [annotation("b")]);
    assert_eq!(update(&annotated("", &with("b"), ""), &old), [annotation(""), immutable("storageClassName")]);
}

#[test]
fn status_has_amounts_and_states_that_exist() {
    let new = claim(
        SIZE,
        r#""capacity":{"storage":"-1"},"allocatedResourceStatuses":{"storage":"Odd","cpu":"NodeResizePending","a.io/b":"NodeResizePending"},
            "allocatedResources":{"memory":"1","storage":"-5","a.io/b":"-500m"}"#,
    );
    assert_eq!(
        status(&new, &claim(SIZE, "")),
        [
            "status.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
            r#"status.allocatedResourceStatus: Unsupported value: storage: supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending""#,
            r#"status.allocatedResourceStatus: Unsupported value: "cpu": supported values: "storage""#,
            r#"status.allocatedResources: Unsupported value: "memory": supported values: "storage""#,
            "status.allocatedResources[storage]: Invalid value: -5: must be a valid resource quantity",
            "status.allocatedResources[a.io/b]: Invalid value: -1: must be a valid resource quantity",
        ]
    );
}

#[test]
fn fractions_of_bytes_and_the_old_annotation_are_warned_of() {
    assert_eq!(
        warnings(
            &annotated(
                "a",
                r#""resources":{"requests":{"storage":"1500m"},"limits":{"storage":"2500m"}}"#,
                ""
            ),
            None
        ),
        [
            r#"metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead"#,
            r#"spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer"#,
            r#"spec.resources.limits[storage]: fractional byte value "2500m" is invalid, must be an integer"#,
        ]
    );
}
