//! The objects that requests are about: their names, their paths, their bodies.

use super::settings::Size;
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const POD: &str = include_str!("../pod.json");
/// How many pods share a label.
const GROUP: usize = 100;
/// Stand in the templates for what differs.
const NAME: &str = "@name@";
const LABEL: &str = "@group@";
const STEP: &str = "@step@";

/// What a run works with on one server.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) namespace: String,
    pub(crate) size: Size,
    steps: Arc<AtomicUsize>,
    pod: Arc<str>,
    deployment: Arc<str>,
}

impl Plan {
    pub(crate) fn new(namespace: &str, size: Size) -> Result<Self, Failure> {
        let mut pod = template()?;
        let deployment = deployment(&pod)?;
        if size.fill > 0 {
            let metadata = pod.get_mut("metadata").ok_or("it has no metadata")?;
            metadata["annotations"]["bench.example.com/fill"] = "some words ".repeat(size.fill / 11).into();
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            size,
            steps: Arc::default(),
            deployment: deployment.to_string().into(),
            pod: pod.to_string().into(),
        })
    }

    /// The uid of the config map [`OWNER`](Self::OWNER), which owns the pods: one that exists, so that a
    /// server which collects garbage leaves them alone.
    pub(crate) fn owned_by(&mut self, uid: &str) {
        self.pod = self.pod.replace(Self::UID, uid).into();
    }

    /// The name of the config map that owns the pods.
    pub(crate) const OWNER: &str = "owner";
    const UID: &str = "3c1b5a60-91f5-4f76-8f2f-1a0f4b7c9e22";

    /// How many operations the usual number becomes.
    pub(crate) fn operations(&self, usual: usize) -> usize {
        ((usual as f64 * self.size.work).round() as usize).max(1)
    }

    /// A collection of the core group.
    pub(crate) fn path(&self, resource: &str) -> String {
        self.group_path("api/v1", resource)
    }

    /// A collection of any group.
    pub(crate) fn group_path(&self, version: &str, resource: &str) -> String {
        format!("/{version}/namespaces/{}/{resource}", self.namespace)
    }

    pub(crate) fn pod_path(&self, number: usize) -> String {
        format!("{}/{}", self.path("pods"), pod_name(number % self.size.pods))
    }

    /// The numbers of pods in an order that is not theirs, the same in every run.
    pub(crate) fn scattered(&self, number: usize) -> usize {
        number.wrapping_mul(7919) % self.size.pods
    }

    /// A number that is given once.
    pub(crate) fn next_step(&self) -> usize {
        self.steps.fetch_add(1, Ordering::Relaxed)
    }

    /// How many values the label of pods has.
    pub(crate) fn groups(&self) -> usize {
        (self.size.pods / GROUP).max(1)
    }

    /// How many pods have a value of the label.
    pub(crate) fn in_group(&self, group: usize) -> usize {
        (group..self.size.pods).step_by(self.groups()).count()
    }

    pub(crate) fn pod(&self, number: usize) -> String {
        let group = number % self.groups();
        self.pod.replacen(NAME, &pod_name(number), 1).replacen(LABEL, &group.to_string(), 1)
    }

    pub(crate) fn deployment(&self, name: usize, step: usize) -> String {
        self.deployment.replacen(NAME, &format!("web-{name}"), 1).replacen(STEP, &step.to_string(), 1)
    }

    pub(crate) fn config_map(&self, name: usize, step: usize) -> String {
        let mut data: serde_json::Map<String, Value> = (0..10)
            .map(|key| {
                (format!("setting-{key}"), format!("the value of setting number {key}, some words").into())
            })
            .collect();
        data.insert("step".into(), step.to_string().into());
        let metadata = json!({"name": format!("settings-{name}"), "labels": {"app": "web"}});
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string()
    }
}

fn pod_name(number: usize) -> String {
    format!("web-7d9f8b6c5-{number:05}")
}

/// The pod of the sample as a controller sends it: without what the server and the kubelet fill in, on no
/// node, and without the variables, whose managed fields would take it past 5.4 kB.
fn template() -> Result<Value, Failure> {
    let mut pod: Value = serde_json::from_str(POD)?;
    let object = pod.as_object_mut().ok_or("the sample is no object")?;
    object.remove("status");
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut).ok_or("it has no metadata")?;
    for given in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace"] {
        metadata.remove(given);
    }
    metadata.insert("name".into(), NAME.into());
    let labels = metadata.get_mut("labels").and_then(Value::as_object_mut).ok_or("it has no labels")?;
    labels.insert("group".into(), LABEL.into());
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": Plan::OWNER, "uid": Plan::UID});
    metadata.insert("ownerReferences".into(), json!([owner]));
    let spec = object.get_mut("spec").and_then(Value::as_object_mut).ok_or("it has no spec")?;
    spec.remove("nodeName");
    // No scheduler takes it.
    spec.insert("schedulerName".into(), "none".into());
    let containers = spec.get_mut("containers").and_then(Value::as_array_mut).into_iter().flatten();
    for container in containers {
        if let Some(variables) = container.get_mut("env").and_then(Value::as_array_mut) {
            variables.retain(|variable| variable.get("value").is_none());
        }
    }
    Ok(pod)
}

/// A deployment of such pods, which no controller acts on.
fn deployment(pod: &Value) -> Result<Value, Failure> {
    let mut spec = pod.get("spec").cloned().ok_or("the pod has no spec")?;
    let image = spec.pointer_mut("/containers/0/image").ok_or("the pod has no container")?;
    *image = format!("registry.example.com/team/web:1.25.{STEP}").into();
    // Decided by the server for each pod.
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("priority");
        spec.remove("preemptionPolicy");
    }
    let labels = json!({"app": "web"});
    Ok(json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "replicas": 0,
            "paused": true,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }))
}
