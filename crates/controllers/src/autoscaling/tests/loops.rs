//! The controller over a registry: what it does without metrics, and what it says.

use super::*;
use registry::Patch;

const AUTOSCALERS: Address<'static> =
    Address { version: "v2", ..Address::v1("autoscaling", "horizontalpodautoscalers", "n") };

impl Fixture {
    async fn autoscaled_set(&self, name: &str, replicas: i64) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"web"}}}},
            "template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
        );
        self.create(Address::v1("apps", "replicasets", "n"), &text).await;
    }

    async fn autoscaler(&self, name: &str, target: &str, spec: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"scaleTargetRef":{target},"minReplicas":2,"maxReplicas":5{spec}}}}}"#
        );
        self.create(AUTOSCALERS, &text).await;
    }

    /// The conditions of an autoscaler: type, status and reason.
    async fn autoscaler_conditions(&self, name: &str) -> Vec<String> {
        let autoscaler = self.client.get(AUTOSCALERS.named(name)).await.unwrap();
        let status = HorizontalPodAutoscaler::of(autoscaler.as_map().unwrap()).status();
        let all = status.conditions().iter();
        all.map(|one| format!("{} {} {}", one.r#type(), one.status(), one.reason())).collect()
    }

    async fn until_autoscaler(&self, name: &str, expected: &[&str]) {
        self.until(&format!("{expected:?}"), async || self.autoscaler_conditions(name).await == expected)
            .await;
    }

    async fn replicas_of_set(&self, name: &str) -> i64 {
        let set = self.client.get(Address::v1("apps", "replicasets", "n").named(name)).await.unwrap();
        set.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64).unwrap()
    }

    async fn web_pod(&self, name: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        self.create(Address::core("pods", "n"), &text).await;
    }
}

const SET: &str = r#"{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web"}"#;

#[tokio::test(start_paused = true)]
async fn replicas_are_kept_between_the_bounds_of_the_spec() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.autoscaled_set("web", 9).await;
    fixture.autoscaler("web", SET, "").await;
    let _running = fixture.start(&CONTROLLER);
    fixture.until("five replicas", async || fixture.replicas_of_set("web").await == 5).await;
    let why = "New size: 5; reason: Current number of replicas above Spec.MaxReplicas";
    fixture.until_event("n", "SuccessfulRescale", why).await;
    fixture.until_autoscaler("web", &["AbleToScale True SucceededRescale"]).await;
    let autoscaler = fixture.client.get(AUTOSCALERS.named("web")).await.unwrap();
    let status = HorizontalPodAutoscaler::of(autoscaler.as_map().unwrap()).status();
    assert_eq!((status.current_replicas(), status.desired_replicas()), (9, 5));
    assert!(status.last_scale_time().is_some());
    let patch = async |replicas: i64| {
        let patch = format!(r#"{{"spec":{{"replicas":{replicas}}}}}"#);
        let set = Address::v1("apps", "replicasets", "n").named("web");
        fixture.client.patch(set, Patch::Merge, patch.as_bytes()).await.unwrap();
    };
    patch(1).await;
    fixture.until("two replicas", async || fixture.replicas_of_set("web").await == 2).await;
    let why = "New size: 2; reason: Current number of replicas below Spec.MinReplicas";
    fixture.until_event("n", "SuccessfulRescale", why).await;
    patch(0).await;
    let disabled = ["AbleToScale True SucceededGetScale", "ScalingActive False ScalingDisabled"];
    fixture.until_autoscaler("web", &disabled).await;
    assert_eq!(fixture.replicas_of_set("web").await, 0);
}

