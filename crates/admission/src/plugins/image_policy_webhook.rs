//! `ImagePolicyWebhook`: another server decides about the images of pods.
//!
//! Its configuration is a file of its own form: `imagePolicy`, with the kubeconfig of the server, how long
//! answers count, and what happens when it does not answer.

use super::{Builtin, Parts};
use crate::{Attributes, Operation, Plugin, Reservation};
use auth::Expiring;
use aws_lc_rs::digest::{SHA256, digest};
use object::{Map, Value};
use outbound::{Backoff, Kubeconfig, Webhook};
use schema::view::View as _;
use schema::views::core::v1::Pod;
use schema::views::imagepolicy::v1alpha1::{ImageReview, ImageReviewSpec};
use schema::{Limits, Shape, Status, json, yaml};
use std::path::Path;
use std::time::Duration;
use tasks::Deferred;

/// The most answers that are kept.
const MOST_KEPT: usize = 1024;
/// How long the server may take, all attempts together.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Annotations that are for the server.
const ANNOTATIONS: &str = ".image-policy.k8s.io/";

/// The plugin.
pub struct ImagePolicyWebhook {
    webhook: Webhook,
    kept: Expiring<Answer>,
    allowed_for: Duration,
    denied_for: Duration,
    allows_by_default: bool,
}

#[derive(Clone)]
struct Answer {
    allowed: bool,
    reason: String,
}

/// The configuration file of the plugin.
#[derive(Debug, PartialEq)]
struct Configuration {
    kubeconfig: String,
    allowed_for: Duration,
    denied_for: Duration,
    pause: Duration,
    allows_by_default: bool,
}

impl Configuration {
    fn parse(text: &[u8]) -> Result<Self, String> {
        let decoded = yaml::decode_shape(&Shape::Any, text, &Limits::REQUEST);
        let decoded = decoded.map_err(|error| error.to_string())?.value;
        let policy = decoded.get("imagePolicy");
        let field = |key: &str| policy.and_then(|policy| policy.get(key));
        let number = |key: &str| field(key).and_then(Value::as_i64).unwrap_or_default();
        let (second, half_hour) = (Duration::from_secs(1), Duration::from_secs(1800));
        Ok(Self {
            kubeconfig: field("kubeConfigFile").and_then(Value::as_str).unwrap_or_default().to_owned(),
            allowed_for: within(number("allowTTL"), second, second, half_hour, Duration::from_secs(300))?,
            denied_for: within(number("denyTTL"), second, second, half_hour, Duration::from_secs(30))?,
            pause: within(
                number("retryBackoff"),
                Duration::from_millis(1),
                Duration::from_nanos(1),
                Duration::from_secs(300),
                Duration::from_millis(500),
            )?,
            allows_by_default: field("defaultAllow").and_then(Value::as_bool).unwrap_or_default(),
        })
    }
}

/// A time in units: -1 for none, 0 for the default.
fn within(
    value: i64,
    unit: Duration,
    least: Duration,
    most: Duration,
    default: Duration,
) -> Result<Duration, String> {
    let shown = |time: Duration| object::duration::Duration::from(time).to_string();
    let range = || format!("valid value is between {} and {}, got {value}", shown(least), shown(most));
    match value {
        -1 => Ok(Duration::ZERO),
        0 => Ok(default),
        value => {
            let units = u32::try_from(value).map_err(|_| range())?;
            let time = unit.saturating_mul(units);
            if (least..=most).contains(&time) { Ok(time) } else { Err(range()) }
        }
    }
}

impl ImagePolicyWebhook {
    async fn check(&self, review: Value) -> Result<(), String> {
        let mut text = Vec::new();
        json::encode(ImageReview::schema(), &review, &mut text);
        let mut key = [0; 32];
        key.iter_mut().zip(digest(&SHA256, &text).as_ref()).for_each(|(to, from)| *to = *from);
        let answer = match self.kept.get(&key) {
            Some(kept) => kept,
            None => match self.webhook.review(ImageReview::schema(), &review, None).await {
                Ok(answered) => {
                    let answer = Answer::of(&answered);
                    let time = if answer.allowed { self.allowed_for } else { self.denied_for };
                    self.kept.insert(key, answer.clone(), time);
                    answer
                }
                Err(error) if self.allows_by_default => {
                    log::warn!(error:%; "the webhook for images does not answer; the images are allowed");
                    return Ok(());
                }
                Err(error) => return Err(error.to_string()),
            },
        };
        match (answer.allowed, answer.reason.as_str()) {
            (true, _) => Ok(()),
            (false, "") => Err("one or more images rejected by webhook backend".to_owned()),
            (false, reason) => {
                Err(format!("image policy webhook backend denied one or more images: {reason}"))
            }
        }
    }
}

impl Answer {
    fn of(review: &Value) -> Self {
        let empty = Map::new();
        let status = ImageReview::of(review.as_map().unwrap_or(&empty)).status();
        Self { allowed: status.allowed(), reason: status.reason().to_owned() }
    }
}

/// The question about the containers of a pod, or about its ephemeral ones.
fn review(pod: Pod<'_>, namespace: &str, is_ephemeral: bool) -> Value {
    let spec = pod.spec();
    let images: Vec<&str> = match is_ephemeral {
        true => spec.ephemeral_containers().iter().map(|container| container.image()).collect(),
        false => {
            let all = spec.containers().iter().chain(spec.init_containers().iter());
            all.map(|container| container.image()).collect()
        }
    };
    let containers = images.into_iter().map(|image| {
        let mut container = Map::new();
        if !image.is_empty() {
            container.insert("image", image);
        }
        Value::from(container)
    });
    let annotations: Map = pod
        .metadata()
        .annotations()
        .iter()
        .filter(|(key, _)| key.contains(ANNOTATIONS))
        .map(|(key, value)| (object::Key::from(key), Value::from(value)))
        .collect();
    let mut spec = Map::new();
    spec.insert(ImageReviewSpec::CONTAINERS, containers.collect::<Vec<_>>());
    if !annotations.is_empty() {
        spec.insert(ImageReviewSpec::ANNOTATIONS, annotations);
    }
    spec.insert(ImageReviewSpec::NAMESPACE, namespace);
    let mut review = Map::new();
    review.insert("kind", "ImageReview");
    review.insert("apiVersion", "imagepolicy.k8s.io/v1alpha1");
    review.insert(ImageReview::SPEC, spec);
    review.into()
}

