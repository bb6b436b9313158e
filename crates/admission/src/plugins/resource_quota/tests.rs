//! What quotas count, refuse and are charged.

use super::evaluator::Evaluator;
use super::quotas::Pending;
use super::scope::Scope;
use super::*;
use crate::Settled;
use crate::plugins::Gates;
use crate::testing::{Fixture, Write};
use cache::{Cache, Change};
use object::Map;
use schema::{Limits, Shape, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tasks::BoxFuture;

/// Writes statuses of quotas as the pipeline does.
struct Statuses {
    cache: Arc<Cache>,
    written: AtomicUsize,
    /// A quota that another writer changes, or removes, before the next write.
    disturbed: Mutex<Option<Option<String>>>,
}

impl crate::Write for Statuses {
    fn create_namespace(&self, _namespace: Value) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(async { Err(Status::method_not_allowed()) })
    }

    fn update_quota_status(&self, quota: Value) -> BoxFuture<'_, Result<Value, Status>> {
        Box::pin(async move {
            let quotas = self.cache.resource("resourcequotas").unwrap();
            let disturbed = self.disturbed.lock().unwrap().take();
            if let Some(other) = disturbed {
                let change = match other {
                    Some(json) => Change::put(&quotas, "n", "q", json),
                    None => Change::delete(&quotas, "n", "q"),
                };
                self.cache.commit(change).await.unwrap();
            }
            let mut written = quota.as_map().unwrap().clone();
            let metadata = written.get_mut("metadata").and_then(Value::as_map_mut).unwrap();
            let version = metadata.remove("resourceVersion").unwrap();
            let name = metadata.get("name").and_then(Value::as_str).unwrap().to_owned();
            let mut bytes = Vec::new();
            json::encode_shape(&Shape::Any, &written.into(), &mut bytes);
            let revision = store::Revision(version.as_str().unwrap().parse().unwrap());
            let change = Change::put(&quotas, "n", &name, bytes).expect_revision(revision);
            match self.cache.commit(change).await {
                Ok(_) => {
                    self.written.fetch_add(1, Ordering::Relaxed);
                    Ok(quota)
                }
                Err(_) => Err(Status::conflict("", "resourcequotas", &name, "modified")),
            }
        })
    }
}

struct Server {
    fixture: Fixture,
    quotas: Quotas,
    statuses: Arc<Statuses>,
    plugin: ResourceQuota,
}

impl Server {
    async fn new() -> Self {
        Self::with(Gates::default(), None).await
    }

    async fn with(gates: Gates, configuration: Option<&str>) -> Self {
        let fixture = Fixture::new().await;
        let quotas = Quotas::new(&fixture.cache, gates).unwrap();
        let statuses = Arc::new(Statuses {
            cache: fixture.cache.clone(),
            written: AtomicUsize::new(0),
            disturbed: Mutex::default(),
        });
        fixture.shared.writer.connect(statuses.clone());
        let limited = configuration::read(configuration.map(str::as_bytes)).unwrap();
        let plugin = ResourceQuota { quotas: quotas.clone(), writer: fixture.shared.writer.clone(), limited };
        Self { fixture, quotas, statuses, plugin }
    }

    /// A quota with limits and scopes, of which so much is used.
    async fn quota(&self, name: &str, hard: &str, used: &str, more: &str) {
        self.fixture.put("resourcequotas", &quota(name, hard, used, more)).await;
    }

    async fn refusal(&self, write: Write<'_>) -> Option<String> {
        write.validate(&self.plugin).await.err().map(|refused| refused.message)
    }

    fn used(&self, name: &str) -> String {
        self.quotas.shared().known.get("n", name).unwrap().used.to_string()
    }

    fn written(&self) -> usize {
        self.statuses.written.load(Ordering::Relaxed)
    }

    async fn recompute(&self) -> Option<Duration> {
        self.quotas.recompute(&self.fixture.cache, "n", &*self.statuses).await.unwrap()
    }
}

fn quota(name: &str, hard: &str, used: &str, more: &str) -> String {
    format!(
        r#"{{"kind":"ResourceQuota","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}},"spec":{{"hard":{{{hard}}}{more}}},"status":{{"hard":{{{hard}}},"used":{{{used}}}}}}}"#
    )
}

fn pod(name: &str, spec: &str) -> String {
    format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}},"spec":{{{spec}}}}}"#
    )
}

