//! Metrics, from whatever serves their APIs: `metrics.k8s.io` for resources of pods, `custom.metrics.k8s.io`
//! for metrics of pods and other objects, `external.metrics.k8s.io` for all others.
//!
//! What goes wrong is said in the words of the reference's client, because people look for these words.

use super::calculator::{PodMetric, PodMetrics};
use crate::Context;
use aggregation::Aggregation;
use object::label::Selector;
use object::quantity::Quantity;
use object::quote::Quoted;
use object::time::Time;
use object::{Text, Value};
use registry::{Address, Client, ListOptions};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

const RESOURCES: &str = "metrics.k8s.io";
const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "external.metrics.k8s.io";
/// The versions of the custom metrics API that are understood.
const CUSTOM_VERSIONS: [&str; 2] = ["v1beta1", "v1beta2"];
/// The time that a metric is about which does not say so.
const USUAL_WINDOW: Duration = Duration::from_secs(60);

/// Reads metrics as the controller's account.
pub(super) struct Sources {
    client: Client,
    aggregation: Option<Arc<Aggregation>>,
    within: Duration,
}

/// A metric of one object.
pub(super) struct ObjectOf<'a> {
    pub(super) group: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// A question to a metrics API.
struct Question<'a> {
    address: Address<'a>,
    /// `get` or `list`.
    verb: &'static str,
    path: String,
    query: Vec<(&'static str, String)>,
}