impl Builtin for ImagePolicyWebhook {
    const NAME: &'static str = "ImagePolicyWebhook";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let Configuration { kubeconfig, allowed_for, denied_for, pause, allows_by_default } =
            Configuration::parse(parts.configuration.ok_or("no config specified")?)?;
        let endpoint = Kubeconfig::read(Path::new(&kubeconfig)).and_then(|config| config.endpoint());
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        Ok(Self {
            webhook: Webhook::new(endpoint, Backoff { initial: pause, ..Backoff::default() }, TIMEOUT),
            kept: Expiring::new(MOST_KEPT),
            allowed_for,
            denied_for,
            allows_by_default,
        })
    }
}

impl Plugin for ImagePolicyWebhook {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let is_ephemeral = attributes.subresource == "ephemeralcontainers";
        let is_meant =
            attributes.is_resource("", "pods") && (attributes.subresource.is_empty() || is_ephemeral);
        let Some(pod) = object.filter(|_| is_meant).and_then(Value::as_map) else {
            return Deferred::Now(Ok(None));
        };
        let review = review(Pod::of(pod), attributes.namespace, is_ephemeral);
        Deferred::later(async move {
            match self.check(review).await {
                Ok(()) => Ok(None),
                Err(why) => Err(attributes.forbidden(object, &why)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};
    use testkit::https::{Authority, HttpsServer, Reply};

    const POD: &str = r#"{"metadata":{"name":"a","namespace":"n","annotations":{"x.image-policy.k8s.io/y":"1","z":"2"}},"spec":{"initContainers":[{"name":"i","image":"first"}],"containers":[{"name":"c","image":"IMAGE"}]}}"#;

    /// A plugin and its server, which refuses images named `bad` and fails for those named `broken`.
    async fn start(rest: &str) -> (ImagePolicyWebhook, HttpsServer) {
        let authority = Authority::new().unwrap();
        let serving = authority.issue(&["127.0.0.1"]).unwrap();
        let server = HttpsServer::start(&serving, None, |request| {
            let asked = &request.body;
            if asked.contains("broken") {
                return Reply::Json(400, "no".into());
            }
            let status = if asked.contains("bad") {
                r#"{"allowed":false,"reason":"it is bad"}"#
            } else {
                r#"{"allowed":true}"#
            };
            Reply::ok(format!(
                r#"{{"kind":"ImageReview","apiVersion":"imagepolicy.k8s.io/v1alpha1","status":{status}}}"#
            ))
        })
        .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        server.kubeconfig(&path, "/images", &authority, "{token: hush}").unwrap();
        let text = format!("imagePolicy:\n  kubeConfigFile: {}\n{rest}", path.display());
        (Fixture::new().await.make(Some(&text)).unwrap(), server)
    }

    async fn refusal(plugin: &ImagePolicyWebhook, image: &str) -> Option<String> {
        let pod = POD.replace("IMAGE", image);
        Write::create("pods", &pod).validate(plugin).await.err().map(|refused| refused.message)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn server_decides_about_images_once_for_each_question() {
        let (plugin, server) = start("").await;
        assert_eq!((refusal(&plugin, "good").await, refusal(&plugin, "good").await), (None, None));
        let refused = refusal(&plugin, "bad").await.unwrap();
        assert!(refused.ends_with("backend denied one or more images: it is bad"), "{refused}");
        assert!(refusal(&plugin, "broken").await.is_some());
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        let asked = &requests[0].body;
        let wanted = r#""spec":{"containers":[{"image":"good"},{"image":"first"}],"annotations":{"x.image-policy.k8s.io/y":"1"},"namespace":"n"}"#;
        assert!(asked.contains(wanted), "{asked}");
        let status = Write { subresource: "status", ..Write::update("pods", POD, POD) };
        assert!(status.validate(&plugin).await.is_ok());
        assert_eq!(server.requests().len(), 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn images_can_be_allowed_when_the_server_fails() {
        let (plugin, _server) = start("  defaultAllow: true\n").await;
        assert_eq!(refusal(&plugin, "broken").await, None);
        assert!(refusal(&plugin, "bad").await.is_some());
    }

    #[test]
    fn times_have_defaults_and_bounds() {
        let parse = |rest: &str| {
            Configuration::parse(format!("imagePolicy:\n  kubeConfigFile: k\n{rest}").as_bytes())
        };
        let default = parse("").unwrap();
        assert_eq!((default.allowed_for.as_secs(), default.denied_for.as_secs()), (300, 30));
        assert_eq!((default.pause.as_millis(), default.allows_by_default), (500, false));
        let given = parse("  allowTTL: 2\n  denyTTL: -1\n  retryBackoff: 7\n").unwrap();
        assert_eq!(
            (given.allowed_for.as_secs(), given.denied_for.as_secs(), given.pause.as_millis()),
            (2, 0, 7)
        );
        assert_eq!(parse("  allowTTL: 1801\n").unwrap_err(), "valid value is between 1s and 30m0s, got 1801");
        assert!(parse("  denyTTL: -2\n").is_err());
    }
}
