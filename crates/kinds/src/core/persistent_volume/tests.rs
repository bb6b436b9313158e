use crate::testing::{create, status, update, warnings};

fn volume(fields: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"PersistentVolume","spec":{{"accessModes":["ReadWriteOnce"],"capacity":{{"storage":"1Gi"}},{fields}}}}}"#
    )
}

fn spec(fields: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"PersistentVolume","spec":{{{fields}}}}}"#)
}

const AFFINITY: &str = r#""nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"beta.kubernetes.io/os","operator":"In","values":["a b"]}]}]}}"#;

#[test]
fn capacity_modes_and_classes_are_checked() {
    assert_eq!(
        create(&spec(
            r#""accessModes":["X","ReadWriteOncePod","ReadOnlyMany"],"capacity":{"storage":"-1","cpu":"0"},"persistentVolumeReclaimPolicy":"X","volumeMode":"X""#
        )),
        [
            r#"spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod""#,
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            r#"spec.capacity: Unsupported value: core.ResourceList{"cpu":resource.Quantity{i:resource.int64Amount{value:0, scale:0}, d:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"0", Format:"DecimalSI"}, "storage":resource.Quantity{i:resource.int64Amount{value:-1, scale:0}, d:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"-1", Format:"DecimalSI"}}: supported values: "storage""#,
            "spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
            r#"spec.capacity[storage]: Invalid value: "-1": must be greater than zero"#,
            r#"spec.capacity[cpu]: Invalid value: "0": must be greater than zero"#,
            r#"spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: "Delete", "Recycle", "Retain""#,
            "spec: Required value: must specify a volume type",
            r#"spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem""#,
        ]
    );
    assert_eq!(
        create(&spec(r#""hostPath":{"path":"/a/.."},"persistentVolumeReclaimPolicy":"Recycle""#)),
        [
            "spec.accessModes: Required value",
            "spec.capacity: Required value",
            r#"spec.capacity: Unsupported value: core.ResourceList(nil): supported values: "storage""#,
            r#"spec.hostPath.path: Invalid value: "/a/..": must not contain '..'"#,
            "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
        ]
    );
}

#[test]
fn sources_have_more_fields_than_those_of_pods() {
    let cases: &[(&str, &[&str])] = &[
        (
            r#""glusterfs":{"endpoints":"e","path":"p","endpointsNamespace":""}"#,
            &[
                r#"spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name"#,
            ],
        ),
        (
            r#""cinder":{"volumeID":"v","secretRef":{"name":"s"}}"#,
            &["spec.cinder.secretRef.namespace: Required value"],
        ),
        (
            r#""storageos":{"volumeName":"v","secretRef":{"name":"s"}}"#,
            &["spec.storageos.secretRef.namespace: Required value"],
        ),
        (
            r#""azureFile":{"secretName":"s","shareName":"s","secretNamespace":""}"#,
            &["spec.azureFile.secretNamespace: Required value"],
        ),
        (
            r#""iscsi":{"targetPortal":"t","iqn":"x","secretRef":{}}"#,
            &[
                r#"spec.iscsi.iqn: Invalid value: "x": must be valid format"#,
                "spec.iscsi.secretRef.name: Required value",
            ],
        ),
        (
            r#""csi":{"driver":"d","volumeHandle":"","nodeExpandSecretRef":{"name":"a"}}"#,
            &[
                "spec.csi.volumeHandle: Required value",
                "spec.csi.nodeExpandSecretRef.namespace: Required value",
            ],
        ),
        (
            r#""local":{"path":""}"#,
            &[
                "spec.local.path: Required value",
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ],
        ),
        (r#""nfs":{"server":"s","path":"/p"},"flexVolume":{}"#, &["spec.flexVolume.driver: Required value"]),
        (
            r#""nfs":{"server":"s","path":"/p"},"rbd":{}"#,
            &["spec.rbd: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            r#""hostPath":{"path":"/p"},"nodeAffinity":{}"#,
            &["spec.nodeAffinity.required: Required value: must specify required node constraints"],
        ),
    ];
    for (fields, expected) in cases {
        assert_eq!(create(&volume(fields)), *expected, "{fields}");
    }
}

#[test]
fn annotation_for_mount_options_needs_a_source_that_knows_it() {
    let with = |source: &str| {
        let annotation = r#"{"annotations":{"volume.beta.kubernetes.io/mount-options":"ro"}}"#;
        volume(source).replacen(r#""spec""#, &format!(r#""metadata":{annotation},"spec""#), 1)
    };
    assert!(create(&with(r#""nfs":{"server":"s","path":"/p"}"#)).is_empty());
    assert_eq!(
        create(&with(r#""hostPath":{"path":"/p"}"#)),
        [
            "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type"
        ]
    );
}

#[test]
fn source_mode_and_affinity_do_not_change() {
    let old = volume(&format!(r#""hostPath":{{"path":"/p"}},{AFFINITY}"#));
    let errors = update(&volume(r#""nfs":{"server":"s","path":"/p"},"volumeMode":"Block""#), &old);
    assert_eq!(
        errors,
        [
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\nnfs, hostPath",
            r#"volumeMode: Invalid value: "Block": field is immutable"#,
            r#"nodeAffinity: Invalid value: "null": field is immutable, except for updating from beta label to GA"#,
        ]
    );
    assert!(update(&old.replace("beta.kubernetes.io/os", "kubernetes.io/os"), &old).is_empty());
    assert_eq!(update(&old.replace("beta.kubernetes.io/os", "kubernetes.io/arch"), &old).len(), 1);
    assert!(update(&old, &volume(r#""hostPath":{"path":"/p"}"#)).len() == 2, "a new value is checked");
}

#[test]
fn secret_for_expansion_may_be_added_once() {
    let csi = |fields: &str| volume(&format!(r#""csi":{{"driver":"d","volumeHandle":"h"{fields}}}"#));
    let (with, other) = (
        csi(r#","controllerExpandSecretRef":{"name":"a","namespace":"b"}"#),
        csi(r#","controllerExpandSecretRef":{"name":"c","namespace":"b"}"#),
    );
    assert!(update(&with, &csi("")).is_empty());
    assert_eq!(update(&other, &with).len(), 1);
    assert_eq!(update(&csi(""), &with).len(), 1);
    assert_eq!(update(&with.replace(r#""h""#, r#""i""#), &csi("")).len(), 1);
}

#[test]
fn errors_of_an_update_are_there_twice_and_status_has_none() {
    let good = volume(r#""hostPath":{"path":"/p"}"#);
    let bad = volume(r#""hostPath":{"path":"/p"},"persistentVolumeReclaimPolicy":"X""#);
    let errors = update(&bad, &good);
    assert!(errors.len() == 2 && errors[0] == errors[1], "{errors:?}");
    assert!(status(&bad, &good).is_empty());
}

#[test]
fn deprecated_fields_are_warned_of() {
    let text = volume(&format!(
        r#""rbd":{{"monitors":["m"],"image":"i"}},"persistentVolumeReclaimPolicy":"Recycle",{AFFINITY}"#
    ));
    let annotated = text.replacen(
        r#""spec""#,
        r#""metadata":{"annotations":{"volume.beta.kubernetes.io/storage-class":"a"}},"spec""#,
        1,
    );
    assert_eq!(
        warnings(&annotated, None),
        [
            r#"metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead"#,
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            r#"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead"#,
            "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
        ]
    );
}
