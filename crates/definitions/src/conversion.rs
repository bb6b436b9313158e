//! The author's webhook between versions.
//!
//! 1. What it answers is checked as the reference checks it: every object comes back, in its place, in the
//!    version that was asked for, and is the same object. Of its metadata, labels and annotations alone can
//!    be others.
//! 2. **Everything is bounded**: a review by 30 s, its answer by a multiple of what was sent. Many objects go
//!    in several reviews.
//! 3. A webhook that fails costs the requests that need a conversion, and no others; one that does not answer
//!    is told from one that answers wrongly, for deletes.

mod answer;
#[cfg(test)]
mod tests;

use crate::families::{self, Failure};
use bytes::Bytes;
use object::{Map, RawJson, Value};
use outbound::{Bounds, Endpoint, ResolveService, WebhookClients, WebhookServer};
use registry::{Conversion, Convert, ConvertError, unknown_reason_500};
use schema::view::View as _;
use schema::views::admissionregistration::v1::WebhookClientConfig;
use schema::views::apiextensions::v1::{ConversionRequest, ConversionReview, CustomResourceDefinition};
use schema::{Limits, Shape, json};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tasks::BoxFuture;
use tokio::time::Instant;

/// The longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The most bytes of objects in a review with more than one.
const MOST_BYTES: usize = 2 << 20;
/// An answer can have as many times the bytes of the objects that were sent, and those of one object more.
const GROWTH: usize = 4;

/// The connections to the webhooks of all definitions.
#[derive(Clone, Debug)]
pub struct Clients(Arc<WebhookClients>);

impl Clients {
    /// Clients for webhooks, those behind services of the cluster among them.
    pub fn new(services: ResolveService) -> Self {
        Self(Arc::new(WebhookClients::new(None, services)))
    }
}

/// The way between the versions of a definition.
pub fn of(definition: CustomResourceDefinition<'_>, clients: &Clients) -> Conversion {
    let conversion = definition.spec().conversion();
    match conversion.filter(|conversion| conversion.strategy() == "Webhook") {
        Some(conversion) => {
            let webhook = conversion.webhook();
            let config = webhook.and_then(|webhook| webhook.client_config()).map(|config| config.map());
            let versions = webhook.map(|webhook| webhook.conversion_review_versions());
            let version = versions.and_then(|versions| versions.iter().find_map(ReviewVersion::read));
            let empty = Map::new();
            Conversion::Custom(Arc::new(Webhook {
                definition: definition.metadata().name().to_owned(),
                server: WebhookServer::new(WebhookClientConfig::of(config.unwrap_or(&empty))),
                version,
                clients: clients.clone(),
                connections: OnceLock::new(),
            }))
        }
        None => Conversion::None,
    }
}

/// The version of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    fn read(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "apiextensions.k8s.io/v1",
            Self::V1beta1 => "apiextensions.k8s.io/v1beta1",
        }
    }
}

/// The webhook of a definition.
struct Webhook {
    /// The name of the definition.
    definition: String,
    server: WebhookServer,
    /// The first version of reviews that both sides know.
    version: Option<ReviewVersion>,
    clients: Clients,
    connections: OnceLock<Result<Arc<Endpoint>, String>>,
}

impl Convert for Webhook {
    fn convert<'a>(
        &'a self,
        objects: Vec<Value>,
        api_version: &'a str,
    ) -> BoxFuture<'a, Result<Vec<Value>, ConvertError>> {
        Box::pin(async move {
            let start = Instant::now();
            let mut converted = Vec::with_capacity(objects.len());
            let from = objects.first().and_then(|object| object.get("apiVersion")?.as_str());
            let from = version_of(from.unwrap_or_default()).to_owned();
            for group in groups(objects) {
                let begin = Instant::now();
                let outcome = self.convert_group(group, api_version).await;
                let failure = outcome.as_ref().err().map(Fault::failure);
                let counted = families::Conversion {
                    definition: &self.definition,
                    from: &from,
                    to: version_of(api_version),
                };
                counted.count(begin.elapsed(), failure);
                converted.extend(outcome.map_err(|fault| {
                    let milliseconds = start.elapsed().as_millis() as u64;
                    let definition = self.definition.as_str();
                    let (Fault::Unreachable(why) | Fault::Failed(_, why)) = &fault;
                    log::warn!(definition, api_version, milliseconds, error = why.as_str(); "a conversion webhook failed");
                    ConvertError::from(fault)
                })?);
            }
            Ok(converted)
        })
    }
}

/// Why a review gave no objects, in the words of the reference.
enum Fault {
    /// Nobody answered.
    Unreachable(String),
    /// The answer is a refusal, or wrong.
    Failed(Failure, String),
}

