//! Requests from a seed: mostly valid, with one or more faults.
//!
//! The same seed gives the same bytes. Paths and bodies start valid and are then changed: an almost valid
//! request gets further into a server than noise. Configurations that make a server call others (webhooks,
//! aggregated APIs) are read but not written, since after that every write may rightly fail.

mod bodies;

use std::fmt::Write as _;

use bodies::{body, delete_options, patch};
use fastrand::Rng;

/// One request.
pub(crate) struct Generated {
    /// Its method.
    pub(crate) method: String,
    /// Head and body as they are sent.
    pub(crate) bytes: Vec<u8>,
    /// Whether its response may be a stream.
    pub(crate) may_stream: bool,
}

/// The values that all requests share.
pub(crate) struct Shared<'a> {
    /// The `Host` header.
    pub(crate) authority: &'a str,
    /// The administrator's token.
    pub(crate) token: &'a str,
    /// An existing namespace.
    pub(crate) namespace: &'a str,
}

/// The request of `seed`.
pub(crate) fn request(seed: u64, shared: &Shared<'_>) -> Generated {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let method = one(rng, METHODS);
    let path = path(rng, shared.namespace, method);
    let query = query(rng);
    let may_stream = query.contains("watch") || path.contains("watch");
    let body = match method {
        "POST" | "PUT" => Some(body(rng, shared.namespace, &path)),
        "PATCH" => Some(patch(rng, shared.namespace, &path)),
        "DELETE" if rng.u8(..) < 100 => Some(delete_options(rng)),
        _ if rng.u8(..) < 12 => Some(body(rng, shared.namespace, &path)),
        _ => None,
    };
    let mut head = format!("{method} {path}{query} HTTP/1.1\r\nHost: {}\r\n", shared.authority).into_bytes();
    headers(rng, shared, method, &mut head);
    match body {
        Some(body) if rng.u8(..) < 16 => {
            head.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            let split = if body.is_empty() { 0 } else { rng.usize(..body.len()) };
            for piece in [&body[..split], &body[split..]].into_iter().filter(|piece| !piece.is_empty()) {
                head.extend(format!("{:x}\r\n", piece.len()).bytes());
                head.extend(piece);
                head.extend(b"\r\n");
            }
            head.extend(b"0\r\n\r\n");
        }
        Some(body) => {
            head.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
            head.extend(body);
        }
        None => head.extend(b"Content-Length: 0\r\n\r\n"),
    }
    Generated { method: method.to_owned(), bytes: head, may_stream }
}

const METHODS: &[&str] = &[
    "GET", "GET", "GET", "GET", "GET", "POST", "POST", "POST", "PUT", "PUT", "PATCH", "PATCH", "PATCH",
    "DELETE", "DELETE", "HEAD", "OPTIONS", "get", "BREW", "TRACE",
];

/// Collections whose objects are written and read.
const COLLECTIONS: &[&str] = &[
    "/api/v1/namespaces/{ns}/configmaps",
    "/api/v1/namespaces/{ns}/secrets",
    "/api/v1/namespaces/{ns}/pods",
    "/api/v1/namespaces/{ns}/services",
    "/api/v1/namespaces/{ns}/endpoints",
    "/api/v1/namespaces/{ns}/events",
    "/api/v1/namespaces/{ns}/persistentvolumeclaims",
    "/api/v1/namespaces/{ns}/resourcequotas",
    "/api/v1/namespaces/{ns}/serviceaccounts",
    "/api/v1/nodes",
    "/api/v1/persistentvolumes",
    "/apis/apps/v1/namespaces/{ns}/deployments",
    "/apis/apps/v1/namespaces/{ns}/statefulsets",
    "/apis/apps/v1/namespaces/{ns}/daemonsets",
    "/apis/batch/v1/namespaces/{ns}/jobs",
    "/apis/batch/v1/namespaces/{ns}/cronjobs",
    "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers",
    "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers",
    "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
    "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices",
    "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses",
    "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies",
    "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/storage.k8s.io/v1/storageclasses",
    "/apis/node.k8s.io/v1/runtimeclasses",
];

