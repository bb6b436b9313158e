//! Causes for which tests of the reference failed here once, and that no other test is about: each test is
//! named by what has to hold, and says which test of the reference asks for it. The others:
//!
//! | test of the reference | here |
//! |---|---|
//! | `TestRatchetingFunctionality` | `server/src/api/tests/custom_ratcheting.rs` |
//! | `Test*VeryLargeObject*` | `e2e_etcd`: an object that fits without its managed fields is stored |
//! | `TestWebsocketWatchClientTimeout` | `e2e_watch_socket`: other formats end and errors |
//! | `TestFetchingOpenAPIBeforeReady` | `e2e_aggregation`: openapi describes what another server serves |
//! | `Test_UpgradeService` | `e2e_etcd`: services of older servers get their ip addresses |
//! | `TestCascadingDeleteOnCRDConversionFailure` | `e2e_conversion`: dead webhook |
//! | `TestCertificateSubjectRestrictionPlugin` | `admission/src/plugins/certificate_subject_restriction.rs` |
//! | `TestController_AutoApproval` | `controllers/src/certificates/approver.rs`, `e2e_controllers` |
//! | `TestQuotaLimitedResourceDenial` | `admission/src/plugins/resource_quota/tests.rs` |
//! | `TestNodeAuthorizer` | `auth/src/node/tests.rs` |
//! | `TestPodSecurity*` | `admission/src/plugins/pod_security/tests.rs` |
//! | `TestHSTS` | `e2e_flags`: server with headers for browsers |
//! | `TestNondeterministicResponseEncoding` | `docs/differences.md` |
//! | `TestRequestObjectConvertibleToUnstructured` | `docs/differences.md` |
//! | `TestBrokenWebhook` | `e2e_admission`: server becomes healthy whatever webhooks say |
//! | `TestWebhookClientAuth*`, `TestWebhookReinvocationPolicy*` | `admission/src/webhook/tests.rs` |
//! | `TestWebhookTimeout*`, `TestWebhookAdmission*` | the same, `e2e_admission` |
//! | `TestExternalJWTSigningAndAuth` | `e2e_token_signer`, `access/src/token_signer/tests.rs` |

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::https::SigningRequest;
use testkit::{Server, eventually, unique};

const PATIENCE: Duration = Duration::from_secs(60);