impl Fault {
    fn failure(&self) -> Failure {
        match self {
            Self::Unreachable(_) => Failure::Call,
            Self::Failed(failure, _) => *failure,
        }
    }
}

impl From<Fault> for ConvertError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreachable(why) => Self::Unreachable(unknown_reason_500(why)),
            Fault::Failed(_, why) => Self::Failed(unknown_reason_500(why)),
        }
    }
}

/// Whether an error means that nobody answered.
fn is_unreachable(error: &outbound::Error) -> bool {
    use outbound::Error::{Answer, Connect, Credentials, Lost, Request, Status, Timeout, TooLarge};
    match error {
        Connect { .. } | Lost { .. } | Timeout { .. } | Credentials(_) | Request(_) => true,
        Status { .. } | Answer(_) | TooLarge { .. } => false,
    }
}

/// The version in `group/version`.
fn version_of(api_version: &str) -> &str {
    api_version.rsplit_once('/').map_or(api_version, |(_, version)| version)
}

/// An object with its JSON.
struct Sent {
    object: Value,
    text: RawJson,
}

/// Objects that go in one review each.
fn groups(objects: Vec<Value>) -> Vec<Vec<Sent>> {
    let mut groups: Vec<Vec<Sent>> = Vec::new();
    let mut bytes = 0;
    for object in objects {
        let mut text = Vec::with_capacity(1024);
        json::encode_shape(&Shape::Any, &object, &mut text);
        bytes += text.len();
        let sent = Sent { object, text: RawJson::from_checked(String::from_utf8(text).unwrap_or_default()) };
        match groups.last_mut() {
            Some(group) if bytes <= MOST_BYTES => group.push(sent),
            _ => {
                bytes = sent.text.as_str().len();
                groups.push(vec![sent]);
            }
        }
    }
    groups
}

impl Webhook {
    /// Objects of one review in another version.
    async fn convert_group(&self, group: Vec<Sent>, api_version: &str) -> Result<Vec<Value>, Fault> {
        let version = self
            .version
            .ok_or_else(|| Fault::Failed(Failure::Call, "no supported conversion review versions".into()))?;
        let of = group.first().map(|sent| answer::kind_of(&sent.object)).unwrap_or_default();
        let failed = |why: String| format!("conversion webhook for {of} failed: {why}");
        let endpoint = self.connections.get_or_init(|| self.clients.0.get(&self.server));
        let endpoint = endpoint.as_ref().map_err(|why| Fault::Unreachable(failed(why.clone())))?;
        let uid = object::name::random_uid();
        let bytes: usize = group.iter().map(|sent| sent.text.as_str().len()).sum();
        let bounds = Bounds::within(TIMEOUT, bytes * GROWTH + Limits::REQUEST.bytes);
        let body = review(&group, &uid, api_version, version);
        let schema = (ConversionReview::schema(), version.api_version());
        let review = endpoint.review(&self.server.path, body, bounds, schema).await;
        let review = review.map_err(|error| match is_unreachable(&error) {
            true => Fault::Unreachable(failed(error.to_string())),
            false => Fault::Failed(Failure::Call, failed(error.to_string())),
        })?;
        let texts = answer::objects(&review, &uid, version)
            .map_err(|why| Fault::Failed(Failure::Malformed, failed(why)))?;
        if texts.len() != group.len() {
            return Err(Fault::Failed(
                Failure::Partial,
                format!(
                    "conversion webhook for {of} returned {} objects, expected {}",
                    texts.len(),
                    group.len()
                ),
            ));
        }
        let is_list = group.len() > 1;
        let convert = |(at, (sent, text)): (usize, (Sent, &Value))| {
            let converted = answer::converted(sent.object, text, api_version);
            converted.map_err(|fault| Fault::Failed(Failure::Object, fault.text(&of, at, is_list)))
        };
        group.into_iter().zip(texts).enumerate().map(convert).collect()
    }
}

/// The review of objects that are to be converted.
fn review(group: &[Sent], uid: &str, api_version: &str, version: ReviewVersion) -> Bytes {
    let objects: Vec<Value> = group.iter().map(|sent| sent.text.clone().into()).collect();
    let mut request = Map::new();
    request.insert(ConversionRequest::UID, uid);
    request.insert(ConversionRequest::DESIRED_API_VERSION, api_version);
    request.insert(ConversionRequest::OBJECTS, objects);
    let mut review = Map::new();
    review.insert(ConversionReview::KIND, "ConversionReview");
    review.insert(ConversionReview::API_VERSION, version.api_version());
    review.insert(ConversionReview::REQUEST, request);
    // As the reference sends it.
    review.insert(ConversionReview::RESPONSE, Map::new());
    let mut body = Vec::new();
    json::encode(ConversionReview::schema(), &review.into(), &mut body);
    body.into()
}
