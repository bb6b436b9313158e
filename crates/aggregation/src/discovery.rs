//! What servers serve: their parts of aggregated discovery.
//!
//! A server is asked for its aggregated discovery, once for all API services that lead to it; one that has
//! none is asked for the resources of each group version. Where there is no answer, the group version is
//! listed without resources and as stale.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use auth::User;
use http::header::{ACCEPT, HeaderName, IF_NONE_MATCH};
use http::{HeaderValue, StatusCode};
use object::{Key, Map, Value};
use schema::view::View as _;
use schema::views::apidiscovery::v2;
use schema::views::meta::v1::APIResourceList;
use schema::{Limits, json};
use tokio::time::Instant;

use crate::Aggregation;
use crate::fetch::{Fetched, Question};
use crate::registration::ServiceKey;
use crate::remote::Remote;

/// How long a server may take.
const TIMEOUT: Duration = Duration::from_secs(5);
const ACCEPTED: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
);

/// Whether a part of aggregated discovery is what the server says now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshness {
    Current,
    Stale,
}

impl Freshness {
    fn as_str(self) -> &'static str {
        match self {
            Self::Current => "Current",
            Self::Stale => "Stale",
        }
    }
}

/// The part of a group version of which no resource is known.
pub(crate) fn empty(version: &str, freshness: Freshness) -> String {
    let version = json::string(version);
    format!(r#"{{"version":{version},"freshness":"{}"}}"#, freshness.as_str())
}

/// What servers said of all that they serve, by their services.
pub(crate) type Discoveries = HashMap<ServiceKey, Known>;

/// What a server said of all that it serves.
#[derive(Clone)]
pub(crate) struct Known {
    etag: String,
    versions: Arc<Versions>,
    /// A time before the answer.
    asked: Instant,
}

/// The group versions of a server, each with its part of aggregated discovery, which lacks its freshness.
type Versions = HashMap<(String, String), Map>;

/// What is found out about a group version.
enum Found {
    All(Arc<Versions>),
    Resources(Map),
}

impl Aggregation {
    /// Asks for the part of a group version, unless an answer from after `since` is known.
    pub(crate) async fn discover(&self, remote: &Remote, since: Instant) {
        let part = match self.found(remote, since).await {
            Ok(Found::All(versions)) => {
                let key = (remote.group().to_owned(), remote.version().to_owned());
                versions.get(&key).map(|version| part(version.clone()))
            }
            Ok(Found::Resources(version)) => Some(part(version)),
            Err(why) => {
                log::debug!(service = remote.name(), why = why.as_str(); "an API server could not be discovered");
                Some(empty(remote.version(), Freshness::Stale))
            }
        };
        let part = part.unwrap_or_else(|| empty(remote.version(), Freshness::Current));
        if **remote.discovery() != *part {
            self.change(remote.name(), |remote| remote.discovery = part.into());
        }
    }

    /// Forgets what was said by servers to which no API service leads any more.
    pub(crate) fn forget_discoveries(&self) {
        let table = self.table();
        let mut known = self.discoveries.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|service, _| {
            let mut specs = table.remotes().iter().filter_map(|remote| remote.remote_spec());
            specs.any(|spec| spec.service == *service)
        });
    }

    async fn found(&self, remote: &Remote, since: Instant) -> Result<Found, String> {
        let spec = remote.remote_spec().ok_or("it is served here")?;
        let known =
            self.discoveries.lock().unwrap_or_else(PoisonError::into_inner).get(&spec.service).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.asked > since) {
            return Ok(Found::All(known.versions.clone()));
        }
        let asked = Instant::now();
        let etag = known.as_ref().map(|known| known.etag.clone()).unwrap_or_default();
        let headers = [(ACCEPT, Ok(ACCEPTED)), (IF_NONE_MATCH, HeaderValue::try_from(etag.as_str()))];
        let user = User {
            name: "system:kube-aggregator".into(),
            groups: vec![User::MASTERS.into()],
            ..User::default()
        };
        let answer = ask(remote, "/apis", user, headers).await?;
        let versions = match (answer.status, known) {
            (StatusCode::NOT_MODIFIED, Some(known)) => known.versions,
            (StatusCode::SERVICE_UNAVAILABLE, _) => return Err("it answers with the status 503".to_owned()),
            (StatusCode::OK, _) if is_aggregated(answer.content_type()) => Arc::new(versions(&answer.body)?),
            _ => return resources(remote).await.map(Found::Resources),
        };
        let etag = match answer.status {
            StatusCode::NOT_MODIFIED => etag,
            _ => answer.etag().to_owned(),
        };
        let now = Known { etag, versions: versions.clone(), asked };
        self.discoveries.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.service.clone(), now);
        Ok(Found::All(versions))
    }
}