fn start(flags: &[&str]) -> Server {
    Server::start(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson")), flags).unwrap()
}

fn post(server: &Server, path: &str, object: &Value) -> Value {
    let (code, made) = server.call("POST", path, object).unwrap();
    assert_eq!(code, 201, "{made}");
    made
}

fn get(server: &Server, path: &str) -> Value {
    let (code, object) = server.call("GET", path, &Value::Null).unwrap();
    assert_eq!(code, 200, "{object}");
    object
}

fn namespace(server: &Server) -> String {
    let name = unique("suite");
    post(server, "/api/v1/namespaces", &json!({"metadata": {"name": name}}));
    name
}

/// `TestListOptions`: every combination of limits, tokens, versions and matches.
#[test]
fn options_of_lists_are_refused_or_honoured_in_every_combination() {
    let server = start(&[]);
    let namespace = namespace(&server);
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    // The controllers add one of their own.
    eventually("the authority is published", PATIENCE, || {
        !get(&server, &path)["items"].as_array().unwrap().is_empty()
    });
    for number in 0..9 {
        post(&server, &path, &json!({"metadata": {"name": format!("m-{number}")}}));
    }
    let first = get(&server, &format!("{path}?limit=6"));
    let valid = first["metadata"]["continue"].as_str().unwrap().to_owned();
    let mut tried = 0;
    for limit in [0, 6] {
        for token in ["", &*valid, "invalidContinueToken"] {
            for version in ["", "0", "invalid"] {
                for rule in ["", "NotOlderThan", "Exact", "invalid"] {
                    let query = format!(
                        "limit={limit}&continue={token}&resourceVersion={version}&resourceVersionMatch={rule}"
                    );
                    let (code, answer) =
                        server.call("GET", &format!("{path}?{query}"), &Value::Null).unwrap();
                    let why = if version.is_empty() && !rule.is_empty() {
                        "resourceVersionMatch is forbidden unless resourceVersion is provided"
                    } else if !token.is_empty() && !rule.is_empty() {
                        "resourceVersionMatch is forbidden when continue is provided"
                    } else if rule == "invalid" {
                        "supported values"
                    } else if rule == "Exact" && version == "0" {
                        "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""
                    } else if token == "invalidContinueToken" {
                        "continue key is not valid"
                    } else if !token.is_empty() && !matches!(version, "" | "0") {
                        "specifying resource version is not allowed when using continue"
                    } else if version == "invalid" {
                        "Invalid value"
                    } else {
                        ""
                    };
                    tried += 1;
                    if !why.is_empty() {
                        let message = answer["message"].as_str().unwrap_or_default();
                        assert!(code >= 400 && message.contains(why), "{query}: {code} {answer}");
                        continue;
                    }
                    assert_eq!(code, 200, "{query}: {answer}");
                    // A list of what is there anyway is never cut, as in the reference.
                    let expected = match (token.is_empty(), limit, version) {
                        (false, _, _) => 4,
                        (true, 6, "") => 6,
                        _ => 10,
                    };
                    assert_eq!(answer["items"].as_array().unwrap().len(), expected, "{query}");
                }
            }
        }
    }
    assert_eq!(tried, 72);
}

/// `TestQuotaLimitService`.
#[test]
fn quota_limits_services_their_node_ports_and_load_balancers() {
    let server = start(&[]);
    let namespace = namespace(&server);
    let root = format!("/api/v1/namespaces/{namespace}");
    let hard = json!({"services": "4", "services.nodeports": "2", "services.loadbalancers": "2"});
    post(
        &server,
        &format!("{root}/resourcequotas"),
        &json!({"metadata": {"name": "quota"}, "spec": {"hard": hard}}),
    );
    let used = |services: &str, ports: &str, balancers: &str| {
        let expected =
            json!({"services": services, "services.nodeports": ports, "services.loadbalancers": balancers});
        eventually(&format!("{expected} is used"), PATIENCE, || {
            get(&server, &format!("{root}/resourcequotas/quota"))["status"]["used"] == expected
        });
    };
    used("0", "0", "0");
    let make = |name: &str, kind: &str, has_node_ports: bool| {
        let service = json!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}],
            "allocateLoadBalancerNodePorts": if kind == "LoadBalancer" { json!(has_node_ports) } else { Value::Null }}});
        server.call("POST", &format!("{root}/services"), &service).unwrap()
    };
    let forbidden = |name: &str, kind: &str, has_node_ports: bool| {
        let (code, said) = make(name, kind, has_node_ports);
        assert_eq!(code, 403, "{said}");
        assert!(said["message"].as_str().unwrap().contains("exceeded quota: quota"), "{said}");
    };
    for (name, kind) in [("np", "NodePort"), ("lb-1", "LoadBalancer")] {
        assert_eq!(make(name, kind, true).0, 201);
    }
    used("2", "2", "1");
    forbidden("lb-2", "LoadBalancer", true);
    assert_eq!(make("lb-3", "LoadBalancer", false).0, 201);
    used("3", "2", "2");
    forbidden("lb-4", "LoadBalancer", false);
    assert_eq!(make("ip-1", "ClusterIP", false).0, 201);
    used("4", "2", "2");
    forbidden("ip-2", "ClusterIP", false);
}

/// `Test_ServiceLoadBalancerIPMode`.
#[test]
fn address_of_a_load_balancer_has_the_mode_vip_by_default() {
    let server = start(&[]);
    let namespace = namespace(&server);
    let path = format!("/api/v1/namespaces/{namespace}/services");
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}});
    post(&server, &path, &service);
    for (mode, expected) in [(Value::Null, "VIP"), (json!("Proxy"), "Proxy"), (json!("VIP"), "VIP")] {
        let mut service = get(&server, &format!("{path}/s"));
        let mut ingress = json!({"ip": "1.2.3.4", "ports": [{"port": 80, "protocol": "TCP"}]});
        if !mode.is_null() {
            ingress["ipMode"] = mode;
        }
        service["status"]["loadBalancer"]["ingress"] = json!([ingress]);
        let (code, said) = server.call("PUT", &format!("{path}/s/status"), &service).unwrap();
        assert_eq!(code, 200, "{said}");
        let service = get(&server, &format!("{path}/s"));
        assert_eq!(service["status"]["loadBalancer"]["ingress"][0]["ipMode"], expected);
    }
}

/// `TestCreateLeaseOnStart`.
#[test]
fn start_makes_a_lease_that_says_who_the_server_is() {
    let server = start(&[]);
    let path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let query = "labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver";
    let list = get(&server, &format!("{path}?{query}"));
    let leases = list["items"].as_array().unwrap();
    assert_eq!(leases.len(), 1, "{list}");
    let (lease, name) = (&leases[0], leases[0]["metadata"]["name"].as_str().unwrap());
    assert!(name.starts_with("apiserver-") && name.len() == "apiserver-".len() + 26, "{name}");
    let holder = lease["spec"]["holderIdentity"].as_str().unwrap();
    assert!(holder.starts_with(&format!("{name}_")), "{holder}");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 3600);
    assert!(!lease["metadata"]["labels"]["kubernetes.io/hostname"].as_str().unwrap().is_empty());
}

