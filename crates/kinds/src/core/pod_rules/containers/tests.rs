use crate::WrittenPart;
use crate::testing::{create, part};

fn pod(spec: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"Pod","spec":{{{spec}}}}}"#)
}

/// The errors of a pod whose only container has more fields, without the path of the container.
fn container(fields: &str) -> Vec<String> {
    let errors = create(&pod(&format!(r#""containers":[{{"name":"c","image":"i",{fields}}}]"#)));
    errors.iter().map(|error| error.replace("spec.containers[0].", "")).collect()
}

#[test]
fn containers_have_names_images_and_known_policies() {
    assert_eq!(create(&pod(r#""containers":[]"#)), ["spec.containers: Required value"]);
    let spec = r#""containers":[{"name":"a"},{"name":"a","image":"i","restartPolicy":"Always"},{"name":"a.b","image":" i",
        "terminationMessagePolicy":"x","imagePullPolicy":"y"}],"initContainers":[{"name":"a","image":"i","restartPolicy":"Never"},
        {"name":"","image":"i "},{"name":"","image":"i","lifecycle":{},"livenessProbe":{},"readinessProbe":{},"startupProbe":{}}]"#;
    let init = "Forbidden: may not be set for init containers without restartPolicy=Always";
    assert_eq!(
        create(&pod(spec)),
        [
            "spec.containers[0].image: Required value",
            r#"spec.containers[1].name: Duplicate value: "a""#,
            "spec.containers[1].restartPolicy: Forbidden: may not be set for non-init containers",
            r#"spec.containers[2].name: Invalid value: "a.b": must not contain dots"#,
            r#"spec.containers[2].terminationMessagePolicy: Unsupported value: "x": supported values: "File", "FallbackToLogsOnError""#,
            r#"spec.containers[2].imagePullPolicy: Unsupported value: "y": supported values: "Always", "IfNotPresent", "Never""#,
            r#"spec.initContainers[0].restartPolicy: Unsupported value: "Never": supported values: "Always""#,
            r#"spec.initContainers[0].name: Duplicate value: "a""#,
            "spec.initContainers[1].name: Required value",
            "spec.initContainers[2].name: Required value",
            &format!("spec.initContainers[2].lifecycle: {init}"),
            &format!("spec.initContainers[2].livenessProbe: {init}"),
            &format!("spec.initContainers[2].readinessProbe: {init}"),
            &format!("spec.initContainers[2].startupProbe: {init}"),
            r#"spec.containers[2].image: Invalid value: " i": must not have leading or trailing whitespace"#,
            r#"spec.initContainers[1].image: Invalid value: "i ": must not have leading or trailing whitespace"#,
        ]
    );
}

#[test]
fn sidecars_have_probes_and_hooks_that_are_checked() {
    let spec = r#""containers":[{"name":"a","image":"i"}],"initContainers":[{"name":"b","image":"i","restartPolicy":"Always",
        "lifecycle":{"preStop":{}},"startupProbe":{"exec":{}}}]"#;
    assert_eq!(
        create(&pod(spec)),
        [
            "spec.initContainers[0].lifecycle.preStop: Required value: must specify a handler type",
            "spec.initContainers[0].startupProbe.exec.command: Required value",
        ]
    );
}

#[test]
fn ephemeral_containers_have_few_fields_and_names_of_their_own() {
    let spec = |containers: &str| {
        let pod = r#"{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a","image":"i","terminationMessagePolicy":"File",
            "imagePullPolicy":"Always"}],"volumes":[{"name":"v","emptyDir":{}}]"#;
        format!(r#"{pod},"ephemeralContainers":[{containers}]}}}}"#)
    };
    let new = r#"{"name":"a","image":"i ","ports":[{"containerPort":1}],"resources":{"limits":{"cpu":"1"}},"restartPolicy":"Always",
        "lifecycle":{},"livenessProbe":{"exec":{"command":["x"]}},"targetContainerName":"b"},
        {"name":"b","image":"i","targetContainerName":"a","volumeMounts":[{"name":"v","mountPath":"/a","subPath":"x"},
        {"name":"v","mountPath":"/b","subPathExpr":"x"}]}"#;
    let path = "spec.ephemeralContainers";
    let why = "Forbidden: cannot be set for an Ephemeral Container";
    let errors = part(WrittenPart::EphemeralContainers, &spec(new), &spec(""));
    assert_eq!(
        errors,
        [
            format!(r#"{path}[0].image: Invalid value: "i ": must not have leading or trailing whitespace"#),
            format!(r#"{path}[0].name: Duplicate value: "a""#),
            format!(r#"{path}[0].targetContainerName: Not found: "b""#),
            format!("{path}[0].ports: {why}"),
            format!("{path}[0].resources: {why}"),
            format!("{path}[0].restartPolicy: {why}"),
            format!("{path}[0].livenessProbe: {why}"),
            format!("{path}[0].lifecycle: {why}"),
            format!("{path}[1].volumeMounts[0].subPath: {why}"),
            format!("{path}[1].volumeMounts[1].subPathExpr: {why}"),
        ]
    );
}

#[test]
fn ports_have_numbers_and_names_and_do_not_clash() {
    let ports = r#""ports":[{"name":"a"},{"name":"a","containerPort":70000,"hostPort":-1},{"name":"A","containerPort":1,"protocol":"x"},
        {"containerPort":2,"hostPort":2},{"containerPort":3,"hostPort":2},{"containerPort":4,"hostPort":2,"protocol":"UDP"}]"#;
    assert_eq!(
        container(ports),
        [
            "ports[0].containerPort: Required value",
            r#"ports[1].name: Duplicate value: "a""#,
            "ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
            "ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
            r#"ports[2].name: Invalid value: "A": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#,
            r#"ports[2].name: Invalid value: "A": must contain at least one letter (a-z)"#,
            r#"ports[2].protocol: Unsupported value: "x": supported values: "SCTP", "TCP", "UDP""#,
            r#"ports[4].hostPort: Duplicate value: "TCP//2""#,
        ]
    );
    let port = r#"{"name":"NAME","image":"i","ports":[{"containerPort":1,"hostPort":1}]}"#;
    let named = |name: &str| port.replace("NAME", name);
    let spec = |field: &str| {
        let (first, second) = (named("a"), named("b"));
        pod(&format!(r#""containers":[{{"name":"c","image":"i"}}],"{field}":[{first},{second}]"#))
    };
    assert_eq!(create(&spec("initContainers")).len(), 0, "init containers run one after the other");
    let both = pod(&format!(r#""containers":[{},{}]"#, named("a"), named("b")));
    assert_eq!(create(&both), [r#"spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//1""#]);
    let host = pod(
        r#""hostNetwork":true,"containers":[{"name":"a","image":"i","ports":[{"containerPort":1},{"containerPort":2,"hostPort":3}]}]"#,
    );
    assert_eq!(
        create(&host),
        [
            "spec.containers[0].ports[1].hostPort: Invalid value: 3: must match `containerPort` when `hostNetwork` is true"
        ]
    );
}

#[test]
fn variables_have_names_and_one_source() {
    let env = r#""env":[{"name":"","value":"a"},{"name":"a=b"},{"name":"a","valueFrom":{}},
        {"name":"a","value":"b","valueFrom":{"configMapKeyRef":{"name":"a","key":"/"}}},
        {"name":"a","valueFrom":{"secretKeyRef":{"name":"a"},"fieldRef":{"fieldPath":"status.phase"}}},
        {"name":"a","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"1"}}}]"#;
    let fields = r#""metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs""#;
    let key = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
    assert_eq!(
        container(env),
        [
            "env[0].name: Required value",
            r#"env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='"#,
            r#"env[2].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"#,
            &format!(r#"env[3].valueFrom.configMapKeyRef.key: Invalid value: "/": {key}"#),
            r#"env[3].valueFrom: Invalid value: "": may not be specified when `value` is not empty"#,
            &format!(
                r#"env[4].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: {fields}"#
            ),
            "env[4].valueFrom.secretKeyRef.key: Required value",
            r#"env[4].valueFrom: Invalid value: "": may not have more than one field specified at a time"#,
        ]
    );
    let sources = r#""envFrom":[{},{"prefix":"é","configMapRef":{},"secretRef":{"name":"a-"}}]"#;
    assert_eq!(
        container(sources),
        [
            r#"envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`"#,
            r#"envFrom[1].prefix: Invalid value: "é": a valid environment variable name must consist only of printable ASCII characters other than '='"#,
            "envFrom[1].configMapRef.name: Required value",
            r#"envFrom: Invalid value: "": may not have more than one field specified at a time"#,
        ]
    );
}

#[test]
fn probes_and_hooks_do_one_thing() {
    let fields = r#""livenessProbe":{"httpGet":{"port":"","scheme":"ftp","httpHeaders":[{"name":"a b","value":""}]},"grpc":{"port":1},"initialDelaySeconds":-1,
        "successThreshold":2},"readinessProbe":{"tcpSocket":{},"terminationGracePeriodSeconds":-1},"startupProbe":{},
        "lifecycle":{"postStart":{"exec":{}},"preStop":{"sleep":{"seconds":31}}}"#;
    assert_eq!(
        container(fields),
        [
            "lifecycle.postStart.exec.command: Required value",
            "lifecycle.preStop.sleep: Invalid value: 31: must be non-negative and less than terminationGracePeriodSeconds (30)",
            r#"livenessProbe.httpGet.port: Invalid value: "": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#,
            r#"livenessProbe.httpGet.port: Invalid value: "": must contain at least one letter (a-z)"#,
            r#"livenessProbe.httpGet.scheme: Unsupported value: "ftp": supported values: "HTTP", "HTTPS""#,
            r#"livenessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"#,
            "livenessProbe.grpc: Forbidden: may not specify more than 1 handler type",
            "livenessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0",
            "livenessProbe.successThreshold: Invalid value: 2: must be 1",
            "readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "readinessProbe.terminationGracePeriodSeconds: Invalid value: -1: must be greater than 0",
            "readinessProbe.terminationGracePeriodSeconds: Invalid value: -1: must not be set for readinessProbes",
            "startupProbe: Required value: must specify a handler type",
        ]
    );
    assert!(container(r#""lifecycle":{"preStop":{"sleep":{"seconds":0}}}"#).is_empty());
}

#[test]
fn resize_policies_name_a_resource_once() {
    let policies = |restart: &str| {
        format!(
            r#""restartPolicy":"{restart}","containers":[{{"name":"a","image":"i","resizePolicy":[{{"resourceName":"cpu","restartPolicy":"NotRequired"}},
            {{"resourceName":"cpu","restartPolicy":"RestartContainer"}},{{"resourceName":"gpu","restartPolicy":"x"}}]}}]"#
        )
    };
    let path = "spec.containers[0].resizePolicy";
    let mut expected = vec![
        format!("{path}[1]: Duplicate value: cpu"),
        format!(r#"{path}: Unsupported value: gpu: supported values: "cpu", "memory""#),
        format!(r#"{path}: Unsupported value: "x": supported values: "NotRequired", "RestartContainer""#),
    ];
    assert_eq!(create(&pod(&policies("Always"))), expected);
    let never = "must be 'NotRequired' when `restartPolicy` is 'Never'";
    expected.insert(1, format!(r#"{path}: Invalid value: "RestartContainer": {never}"#));
    expected.push(format!(r#"{path}: Invalid value: "x": {never}"#));
    assert_eq!(create(&pod(&policies("Never"))), expected);
}

#[test]
fn claims_are_named_once_and_declared() {
    let spec = |claims: &str| {
        pod(&format!(
            r#""terminationGracePeriodSeconds":1,"resourceClaims":[{{"name":"a","resourceClaimName":"x"}}],"containers":[{{"name":"a","image":"i","resources":{{"claims":[{claims}]}}}}]"#
        ))
    };
    let new = spec(
        r#"{"name":"a","request":"r"},{"name":"a","request":"r"},{"name":"a"},{"name":"a"},{"name":"b"},{"name":""}"#,
    );
    let path = "spec.containers[0].resources.claims";
    let errors = crate::testing::update(&new, &spec(r#"{"name":"a"}"#));
    let found: Vec<&String> = errors.iter().filter(|error| error.starts_with(path)).collect();
    assert_eq!(
        found,
        [
            &format!(r#"{path}[1]: Duplicate value: "a/r""#),
            &format!(r#"{path}[2]: Duplicate value: "a""#),
            &format!(r#"{path}[3]: Duplicate value: "a""#),
            &format!(r#"{path}[4]: Not found: "b": must be one of the names in pod.spec.resourceClaims: a"#),
            &format!("{path}[5]: Required value"),
        ]
    );
}
