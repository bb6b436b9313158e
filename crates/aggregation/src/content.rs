//! Objects that other servers have: what parts of this server ask for, change and delete.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use auth::User;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use object::Value;
use schema::{Limits, Shape, json};
use tokio::time::timeout;

use crate::Aggregation;
use crate::remote::{Remote, Use};
use crate::table::Table;

/// The most bytes of a list.
const MOST_BYTES: usize = 64 << 20;
const METADATA: HeaderValue = HeaderValue::from_static(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ONE: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
const MERGE_PATCH: HeaderValue = HeaderValue::from_static("application/merge-patch+json");
const IN_BACKGROUND: &[u8] =
    br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#;

/// A kind of objects that another server has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteResource {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name of the resource.
    pub resource: String,
    /// The kind.
    pub kind: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
    /// The verbs that the server has for it.
    pub verbs: Vec<String>,
}

/// Kinds of objects that other servers have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteResources {
    /// Those that are known.
    pub resources: Vec<RemoteResource>,
    /// The group versions of which it is not known what they have.
    pub stale: Vec<String>,
}

impl RemoteResources {
    /// Why not all are known, in the words of the reference.
    pub fn failure(&self) -> Option<String> {
        let stale =
            self.stale.iter().map(|version| format!("{version}: stale GroupVersion discovery: {version}"));
        let list = stale.collect::<Vec<_>>().join(", ");
        (!list.is_empty()).then(|| format!("unable to retrieve the complete list of server APIs: {list}"))
    }
}

/// The objects of a kind in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteObjects {
    /// The names of the objects.
    pub names: Vec<String>,
    /// How many objects have each finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl RemoteResource {
    /// Whether the server has a verb for it.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    /// Group and version, as objects have them.
    pub fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The name of the resource with that of the group, as the cache and quotas have it:
    /// `widgets.example.com`.
    pub fn prefix(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    /// The path of its objects in a namespace; of all objects if that is empty.
    pub(crate) fn path(&self, namespace: &str) -> String {
        let Self { group, version, resource, .. } = self;
        let root = match group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        match namespace {
            "" => format!("{root}/{resource}"),
            namespace => format!("{root}/namespaces/{namespace}/{resource}"),
        }
    }
}

impl Table {
    /// The kinds of objects in namespaces that other servers have, each in the preferred version.
    pub fn namespaced(&self) -> RemoteResources {
        let mut all = self.preferred();
        all.resources.retain(|of| of.is_namespaced);
        all
    }

    /// The kinds of objects that other servers have, each in the preferred version.
    pub fn preferred(&self) -> RemoteResources {
        let mut all = self.resources();
        let mut known = HashSet::new();
        all.resources.retain(|of| known.insert((of.group.clone(), of.resource.clone())));
        all
    }

    /// The kinds of objects that other servers have, in all versions: those of a group by their priorities.
    pub fn resources(&self) -> RemoteResources {
        let mut remotes: Vec<&Remote> = self.remotes().iter().map(|remote| &**remote).collect();
        remotes.sort_by(|one, other| {
            let key = |remote: &Remote| std::cmp::Reverse(remote.priorities().version);
            one.group().cmp(other.group()).then_with(|| key(one).cmp(&key(other)))
        });
        let mut all = RemoteResources::default();
        for remote in remotes {
            let part = json::decode_shape(&Shape::Any, remote.discovery().as_bytes(), &Limits::STORED);
            let part = part.map(|decoded| decoded.value).unwrap_or_default();
            if text(&part, "freshness") == "Stale" {
                all.stale.push(format!("{}/{}", remote.group(), remote.version()));
                continue;
            }
            for resource in part.get("resources").and_then(Value::as_list).unwrap_or_default() {
                let verbs = resource.get("verbs").and_then(Value::as_list).unwrap_or_default();
                let kind = resource.get("responseKind").map(|kind| text(kind, "kind"));
                all.resources.push(RemoteResource {
                    group: remote.group().to_owned(),
                    version: remote.version().to_owned(),
                    resource: text(resource, "resource").to_owned(),
                    kind: kind.unwrap_or_default().to_owned(),
                    is_namespaced: text(resource, "scope") == "Namespaced",
                    verbs: verbs.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                });
            }
        }
        all.stale.sort();
        all
    }
}