#[tokio::test(start_paused = true)]
async fn missing_metrics_are_said_in_the_words_of_the_stock_controller() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.autoscaled_set("web", 3).await;
    fixture.web_pod("a").await;
    let metrics = r#","metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}},
        {"type":"External","external":{"metric":{"name":"q"},"target":{"type":"Value","value":"5"}}},
        {"type":"Pods","pods":{"metric":{"name":"qps"},"target":{"type":"AverageValue","averageValue":"5"}}}]"#;
    fixture.autoscaler("web", SET, metrics).await;
    let _running = fixture.start(&CONTROLLER);
    let resource = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch \
                    metrics from resource metrics API: the server could not find the requested resource (get \
                    pods.metrics.k8s.io)";
    fixture.until_event("n", "FailedGetResourceMetric", resource).await;
    let external = "unable to get external metric n/q/nil: unable to fetch metrics from external metrics API: \
                    the server could not find the requested resource (get q.external.metrics.k8s.io)";
    fixture.until_event("n", "FailedGetExternalMetric", external).await;
    let pods = "unable to get metric qps: unable to fetch metrics from custom metrics API: no custom metrics \
                API (custom.metrics.k8s.io) registered";
    fixture.until_event("n", "FailedGetPodsMetric", pods).await;
    let all = format!(
        "invalid metrics (3 invalid out of 3), first error is: failed to get cpu resource metric value: {resource}"
    );
    fixture.until_event("n", "FailedComputeMetricsReplicas", &all).await;
    let failed = ["AbleToScale True SucceededGetScale", "ScalingActive False FailedGetResourceMetric"];
    fixture.until_autoscaler("web", &failed).await;
    assert_eq!(fixture.replicas_of_set("web").await, 3);
}

#[tokio::test(start_paused = true)]
async fn targets_that_cannot_be_scaled_are_reported() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let target =
        |version: &str, kind: &str| format!(r#"{{"apiVersion":"{version}","kind":"{kind}","name":"x"}}"#);
    fixture.autoscaler("unknown", &target("g/v1", "Nothing"), "").await;
    fixture.autoscaler("gone", &target("apps/v1", "Deployment"), "").await;
    let _running = fixture.start(&CONTROLLER);
    for name in ["unknown", "gone"] {
        fixture.until_autoscaler(name, &["AbleToScale False FailedGetScale"]).await;
    }
    fixture.until_event("n", "FailedGetScale", r#"no matches for kind "Nothing" in group "g""#).await;
    fixture.until_event("n", "FailedGetScale", r#"deployments.apps "x" not found"#).await;
}

#[tokio::test(start_paused = true)]
async fn pods_belong_to_one_autoscaler() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    fixture.autoscaled_set("web", 3).await;
    fixture.web_pod("a").await;
    for name in ["one", "two"] {
        fixture.autoscaler(name, SET, "").await;
    }
    let _running = fixture.start(&CONTROLLER);
    let why = "pods by selector app=web are controlled by multiple HPAs: [n/one n/two]";
    fixture.until_event("n", "AmbiguousSelector", why).await;
    fixture.client.delete(AUTOSCALERS.named("two"), &registry::DeleteOptions::default()).await.unwrap();
    let alone = ["AbleToScale True SucceededGetScale", "ScalingActive False FailedGetResourceMetric"];
    fixture.until_autoscaler("one", &alone).await;
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_without_changes_is_written_once() {
    let mut fixture = Fixture::new().await;
    fixture.change_settings(|settings| settings.autoscaling.period = Duration::from_secs(1));
    fixture.namespace("n").await;
    fixture.autoscaled_set("web", 0).await;
    fixture.autoscaler("web", SET, "").await;
    let counters = Arc::<crate::Counters>::default();
    let _running = fixture.start_counted(&CONTROLLER, counters.clone());
    fixture.until("a status", async || !fixture.autoscaler_conditions("web").await.is_empty()).await;
    let version = || {
        let entry = fixture.lookup("horizontalpodautoscalers.autoscaling", "n", "web").unwrap();
        entry.mod_revision()
    };
    let (written, done) = (version(), counters.done());
    fixture.until("three more rounds", async || counters.done() >= done + 3).await;
    assert_eq!(version(), written);
}