async fn ask<E>(
    remote: &Remote,
    path: &str,
    user: User,
    headers: impl IntoIterator<Item = (HeaderName, Result<HeaderValue, E>)>,
) -> Result<Fetched, String> {
    let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value.ok()?)));
    let headers = headers.filter(|(_, value)| !value.is_empty()).collect();
    remote.backend().ask(Question { path, user, headers, timeout: TIMEOUT }).await
}

/// Whether a media type is that of aggregated discovery.
fn is_aggregated(media_type: &str) -> bool {
    let parameters: Vec<&str> = media_type.split(';').skip(1).map(str::trim).collect();
    let has = |wanted: &str| parameters.contains(&wanted);
    has("g=apidiscovery.k8s.io") && (has("v=v2") || has("v=v2beta1")) && has("as=APIGroupDiscoveryList")
}

/// The group versions in a document of aggregated discovery. Those of both of its versions have the same
/// fields.
fn versions(document: &[u8]) -> Result<Versions, String> {
    let list = decode(v2::APIGroupDiscoveryList::schema(), document)?;
    let mut all = Versions::new();
    for group in v2::APIGroupDiscoveryList::of(&list).items().iter() {
        let name = group.metadata().name();
        for version in group.versions().iter() {
            let mut map = version.map().clone();
            for resource in maps_in(&mut map, "resources") {
                name_kind(resource);
                maps_in(resource, "subresources").for_each(name_kind);
            }
            all.insert((name.to_owned(), version.version().to_owned()), map);
        }
    }
    Ok(all)
}

/// Some clients expect every resource to have a kind.
fn name_kind(resource: &mut Map) {
    if !resource.contains_key("responseKind") {
        resource.insert(Key::known("responseKind"), Map::new());
    }
}

fn maps_in<'a>(map: &'a mut Map, key: &str) -> impl Iterator<Item = &'a mut Map> {
    let list = map.get_mut(key).and_then(Value::as_list_mut);
    list.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut)
}

/// The resources of a group version of a server without aggregated discovery.
async fn resources(remote: &Remote) -> Result<Map, String> {
    let path = match remote.group() {
        "" => format!("/api/{}", remote.version()),
        group => format!("/apis/{group}/{}", remote.version()),
    };
    let user = User { name: "system:kube-aggregator".into(), ..User::default() };
    let json = HeaderValue::try_from("application/json");
    let answer = ask(remote, &path, user, [(ACCEPT, json)]).await?;
    if answer.status != StatusCode::OK {
        return Err(format!("{path} answers with the status {}", answer.status.as_u16()));
    }
    of_list(&answer.body, remote.version())
}

/// A list of resources as a part of aggregated discovery.
fn of_list(document: &[u8], version: &str) -> Result<Map, String> {
    let list = decode(APIResourceList::schema(), document)?;
    let all = APIResourceList::of(&list).resources();
    let mut resources: Vec<Map> = Vec::new();
    let is_of = |resource: &Map, name: &str| resource.get("resource").and_then(Value::as_str) == Some(name);
    for resource in all.iter().filter(|resource| !resource.name().contains('/')) {
        let mut map = head(resource.name(), resource.namespaced());
        map.insert(Key::known("responseKind"), kind(resource.group(), resource.version(), resource.kind()));
        map.insert(Key::known("singularResource"), resource.singular_name());
        for key in ["verbs", "shortNames", "categories"] {
            copy(resource.map(), &mut map, key);
        }
        resources.push(map);
    }
    for resource in all.iter() {
        let Some((name, below)) = resource.name().split_once('/') else { continue };
        let mut map = Map::new();
        map.insert(Key::known("subresource"), below);
        map.insert(Key::known("responseKind"), kind(resource.group(), resource.version(), resource.kind()));
        copy(resource.map(), &mut map, "verbs");
        if !resources.iter().any(|parent| is_of(parent, name)) {
            let mut parent = head(name, resource.namespaced());
            parent.insert(Key::known("responseKind"), Map::new());
            resources.push(parent);
        }
        let Some(parent) = resources.iter_mut().find(|parent| is_of(parent, name)) else { continue };
        if parent.get("scope") != head(name, resource.namespaced()).get("scope") {
            return Err(format!("the scope of {name} is not that of its subresource {below}"));
        }
        let subresources = parent.get_or_insert_with(Key::known("subresources"), || Value::from(Vec::new()));
        if let Some(list) = subresources.as_list_mut() {
            list.push(map.into());
        }
    }
    let mut part = Map::new();
    part.insert(Key::known("version"), version);
    part.insert(Key::known("resources"), resources.into_iter().map(Value::from).collect::<Vec<_>>());
    Ok(part)
}