/// A text of an object; empty if it has none of that name.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A change of one object.
#[derive(Debug)]
pub enum RemoteWrite<'a> {
    /// It is deleted with these options, as JSON.
    Delete(&'a [u8]),
    /// A merge patch.
    Patch(&'a [u8]),
}

/// What is sent to a server.
struct Call<'a> {
    method: Method,
    path: &'a str,
    accept: HeaderValue,
    content_type: HeaderValue,
    body: Bytes,
    within: Duration,
}

impl<'a> Call<'a> {
    fn get(path: &'a str, accept: HeaderValue, within: Duration) -> Self {
        Self { method: Method::GET, path, accept, content_type: JSON, body: Bytes::new(), within }
    }

    fn delete(path: &'a str, options: &[u8], within: Duration) -> Self {
        let body = Bytes::copy_from_slice(options);
        Self { method: Method::DELETE, path, accept: METADATA, content_type: JSON, body, within }
    }
}

impl Aggregation {
    /// Deletes all objects of a kind in a namespace, or one of them. False if the server has no such objects
    /// or does not do that.
    pub async fn delete(
        &self,
        user: &User,
        of: &RemoteResource,
        namespace: &str,
        name: Option<&str>,
        within: Duration,
    ) -> Result<bool, String> {
        let path = match name {
            None => of.path(namespace),
            Some(name) => format!("{}/{name}", of.path(namespace)),
        };
        let (status, body) = self.call(user, of, Call::delete(&path, IN_BACKGROUND, within)).await?;
        match status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(false),
            status if status.is_success() => Ok(true),
            status => Err(message(status, &body)),
        }
    }

    /// The objects of a kind in a namespace; `None` if the server has no such objects.
    pub async fn list(
        &self,
        user: &User,
        of: &RemoteResource,
        namespace: &str,
        within: Duration,
    ) -> Result<Option<RemoteObjects>, String> {
        let path = of.path(namespace);
        let (status, body) = self.call(user, of, Call::get(&path, METADATA, within)).await?;
        match status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(None),
            status if status.is_success() => objects(&body).map(Some),
            status => Err(message(status, &body)),
        }
    }

    /// A chunk of all objects of a kind, as the server lists them with a query.
    pub(crate) async fn chunk(
        &self,
        user: &User,
        of: &RemoteResource,
        query: &str,
        within: Duration,
    ) -> Result<Value, String> {
        let path = format!("{}?{query}", of.path(""));
        let (status, body) = self.call(user, of, Call::get(&path, METADATA, within)).await?;
        if status.is_success() { decode(&body) } else { Err(message(status, &body)) }
    }

    /// The metadata of an object, within it or with the rest; `None` if the server does not have the object.
    pub async fn get(
        &self,
        user: &User,
        of: &RemoteResource,
        [namespace, name]: [&str; 2],
        within: Duration,
    ) -> Result<Option<Value>, String> {
        let path = format!("{}/{name}", of.path(namespace));
        let (status, body) = self.call(user, of, Call::get(&path, ONE, within)).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => decode(&body).map(Some),
            status => Err(message(status, &body)),
        }
    }

    /// Changes or deletes an object. Nothing happens if the server does not have it.
    pub async fn write_object(
        &self,
        user: &User,
        of: &RemoteResource,
        [namespace, name]: [&str; 2],
        write: RemoteWrite<'_>,
        within: Duration,
    ) -> Result<(), String> {
        let path = format!("{}/{name}", of.path(namespace));
        let call = match write {
            RemoteWrite::Delete(options) => Call { accept: ONE, ..Call::delete(&path, options, within) },
            RemoteWrite::Patch(patch) => Call {
                method: Method::PATCH,
                content_type: MERGE_PATCH,
                body: Bytes::copy_from_slice(patch),
                ..Call::get(&path, ONE, within)
            },
        };
        let (status, body) = self.call(user, of, call).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(()),
            status if status.is_success() => Ok(()),
            status => Err(message(status, &body)),
        }
    }

    async fn call(
        &self,
        user: &User,
        of: &RemoteResource,
        call: Call<'_>,
    ) -> Result<(StatusCode, Bytes), String> {
        let within = call.within;
        let exchange = async {
            let (head, body) = self.begin(user, of, call).await?.into_parts();
            let body = Limited::new(body, MOST_BYTES).collect().await.map_err(|error| error.to_string())?;
            Ok((head.status, body.to_bytes()))
        };
        timeout(within, exchange).await.unwrap_or_else(|_| Err(LATE.to_owned()))
    }

    /// Begins a watch of all objects of a kind.
    pub(crate) async fn watch(
        &self,
        user: &User,
        of: &RemoteResource,
        query: &str,
        within: Duration,
    ) -> Result<Incoming, String> {
        let path = format!("{}?{query}", of.path(""));
        let begin = self.begin(user, of, Call::get(&path, ONE, within));
        let (head, body) = timeout(within, begin).await.map_err(|_| LATE.to_owned())??.into_parts();
        if head.status.is_success() {
            return Ok(body);
        }
        let said = Limited::new(body, MOST_BYTES).collect();
        let said = timeout(within, said).await.map_err(|_| LATE.to_owned())?;
        Err(message(head.status, &said.map_err(|error| error.to_string())?.to_bytes()))
    }

    async fn begin(
        &self,
        user: &User,
        of: &RemoteResource,
        call: Call<'_>,
    ) -> Result<Response<Incoming>, String> {
        let Call { method, path, accept, content_type, body, .. } = call;
        let table = self.table();
        let remote = table.find_version(&of.group, &of.version);
        let remote = remote.ok_or("the server could not find the requested resource")?;
        let address = remote.address().map_err(|_| UNABLE.to_owned())?;
        let has_body = !body.is_empty();
        let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().map_err(|error| format!("{path}: {error}"))?;
        request.headers_mut().insert(ACCEPT, accept);
        if has_body {
            request.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        let sent = remote.send(&address, request, user, self.tells_uids(), Use::Request, None).await;
        sent.map_err(|refusal| refusal.to_string())
    }
}

