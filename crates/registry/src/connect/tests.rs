use super::*;
use crate::Config;
use auth::{Attributes, Authenticated, SystemIdentity};
use cache::{Cache, Change};
use std::borrow::Cow;
use std::sync::Arc;

struct Fixture {
    registry: Registry,
    cache: Arc<Cache>,
}

const NODE: &str = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"node"},"status":{"addresses":[
    {"type":"InternalIP","address":"10.0.0.9"},{"type":"Hostname","address":"node.example"}],
    "daemonEndpoints":{"kubeletEndpoint":{"Port":10251}}}}"#;

impl Fixture {
    async fn new() -> Self {
        let store = Arc::new(store::memory::Memory::default());
        let cache =
            Cache::open(store, crate::specs().unwrap(), cache::CacheOptions::default()).await.unwrap();
        let cache = Arc::new(cache);
        let mut config = Config::new(&cache).unwrap();
        config.admission = admission::Chain::default();
        let registry = Registry::new(cache.clone(), config).unwrap();
        let fixture = Self { registry, cache };
        fixture.put("nodes", "", "node", NODE).await;
        let bare = NODE.replace(r#""status":"#, r#""x":"#).replace("10251", "0");
        fixture.put("nodes", "", "bare", &bare.replace(r#""name":"node""#, r#""name":"bare""#)).await;
        fixture
            .pod(
                "p",
                r#"{"nodeName":"node","containers":[{"name":"a","ports":[{"containerPort":8080}]}]}"#,
                "10.1.1.1",
            )
            .await;
        fixture.pod("unbound", r#"{"containers":[{"name":"a"}]}"#, "127.0.0.1").await;
        let two =
            r#"{"nodeName":"bare","initContainers":[{"name":"i"}],"containers":[{"name":"a"},{"name":"b"}]}"#;
        fixture.pod("two", two, "fd00::1").await;
        fixture
    }

    async fn put(&self, resource: &str, namespace: &str, name: &str, json: &str) {
        let resource = self.cache.resource(resource).unwrap();
        let json = json.replace("\n    ", "");
        self.cache.commit(Change::put(&resource, namespace, name, json)).await.unwrap();
    }

    async fn pod(&self, name: &str, spec: &str, address: &str) {
        let json = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}},"spec":{spec},"status":{{"podIPs":[{{"ip":"{address}"}}]}}}}"#
        );
        self.put("pods", "n", name, &json).await;
    }

    /// The location as a URL with the backend before it, or the code and message of the error.
    async fn connect(
        &self,
        resource: &str,
        name: &str,
        subresource: &str,
        query: &[(&str, &str)],
        path: &str,
    ) -> String {
        let catalog = self.registry.catalog();
        let namespace = if resource == "nodes" { "" } else { "n" };
        let target = auth::Target::Resource {
            group: String::new(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: namespace.into(),
            name: name.into(),
        };
        let caller = Authenticated::system(SystemIdentity::ApiServer);
        let authorizer = &self.registry.config().authorizer;
        let proof = authorizer.authorize(caller, Attributes::new("create", target)).await;
        let Ok(proof) = proof else { panic!("everything is allowed") };
        let target = Target::find(&proof, &catalog).unwrap();
        let query: Vec<(Cow<'_, str>, Cow<'_, str>)> =
            query.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let options = ConnectOptions { query: &query, path, warnings: Warnings::default() };
        match self.registry.connect(&target, &options).await {
            Ok(None) => "nowhere".into(),
            Ok(Some(location)) => {
                let scheme = if location.tls { "https" } else { "http" };
                let query =
                    if location.query.is_empty() { String::new() } else { format!("?{}", location.query) };
                format!("{:?} {scheme}://{}{}{query}", location.backend, location.authority(), location.path)
            }
            Err(status) => format!("{} {}", status.code, status.message),
        }
    }
}

#[tokio::test]
async fn kubelets_get_the_options_as_they_know_them() {
    let fixture = Fixture::new().await;
    let exec = [
        ("command", "sh"),
        ("command", "-c x&y z"),
        ("stdin", "true"),
        ("stdout", "1"),
        ("tty", "false"),
        ("stderr", "0"),
    ];
    let log = [
        ("follow", ""),
        ("tailLines", "5"),
        ("limitBytes", "9"),
        ("sinceTime", "2024-01-02T03:04:05+01:00"),
        ("previous", "FALSE"),
    ];
    let insecure = [("insecureSkipTLSVerifyBackend", "true")];
    for (subresource, query, wanted) in [
        (
            "exec",
            &exec[..],
            "Kubelet https://node.example:10251/exec/n/p/a?command=sh&command=-c+x%26y+z&input=1&output=1",
        ),
        (
            "attach",
            &[("stderr", "yes"), ("command", "no")],
            "Kubelet https://node.example:10251/attach/n/p/a?error=1",
        ),
        (
            "portforward",
            &[("ports", "80,81"), ("ports", "82")],
            "Kubelet https://node.example:10251/portForward/n/p?port=80%2C81%2C82",
        ),
        ("portforward", &[], "Kubelet https://node.example:10251/portForward/n/p"),
        (
            "portforward",
            &[("ports", "x")],
            "400 cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        (
            "log",
            &log,
            "Kubelet https://node.example:10251/containerLogs/n/p/a?follow=true&limitBytes=9&sinceTime=2024-01-02T02%3A04%3A05Z&tailLines=5",
        ),
        ("log", &insecure, "UnverifiedKubelet https://node.example:10251/containerLogs/n/p/a"),
        ("log", &[("tailLines", "x")], "400 strconv.ParseInt: parsing \"x\": invalid syntax"),
        ("exec", &[("dryRun", "")], "400 dryRun is not supported"),
    ] {
        assert_eq!(
            fixture.connect("pods", "p", subresource, query, "").await,
            wanted,
            "{subresource} {query:?}"
        );
    }
}

