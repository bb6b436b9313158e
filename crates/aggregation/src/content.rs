//! Objects that other servers have: what parts of this server ask for and delete.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use auth::User;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
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
const IN_BACKGROUND: &[u8] =
    br#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}"#;

/// A kind of objects that another server has, in the preferred version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteResource {
    /// The group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The name of the resource.
    pub resource: String,
    /// The verbs that the server has for it.
    pub verbs: Vec<String>,
}

/// All kinds of objects in namespaces that other servers have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespacedResources {
    /// Those that are known.
    pub resources: Vec<RemoteResource>,
    /// The group versions of which it is not known what they have.
    pub stale: Vec<String>,
}

impl NamespacedResources {
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

/// What a server says to a question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemoteAnswer {
    /// The status code.
    pub status: u16,
    /// The document; null if the answer is none.
    pub value: Value,
    /// The beginning of an answer that is no document.
    pub text: String,
}

/// A request to a server.
struct Call<'a> {
    remote: &'a Remote,
    method: Method,
    path: &'a str,
    body: Bytes,
    accept: HeaderValue,
}

impl RemoteResource {
    /// Whether the server has a verb for it.
    pub fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|own| own == verb)
    }

    fn path(&self, namespace: &str) -> String {
        let Self { group, version, resource, .. } = self;
        match group.as_str() {
            "" => format!("/api/{version}/namespaces/{namespace}/{resource}"),
            group => format!("/apis/{group}/{version}/namespaces/{namespace}/{resource}"),
        }
    }
}

impl Table {
    /// The kinds of objects in namespaces that other servers have.
    pub fn namespaced(&self) -> NamespacedResources {
        let mut remotes: Vec<&Remote> = self.remotes().iter().map(|remote| &**remote).collect();
        remotes.sort_by(|one, other| {
            let key = |remote: &Remote| std::cmp::Reverse(remote.priorities().version);
            one.group().cmp(other.group()).then_with(|| key(one).cmp(&key(other)))
        });
        let mut all = NamespacedResources::default();
        let mut known = HashSet::new();
        for remote in remotes {
            let part = json::decode_shape(&Shape::Any, remote.discovery().as_bytes(), &Limits::STORED);
            let part = part.map(|decoded| decoded.value).unwrap_or_default();
            let text = |value: &Value, key: &str| {
                value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            if text(&part, "freshness") == "Stale" {
                all.stale.push(format!("{}/{}", remote.group(), remote.version()));
                continue;
            }
            for resource in part.get("resources").and_then(Value::as_list).unwrap_or_default() {
                let name = text(resource, "resource");
                if text(resource, "scope") != "Namespaced"
                    || !known.insert((remote.group().to_owned(), name.clone()))
                {
                    continue;
                }
                let verbs = resource.get("verbs").and_then(Value::as_list).unwrap_or_default();
                all.resources.push(RemoteResource {
                    group: remote.group().to_owned(),
                    version: remote.version().to_owned(),
                    resource: name,
                    verbs: verbs.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                });
            }
        }
        all.stale.sort();
        all
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
        let (status, body) =
            self.call(user, of, Method::DELETE, &path, Bytes::from_static(IN_BACKGROUND), within).await?;
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
        let (status, body) =
            self.call(user, of, Method::GET, &of.path(namespace), Bytes::new(), within).await?;
        match status {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(None),
            status if status.is_success() => objects(&body).map(Some),
            status => Err(message(status, &body)),
        }
    }

    /// Asks the server of a group version for a document. The answer is 404 if there is no such server, and
    /// 503 if it is not available.
    pub async fn document(
        &self,
        user: &User,
        group: &str,
        version: &str,
        path: &str,
        within: Duration,
    ) -> Result<RemoteAnswer, String> {
        let table = self.table();
        let status = |status| Ok(RemoteAnswer { status, ..RemoteAnswer::default() });
        let Some(remote) = table.find_version(group, version) else { return status(404) };
        if remote.address().is_err() {
            return status(503);
        }
        let call = Call { remote, method: Method::GET, path, body: Bytes::new(), accept: JSON };
        let (status, body) = self.send(user, call, within).await?;
        let limits = Limits { bytes: MOST_BYTES, values: 4_000_000, ..Limits::REQUEST };
        let value = json::decode_shape(&Shape::Any, &body, &limits).map(|decoded| decoded.value);
        let text = match &value {
            Ok(_) => String::new(),
            Err(_) => {
                String::from_utf8_lossy(body.get(..body.len().min(2048)).unwrap_or_default()).into_owned()
            }
        };
        Ok(RemoteAnswer { status: status.as_u16(), value: value.unwrap_or_default(), text })
    }

    async fn call(
        &self,
        user: &User,
        of: &RemoteResource,
        method: Method,
        path: &str,
        body: Bytes,
        within: Duration,
    ) -> Result<(StatusCode, Bytes), String> {
        let table = self.table();
        let remote = table.find_version(&of.group, &of.version);
        let remote = remote.ok_or("the server could not find the requested resource")?;
        self.send(user, Call { remote, method, path, body, accept: METADATA }, within).await
    }

    async fn send(
        &self,
        user: &User,
        call: Call<'_>,
        within: Duration,
    ) -> Result<(StatusCode, Bytes), String> {
        let Call { remote, method, path, body, accept } = call;
        let exchange = async {
            let address = remote.address().map_err(|_| UNABLE.to_owned())?;
            let has_body = !body.is_empty();
            let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
            let mut request = Request::new(body);
            *request.method_mut() = method;
            *request.uri_mut() = path.parse().map_err(|error| format!("{path}: {error}"))?;
            request.headers_mut().insert(ACCEPT, accept);
            if has_body {
                request.headers_mut().insert(CONTENT_TYPE, JSON);
            }
            let sent = remote.send(&address, request, user, self.tells_uids(), Use::Request, None).await;
            let (head, body) = sent.map_err(|refusal| refusal.to_string())?.into_parts();
            let body = Limited::new(body, MOST_BYTES).collect().await.map_err(|error| error.to_string())?;
            Ok((head.status, body.to_bytes()))
        };
        timeout(within, exchange).await.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()))
    }
}

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

/// The objects of a list.
fn objects(body: &[u8]) -> Result<RemoteObjects, String> {
    let limits = Limits { bytes: MOST_BYTES, values: 4_000_000, ..Limits::REQUEST };
    let list = json::decode_shape(&Shape::Any, body, &limits).map_err(|error| error.to_string())?.value;
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