/// Collections that are only read.
const OTHERS: &[&str] = &[
    "/",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/apis/nothing.example.com/v1",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/api/v1/namespaces/{ns}",
    "/api/v1/watch/namespaces/{ns}/configmaps",
    "/api/v1/componentstatuses",
    "/apis/apps/v1/deployments",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "/apis/apiregistration.k8s.io/v1/apiservices",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/version",
    "/livez",
    "/readyz",
    "/healthz/ping",
    "/metrics",
    "/.well-known/openid-configuration",
];

/// Collections that are only created in.
const REVIEWS: &[&str] = &[
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    "/api/v1/namespaces/{ns}/serviceaccounts/default/token",
];

const SUBRESOURCES: &[&str] = &[
    "status",
    "scale",
    "log",
    "binding",
    "eviction",
    "exec",
    "ephemeralcontainers",
    "resize",
    "finalize",
    "token",
    "nothing",
    "",
];

const NAMES: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "a.b",
    "a-b",
    "Upper",
    "under_score",
    "%61",
    "a%2Fb",
    "%00",
    "%FF%FE",
    "..",
    ".",
    "~",
    "é",
    "status",
    "\u{1F600}",
    "-a",
    "a b",
];

const ODD: &[&str] =
    &["", "..", "%2e%2e", "%", "%zz", "%2F", "*", "//", "'", "{}", "\\", "watch", "proxy", "null"];

fn path(rng: &mut Rng, namespace: &str, method: &str) -> String {
    let reads = matches!(method, "GET" | "HEAD" | "OPTIONS" | "get" | "BREW" | "TRACE");
    let mut path = match rng.u8(..) {
        0..50 if reads => one(rng, OTHERS).to_owned(),
        50..60 => one(rng, REVIEWS).to_owned(),
        _ => {
            let mut path = one(rng, COLLECTIONS).to_owned();
            let named = method != "POST" && rng.u8(..) < 190 || rng.u8(..) < 20;
            if named {
                let name = if rng.u8(..) < 180 { NAMES[rng.usize(..6)] } else { one(rng, NAMES) };
                let _ = write!(path, "/{}", escape(name));
                if rng.u8(..) < 60 {
                    let _ = write!(path, "/{}", one(rng, SUBRESOURCES));
                }
            }
            path
        }
    };
    let namespace = if rng.u8(..) < 20 { one(rng, NAMES) } else { namespace };
    path = path.replace("{ns}", &escape(namespace));
    // Only reads get other paths: such a write could delete what the other requests need.
    while reads && rng.u8(..) < 40 {
        path = bent_path(rng, &path);
    }
    path
}

fn bent_path(rng: &mut Rng, path: &str) -> String {
    let mut segments: Vec<&str> = path.split('/').collect();
    let at = rng.usize(1..=segments.len().max(2) - 1).min(segments.len());
    let long = "x".repeat(3000);
    match rng.u8(..6) {
        0 if segments.len() > 2 => {
            segments.remove(at.min(segments.len() - 1));
        }
        1 => segments.insert(at, one(rng, ODD)),
        2 => {
            let copy = segments[at.min(segments.len() - 1)];
            segments.insert(at, copy);
        }
        3 => segments.push(""),
        4 => segments.insert(at, &long),
        _ => {
            let other = rng.usize(1..segments.len().max(2));
            let last = segments.len() - 1;
            segments.swap(at.min(last), other.min(last));
        }
    }
    let path = segments.join("/");
    if path.starts_with('/') { path } else { format!("/{path}") }
}

/// Escapes the bytes that are invalid in a request line; other odd bytes stay.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'!'..=b'~' => escaped.push(char::from(byte)),
            other => {
                let _ = write!(escaped, "%{other:02X}");
            }
        }
    }
    escaped
}

