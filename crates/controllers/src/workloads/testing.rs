//! What tests of workloads do to pods, as schedulers and kubelets do.

use crate::testing::Fixture;
use cache::{Filter, Freshness, Query};
use kinds::object_meta;
use object::time::Time;
use object::{Map, Value};
use registry::{Address, DeleteOptions, Patch};

impl Fixture {
    /// The objects of a type in the namespace `n`, by name.
    pub(crate) async fn all(&self, address: Address<'_>) -> Vec<Map> {
        let objects = self.client.list_objects(address).await.unwrap();
        objects.into_iter().map(|object| object.as_map().cloned().unwrap()).collect()
    }

    /// The pods of the namespace `n`.
    pub(crate) async fn pods(&self) -> Vec<Map> {
        self.all(Address::core("pods", "n")).await
    }

    /// The names of the pods of the namespace `n` that are not being deleted.
    pub(crate) async fn pod_names(&self) -> Vec<String> {
        let pods = self.pods().await;
        let live = pods.iter().filter(|pod| !object_meta::is_deleting(pod));
        live.map(|pod| object_meta::text(pod, "name").to_owned()).collect()
    }

    /// How many pods of the namespace `n` are not being deleted.
    pub(crate) async fn pod_count(&self) -> usize {
        self.pod_names().await.len()
    }

    /// Changes a pod of the namespace `n` by a merge patch of its status.
    pub(crate) async fn patch_pod_status(&self, name: &str, status: &str) {
        let address = Address::core("pods", "n").named(name).subresource("status");
        let patch = format!(r#"{{"status":{status}}}"#);
        self.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap();
    }

    /// Makes a pod of the namespace `n` ready since some seconds ago.
    pub(crate) async fn make_ready(&self, name: &str, ago: i64) {
        let since = Time::from_unix(Time::now().unix() - ago);
        let status = format!(
            r#"{{"phase":"Running","conditions":[{{"type":"Ready","status":"True","lastTransitionTime":"{since}"}}]}}"#
        );
        self.patch_pod_status(name, &status).await;
    }

    /// Makes a pod of the namespace `n` run without being ready.
    pub(crate) async fn make_unready(&self, name: &str) {
        let status = format!(
            r#"{{"phase":"Running","conditions":[{{"type":"Ready","status":"False","lastTransitionTime":"{}"}}]}}"#,
            Time::now()
        );
        self.patch_pod_status(name, &status).await;
    }

    /// Makes all pods of the namespace `n` ready that are not, and gives their number.
    pub(crate) async fn make_all_ready(&self) -> usize {
        let mut count = 0;
        for pod in self.pods().await {
            let is_ready = pod.get("status").and_then(|status| status.get("conditions")).is_some();
            if !is_ready && !object_meta::is_deleting(&pod) {
                self.make_ready(object_meta::text(&pod, "name"), 1).await;
                count += 1;
            }
        }
        count
    }

    /// Ends a pod of the namespace `n`, as a kubelet does when it is asked to.
    pub(crate) async fn remove_pod(&self, name: &str) {
        let now = DeleteOptions { grace_period_seconds: Some(0), ..DeleteOptions::default() };
        self.client.delete(Address::core("pods", "n").named(name), &now).await.unwrap();
    }

    /// An object as it is now.
    pub(crate) async fn read(&self, address: Address<'_>) -> Map {
        self.client.get(address).await.unwrap().as_map().cloned().unwrap()
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn merge(&self, address: Address<'_>, patch: &str) -> Value {
        self.client.patch(address, Patch::Merge, patch.as_bytes()).await.unwrap()
    }

    /// Gives the container of a workload's template another image.
    pub(crate) async fn set_template_image(&self, address: Address<'_>, image: &str) {
        let patch = format!(
            r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"c","image":"{image}"}}]}}}}}}}}"#
        );
        self.merge(address, &patch).await;
    }

    /// The events of the namespace `n` about objects of a kind, as `reason: message`, in the order in which
    /// they were first written.
    pub(crate) async fn events(&self, kind: &str) -> Vec<String> {
        let query = Query::new(Freshness::Any, Filter::namespace("n"));
        let mut entries: Vec<_> = self.cache.resource("events").unwrap().list(query).await.unwrap().collect();
        entries.sort_by_key(|entry| entry.create_revision());
        let text = |event: &Value, path: &[&str]| {
            let found = path.iter().try_fold(event, |value, key| value.get(key));
            found.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let mut events = Vec::new();
        for entry in entries {
            let address = Address::core("events", "n").named(entry.name());
            let event = self.client.get(address).await.unwrap();
            if text(&event, &["involvedObject", "kind"]) == kind {
                events.push(format!("{}: {}", text(&event, &["reason"]), text(&event, &["message"])));
            }
        }
        events
    }
}

/// A number in the status of an object; zero if it is absent.
pub(crate) fn in_status(object: &Map, field: &str) -> i64 {
    let status = object.get("status").and_then(Value::as_map);
    status.map_or(0, |status| super::status::number(status, field))
}

/// A text by the path to it; empty if it is absent.
pub(crate) fn text_at<'a>(object: &'a Map, path: &[&str]) -> &'a str {
    let mut value = None;
    for key in path {
        value = match value {
            None => object.get(key),
            Some(value) => Value::get(value, key),
        };
    }
    value.and_then(Value::as_str).unwrap_or_default()
}