impl Sources {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            aggregation: context.settings.aggregation.clone(),
            within: context.settings.request_timeout,
        }
    }

    /// What the pods that a selector picks use of a resource, all containers together or one of them.
    pub(super) async fn of_resource(
        &self,
        resource: &str,
        namespace: &str,
        selector: &Selector,
        container: Option<&str>,
    ) -> Result<PodMetrics, String> {
        let question = Question {
            address: Address { version: "v1beta1", ..Address::v1(RESOURCES, "pods", namespace) },
            verb: "list",
            path: format!("namespaces/{}/pods", escaped(namespace)),
            query: vec![("labelSelector", selector.to_string())],
        };
        let items = match self.computed(&question, selector).await {
            Some(items) if items.is_empty() => {
                return Err("no metrics returned from resource metrics API".to_owned());
            }
            Some(items) => items,
            None => self.items(&question, "resource").await?,
        };
        Ok(items.iter().filter_map(|item| pod_usage(item, resource, container)).collect())
    }

    /// The metrics that this server computes itself. `None` if it does not, or if another server has them.
    async fn computed(&self, question: &Question<'_>, selector: &Selector) -> Option<Vec<Value>> {
        let Address { group, version, .. } = question.address;
        let table = self.aggregation.as_ref().map(|aggregation| aggregation.table());
        let is_remote = table.is_some_and(|table| table.find_version(group, version).is_some());
        if is_remote || !self.client.serves(question.address) {
            return None;
        }
        let options = ListOptions { labels: selector.clone(), ..ListOptions::default() };
        let found = self.client.list_unstored(question.address, &options).await;
        // Without an answer the remote way says what is wrong: there is none.
        found.ok()
    }

    /// A metric of each of the pods that a selector picks.
    pub(super) async fn of_pods(
        &self,
        metric: &str,
        namespace: &str,
        selector: &Selector,
        metric_selector: &Selector,
    ) -> Result<PodMetrics, String> {
        let version = self.custom_version()?;
        let question = Question {
            address: Address {
                group: CUSTOM,
                version: &version,
                resource: "pods",
                subresource: metric,
                namespace,
                name: "*",
            },
            verb: "get",
            path: format!("namespaces/{}/pods/*/{}", escaped(namespace), escaped(metric)),
            query: vec![
                ("labelSelector", selector.to_string()),
                ("metricLabelSelector", metric_selector.to_string()),
            ],
        };
        let items = self.items(&question, "custom").await?;
        let metrics = items.iter().map(|item| {
            let seconds = ["windowSeconds", "window"].into_iter().find_map(|key| item.get(key)?.as_i64());
            let window = seconds.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
            let metric = PodMetric {
                at: time(item),
                window: window.unwrap_or(USUAL_WINDOW),
                value: milli(item.get("value")),
            };
            (Text::from(text(item.get("describedObject"), "name")), metric)
        });
        Ok(metrics.collect())
    }

    /// A metric of an object, in thousandths.
    pub(super) async fn of_object(
        &self,
        metric: &str,
        object: &ObjectOf<'_>,
        metric_selector: &Selector,
    ) -> Result<i64, String> {
        let version = self.custom_version()?;
        let ObjectOf { group, kind, namespace, name } = *object;
        let in_namespace = format!("namespaces/{}", escaped(namespace));
        let is_namespace = kind == "Namespace" && group.is_empty();
        let resource = if is_namespace { "metrics".to_owned() } else { self.resource_of(group, kind)? };
        // An autoscaler may only ask for its own namespace, whatever it names.
        let (address, path) = match is_namespace {
            true => (
                Address { version: &version, ..Address::v1(CUSTOM, &resource, namespace).named(metric) },
                format!("{in_namespace}/metrics/{}", escaped(metric)),
            ),
            false => (
                Address {
                    group: CUSTOM,
                    version: &version,
                    resource: &resource,
                    subresource: metric,
                    namespace,
                    name,
                },
                format!("{in_namespace}/{resource}/{}/{}", escaped(name), escaped(metric)),
            ),
        };
        let query = vec![("metricLabelSelector", metric_selector.to_string())];
        let answer = self.ask(&Question { address, verb: "get", path, query }, "custom").await?;
        let items = answer.get("items").and_then(Value::as_list).unwrap_or_default();
        match items {
            [only] => Ok(milli(only.get("value"))),
            others => Err(unable(
                "custom",
                &format!(
                    "the custom metrics API server returned {} results when we asked for exactly one",
                    others.len()
                ),
            )),
        }
    }

    /// The sum of the values of an external metric, in thousandths.
    pub(super) async fn external(
        &self,
        metric: &str,
        namespace: &str,
        selector: &Selector,
    ) -> Result<i64, String> {
        let question = Question {
            address: Address { version: "v1beta1", ..Address::v1(EXTERNAL, metric, namespace) },
            verb: "list",
            path: format!("namespaces/{}/{}", escaped(namespace), escaped(metric)),
            query: vec![("labelSelector", selector.to_string())],
        };
        let items = self.items(&question, "external").await?;
        Ok(items.iter().map(|item| milli(item.get("value"))).fold(0, i64::saturating_add))
    }

    /// The items of an answer; an error if there are none.
    async fn items(&self, question: &Question<'_>, api: &str) -> Result<Vec<Value>, String> {
        let answer = self.ask(question, api).await?;
        let items = answer.get("items").and_then(Value::as_list).unwrap_or_default();
        match items.is_empty() {
            true => Err(format!("no metrics returned from {api} metrics API")),
            false => Ok(items.to_vec()),
        }
    }

    async fn ask(&self, question: &Question<'_>, api: &str) -> Result<Value, String> {
        self.answer(question).await.map_err(|why| unable(api, &why))
    }

    async fn answer(&self, question: &Question<'_>) -> Result<Value, String> {
        let Address { group, version, .. } = question.address;
        let user = self.client.user_for(question.address, question.verb).await;
        let user = user.map_err(|status| status.message)?;
        let Some(aggregation) = &self.aggregation else { return Err(question.refused(404, "")) };
        let mut path = format!("/apis/{group}/{version}/{}", question.path);
        let mut separator = '?';
        for (key, value) in question.query.iter().filter(|(_, value)| !value.is_empty()) {
            // Writing to a string does not fail.
            let _ = write!(path, "{separator}{key}={}", escaped(value));
            separator = '&';
        }
        let answer = aggregation.document(&user, group, version, &path, self.within).await?;
        match answer.status {
            200..300 => Ok(answer.value),
            status => {
                let message = text(Some(&answer.value), "message");
                Err(match text(Some(&answer.value), "kind") {
                    "Status" if !message.is_empty() => message.to_owned(),
                    _ => question.refused(status, answer.text.trim()),
                })
            }
        }
    }

    /// The version of the custom metrics API: the preferred one of those that are understood.
    fn custom_version(&self) -> Result<Text, String> {
        let table = self.aggregation.as_ref().map(|aggregation| aggregation.table());
        let versions = table.iter().flat_map(|table| table.versions_of(CUSTOM)).collect::<Vec<_>>();
        let known = versions.iter().find(|version| CUSTOM_VERSIONS.contains(&version.as_str()));
        known.cloned().ok_or_else(|| {
            unable(
                "custom",
                &match versions.is_empty() {
                    true => format!("no custom metrics API ({CUSTOM}) registered"),
                    false => "no known available metric versions found".to_owned(),
                },
            )
        })
    }

    /// The resource of a kind, with its group.
    fn resource_of(&self, group: &str, kind: &str) -> Result<String, String> {
        let catalog = self.client.registry().catalog();
        let found = catalog.served().find(|served| served.group == group && served.kind == kind);
        let found = found.ok_or_else(|| {
            let why = format!("no matches for kind {} in group {}", Quoted(kind), Quoted(group));
            let kind = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
            unable("custom", &format!("unable to map kind {kind} to resource: {why}"))
        })?;
        Ok(if group.is_empty() { found.resource.to_string() } else { format!("{}.{group}", found.resource) })
    }
}

fn unable(api: &str, why: &str) -> String {
    format!("unable to fetch metrics from {api} metrics API: {why}")
}