/// `TestReflectorWatchListFallback`: a client has to learn that it cannot have initial events.
#[test]
fn initial_events_are_refused_without_their_gate() {
    let server = start(&["--feature-gates=WatchList=false"]);
    let query =
        "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    let (code, said) = server.call("GET", &format!("/api/v1/secrets?{query}"), &Value::Null).unwrap();
    assert_eq!((code, &said["reason"]), (422, &json!("Invalid")), "{said}");
    let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    assert!(said["message"].as_str().unwrap().contains(why), "{said}");
}

/// `Test_TransitionsForPreferSameTrafficDistribution`.
#[test]
fn hints_of_endpoints_follow_the_traffic_distribution() {
    let server = start(&[
        "--feature-gates=PreferSameTrafficDistribution=true",
        "--disable-admission-plugins=ServiceAccount",
    ]);
    let namespace = namespace(&server);
    let root = format!("/api/v1/namespaces/{namespace}");
    let node =
        json!({"metadata": {"name": "fake-node", "labels": {"topology.kubernetes.io/zone": "fake-zone-1"}}});
    post(&server, "/api/v1/nodes", &node);
    let ports = json!([{"name": "port-443", "containerPort": 443}]);
    let spec = json!({"nodeName": "fake-node", "containers": [{"name": "c", "image": "i", "ports": ports}]});
    let mut pod = post(
        &server,
        &format!("{root}/pods"),
        &json!({"metadata": {"name": "p", "labels": {"foo": "bar"}}, "spec": spec}),
    );
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]});
    assert_eq!(server.call("PUT", &format!("{root}/pods/p/status"), &pod).unwrap().0, 200);
    let spec =
        json!({"selector": {"foo": "bar"}, "ports": [{"name": "port-443", "port": 443, "targetPort": 443}]});
    post(&server, &format!("{root}/services"), &json!({"metadata": {"name": "s"}, "spec": spec}));
    let distribute = |way: Value| {
        let mut service = get(&server, &format!("{root}/services/s"));
        service["spec"]["trafficDistribution"] = way;
        assert_eq!(server.call("PUT", &format!("{root}/services/s"), &service).unwrap().0, 200);
    };
    let hints = |zones: bool, nodes: bool| {
        let expected = [zones, nodes];
        eventually(&format!("hints {expected:?}"), PATIENCE, || {
            let path = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
            let slices = get(&server, &path);
            let endpoint = &slices["items"][0]["endpoints"][0];
            let has = |key: &str| endpoint["hints"][key].as_array().is_some_and(|list| !list.is_empty());
            endpoint.is_object() && [has("forZones"), has("forNodes")] == expected
        });
    };
    hints(false, false);
    distribute(json!("PreferSameZone"));
    hints(true, false);
    distribute(json!("PreferSameNode"));
    hints(true, true);
    distribute(Value::Null);
    hints(false, false);
    let mut node = get(&server, "/api/v1/nodes/fake-node");
    node["metadata"]["labels"] = json!({});
    assert_eq!(server.call("PUT", "/api/v1/nodes/fake-node", &node).unwrap().0, 200);
    distribute(json!("PreferSameNode"));
    hints(false, true);
}

/// `TestCSRDuration`, its last part.
#[test]
fn certificates_for_a_requested_time_are_counted() {
    let server = start(&[]);
    let request = SigningRequest::new("jane", "developers").unwrap();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    for (name, seconds) in [("asked", Some(3600)), ("plain", None)] {
        let mut spec = json!({"request": STANDARD.encode(&request.pem), "usages": ["client auth", "digital signature"],
            "signerName": "kubernetes.io/kube-apiserver-client"});
        if let Some(seconds) = seconds {
            spec["expirationSeconds"] = json!(seconds);
        }
        let mut made = post(&server, path, &json!({"metadata": {"name": name}, "spec": spec}));
        made["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]});
        let (code, said) = server.call("PUT", &format!("{path}/{name}/approval"), &made).unwrap();
        assert_eq!(code, 200, "{said}");
        eventually("the certificate is issued", PATIENCE, || {
            get(&server, &format!("{path}/{name}"))["status"]["certificate"].is_string()
        });
    }
    let (_, metrics) = server.text("GET", "/metrics", "").unwrap();
    for what in ["requested", "honored"] {
        let line = format!(
            "apiserver_certificates_registry_csr_{what}_duration_total{{signerName=\"kubernetes.io/kube-apiserver-client\"}} 1\n"
        );
        assert!(metrics.contains(&line), "{line}");
    }
}