const LATE: &str = "context deadline exceeded";
const UNABLE: &str = "the server is currently unable to handle the request";

/// What an answer says of a failure.
fn message(status: StatusCode, body: &[u8]) -> String {
    let value = json::decode_shape(&Shape::Any, body, &Limits::REQUEST).map(|decoded| decoded.value);
    let value = value.unwrap_or_default();
    match value.get("message").and_then(Value::as_str) {
        Some(message) if !message.is_empty() => message.to_owned(),
        _ if status == StatusCode::SERVICE_UNAVAILABLE => UNABLE.to_owned(),
        _ => format!("the server answered with the status {}", status.as_u16()),
    }
}

/// The value of an answer.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let limits = Limits { bytes: MOST_BYTES, values: 4_000_000, ..Limits::REQUEST };
    Ok(json::decode_shape(&Shape::Any, body, &limits).map_err(|error| error.to_string())?.value)
}

/// The objects of a list.
fn objects(body: &[u8]) -> Result<RemoteObjects, String> {
    let list = decode(body)?;
    let mut objects = RemoteObjects::default();
    for item in list.get("items").and_then(Value::as_list).unwrap_or_default() {
        let metadata = item.get("metadata");
        let name = metadata.and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
        objects.names.push(name.unwrap_or_default().to_owned());
        let finalizers = metadata.and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_list);
        for finalizer in finalizers.unwrap_or_default().iter().filter_map(Value::as_str) {
            *objects.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_of_a_list_are_counted() {
        let list = br#"{"items":[{"metadata":{"name":"a","finalizers":["x","y"]}},{"metadata":{"name":"b","finalizers":["x"]}}]}"#;
        let found = objects(list).unwrap();
        assert_eq!(found.names, ["a", "b"]);
        assert_eq!(found.finalizers, BTreeMap::from([("x".to_owned(), 2), ("y".to_owned(), 1)]));
        assert!(objects(b"{").is_err());
    }

    #[test]
    fn failure_has_the_message_of_the_server() {
        assert_eq!(message(StatusCode::FORBIDDEN, br#"{"kind":"Status","message":"no"}"#), "no");
        assert_eq!(message(StatusCode::SERVICE_UNAVAILABLE, b"service unavailable\n"), UNABLE);
        assert_eq!(message(StatusCode::IM_A_TEAPOT, b""), "the server answered with the status 418");
    }
}