impl Question<'_> {
    /// What the reference's client says of an answer without a Status.
    fn refused(&self, status: u16, body: &str) -> String {
        let what = match status {
            400 => "the server rejected our request for an unknown reason".to_owned(),
            401 => "the server has asked for the client to provide credentials".to_owned(),
            403 => body.to_owned(),
            404 => "the server could not find the requested resource".to_owned(),
            405 => "the server does not allow this method on the requested resource".to_owned(),
            429 => "the server has received too many requests and has asked us to try again later".to_owned(),
            503 => "the server is currently unable to handle the request".to_owned(),
            504 => "the server was unable to return a response in the time allotted, but may still be processing \
                    the request"
                .to_owned(),
            500.. => format!("an error on the server ({}) has prevented the request from succeeding", Quoted(body)),
            other => {
                format!("the server responded with the status code {other} but did not return more information")
            }
        };
        let Address { group, resource, name, .. } = self.address;
        match name {
            "" => format!("{what} (get {resource}.{group})"),
            name => format!("{what} (get {resource}.{group} {name})"),
        }
    }
}

/// What a pod uses of a resource. `None` if the metric of a container is missing.
fn pod_usage(item: &Value, resource: &str, container: Option<&str>) -> Option<(Text, PodMetric)> {
    let containers = item.get("containers").and_then(Value::as_list).unwrap_or_default();
    let usage = |own: &Value| own.get("usage")?.get(resource).map(|value| milli(Some(value)));
    let value = match container {
        Some(name) => usage(containers.iter().find(|own| text(Some(own), "name") == name)?)?,
        None if containers.is_empty() => return None,
        None => {
            let each: Option<Vec<i64>> = containers.iter().map(usage).collect();
            each?.into_iter().fold(0, i64::saturating_add)
        }
    };
    let window =
        item.get("window").and_then(Value::as_str).and_then(|text| object::duration::not_negative(text).ok());
    let name = text(item.get("metadata"), "name").into();
    Some((name, PodMetric { at: time(item), window: window.unwrap_or_default(), value }))
}

fn text<'a>(value: Option<&'a Value>, key: &str) -> &'a str {
    value.and_then(|value| value.get(key)).and_then(Value::as_str).unwrap_or_default()
}

fn time(item: &Value) -> Time {
    text(Some(item), "timestamp").parse().unwrap_or(Time::ZERO)
}

/// A quantity in thousandths; one that is none is 0.
fn milli(value: Option<&Value>) -> i64 {
    match value {
        Some(Value::Int(whole)) => whole.saturating_mul(1000),
        Some(value) => {
            let quantity = value.as_str().and_then(|text| text.parse::<Quantity>().ok());
            quantity.map(|quantity| quantity.milli_value()).unwrap_or_default()
        }
        None => 0,
    }
}

/// A part of a path or the value of a parameter, percent-encoded.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(byte.into())
            }
            _ => {
                // Writing to a string does not fail.
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, Shape, json};

    fn value(text: &str) -> Value {
        json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value
    }

    #[test]
    fn usage_of_a_pod_is_that_of_all_its_containers_or_of_one() {
        let item = value(
            r#"{"metadata":{"name":"p"},"timestamp":"2024-01-02T03:04:05Z","window":"30s","containers":[
                {"name":"a","usage":{"cpu":"100m","memory":"1Ki"}},{"name":"b","usage":{"cpu":"2"}}]}"#,
        );
        let usage =
            |resource, container| pod_usage(&item, resource, container).map(|(_, metric)| metric.value);
        assert_eq!(usage("cpu", None), Some(2100));
        assert_eq!(usage("cpu", Some("b")), Some(2000));
        assert_eq!(usage("memory", Some("a")), Some(1_024_000));
        assert_eq!([usage("memory", None), usage("memory", Some("b")), usage("cpu", Some("c"))], [None; 3]);
        let (name, metric) = pod_usage(&item, "cpu", None).unwrap();
        assert_eq!((name.as_str(), metric.window), ("p", Duration::from_secs(30)));
        assert_eq!(metric.at.to_string(), "2024-01-02T03:04:05Z");
        assert_eq!(pod_usage(&value(r#"{"metadata":{"name":"p"},"containers":[]}"#), "cpu", None), None);
    }

    #[test]
    fn answers_without_a_status_have_the_words_of_the_stock_client() {
        let question = Question {
            address: Address { version: "v1beta1", ..Address::v1(RESOURCES, "pods", "n") },
            verb: "list",
            path: String::new(),
            query: Vec::new(),
        };
        for (status, message) in [
            (404, "the server could not find the requested resource (get pods.metrics.k8s.io)"),
            (503, "the server is currently unable to handle the request (get pods.metrics.k8s.io)"),
            (403, "no (get pods.metrics.k8s.io)"),
            (
                500,
                r#"an error on the server ("no") has prevented the request from succeeding (get pods.metrics.k8s.io)"#,
            ),
            (
                418,
                "the server responded with the status code 418 but did not return more information (get pods.metrics.k8s.io)",
            ),
        ] {
            assert_eq!(question.refused(status, "no"), message);
        }
    }

    #[test]
    fn parts_of_paths_are_escaped() {
        assert_eq!(escaped("a=b,c in (d)|é"), "a%3Db%2Cc%20in%20%28d%29%7C%C3%A9");
    }
}
