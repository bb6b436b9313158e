//! The bodies of generated requests.

use std::fmt::Write as _;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::{NAMES, one};

/// An object with possible faults; mostly of the kind of the path.
pub(super) fn body(rng: &mut Rng, namespace: &str, path: &str) -> Vec<u8> {
    let mut object = match fitting(path) {
        Some(object) if rng.u8(..) < 230 => object,
        _ => {
            let mut objects = objects();
            objects.swap_remove(rng.usize(..objects.len()))
        }
    };
    let named = path.rsplit('/').next().filter(|last| NAMES.contains(last));
    let name = match named {
        Some(name) if rng.u8(..) < 230 => name,
        _ => NAMES[if rng.u8(..) < 230 { rng.usize(..6) } else { rng.usize(..NAMES.len()) }],
    };
    object["metadata"] = json!({"name": name, "labels": {"a": "b"}});
    if rng.u8(..) < 60 {
        object["metadata"]["namespace"] = namespace.into();
    }
    while rng.u8(..) < 110 {
        bend(rng, &mut object);
    }
    written(rng, &object)
}

/// An object of the kind and version of a path.
fn fitting(path: &str) -> Option<Value> {
    let segments: Vec<&str> = path.split('/').collect();
    let version = match segments.as_slice() {
        ["", "api", version, ..] => (*version).to_owned(),
        ["", "apis", group, version, ..] => format!("{group}/{version}"),
        _ => return None,
    };
    let names = |object: &Value| {
        let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
        let stem = kind.trim_end_matches('y').to_owned();
        segments.iter().any(|segment| segment.starts_with(&stem)).then_some(stem.len())
    };
    let mut object = objects().into_iter().max_by_key(names).filter(|object| names(object).is_some())?;
    object["apiVersion"] = version.into();
    Some(object)
}

/// A patch of a random type, which need not match its content type.
pub(super) fn patch(rng: &mut Rng, namespace: &str, path: &str) -> Vec<u8> {
    match rng.u8(..3) {
        0 => {
            let operation = |rng: &mut Rng| {
                let paths = [
                    "/data/x",
                    "/metadata/labels/a",
                    "/spec/replicas",
                    "/",
                    "",
                    "/a/-1",
                    "/metadata/name",
                    "x",
                    "/spec/template/spec/containers/0/image",
                    "/~2",
                ];
                json!({
                    "op": one(rng, &["add", "remove", "replace", "move", "copy", "test", "x"]),
                    "path": one(rng, &paths), "from": one(rng, &paths), "value": leaf(rng),
                })
            };
            let operations: Vec<Value> = (0..rng.usize(..4)).map(|_| operation(rng)).collect();
            written(rng, &operations.into())
        }
        1 => {
            let mut object = json!({"metadata": {"labels": {"a": "c"}}, "spec": {"replicas": 2, "$patch": "replace"}, "data": {"x": null}});
            bend(rng, &mut object);
            written(rng, &object)
        }
        _ => body(rng, namespace, path),
    }
}

/// Options of a deletion.
pub(super) fn delete_options(rng: &mut Rng) -> Vec<u8> {
    let mut options = json!({
        "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "propagationPolicy": "Background",
        "preconditions": {"uid": "x"}, "dryRun": ["All"],
    });
    for _ in 0..3 {
        bend(rng, &mut options);
    }
    written(rng, &options)
}

/// Changes one random part of a value.
fn bend(rng: &mut Rng, value: &mut Value) {
    if rng.u8(..) < 40 {
        *value = leaf(rng);
        return;
    }
    match value {
        Value::Object(fields) if !fields.is_empty() => bend_fields(rng, fields),
        Value::Array(items) if !items.is_empty() => {
            let index = rng.usize(..items.len());
            match rng.u8(..4) {
                0 => items.push(items[index].clone()),
                1 => {
                    items.remove(index);
                }
                _ => bend(rng, &mut items[index]),
            }
        }
        other => *other = leaf(rng),
    }
}

