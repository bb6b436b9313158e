//! Parts of the API behind feature gates that are off by default: trust bundles, and what servers say of the
//! versions that they store.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Server, eventually};

const PATIENCE: Duration = Duration::from_secs(60);
const BUNDLES: &str = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
const AUTHORITY: &str = include_str!("../../kinds/src/certificates/cluster_trust_bundle/authority.crt");

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A call with further headers: the status code and the answer.
fn call_as(server: &Server, headers: &str, method: &str, path: &str, object: &Value) -> (u16, Value) {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    connection.allow(PATIENCE);
    let body = if object.is_null() { String::new() } else { object.to_string() };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        target.authority(),
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    let answer = connection.body(&mut head).unwrap();
    (head.status, serde_json::from_slice(&answer).unwrap_or_default())
}

#[test]
fn trust_bundles_are_published_read_by_pods_and_written_by_those_who_attest() {
    let flags = [
        "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
        "--runtime-config=certificates.k8s.io/v1beta1=true,certificates.k8s.io/v1alpha1=true",
    ];
    let server = Server::start(&binary(), &flags).unwrap();
    let own = std::fs::read_to_string(server.ca()).unwrap();
    let signer = "kubernetes.io/kube-apiserver-serving";
    let mut published = Value::Null;
    eventually("the authority of the server is a bundle", PATIENCE, || {
        let query = format!("{BUNDLES}?fieldSelector=spec.signerName%3D{}", signer.replace('/', "%2F"));
        published = server.call("GET", &query, &Value::Null).unwrap().1;
        published["items"].as_array().is_some_and(|items| items.len() == 1)
    });
    let bundle = &published["items"][0];
    assert_eq!(bundle["spec"], json!({"signerName": signer, "trustBundle": own}));
    let name = bundle["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("kubernetes.io:kube-apiserver-serving:"), "{name}");
    let alpha = format!("{}/{name}", BUNDLES.replace("v1beta1", "v1alpha1"));
    assert_eq!(
        server.call("GET", &alpha, &Value::Null).unwrap().1["apiVersion"],
        "certificates.k8s.io/v1alpha1"
    );

    // Service accounts may read them, by a default role.
    let mut token = String::new();
    eventually("a token", PATIENCE, || {
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let (code, request) = server.call("POST", path, &json!({})).unwrap();
        token = request["status"]["token"].as_str().unwrap_or_default().to_owned();
        code == 201
    });
    let headers = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(call_as(&server, &headers, "GET", BUNDLES, &Value::Null).0, 200);

    // Who may write bundles may not write those of any signer.
    let rules =
        json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"], "verbs": ["*"]}]);
    let role = json!({"metadata": {"name": "bundles"}, "rules": rules});
    let roles = "/apis/rbac.authorization.k8s.io/v1";
    assert_eq!(server.call("POST", &format!("{roles}/clusterroles"), &role).unwrap().0, 201);
    let binding = json!({"metadata": {"name": "bundles"},
        "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bundles"}});
    assert_eq!(server.call("POST", &format!("{roles}/clusterrolebindings"), &binding).unwrap().0, 201);
    let jane = format!("Authorization: Bearer {}\r\nImpersonate-User: jane\r\n", server.token());
    let of = |name: &str, signer: &str| json!({"metadata": {"name": name}, "spec": {"signerName": signer, "trustBundle": AUTHORITY}});
    assert_eq!(call_as(&server, &jane, "POST", BUNDLES, &of("plain", "")).0, 201);
    let (code, said) = call_as(&server, &jane, "POST", BUNDLES, &of("example.com:s:a", "example.com/s"));
    assert_eq!(code, 403);
    let message = said["message"].as_str().unwrap();
    assert!(message.ends_with(r#"user not permitted to attest for signerName "example.com/s""#), "{message}");

    // Pods name them in projected volumes.
    let pod = |source: Value| {
        let volumes = json!([{"name": "v", "projected": {"sources": [{"clusterTrustBundle": source}]}}]);
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": volumes});
        let pod = json!({"metadata": {"generateName": "p-"}, "spec": spec});
        server.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", &pod).unwrap()
    };
    let (code, made) = pod(json!({"signerName": signer, "path": "ca.crt"}));
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["volumes"][0]["projected"]["sources"][0]["clusterTrustBundle"]["path"], "ca.crt");
    let (code, said) = pod(json!({"path": "../ca.crt"}));
    assert_eq!(code, 422);
    let causes = said["details"]["causes"].as_array().unwrap().iter();
    let causes: Vec<String> = causes.map(|cause| cause["field"].as_str().unwrap().to_owned()).collect();
    let at = "spec.volumes[0].projected.sources[0].clusterTrustBundle";
    assert_eq!(causes, [at.to_owned(), format!("{at}.path")]);
}

#[test]
fn without_their_gate_trust_bundles_are_neither_served_nor_projected() {
    let server = Server::start(&binary(), &["--runtime-config=api/all=true"]).unwrap();
    assert_eq!(server.call("GET", BUNDLES, &Value::Null).unwrap().0, 404);
    let volumes = json!([{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"path": "p"}}]}}]);
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "volumes": volumes});
    let path = "/api/v1/namespaces/default/pods?dryRun=All";
    let mut made = (0, Value::Null);
    eventually("the service account is there", PATIENCE, || {
        made = server.call("POST", path, &json!({"metadata": {"name": "p"}, "spec": spec})).unwrap();
        made.0 == 201
    });
    assert_eq!(made.1["spec"]["volumes"][0]["projected"]["sources"], json!([{}]));
}

#[test]
fn server_says_which_versions_it_stores_and_those_of_dead_servers_are_removed() {
    let flags = [
        "--feature-gates=StorageVersionAPI=true",
        "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
    ];
    let server = Server::start(&binary(), &flags).unwrap();
    let path = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions";
    let mut found = Value::Null;
    eventually("the versions are written", PATIENCE, || {
        found = server.call("GET", &format!("{path}/apps.deployments"), &Value::Null).unwrap().1;
        found["status"]["commonEncodingVersion"] == "apps/v1"
    });
    let own = found["status"]["storageVersions"][0]["apiServerID"].as_str().unwrap();
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{own}");
    assert_eq!(server.call("GET", &lease, &Value::Null).unwrap().0, 200);
    assert_eq!(found["status"]["conditions"][0]["type"], "AllEncodingVersionsEqual");
    // A server that has no lease.
    found["status"]["storageVersions"].as_array_mut().unwrap().push(json!({
        "apiServerID": "apiserver-gone", "encodingVersion": "apps/v1beta1", "decodableVersions": ["apps/v1beta1"],
    }));
    found["status"]["commonEncodingVersion"] = Value::Null;
    let (code, said) = server.call("PUT", &format!("{path}/apps.deployments/status"), &found).unwrap();
    assert_eq!(code, 200, "{said}");
    eventually("it is removed", PATIENCE, || {
        let (_, now) = server.call("GET", &format!("{path}/apps.deployments"), &Value::Null).unwrap();
        now["status"]["storageVersions"].as_array().is_some_and(|servers| servers.len() == 1)
            && now["status"]["commonEncodingVersion"] == "apps/v1"
    });
}