const KEYS: &[(&str, &[&str])] = &[
    ("limit", &["1", "2", "500", "0", "-1", "99999999999999999999", "x", ""]),
    ("continue", &["", "x", "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhIn0", "e30", "%ff"]),
    ("resourceVersion", &["", "0", "1", "5", "-1", "x", "18446744073709551616", "0x1", "1%00"]),
    ("resourceVersionMatch", &["Exact", "NotOlderThan", "", "exact", "x"]),
    (
        "labelSelector",
        &["a=b", "a", "!a", "a in (b,c)", "a in (", "a notin ()", "=", "a==b,,", "a>1", "é=1", "x/y/z=1"],
    ),
    (
        "fieldSelector",
        &[
            "metadata.name=a",
            "metadata.name!=a",
            "status.phase=Running",
            "x=1",
            "=",
            "metadata.name",
            "a\\=b=c",
            ",",
        ],
    ),
    ("watch", &["true", "1", "0", "x", ""]),
    ("timeoutSeconds", &["1", "0", "-1", "x"]),
    ("allowWatchBookmarks", &["true", "x"]),
    ("sendInitialEvents", &["true", "false", "x"]),
    ("dryRun", &["All", "all", "", "x"]),
    ("fieldManager", &["me", "", "%00", "é"]),
    ("fieldValidation", &["Strict", "Warn", "Ignore", "x"]),
    ("force", &["true", "false", "x"]),
    ("pretty", &["true", "1", "x"]),
    ("gracePeriodSeconds", &["0", "1", "-1", "x"]),
    ("propagationPolicy", &["Foreground", "Background", "Orphan", "x"]),
    ("orphanDependents", &["true", "false", "x"]),
    ("timeout", &["1s", "0", "x", "-1s", "10h"]),
    ("includeObject", &["None", "Object", "Metadata", "x"]),
    ("exclude", &["ping", "x"]),
    ("%", &["%", "&", "=", ";"]),
];

fn query(rng: &mut Rng) -> String {
    let mut query = String::new();
    while rng.u8(..) < 110 && query.len() < 500 {
        let (key, values) = KEYS[rng.usize(..KEYS.len())];
        query.push(if query.is_empty() { '?' } else { '&' });
        let _ = write!(query, "{}={}", key, escape(one(rng, values)));
    }
    query
}

const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/json",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/json;charset=utf-8",
    "text/plain",
    "application/x",
    "",
    ";",
    "a/b;c=\"",
];

const PATCH_TYPES: &[&str] = &[
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
    "application/json",
    "text/plain",
];

const ACCEPTS: &[&str] = &[
    "application/json",
    "*/*",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
    "application/json;as=Table;g=x;v=v9",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    "application/*",
    "text/html",
    "",
    ",,;q=",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

fn headers(rng: &mut Rng, shared: &Shared<'_>, method: &str, head: &mut Vec<u8>) {
    let mut line = |name: &str, value: &str| head.extend(format!("{name}: {value}\r\n").bytes());
    match rng.u8(..) {
        0..8 => {}
        8..12 => line("Authorization", "Bearer wrong"),
        12..16 => line("Authorization", "Basic x"),
        _ => line("Authorization", &format!("Bearer {}", shared.token)),
    }
    if rng.u8(..) < 200 {
        line("Accept", one(rng, ACCEPTS));
    }
    if rng.u8(..) < 230 {
        let types = if method == "PATCH" { PATCH_TYPES } else { CONTENT_TYPES };
        line("Content-Type", one(rng, types));
    }
    if rng.u8(..) < 10 {
        line("Impersonate-User", one(rng, &["alice", "system:anonymous", "", "é"]));
    }
    if rng.u8(..) < 4 {
        line("Impersonate-Group", "x");
    }
    if rng.u8(..) < 10 {
        line("Accept-Encoding", one(rng, &["gzip", "br", "gzip;q=0", "*", ""]));
    }
    if rng.u8(..) < 6 {
        line("Content-Encoding", "gzip");
    }
    if rng.u8(..) < 6 {
        line("X-Long", &"y".repeat(rng.usize(1..20_000)));
    }
    if rng.u8(..) < 6 {
        line("If-None-Match", "\"x\"");
    }
    if rng.u8(..) < 4 {
        line("Range", "bytes=0-1");
    }
    if rng.u8(..) < 4 {
        line("Upgrade", "websocket");
        line("Connection", "upgrade");
    }
}

fn one<'a>(rng: &mut Rng, of: &[&'a str]) -> &'a str {
    of[rng.usize(..of.len())]
}