fn bend_fields(rng: &mut Rng, fields: &mut Map<String, Value>) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    let key = &keys[rng.usize(..keys.len())];
    match rng.u8(..8) {
        0 => {
            fields.remove(key);
        }
        1 => {
            let value = fields.remove(key).unwrap_or_default();
            fields.insert(one(rng, &["x", "", "$patch", "name", "é", "metadata"]).to_owned(), value);
        }
        2 => {
            fields.insert(
                one(rng, &["x", "status", "spec", "finalizers", "ownerReferences", "managedFields"])
                    .to_owned(),
                leaf(rng),
            );
        }
        _ => {
            if let Some(value) = fields.get_mut(key) {
                bend(rng, value);
            }
        }
    }
}

fn leaf(rng: &mut Rng) -> Value {
    match rng.u8(..14) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(rng.i64(..)),
        3 => json!(-1),
        4 => json!(0),
        5 => json!(1.5),
        6 => json!(1e300),
        7 => json!(""),
        8 => json!("x".repeat(rng.usize(..2000))),
        9 => json!("100m"),
        10 => json!("é\u{0}\u{FFFF}"),
        11 => json!({}),
        12 => json!([]),
        _ => json!([{"name": "a", "x": [[[{}]]]}]),
    }
}

/// A value as bytes, which may be broken too.
fn written(rng: &mut Rng, value: &Value) -> Vec<u8> {
    let mut bytes = value.to_string().into_bytes();
    match rng.u8(..) {
        0..12 => bytes.truncate(rng.usize(..=bytes.len())),
        12..24 => {
            for _ in 0..rng.usize(1..5) {
                let at = rng.usize(..bytes.len().max(1));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = rng.u8(..);
                }
            }
        }
        24..28 => bytes = b"[".repeat(rng.usize(1..100_000)),
        28..32 => bytes = b"{\"a\":".repeat(rng.usize(1..50_000)),
        32..36 => bytes = (0..rng.usize(..3000)).map(|_| rng.u8(..)).collect(),
        36..42 => {
            bytes = b"k8s\0".to_vec();
            bytes.extend((0..rng.usize(..600)).map(|_| rng.u8(..)));
        }
        42..46 => {
            bytes = vec![0xd9, 0xd9, 0xf7];
            bytes.extend((0..rng.usize(..600)).map(|_| rng.u8(..)));
        }
        46..50 => bytes = bomb(),
        50..52 => bytes = vec![b' '; 4 << 20],
        52..56 => {
            let twice = bytes.clone();
            bytes.extend(twice);
        }
        56..60 => bytes.clear(),
        _ => {}
    }
    bytes
}

/// YAML whose aliases expand to a billion values.
fn bomb() -> Vec<u8> {
    let mut text = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..10 {
        let below = format!("*a{}", level - 1);
        let _ = writeln!(text, "a{level}: &a{level} [{}]", vec![below; 10].join(","));
    }
    text.into_bytes()
}

fn objects() -> Vec<Value> {
    let pod = json!({"containers": [{
        "name": "a", "image": "b", "ports": [{"containerPort": 80, "name": "http"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"cpu": 2}},
        "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }], "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "a", "operator": "Exists"}]});
    let selector = json!({"matchLabels": {"app": "a"}});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let mut job = template.clone();
    job["spec"]["restartPolicy"] = "Never".into();
    vec![
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}, "binaryData": {"y": "AAAA"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": {"x": "1"}}),
        json!({"apiVersion": "v1", "kind": "Pod", "spec": pod}),
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"app": "a"}}}),
        json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]}),
        json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"kind": "Pod", "name": "a"}, "reason": "r", "type": "Normal"}),
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        json!({"apiVersion": "v1", "kind": "ResourceQuota", "spec": {"hard": {"count/secrets": "1000"}}}),
        json!({"apiVersion": "v1", "kind": "ServiceAccount"}),
        json!({"apiVersion": "v1", "kind": "Node", "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1, "selector": selector, "template": template}}),
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "spec": {"serviceName": "a", "selector": selector, "template": template}}),
        json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"selector": selector, "template": template}}),
        json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": job}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job}}}}),
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}, "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "a", "renewTime": "2024-01-01T00:00:00.000000Z"}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": {"rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "a", "port": {"number": 80}}}}]}}]}}),
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}}),
        json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {"minAvailable": "50%", "selector": selector}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}]}),
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5}),
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "p.example.com"}),
        json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "h"}),
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "x"}}),
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600, "audiences": ["x"]}}),
    ]
}