/// The containers of a pod, each by its name and resources: `c requests cpu=1 limits memory=1Gi`.
fn containers(list: &[&str]) -> String {
    let resources = |words: &[&str]| {
        let mut sides: Vec<(&str, Vec<String>)> = Vec::new();
        for word in words {
            match word.split_once('=') {
                None => sides.push((word, Vec::new())),
                Some((name, amount)) => sides.last_mut().unwrap().1.push(format!(r#""{name}":"{amount}""#)),
            }
        }
        let sides = sides.iter().map(|(side, amounts)| format!(r#""{side}":{{{}}}"#, amounts.join(",")));
        sides.collect::<Vec<_>>().join(",")
    };
    let container = |text: &&str| {
        let words: Vec<&str> = text.split(' ').collect();
        let (name, rest) = words.split_first().unwrap();
        let (policy, rest) = match rest.split_first() {
            Some((&"sidecar", rest)) => (r#","restartPolicy":"Always""#, rest),
            _ => ("", rest),
        };
        format!(r#"{{"name":"{name}"{policy},"resources":{{{}}}}}"#, resources(rest))
    };
    format!("[{}]", list.iter().map(container).collect::<Vec<_>>().join(","))
}

fn with_containers(name: &str, list: &[&str]) -> String {
    pod(name, &format!(r#""containers":{}"#, containers(list)))
}

fn tree(evaluator: &Evaluator, text: &str) -> Map {
    let decoded = json::decode(evaluator.ty().unwrap(), text.as_bytes(), &Limits::REQUEST).unwrap().value;
    decoded.as_map().unwrap().clone()
}

fn usage(evaluator: &Evaluator, text: &str) -> String {
    evaluator.usage(&tree(evaluator, text)).to_string()
}

const PODS: Evaluator = Evaluator::Pods { pod_level_resources: false };

#[test]
fn pods_use_the_most_that_runs_at_once() {
    let plain = with_containers("a", &["c requests cpu=1 memory=1Gi limits cpu=2", "d requests cpu=500m"]);
    let expected =
        "count/pods=1,cpu=1500m,limits.cpu=2,memory=1Gi,pods=1,requests.cpu=1500m,requests.memory=1Gi";
    assert_eq!(usage(&PODS, &plain), expected);
    let parts = format!(
        r#""containers":{},"initContainers":{},"overhead":{{"cpu":"10m","memory":"1Mi"}}"#,
        containers(&["c requests cpu=100m limits cpu=1"]),
        // The second one runs beside the first; both together are more than what comes after.
        containers(&["s sidecar requests cpu=50m", "i requests cpu=200m limits cpu=2"]),
    );
    let expected =
        "count/pods=1,cpu=260m,limits.cpu=2010m,memory=1Mi,pods=1,requests.cpu=260m,requests.memory=1Mi";
    assert_eq!(usage(&PODS, &pod("a", &parts)), expected);
    let extended = with_containers(
        "a",
        &[
            "c requests example.com/gpu=2 hugepages-2Mi=4Mi ephemeral-storage=1Gi kubernetes.io/x=1 limits example.com/gpu=2",
        ],
    );
    let expected = "count/pods=1,ephemeral-storage=1Gi,hugepages-2Mi=4Mi,pods=1,requests.ephemeral-storage=1Gi,requests.example.com/gpu=2,requests.hugepages-2Mi=4Mi";
    assert_eq!(usage(&PODS, &extended), expected);
}

#[test]
fn pods_that_have_ended_or_are_overdue_count_as_objects_alone() {
    let own = containers(&["c requests cpu=1"]);
    let with = |metadata: &str, phase: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"a"{metadata}}},"spec":{{"containers":{own}}},"status":{{"phase":"{phase}"}}}}"#
        );
        usage(&PODS, &text)
    };
    let alive = "count/pods=1,cpu=1,pods=1,requests.cpu=1";
    assert_eq!(with("", "Running"), alive);
    for phase in ["Failed", "Succeeded"] {
        assert_eq!(with("", phase), "count/pods=1");
    }
    let deleted = |time: &str| {
        with(&format!(r#","deletionTimestamp":"{time}","deletionGracePeriodSeconds":30"#), "Running")
    };
    assert_eq!(deleted("2020-01-01T00:00:00Z"), "count/pods=1");
    assert_eq!(deleted("2920-01-01T00:00:00Z"), alive);
}

#[test]
fn resized_pods_use_what_they_have_if_that_is_more() {
    let with = |reason: &str| {
        let text = format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"containers":{}}},"status":{{"conditions":[{{"type":"PodResizePending","status":"True","reason":"{reason}"}}],"containerStatuses":[{{"name":"c","allocatedResources":{{"cpu":"2"}},"resources":{{"requests":{{"cpu":"1"}},"limits":{{"cpu":"3"}}}}}}]}}}}"#,
            containers(&["c requests cpu=4 limits cpu=4"])
        );
        usage(&PODS, &text)
    };
    assert_eq!(with("Deferred"), "count/pods=1,cpu=4,limits.cpu=4,pods=1,requests.cpu=4");
    assert_eq!(with("Infeasible"), "count/pods=1,cpu=2,limits.cpu=3,pods=1,requests.cpu=2");
}