#[tokio::test]
async fn containers_and_nodes_have_to_be_there() {
    let fixture = Fixture::new().await;
    for (name, subresource, query, wanted) in [
        ("absent", "exec", &[][..], "404 pods \"absent\" not found"),
        ("unbound", "exec", &[], "400 pod unbound does not have a host assigned"),
        ("unbound", "portforward", &[], "400 pod unbound does not have a host assigned"),
        ("unbound", "log", &[], "nowhere"),
        ("two", "log", &[], "400 a container name must be specified for pod two, choose one of: [i a b]"),
        ("two", "exec", &[("container", "z")], "400 container z is not valid for pod two"),
        ("two", "exec", &[("container", "i")], "500 no preferred addresses found; known addresses: []"),
        (
            "p",
            "log",
            &[("tailLines", "-1"), ("limitBytes", "0"), ("sinceSeconds", "0"), ("stream", "All")],
            "422 PodLogOptions \"p\" is invalid: [tailLines: Invalid value: -1: must be greater than or equal to 0, \
             limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid value: 0: must be greater than 0, \
             stream: Forbidden: may not be specified]",
        ),
    ] {
        assert_eq!(
            fixture.connect("pods", name, subresource, query, "").await,
            wanted,
            "{name} {subresource}"
        );
    }
}

#[tokio::test]
async fn proxies_lead_to_addresses_that_others_can_reach() {
    let fixture = Fixture::new().await;
    for (resource, name, path, wanted) in [
        ("pods", "p", "", "Pod http://10.1.1.1:8080"),
        ("pods", "https:p:", "/a//b/../c/", "Pod https://10.1.1.1:8080/a/c/"),
        ("pods", "p:90", "/", "Pod http://10.1.1.1:90/"),
        ("pods", "p:90@evil", "/", "400 invalid pod request \"p:90@evil\""),
        ("pods", "ftp:p:90", "/", "400 invalid pod request \"ftp:p:90\""),
        ("pods", "two", "/", "Pod http://[fd00::1]/"),
        ("pods", "unbound", "/", "400 address not allowed"),
        ("nodes", "node", "/logs/", "ProxiedKubelet https://node.example:10251/logs/"),
        ("nodes", "https:node:10251", "/x", "ProxiedKubelet https://node.example:10251/x"),
        ("nodes", "node:9100", "/x", "Node http://node.example:9100/x"),
        ("nodes", "absent", "/", "404 nodes \"absent\" not found"),
    ] {
        assert_eq!(fixture.connect(resource, name, "proxy", &[], path).await, wanted, "{name}");
    }
}

#[tokio::test]
async fn services_lead_to_their_pods_alone() {
    let fixture = Fixture::new().await;
    let service = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"s","namespace":"n"},"spec":{"ports":[{"name":"web","port":80}]}}"#;
    fixture.put("services", "n", "s", service).await;
    assert_eq!(
        fixture.connect("services", "s:81", "proxy", &[], "/").await,
        "503 no service port 81 found for service \"s\""
    );
    assert_eq!(fixture.connect("services", "s", "proxy", &[], "/").await, "404 services \"s\" not found");
    let endpoints = |addresses: &str| {
        format!(
            r#"{{"kind":"Endpoints","apiVersion":"v1","metadata":{{"name":"s","namespace":"n"}},"subsets":[{{"addresses":[{addresses}],"ports":[{{"name":"web","port":8080}}]}}]}}"#
        )
    };
    let of = |ip: &str, pod: &str| {
        format!(r#"{{"ip":"{ip}","targetRef":{{"kind":"Pod","namespace":"n","name":"{pod}"}}}}"#)
    };
    let all =
        [of("10.1.1.2", "p"), of("10.1.1.1", "p"), of("10.1.1.1", "absent"), r#"{"ip":"10.1.1.1"}"#.into()];
    fixture.put("endpoints", "n", "s", &endpoints(&all.join(","))).await;
    for name in ["s:web", "s:80"] {
        assert_eq!(fixture.connect("services", name, "proxy", &[], "/a").await, "Pod http://10.1.1.1:8080/a");
    }
    assert_eq!(
        fixture.connect("services", "https:s:web", "proxy", &[], "").await,
        "Pod https://10.1.1.1:8080"
    );
    fixture.put("endpoints", "n", "s", &endpoints(&of("10.1.1.2", "p"))).await;
    assert_eq!(
        fixture.connect("services", "s:80", "proxy", &[], "/").await,
        "503 no endpoints available for service \"s:80\""
    );
}

#[test]
fn loopback_and_link_local_addresses_are_not_proxied_to() {
    for (address, wanted) in [
        ("10.0.0.1", true),
        ("8.8.8.8", true),
        ("fd00::1", true),
        ("2001:db8::1", true),
        ("127.0.0.1", false),
        ("169.254.169.254", false),
        ("0.0.0.0", false),
        ("255.255.255.255", false),
        ("224.0.0.1", false),
        ("::", false),
        ("::1", false),
        ("::ffff:127.0.0.1", false),
        ("fe80::1", false),
        ("ff02::1", false),
    ] {
        assert_eq!(is_proxyable(address.parse().unwrap()), wanted, "{address}");
    }
}