fn head(resource: &str, is_namespaced: bool) -> Map {
    let mut map = Map::new();
    map.insert(Key::known("resource"), resource);
    map.insert(Key::known("scope"), if is_namespaced { "Namespaced" } else { "Cluster" });
    map
}

fn kind(group: &str, version: &str, kind: &str) -> Map {
    let mut map = Map::new();
    for (key, text) in [("group", group), ("version", version), ("kind", kind)] {
        if !text.is_empty() {
            map.insert(Key::known(key), text);
        }
    }
    map
}

fn copy(from: &Map, to: &mut Map, key: &'static str) {
    if let Some(value) = from.get(key) {
        to.insert(Key::known(key), value.clone());
    }
}

/// The part of a group version as JSON.
fn part(mut version: Map) -> String {
    version.insert(Key::known("freshness"), Freshness::Current.as_str());
    let mut out = Vec::new();
    json::encode(v2::APIVersionDiscovery::schema(), &version.into(), &mut out);
    String::from_utf8_lossy(&out).trim_end().to_owned()
}

fn decode(ty: &'static schema::Type, document: &[u8]) -> Result<Map, String> {
    let decoded = json::decode(ty, document, &Limits::REQUEST).map_err(|error| error.to_string())?;
    decoded.value.as_map().cloned().ok_or_else(|| "it is no object".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_document_are_told_apart_and_kinds_are_named() {
        let document = br#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2beta1","metadata":{},"items":[
            {"metadata":{"name":"g","creationTimestamp":null},"versions":[{"version":"v1","resources":[
                {"resource":"things","scope":"Cluster","singularResource":"thing","verbs":["get"],"odd":1,
                 "subresources":[{"subresource":"status","verbs":["get"]}]}],"freshness":"Current"}]},
            {"metadata":{"name":"h"},"versions":[{"version":"v1"}]}]}"#;
        let all = versions(document).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(
            part(all[&("g".to_owned(), "v1".to_owned())].clone()),
            concat!(
                r#"{"version":"v1","resources":[{"resource":"things","responseKind":{"group":"","version":"","kind":""},"#,
                r#""scope":"Cluster","singularResource":"thing","verbs":["get"],"subresources":[{"subresource":"status","#,
                r#""responseKind":{"group":"","version":"","kind":""},"verbs":["get"]}]}],"freshness":"Current"}"#
            )
        );
        assert!(versions(b"{").is_err());
    }

    #[test]
    fn list_of_resources_becomes_a_part() {
        let list = br#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"g/v1","resources":[
            {"name":"things/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
            {"name":"things","singularName":"thing","namespaced":true,"kind":"Thing","verbs":["list","get"],"shortNames":["t"]},
            {"name":"others/x","singularName":"","namespaced":false,"kind":"X","verbs":["create"]}]}"#;
        assert_eq!(
            part(of_list(list, "v1").unwrap()),
            concat!(
                r#"{"version":"v1","resources":[{"resource":"things","responseKind":{"group":"","version":"","kind":"Thing"},"#,
                r#""scope":"Namespaced","singularResource":"thing","verbs":["list","get"],"shortNames":["t"],"#,
                r#""subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]}]},"#,
                r#"{"resource":"others","responseKind":{"group":"","version":"","kind":""},"scope":"Cluster","singularResource":"","verbs":null,"#,
                r#""subresources":[{"subresource":"x","responseKind":{"group":"","version":"","kind":"X"},"verbs":["create"]}]}],"freshness":"Current"}"#
            )
        );
        let wrong = br#"{"resources":[{"name":"a","namespaced":true},{"name":"a/b","namespaced":false}]}"#;
        assert_eq!(of_list(wrong, "v1").unwrap_err(), "the scope of a is not that of its subresource b");
    }

    #[test]
    fn media_type_says_whether_discovery_is_aggregated() {
        assert!(is_aggregated("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"));
        assert!(is_aggregated(
            "application/json; as=APIGroupDiscoveryList; v=v2beta1; g=apidiscovery.k8s.io"
        ));
        assert!(!is_aggregated("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList"));
        assert!(!is_aggregated("application/json"));
    }
}