#[test]
fn resources_of_the_whole_pod_count_by_gate() {
    let whole = Evaluator::Pods { pod_level_resources: true };
    let parts = format!(
        r#""containers":{},"resources":{{"requests":{{"cpu":"5"}},"limits":{{"cpu":"6","memory":"1Gi"}}}}"#,
        containers(&["c requests cpu=1 memory=1Mi limits cpu=1"])
    );
    let text = pod("a", &parts);
    let expected = "count/pods=1,cpu=5,limits.cpu=6,limits.memory=1Gi,memory=1Mi,pods=1,requests.cpu=5,requests.memory=1Mi";
    assert_eq!(usage(&whole, &text), expected);
    assert!(usage(&PODS, &text).contains("limits.cpu=1,"));
    let bare = pod("a", r#""containers":[{"name":"c"}],"resources":{"requests":{"cpu":"5"}}"#);
    assert!(whole.check(&tree(&whole, &bare), &["requests.memory"]).is_ok());
    assert!(PODS.check(&tree(&PODS, &bare), &["requests.memory"]).is_err());
}

#[test]
fn containers_have_to_specify_what_a_quota_counts() {
    let text = pod(
        "a",
        &format!(
            r#""containers":{},"initContainers":{}"#,
            containers(&["b", "a requests cpu=1"]),
            containers(&["i requests memory=1"])
        ),
    );
    let names = ["pods", "requests.cpu", "limits.memory", "requests.ephemeral-storage", "memory"];
    let expected = "must specify limits.memory for: a,b,i; memory for: a,b; requests.cpu for: b,i";
    assert_eq!(PODS.check(&tree(&PODS, &text), &names).unwrap_err(), expected);
    assert!(PODS.check(&tree(&PODS, &text), &["pods", "requests.example.com/gpu"]).is_ok());
}

#[test]
fn services_use_ports_and_balancers_by_intent() {
    let service = |spec: &str| usage(&Evaluator::Services, &format!(r#"{{"spec":{{{spec}}}}}"#));
    let ports = r#""ports":[{"port":1,"nodePort":30000},{"port":2}]"#;
    let expected = |ports: u8, balancers: u8| {
        format!("count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}")
    };
    assert_eq!(service(ports), expected(0, 0));
    assert_eq!(service(&format!(r#""type":"NodePort",{ports}"#)), expected(2, 0));
    assert_eq!(service(&format!(r#""type":"LoadBalancer",{ports}"#)), expected(2, 1));
    let without = format!(r#""type":"LoadBalancer","allocateLoadBalancerNodePorts":false,{ports}"#);
    assert_eq!(service(&without), expected(1, 1));
}

#[test]
fn claims_use_whole_bytes_of_storage_of_their_class_and_of_all() {
    let claims = Evaluator::VolumeClaims { have_scopes: false };
    let claim = |class: &str, size: &str, allocated: &str| {
        let text = format!(
            r#"{{"spec":{{{class}"resources":{{"requests":{{"storage":"{size}"}}}}}},"status":{{"allocatedResources":{{"storage":"{allocated}"}}}}}}"#
        );
        usage(&claims, &text)
    };
    let expected = "count/persistentvolumeclaims=1,persistentvolumeclaims=1,requests.storage=1Gi";
    assert_eq!(claim("", "1Gi", "0"), expected);
    assert!(claim("", "1500m", "0").ends_with("requests.storage=2"));
    let gold = claim(r#""storageClassName":"gold","#, "1Gi", "2Gi");
    let expected = "count/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/persistentvolumeclaims=1,gold.storageclass.storage.k8s.io/requests.storage=2Gi,persistentvolumeclaims=1,requests.storage=2Gi";
    assert_eq!(gold, expected);
    for name in ["gold.storageclass.storage.k8s.io/requests.storage", "requests.storage"] {
        assert!(claims.counts(name) && !PODS.counts(name), "{name}");
    }
    assert!(!claims.counts("goldrequests.storage"));
}

#[test]
fn device_claims_use_the_most_that_they_may_get_of_each_class() {
    let text = r#"{"spec":{"devices":{"requests":[
        {"name":"a","deviceClassName":"x","allocationMode":"ExactCount","count":2},
        {"name":"b","deviceClassName":"y","allocationMode":"All"},
        {"name":"c","firstAvailable":[
            {"name":"d","deviceClassName":"x","allocationMode":"ExactCount","count":1},
            {"name":"e","deviceClassName":"x","allocationMode":"ExactCount","count":3},
            {"name":"f","deviceClassName":"z","allocationMode":"New","count":3}]}]}}}"#;
    let expected = "count/resourceclaims.resource.k8s.io=1,x.deviceclass.resource.k8s.io/devices=5,y.deviceclass.resource.k8s.io/devices=32";
    assert_eq!(usage(&Evaluator::DeviceClaims, text), expected);
    let of = |gates| Evaluator::of("resource.k8s.io", "resourceclaims", gates).unwrap();
    let on = Gates { dynamic_resource_allocation: true, ..Gates::default() };
    assert_eq!(of(on), Evaluator::DeviceClaims);
    assert_eq!(of(Gates::default()), Evaluator::Count("count/resourceclaims.resource.k8s.io".into()));
}

#[test]
fn every_name_is_counted_by_its_resources() {
    let prefixes = |names: &[&str]| {
        let evaluators = Evaluator::counting(&names.iter().copied().collect(), Gates::default());
        evaluators.iter().map(|evaluator| evaluator.prefix().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(prefixes(&["secrets", "count/secrets", "count/deployments.apps"]), "deployments.apps secrets");
    assert_eq!(prefixes(&["limits.cpu", "requests.example.com/gpu", "count/pods"]), "pods");
    assert_eq!(prefixes(&["services.nodeports", "requests.storage"]), "services persistentvolumeclaims");
    assert_eq!(prefixes(&["count/events", "count/events.events.k8s.io", "widgets"]), "");
    let secrets = Evaluator::of("", "secrets", Gates::default()).unwrap();
    assert_eq!(secrets.usage(&Map::new()).to_string(), "count/secrets=1,secrets=1");
    assert!(!Evaluator::Count("count/secrets.example.com".into()).counts("secrets"));
}

#[test]
fn pods_are_in_scopes_by_what_they_are() {
    let scopes = |json: &str| -> Vec<Scope> {
        let text = format!(r#"{{"spec":{{{json}}}}}"#);
        let quota = json::decode(
            schema::builtin::by_name("core.v1.ResourceQuota").unwrap(),
            text.as_bytes(),
            &Limits::REQUEST,
        );
        quota::Quota::read(quota.unwrap().value.as_map().unwrap()).scopes
    };
    let scope = |name: &str, operator: &str, values: &str| {
        let text = format!(
            r#""scopeSelector":{{"matchExpressions":[{{"scopeName":"{name}","operator":"{operator}","values":[{values}]}}]}}"#
        );
        scopes(&text)
    };
    let is_in = |scopes: &[Scope], spec: &str| PODS.is_in_all(&tree(&PODS, &pod("a", spec)), scopes).unwrap();
    let none = r#""containers":[{"name":"c"}]"#;
    let burstable = format!(r#""containers":{}"#, containers(&["c requests memory=1"]));
    let init = format!(r#"{none},"initContainers":{}"#, containers(&["c limits cpu=1"]));
    let named = |names: &str| scopes(&format!(r#""scopes":[{names}]"#));
    for (spec, best_effort) in [(none, true), (&burstable, false), (&init, false)] {
        assert_eq!(is_in(&named(r#""BestEffort""#), spec), best_effort, "{spec}");
        assert_eq!(is_in(&named(r#""NotBestEffort","NotTerminating""#), spec), !best_effort, "{spec}");
    }
    let deadline = format!(r#"{none},"activeDeadlineSeconds":0"#);
    assert!(is_in(&named(r#""Terminating""#), &deadline) && !is_in(&named(r#""NotTerminating""#), &deadline));
    assert!(!is_in(&named(r#""Terminating""#), none));
    let high = format!(r#"{none},"priorityClassName":"high""#);
    let class = |operator: &str, values: &str| scope("PriorityClass", operator, values);
    assert!(is_in(&class("Exists", ""), &high) && !is_in(&class("Exists", ""), none));
    assert!(is_in(&class("DoesNotExist", ""), none) && !is_in(&class("DoesNotExist", ""), &high));
    assert!(is_in(&class("In", r#""high","low""#), &high) && !is_in(&class("In", r#""high""#), none));
    assert!(is_in(&class("NotIn", r#""high""#), none) && !is_in(&class("NotIn", r#""high""#), &high));
    let term = |term: &str| {
        format!(
            r#"{none},"affinity":{{"podAntiAffinity":{{"preferredDuringSchedulingIgnoredDuringExecution":[{{"weight":1,"podAffinityTerm":{{"topologyKey":"z"{term}}}}}]}}}}"#
        )
    };
    let across = named(r#""CrossNamespacePodAffinity""#);
    assert!(is_in(&across, &term(r#","namespaces":["o"]"#)));
    assert!(is_in(&across, &term(r#","namespaceSelector":{}"#)));
    assert!(!is_in(&across, &term("")) && !is_in(&across, none));
    let claims = Evaluator::VolumeClaims { have_scopes: true };
    let claim = tree(
        &claims,
        r#"{"spec":{"volumeAttributesClassName":"a"},"status":{"currentVolumeAttributesClassName":"b"}}"#,
    );
    let class = scope("VolumeAttributesClass", "In", r#""b""#);
    assert!(claims.is_in_all(&claim, &class).unwrap());
    assert!(!Evaluator::VolumeClaims { have_scopes: false }.is_in_all(&claim, &class).unwrap());
    assert!(!Evaluator::Services.is_in_all(&Map::new(), &across).unwrap());
}

#[tokio::test]
async fn refusals_name_the_first_quota_and_what_is_wrong() {
    let server = Server::new().await;
    server
        .quota(
            "b",
            r#""requests.cpu":"1","limits.memory":"1Gi","pods":"5""#,
            r#""requests.cpu":"600m","limits.memory":"512Mi","pods":"1""#,
            "",
        )
        .await;
    let create =
        async |list: &[&str]| server.refusal(Write::create("pods", &with_containers("a", list))).await;
    assert_eq!(
        create(&["c requests cpu=600m limits memory=600Mi"]).await.unwrap(),
        r#"pods "a" is forbidden: exceeded quota: b, requested: limits.memory=600Mi,requests.cpu=600m, used: limits.memory=512Mi,requests.cpu=600m, limited: limits.memory=1Gi,requests.cpu=1"#
    );
    assert_eq!(
        create(&["c requests cpu=1"]).await.unwrap(),
        r#"pods "a" is forbidden: failed quota: b: must specify limits.memory for: c"#
    );
    assert_eq!(
        create(&["c requests cpu=1 memory=-1 limits memory=1"]).await.unwrap(),
        r#"pods "a" is forbidden: quota usage is negative for resource(s): memory,requests.memory"#
    );
    server.quota("a", r#""pods":"5","cpu":"1""#, r#""pods":"1""#, "").await;
    assert_eq!(
        create(&["c requests cpu=2 limits memory=1Mi"]).await.unwrap(),
        r#"pods "a" is forbidden: status unknown for quota: a, resources: cpu,pods"#
    );
    assert_eq!(server.written(), 0);
}

#[tokio::test]
async fn creates_are_charged_to_every_quota_that_applies() {
    let server = Server::new().await;
    let none = r#","scopes":["BestEffort"]"#;
    server
        .quota(
            "all",
            r#""pods":"3","requests.cpu":"1","count/pods":"9""#,
            r#""pods":"0","requests.cpu":"0","count/pods":"0""#,
            "",
        )
        .await;
    server.quota("best", r#""pods":"3""#, r#""pods":"0""#, none).await;
    server.quota("maps", r#""configmaps":"1""#, r#""configmaps":"0""#, "").await;
    assert_eq!(
        server.refusal(Write::create("pods", &with_containers("a", &["c requests cpu=300m"]))).await,
        None
    );
    assert_eq!(
        (server.used("all").as_str(), server.used("best").as_str()),
        ("count/pods=1,pods=1,requests.cpu=300m", "pods=0")
    );
    assert_eq!(server.written(), 1);
    let map = r#"{"metadata":{"name":"m","namespace":"n"}}"#;
    let dry = Write { dry_run: true, ..Write::create("configmaps", map) };
    assert_eq!(server.refusal(dry.clone()).await, None);
    assert_eq!(server.used("maps"), "configmaps=0");
    assert_eq!(server.refusal(Write::create("configmaps", map)).await, None);
    assert_eq!(server.used("maps"), "configmaps=1");
    assert!(server.refusal(dry).await.unwrap().contains("exceeded quota: maps"));
    // Nothing counts these.
    let written = server.written();
    assert_eq!(server.refusal(Write::create("secrets", map)).await, None);
    assert_eq!(server.refusal(Write::create("events", map)).await, None);
    assert_eq!(server.written(), written);
    assert_eq!(server.quotas.namespaces_in_use(), 0);
}

#[tokio::test]
async fn updates_are_charged_the_difference() {
    let server = Server::new().await;
    let hard = r#""services":"1","services.nodeports":"2""#;
    server.quota("q", hard, r#""services":"1","services.nodeports":"1""#, "").await;
    let service = |kind: &str, ports: &str| {
        format!(
            r#"{{"metadata":{{"name":"s","namespace":"n"}},"spec":{{"type":"{kind}","ports":[{ports}]}}}}"#
        )
    };
    let one = service("NodePort", r#"{"port":1}"#);
    let two = service("NodePort", r#"{"port":1},{"port":2}"#);
    let three = service("NodePort", r#"{"port":1},{"port":2},{"port":3}"#);
    assert_eq!(server.refusal(Write::update("services", &one, &one)).await, None);
    assert_eq!(server.written(), 0);
    assert_eq!(server.refusal(Write::update("services", &one, &two)).await, None);
    assert_eq!(server.used("q"), "services=1,services.nodeports=2");
    assert!(
        server
            .refusal(Write::update("services", &two, &three))
            .await
            .unwrap()
            .contains("requested: services.nodeports=1,")
    );
    // A way back is free, and counts when the namespace is counted.
    assert_eq!(server.refusal(Write::update("services", &two, &one)).await, None);
    assert_eq!(server.used("q"), "services=1,services.nodeports=2");
}

#[tokio::test]
async fn pods_are_charged_when_they_are_resized_or_change_their_scope() {
    let server = Server::new().await;
    server.quota("q", r#""requests.cpu":"2""#, r#""requests.cpu":"1""#, "").await;
    server.quota("t", r#""pods":"1""#, r#""pods":"0""#, r#","scopes":["Terminating"]"#).await;
    let small = with_containers("a", &["c requests cpu=1"]);
    let large = with_containers("a", &["c requests cpu=3"]);
    assert_eq!(server.refusal(Write::update("pods", &small, &large)).await, None);
    let resize = Write { subresource: "resize", ..Write::update("pods", &small, &large) };
    assert!(
        server.refusal(resize).await.unwrap().contains("requested: requests.cpu=2, used: requests.cpu=1")
    );
    let deadline =
        pod("a", &format!(r#""containers":{},"activeDeadlineSeconds":5"#, containers(&["c requests cpu=1"])));
    assert_eq!(server.refusal(Write::update("pods", &small, &deadline)).await, None);
    assert_eq!((server.used("q").as_str(), server.used("t").as_str()), ("requests.cpu=1", "pods=1"));
    let status = Write { subresource: "status", ..Write::update("pods", &small, &large) };
    assert_eq!(server.refusal(status).await, None);
    assert_eq!(server.used("q"), "requests.cpu=1");
}

#[tokio::test]
async fn status_of_a_claim_is_charged_without_being_asked_for() {
    let server = Server::new().await;
    server.quota("q", r#""requests.storage":"1Gi""#, r#""requests.storage":"1Gi""#, "").await;
    let claim = |allocated: &str| {
        format!(
            r#"{{"metadata":{{"name":"c","namespace":"n"}},"spec":{{"resources":{{"requests":{{"storage":"1Gi"}}}}}},"status":{{"allocatedResources":{{"storage":"{allocated}"}}}}}}"#
        )
    };
    let (before, after) = (claim("1Gi"), claim("3Gi"));
    let status = Write { subresource: "status", ..Write::update("persistentvolumeclaims", &before, &after) };
    assert_eq!(server.refusal(status).await, None);
    assert_eq!(server.used("q"), "requests.storage=3Gi");
}

#[tokio::test]
async fn limited_resources_need_a_quota() {
    let configuration = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: ResourceQuotaConfiguration
limitedResources:
- resource: pods
  matchContains: [requests.cpu, .com/]
  matchScopes:
  - {scopeName: PriorityClass, operator: In, values: [high, top]}
"#;
    let server = Server::with(Gates::default(), Some(configuration)).await;
    let cpu = with_containers("a", &["c requests cpu=1 example.com/gpu=1"]);
    assert_eq!(
        server.refusal(Write::create("pods", &cpu)).await.unwrap(),
        r#"pods "a" is forbidden: insufficient quota to consume: requests.cpu,requests.example.com/gpu"#
    );
    server
        .quota(
            "q",
            r#""requests.cpu":"1","requests.example.com/gpu":"1""#,
            r#""requests.cpu":"0","requests.example.com/gpu":"0""#,
            "",
        )
        .await;
    assert_eq!(server.refusal(Write::create("pods", &cpu)).await, None);
    let high = pod(
        "a",
        r#""containers":[{"name":"c","resources":{"requests":{"cpu":"0"}}}],"priorityClassName":"high""#,
    );
    let refused = Write::create("pods", &high).validate(&server.plugin).await.err().unwrap();
    assert_eq!(
        (refused.code, refused.message.as_str()),
        (500, "insufficient quota to match these scopes: [{PriorityClass In [high top]}]")
    );
    let scope =
        r#","scopeSelector":{"matchExpressions":[{"scopeName":"PriorityClass","operator":"Exists"}]}"#;
    server.quota("high", r#""pods":"1""#, r#""pods":"0""#, scope).await;
    assert_eq!(server.refusal(Write::create("pods", &high)).await, None);
    assert_eq!(server.used("high"), "pods=1");
}

#[test]
fn configurations_are_read_in_all_versions() {
    let text = |version: &str, kind: &str, rest: &str| format!("apiVersion: {version}\nkind: {kind}\n{rest}");
    let rest = "limitedResources:\n- resource: pods\n  apiGroup: g\n";
    for (version, kind) in [
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
    ] {
        let read = configuration::read(Some(text(version, kind, rest).as_bytes())).unwrap();
        assert!(read.first().unwrap().is_about("g", "pods"));
        let wrong = |rest: &str| configuration::read(Some(text(version, kind, rest).as_bytes())).unwrap_err();
        let missing = wrong("limitedResources:\n- apiGroup: g\n");
        assert!(missing.contains("limitedResources[0].resource: Required value"), "{missing}");
        assert!(wrong("limited: 1\n").contains("limited"), "{}", wrong("limited: 1\n"));
    }
    let other = text("apiserver.config.k8s.io/v1", "Configuration", rest);
    assert!(configuration::read(Some(other.as_bytes())).unwrap_err().starts_with("no kind"));
    assert!(configuration::read(None).unwrap().is_empty());
}

#[tokio::test]
async fn charges_are_tried_again_on_the_newest_state() {
    let server = Server::new().await;
    let hard = r#""configmaps":"2""#;
    server.quota("q", hard, r#""configmaps":"0""#, "").await;
    let map = r#"{"metadata":{"name":"m","namespace":"n"}}"#;
    let disturb = |other: Option<String>| *server.statuses.disturbed.lock().unwrap() = Some(other);
    disturb(Some(quota("q", hard, r#""configmaps":"1""#, "")));
    assert_eq!(server.refusal(Write::create("configmaps", map)).await, None);
    assert_eq!(server.used("q"), "configmaps=2");
    server.quota("q", hard, r#""configmaps":"1""#, "").await;
    disturb(Some(quota("q", hard, r#""configmaps":"2""#, "")));
    assert!(server.refusal(Write::create("configmaps", map)).await.unwrap().contains("used: configmaps=2"));
    server.quota("q", hard, r#""configmaps":"1""#, "").await;
    disturb(None);
    assert_eq!(server.refusal(Write::create("configmaps", map)).await, None);
}

#[tokio::test]
async fn recomputing_counts_what_is_there_and_what_is_under_way() {
    let server = Server::new().await;
    let hard =
        r#""pods":"9","requests.cpu":"9","count/secrets":"9","secrets":"9","count/widgets.example.com":"9""#;
    server.quota("q", hard, r#""pods":"7","count/secrets":"7","count/widgets.example.com":"4""#, "").await;
    server.quota("scoped", r#""pods":"9""#, "", r#","scopes":["Terminating"]"#).await;
    server.fixture.put("pods", &with_containers("a", &["c requests cpu=1"])).await;
    let ending =
        pod("b", &format!(r#""containers":{},"activeDeadlineSeconds":5"#, containers(&["c requests cpu=1"])));
    server.fixture.put("pods", &ending).await;
    server
        .fixture
        .put("secrets", r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"n"}}"#)
        .await;
    server
        .fixture
        .put("secrets", r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"o"}}"#)
        .await;
    server.recompute().await;
    let expected = "count/secrets=1,count/widgets.example.com=4,pods=2,requests.cpu=2,secrets=1";
    assert_eq!(server.used("q"), expected);
    assert_eq!(server.used("scoped"), "pods=1");
    let written = server.written();
    server.recompute().await;
    assert_eq!(server.written(), written);

    // One that grows, one that is made twice, and one that is there already.
    let mut under_way = Vec::new();
    for (prefix, name, text) in [
        ("pods", "a", with_containers("a", &["c requests cpu=3"])),
        ("pods", "new", with_containers("new", &["c requests cpu=1"])),
        ("pods", "new", with_containers("new", &["c requests cpu=2"])),
        ("secrets", "s", pod("s", "")),
        ("secrets", "t", pod("t", "")),
    ] {
        let object = tree(&PODS, &text).into();
        let pending = Pending { prefix: prefix.into(), name: name.into(), object };
        under_way.push(server.quotas.namespace("n").begin(pending));
    }
    server.recompute().await;
    assert_eq!(
        server.used("q"),
        "count/secrets=2,count/widgets.example.com=4,pods=3,requests.cpu=6,secrets=2"
    );
    under_way.into_iter().for_each(|charged| charged.settle(Settled::Abandoned));
    server.recompute().await;
    assert_eq!(server.used("q"), expected);
    assert_eq!(server.quotas.namespaces_in_use(), 0);
}

#[tokio::test]
async fn limits_that_are_asked_for_hold_when_they_are_recomputed() {
    let server = Server::new().await;
    let text = r#"{"kind":"ResourceQuota","apiVersion":"v1","metadata":{"name":"q","namespace":"n"},"spec":{"hard":{"pods":"2"}},"status":{"hard":{"secrets":"1"},"used":{"secrets":"1"}}}"#;
    server.fixture.put("resourcequotas", text).await;
    server.recompute().await;
    let quota = server.quotas.shared().known.get("n", "q").unwrap();
    assert_eq!((quota.hard.to_string(), quota.used.to_string()), ("pods=2".into(), "pods=0".into()));
}

#[tokio::test]
async fn pods_on_their_way_out_are_counted_again_when_they_are_overdue() {
    let server = Server::new().await;
    server.quota("q", r#""pods":"2""#, r#""pods":"2""#, "").await;
    assert_eq!(server.recompute().await, None);
    let time = object::time::Time::now();
    let text = format!(
        r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"a","namespace":"n","deletionTimestamp":"{time}","deletionGracePeriodSeconds":60}},"spec":{{}}}}"#
    );
    server.fixture.put("pods", &text).await;
    let again = server.recompute().await.unwrap();
    assert!(again > Duration::from_secs(30) && again <= Duration::from_secs(60), "{again:?}");
    assert_eq!(server.used("q"), "pods=1");
}

#[tokio::test]
async fn charges_of_writes_that_are_given_up_are_told() {
    let server = Server::new().await;
    server.quota("q", r#""configmaps":"5""#, r#""configmaps":"0""#, "").await;
    let create = async |name: &str| {
        let map = format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}}}}"#);
        Write::create("configmaps", &map).validate(&server.plugin).await.unwrap()
    };
    let quotas = server.quotas.clone();
    let told = tokio::spawn(async move { quotas.abandoned().await });
    tokio::task::yield_now().await;
    let kept = create("a").await;
    drop(create("b").await);
    assert_eq!(told.await.unwrap().into_iter().collect::<Vec<_>>(), ["n"]);
    assert_eq!(server.used("q"), "configmaps=2");
    server.recompute().await;
    assert_eq!(server.used("q"), "configmaps=1");
    assert_eq!(server.quotas.namespaces_in_use(), 1);
    drop(kept);
    assert_eq!(server.quotas.namespaces_in_use(), 0);
}
