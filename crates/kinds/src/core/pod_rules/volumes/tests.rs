use crate::testing::{create, update};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn pod(volumes: &str) -> String {
    with_container(volumes, "")
}

fn with_container(volumes: &str, fields: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"serviceAccountName":"s",
            "containers":[{{"name":"c","image":"i"{fields}}}],"volumes":[{volumes}]}}}}"#
    )
}

/// The errors of a volume `v` with a source, without the path of the volume.
fn source(text: &str) -> Vec<String> {
    let errors = create(&pod(&format!(r#"{{"name":"v",{text}}}"#)));
    errors.iter().map(|error| error.strip_prefix("spec.volumes[0]").unwrap_or(error).to_owned()).collect()
}

#[test]
fn volume_has_a_name_of_its_own_and_one_source() {
    let volumes = r#"{},{"name":"a","emptyDir":{},"hostPath":{"path":""},"cephfs":{},"downwardAPI":{}},{"name":"a","emptyDir":{"sizeLimit":"-1"}},
        {"name":"a","emptyDir":{}},{"name":"a"},{"name":"b","image":{}}"#;
    assert_eq!(
        create(&pod(volumes)),
        [
            "spec.volumes[0].name: Required value",
            "spec.volumes[1].hostPath: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[1].cephFS: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[1].downwarAPI: Forbidden: may not specify more than 1 volume type",
            "spec.volumes[2].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity",
            r#"spec.volumes[4].name: Duplicate value: "a""#,
        ]
    );
}

#[test]
fn volumes_past_a_few_are_found_by_name() {
    let volumes: Vec<String> =
        (0..40).map(|at| format!(r#"{{"name":"v{}","emptyDir":{{}}}}"#, at % 39)).collect();
    let text = with_container(
        &volumes.join(","),
        r#","volumeMounts":[{"name":"v38","mountPath":"/a"},{"name":"v39","mountPath":"/b"}]"#,
    );
    assert_eq!(
        create(&text),
        [
            r#"spec.volumes[39].name: Duplicate value: "v0""#,
            r#"spec.containers[0].volumeMounts[1].name: Not found: "v39""#
        ]
    );
}

#[test]
fn sources_of_plugins_are_checked() {
    let secret = |field: &str| format!("{field}.secretRef.name: Required value");
    let subdomain = |field: &str, text: &str| format!(r#"{field}: Invalid value: "{text}": {SUBDOMAIN}"#);
    let cases: &[(&str, &[&str])] = &[
        (
            r#""hostPath":{"path":"/a/../b","type":"X"}"#,
            &[
                r#".hostPath.path: Invalid value: "/a/../b": must not contain '..'"#,
                r#".hostPath.type: Unsupported value: "X": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket""#,
            ],
        ),
        (
            r#""gitRepo":{"directory":"/a"}"#,
            &[
                ".gitRepo.repository: Required value",
                r#".gitRepo.directory: Invalid value: "/a": must be a relative path"#,
            ],
        ),
        (
            r#""gcePersistentDisk":{"partition":256}"#,
            &[
                ".persistentDisk.pdName: Required value",
                ".persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
            ],
        ),
        (
            r#""awsElasticBlockStore":{"partition":-1}"#,
            &[
                ".awsElasticBlockStore.volumeID: Required value",
                ".awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive",
            ],
        ),
        (
            r#""nfs":{}"#,
            &[
                ".nfs.server: Required value",
                ".nfs.path: Required value",
                r#".nfs.path: Invalid value: "": must be an absolute path"#,
            ],
        ),
        (
            r#""iscsi":{"targetPortal":"t","iqn":"x","lun":256,"chapAuthSession":true,"initiatorName":"eui.1"}"#,
            &[
                r#".iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa"#,
                ".iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
                ".iscsi.secretRef: Required value",
                r#".iscsi.initiatorname: Invalid value: "eui.1": must be valid format"#,
            ],
        ),
        (r#""glusterfs":{}"#, &[".glusterfs.endpoints: Required value", ".glusterfs.path: Required value"]),
        (
            r#""flocker":{"datasetName":"a/b"}"#,
            &[r#".flocker.datasetName: Invalid value: "a/b": must not contain '/'"#],
        ),
        (r#""flocker":{}"#, &[".flocker: Required value: one of datasetName and datasetUUID is required"]),
        (r#""persistentVolumeClaim":{}"#, &[".persistentVolumeClaim.claimName: Required value"]),
        (r#""rbd":{}"#, &[".rbd.monitors: Required value", ".rbd.image: Required value"]),
        (r#""cephfs":{}"#, &[".cephfs.monitors: Required value"]),
        (
            r#""quobyte":{"registry":"a"}"#,
            &[
                r#".quobyte.registry: Invalid value: "a": must be a host:port pair or multiple pairs separated by commas"#,
                ".quobyte.volume: Required value",
            ],
        ),
        (
            r#""fc":{"targetWWNs":["a"],"wwids":["b"],"lun":256}"#,
            &[
                r#".fc.targetWWNs: Invalid value: []string{"a"}: targetWWNs and wwids can not be specified simultaneously"#,
                ".fc.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            ],
        ),
        (
            r#""fc":{}"#,
            &[".fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"],
        ),
        (
            r#""flexVolume":{"options":{"K8s.io/a":"","a.kubernetes.io":"","k8s.io.com/a":""}}"#,
            &[
                ".flexVolume.driver: Required value",
                r#".flexVolume.options[K8s.io/a]: Invalid value: "K8s.io/a": kubernetes.io and k8s.io namespaces are reserved"#,
                r#".flexVolume.options[a.kubernetes.io]: Invalid value: "a.kubernetes.io": kubernetes.io and k8s.io namespaces are reserved"#,
            ],
        ),
        (
            r#""azureFile":{}"#,
            &[".azureFile.secretName: Required value", ".azureFile.shareName: Required value"],
        ),
        (
            r#""azureDisk":{"diskName":"d","diskURI":"x","cachingMode":"X","kind":"Managed"}"#,
            &[
                r#".azureDisk.cachingMode: Unsupported value: "X": supported values: "None", "ReadOnly", "ReadWrite""#,
                r#".azureDisk.diskURI: Unsupported value: "x": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}""#,
            ],
        ),
        (r#""vsphereVolume":{}"#, &[".vsphereVolume.volumePath: Required value"]),
        (r#""photonPersistentDisk":{}"#, &[".photonPersistentDisk.pdID: Required value"]),
        (r#""portworxVolume":{}"#, &[".portworxVolume.volumeID: Required value"]),
        (
            r#""scaleIO":{}"#,
            &[
                ".scaleIO.gateway: Required value",
                ".scaleIO.system: Required value",
                ".scaleIO.volumeName: Required value",
            ],
        ),
        (
            r#""storageos":{"volumeName":"a.b"}"#,
            &[r#".storageos.volumeName: Invalid value: "a.b": must not contain dots"#],
        ),
        (r#""csi":{"driver":"A.io"}"#, &[]),
    ];
    for (text, expected) in cases {
        assert_eq!(source(text), *expected, "{text}");
    }
    assert_eq!(source(r#""cinder":{"volumeID":"v","secretRef":{}}"#), [secret(".cinder")]);
    let names = r#""csi":{"driver":"a_b","nodePublishSecretRef":{"name":"B_"}}"#;
    assert_eq!(source(names), [subdomain(".csi.driver", "a_b"), subdomain(".csi.name", "B_")]);
    let portal = format!(
        r#""iscsi":{{"targetPortal":"{}","iqn":"iqn.2001-01.a:b","initiatorName":"iqn.2001-01.a:b"}}"#,
        "t".repeat(63)
    );
    let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
    assert_eq!(source(&portal), [format!(r#".name: Invalid value: "v": {why}"#)]);
}

#[test]
fn files_stay_in_their_volume() {
    assert_eq!(
        source(
            r#""secret":{"defaultMode":512,"items":[{"mode":-1},{"key":"k","path":"../a"},{"key":"k","path":"..a"}]}"#
        ),
        [
            ".secret.secretName: Required value",
            ".secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ".secret.items[0].key: Required value",
            ".secret.items[0].path: Required value",
            ".secret.items[0].mode: Invalid value: -1: must be a number between 0 and 0777 (octal), both inclusive",
            r#".secret.items[1].path: Invalid value: "../a": must not contain '..'"#,
            r#".secret.items[2].path: Invalid value: "..a": must not start with '..'"#,
        ]
    );
    assert_eq!(
        source(
            r#""downwardAPI":{"items":[{"path":"a","fieldRef":{"fieldPath":"spec.nodeName"}},{"path":"/b","resourceFieldRef":{"containerName":"c","resource":"limits.cpu","divisor":"2"}},
            {"path":"c","fieldRef":{"fieldPath":"metadata.labels['a b']"}}]}"#
        ),
        [
            r#".downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid""#,
            r#".downwardAPI.path: Invalid value: "/b": must be a relative path"#,
            r#".downwardAPI.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource"#,
            r#".downwardAPI.fieldRef: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#,
        ]
    );
}

#[test]
fn projected_files_have_one_source_each() {
    let sources = r#"{"secret":{"name":"s","items":[{"key":"","path":"a"}]}},
        {"configMap":{"name":"m","items":[{"key":"k","path":"a"}]},"downwardAPI":{"items":[{"path":"a","fieldRef":{"fieldPath":"metadata.name"}}]}},
        {"serviceAccountToken":{"path":"../t","expirationSeconds":1}}"#;
    let text = format!(r#""projected":{{"sources":[{sources}]}}"#);
    let token = r#".projected.path: Invalid value: "../t": must not contain '..'"#;
    assert_eq!(
        source(&text),
        [
            ".projected.sources[0].secret.items[0].key: Required value",
            r#".projected: Invalid value: "m": conflicting duplicate paths"#,
            r#".projected: Invalid value: "a": conflicting duplicate paths"#,
            ".projected.sources[1]: Forbidden: may not specify more than 1 volume type per source",
            ".projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 1: may not specify a duration less than 10 minutes",
            token,
        ]
    );
    let stored = pod(r#"{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"../t"}}]}}"#);
    assert_eq!(create(&stored), [format!("spec.volumes[0]{token}")]);
    assert!(update(&stored, &stored).is_empty());
}

#[test]
fn ephemeral_volume_has_a_valid_template_and_claim() {
    assert_eq!(source(r#""ephemeral":{}"#), [".ephemeral.volumeClaimTemplate: Required value"]);
    let template = r#"{"metadata":{"name":"n","uid":"u"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"0"}}}}"#;
    assert_eq!(
        source(&format!(r#""ephemeral":{{"volumeClaimTemplate":{template}}}"#)),
        [
            ".ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
            ".ephemeral.volumeClaimTemplate.metadata.uID: Forbidden: cannot be set",
            r#".ephemeral.volumeClaimTemplate.spec.resources[storage]: Invalid value: "0": must be greater than zero"#,
        ]
    );
    let good = r#"{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1"}}}}}}"#;
    let any_class = good.replace(r#""resources""#, r#""volumeAttributesClassName":"A B","resources""#);
    assert!(create(&pod(&any_class)).is_empty());
    let claim = r#"{"name":"w","persistentVolumeClaim":{"claimName":"p-v"}}"#;
    assert_eq!(
        create(&pod(&format!("{good},{claim}"))),
        [
            r#"spec.volumes[1].persistentVolumeClaim.claimName: Invalid value: "p-v": must not reference a PVC that gets created for an ephemeral volume"#
        ]
    );
    let long = "v".repeat(63);
    let text = pod(&good.replace(r#""name":"v""#, &format!(r#""name":"{long}""#)));
    let name = "n".repeat(200);
    assert_eq!(
        create(&text.replace(r#"{"name":"p"}"#, &format!(r#"{{"name":"{name}"}}"#))),
        [format!(
            r#"spec.volumes[0].name: Invalid value: "{long}": PVC name "{name}-{long}": must be no more than 253 characters"#
        )]
    );
}

#[test]
fn mounts_and_devices_do_not_share_volumes_or_paths() {
    let volumes = r#"{"name":"c","persistentVolumeClaim":{"claimName":"x"}},{"name":"e","emptyDir":{}},{"name":"bad","emptyDir":{},"hostPath":{}}"#;
    let fields = r#","volumeMounts":[{"name":"e","mountPath":"/m"},{"name":"bad","mountPath":"/m","subPath":"/a","subPathExpr":"../b"},{"name":"c","mountPath":"/d"}],
        "volumeDevices":[{"name":"c","devicePath":"/d"},{"name":"e","devicePath":"/a/../b"},{"name":"c","devicePath":"/m"}]"#;
    let errors = create(&with_container(volumes, fields));
    let own: Vec<_> = errors.iter().filter_map(|error| error.strip_prefix("spec.containers[0].")).collect();
    assert_eq!(
        own,
        [
            r#"volumeMounts[0].name: Invalid value: "e": must not already exist in volumeDevices"#,
            r#"volumeMounts[0].mountPath: Invalid value: "/m": must not already exist as a path in volumeDevices"#,
            r#"volumeMounts[1].name: Not found: "bad""#,
            r#"volumeMounts[1].mountPath: Invalid value: "/m": must be unique"#,
            r#"volumeMounts[1].mountPath: Invalid value: "/m": must not already exist as a path in volumeDevices"#,
            r#"volumeMounts.subPath: Invalid value: "/a": must be a relative path"#,
            r#"volumeMounts[1].subPathExpr: Invalid value: "../b": subPathExpr and subPath are mutually exclusive"#,
            r#"volumeMounts.subPathExpr: Invalid value: "../b": must not contain '..'"#,
            r#"volumeMounts[2].name: Invalid value: "c": must not already exist in volumeDevices"#,
            r#"volumeDevices[0].name: Invalid value: "c": must not already exist in volumeMounts"#,
            r#"volumeDevices[0].devicePath: Invalid value: "/d": must not already exist as a path in volumeMounts"#,
            r#"volumeDevices[1].name: Invalid value: "e": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"#,
            r#"volumeDevices[1].devicePath: Invalid value: "/a/../b": can not contain backsteps ('..')"#,
            r#"volumeDevices[1].name: Invalid value: "e": must not already exist in volumeMounts"#,
            r#"volumeDevices[2].name: Invalid value: "c": must be unique"#,
            r#"volumeDevices[2].name: Invalid value: "c": must not already exist in volumeMounts"#,
            r#"volumeDevices[2].devicePath: Invalid value: "/m": must not already exist as a path in volumeMounts"#,
        ]
    );
}

#[test]
fn propagation_and_recursion_of_mounts_are_limited() {
    let mount = |fields: &str| {
        let mounts = format!(r#","volumeMounts":[{{"name":"e","mountPath":"/m",{fields}}}]"#);
        create(&with_container(r#"{"name":"e","emptyDir":{}}"#, &mounts))
    };
    let path = "spec.containers[0].volumeMounts";
    assert_eq!(
        mount(r#""mountPropagation":"Bidirectional","recursiveReadOnly":"Enabled""#),
        [
            format!(
                "{path}.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers"
            ),
            format!("{path}.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"),
            format!(
                "{path}.recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified"
            ),
        ]
    );
    assert_eq!(
        mount(r#""mountPropagation":"X","recursiveReadOnly":"Y""#),
        [
            format!(
                r#"{path}.mountPropagation: Unsupported value: "X": supported values: "Bidirectional", "HostToContainer", "None""#
            ),
            format!(
                r#"{path}.recursiveReadOnly: Unsupported value: "Y": supported values: "Disabled", "Enabled", "IfPossible""#
            ),
        ]
    );
    assert!(
        mount(r#""readOnly":true,"recursiveReadOnly":"IfPossible","mountPropagation":"None""#).is_empty()
    );
}
