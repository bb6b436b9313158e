//! Discovery documents, and the list of paths at `/`. OpenAPI documents are in [`super::openapi`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use aggregation::{Priorities, Table};
use auth::Authenticated;
use auth::service_account::Published;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Method, StatusCode};
use object::Text;
use openapi::discovery::{self, Address, Aggregated, Document, Root, Tagged};
use openapi::v2::{DocumentPart, Encoding, Foreign};
use openapi::v3::Entry;
use registry::{Catalog, GroupVersion};

use super::compress;
use super::in_use::InUse;
use super::openapi::{Made, OpenApiV3, V2, V3};
use super::{Api, represent, routes};
use crate::count::{self, Counted};
use crate::families::DISCOVERIES;
use crate::negotiate::{self, Format, Negotiator};
use crate::request_info::RequestInfo;
use crate::{Body, Error, Request, Response, Status};

const AGGREGATED_JSON: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_YAML: &str = "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const OPENID_CONFIGURATION: &str = "/.well-known/openid-configuration";
const OPENID_KEYS: &str = "/openid/v1/jwks";
/// The media type of keys.
const KEY_SET: &str = "application/jwk-set+json";
/// The group that the aggregator of the reference serves itself.
const AGGREGATOR: &str = "apiregistration.k8s.io";

/// What a value was computed from: the generation of the catalog, or of one of its group versions, and that
/// of what is known of other servers; 0 if the value does not depend on it.
type Generation = [u64; 2];

/// A value computed for a generation.
struct Memoized<T> {
    generation: Generation,
    value: Arc<T>,
}

/// Values by key. Each is computed on its first use, and again when its generation has changed.
struct MemoizedBy<K, T>(Mutex<HashMap<K, Memoized<T>>>);

impl<K, T> Default for MemoizedBy<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T> MemoizedBy<K, T> {
    /// The value of a key for a generation. Concurrent callers wait while one of them computes it.
    fn get(&self, key: K, generation: Generation, make: impl FnOnce() -> T) -> Arc<T> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.get(&key).filter(|kept| kept.generation == generation) {
            Some(kept) => kept.value.clone(),
            None => {
                let value = Arc::new(make());
                kept.insert(key, Memoized { generation, value: value.clone() });
                value
            }
        }
    }

    /// Drops the values of keys that are gone.
    fn retain(&self, is_kept: impl Fn(&K) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| is_kept(key));
    }
}

/// The discovery and OpenAPI documents. Each is computed on its first use, and again when its part of the
/// catalog has changed: a new kind costs the documents of its own group and version.
#[derive(Default)]
pub(crate) struct Documents {
    served: MemoizedBy<(), openapi::ServedResources>,
    /// The group versions in the lists of discovery, if other servers serve some.
    listed: MemoizedBy<(), openapi::ServedResources>,
    aggregated: MemoizedBy<Root, Tagged>,
    /// The parts of aggregated discovery.
    parts: MemoizedBy<(Text, Text), Arc<str>>,
    /// The parts of OpenAPI v2: that of built-in kinds, and those of custom ones by the id of what is served.
    v2: MemoizedBy<(Encoding, Option<u32>), DocumentPart>,
    /// The parts of OpenAPI v2 of other servers.
    v2_foreign: MemoizedBy<Encoding, Vec<Arc<DocumentPart>>>,
    v2_made: MemoizedBy<(), Made>,
    /// The OpenAPI v3 documents that were asked for.
    v3: MemoizedBy<String, V3>,
    /// Those that were made of OpenAPI v2, by path and hash.
    v3_converted: MemoizedBy<(String, String), V3>,
    /// The paths of the OpenAPI v3 documents, in the order of the index.
    v3_paths: MemoizedBy<(), BTreeSet<String>>,
    /// The hashes of all OpenAPI v3 documents.
    v3_hashes: MemoizedBy<String, String>,
    v3_index: MemoizedBy<(), Bytes>,
    /// The encoded documents that current responses hold.
    pub(super) in_use: InUse<DocumentForm>,
}

/// The key of an encoded document: the document, its encoding, and the hash of its content.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum DocumentForm {
    Aggregated(Root, Format, String),
    V2Gzip(Encoding, String),
    V2(Encoding, String),
    V3(String),
    V3Protobuf(String),
}

impl Documents {
    /// The served resources, in the form that the `openapi` crate uses.
    pub(super) fn served(&self, catalog: &Catalog) -> Arc<openapi::ServedResources> {
        self.served.get((), [catalog.generation(), 0], || {
            openapi::ServedResources::new(catalog.served().map(|served| served.resource_type.clone()))
        })
    }

    /// The group versions in the lists of discovery, with those of other servers.
    fn listed(&self, catalog: &Catalog, table: &Table) -> Arc<openapi::ServedResources> {
        let served = self.served(catalog);
        if !table.has_remotes() {
            return served;
        }
        self.listed.get((), [catalog.generation(), table.generation()], || {
            let foreign = table.remotes().iter().filter(|remote| !remote.group().is_empty());
            let foreign = foreign.map(|remote| (remote.group(), remote.version()));
            served.listed_with(foreign, |group, version| {
                let Priorities { group, version } = table.priorities(group, version);
                [group, version]
            })
        })
    }

    /// One of the documents of aggregated discovery.
    pub(super) fn aggregated(&self, catalog: &Catalog, table: &Table, root: Root) -> Arc<Tagged> {
        self.aggregated.get(root, [catalog.generation(), table.generation()], || {
            DISCOVERIES.with([]).inc();
            let served = self.served(catalog);
            let part = |group: &str, version: &str| {
                let own = catalog.group_version(group, version);
                // What this server serves itself comes first.
                if own.is_none()
                    && let Some(remote) = table.find_version(group, version)
                {
                    return remote.discovery().clone();
                }
                let generation = [own.map_or(0, |known| known.generation), 0];
                let key = (group.into(), version.into());
                let make = || discovery::aggregated_version(&served, group, version).into();
                (*self.parts.get(key, generation, make)).clone()
            };
            self.parts.retain(|(group, version)| catalog.group_version(group, version).is_some());
            discovery::aggregated_of(&self.listed(catalog, table), root, Aggregated::V2, part)
        })
    }

    /// The OpenAPI v2 document in an encoding.
    pub(super) fn v2(&self, catalog: &Catalog, table: &Table, encoding: Encoding) -> V2 {
        let mut parts = self.v2_parts(catalog, encoding);
        let generation = [catalog.generation(), table.generation()];
        if table.remotes().iter().any(|remote| remote.v2().is_some()) {
            let foreign = self.v2_foreign.get(encoding, generation, || {
                let own = match encoding {
                    Encoding::Json => parts.clone(),
                    Encoding::Protobuf => self.v2_parts(catalog, Encoding::Json),
                };
                let foreign: Vec<&Foreign> = table.documents_by_priority();
                openapi::v2::foreign_parts(&own, &foreign, encoding).into_iter().map(Arc::new).collect()
            });
            parts.extend(foreign.iter().cloned());
        }
        let made = self.v2_made.get((), generation, || Made::now(&parts));
        V2::new(parts, encoding, &made)
    }

    /// The parts of the OpenAPI v2 document about what this server serves.
    fn v2_parts(&self, catalog: &Catalog, encoding: Encoding) -> Vec<Arc<DocumentPart>> {
        // The parts do not change: a kind that changes gets another id.
        let unchanged = [0, 0];
        let mut writer = None;
        let mut of = |id, make: &dyn Fn(&mut openapi::v2::Writer) -> DocumentPart| {
            self.v2.get((encoding, id), unchanged, || {
                make(writer.get_or_insert_with(|| openapi::v2::Writer::new(encoding)))
            })
        };
        let mut parts = vec![of(None, &|writer| writer.builtin(&self.served(catalog)))];
        let mut ids = HashSet::new();
        for served in catalog.served().filter(|served| served.is_custom()) {
            ids.insert(served.id);
            parts.push(of(Some(served.id), &|writer| writer.custom(&served.resource_type)));
        }
        self.v2.retain(|(_, id)| id.is_none_or(|id| ids.contains(&id)));
        parts
    }

    /// The OpenAPI v3 document at a path.
    pub(super) fn v3(&self, catalog: &Catalog, path: &str) -> Option<Arc<V3>> {
        if !self.v3_paths(catalog).contains(path) {
            return None;
        }
        let generation = generation_at(catalog, path);
        Some(self.v3.get(path.to_owned(), generation, || V3::new(&self.served(catalog), path)))
    }

    /// The OpenAPI v3 document that was made of the OpenAPI v2 document of another server, with its hash.
    pub(super) fn v3_converted(&self, path: &str, hash: &str, document: &[u8]) -> Arc<V3> {
        self.v3_converted.get((path.to_owned(), hash.to_owned()), [0, 0], || V3::of(document))
    }

    fn v3_paths(&self, catalog: &Catalog) -> Arc<BTreeSet<String>> {
        self.v3_paths.get((), [catalog.generation(), 0], || {
            let paths = openapi::v3::paths(&self.served(catalog));
            self.v3.retain(|path| paths.contains(path));
            self.v3_hashes.retain(|path| paths.contains(path));
            paths
        })
    }

    /// How many parts of documents are kept, those of aggregated discovery and the hashes of OpenAPI v3.
    #[cfg(test)]
    pub(super) fn kept(&self) -> [usize; 2] {
        [self.parts.0.lock().unwrap().len(), self.v3_hashes.0.lock().unwrap().len()]
    }

    /// How many parts of OpenAPI v2 are kept.
    #[cfg(test)]
    pub(super) fn v2_kept(&self) -> usize {
        self.v2.0.lock().unwrap().len()
    }

    /// The index of the OpenAPI v3 documents. Of a document that nobody asked for, only the hash is kept.
    pub(super) fn v3_index(&self, catalog: &Catalog, table: &Table) -> Arc<Bytes> {
        self.v3_index.get((), [catalog.generation(), table.generation()], || {
            let served = self.served(catalog);
            let mut writer = openapi::v3::Writer::new(&served);
            let paths = self.v3_paths(catalog);
            let entries = paths.iter().map(|path| {
                let hash = self.v3_hashes.get(path.clone(), generation_at(catalog, path), || {
                    openapi::hash(&writer.document(path).unwrap_or_default())
                });
                Entry { path: path.clone(), hash: (*hash).clone() }
            });
            let entries: Vec<Entry> = entries.collect();
            let documents = table.remotes().iter().filter_map(|remote| remote.v3());
            let foreign: Vec<(String, String)> = documents.flat_map(|documents| documents.paths()).collect();
            let converted: HashSet<&str> = foreign.iter().map(|(path, _)| path.as_str()).collect();
            self.v3_converted.retain(|(path, _)| converted.contains(path.as_str()));
            openapi::v3::index_with(&entries, &foreign).into()
        })
    }
}

/// The generation of an OpenAPI v3 document. One that is not of one group version does not change.
fn generation_at(catalog: &Catalog, path: &str) -> Generation {
    [group_version_at(catalog, path).map_or(0, |known| known.generation), 0]
}

/// The group version of an OpenAPI v3 path such as `api/v1` or `apis/apps/v1`.
fn group_version_at<'a>(catalog: &'a Catalog, path: &str) -> Option<&'a GroupVersion> {
    let (group, version) = match path.strip_prefix("apis/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", path.strip_prefix("api/")?),
    };
    catalog.group_version(group, version).map(|known| &**known)
}

impl Api {
    /// Answers a non-resource request.
    pub(super) async fn non_resource(
        &self,
        request: Request,
        caller: Authenticated,
        info: RequestInfo<'_>,
    ) -> Result<Response, Error> {
        let user = caller.user().clone();
        self.permission(caller, &info, request.uri()).await?;
        let path = info.path;
        let (catalog, table) = (self.registry.catalog(), self.table());
        match path {
            "/" | "/index.html" => {
                Ok(root(&catalog, &table, self.discovery().is_some(), &self.config.further_paths))
            }
            "/apis" => self.apis(&request, &catalog, &table),
            "/apis/" => self.document(&request, discovery::groups(&self.documents.listed(&catalog, &table))),
            "/openapi/v2" => self.openapi_v2(&request, catalog, table).await,
            "/openapi/v3" => {
                let counted = Counted::path(&request, "openapi/v3", "");
                let mut response = self.openapi_v3_index(&request, catalog, table).await?;
                counted.answered(&mut response);
                Ok(response)
            }
            _ if path.starts_with("//") => Err(Error::UnknownPath),
            _ => match path.strip_prefix("/openapi/v3/") {
                Some(document) => {
                    let counted = Counted::path(&request, "openapi/v3/", "");
                    let format = request.context.error_format;
                    let document = OpenApiV3 { path, document, user: &user };
                    let outcome = Box::pin(self.openapi_v3(request, catalog, table, document)).await;
                    let mut response = outcome.unwrap_or_else(|error| error.into_response(format));
                    counted.answered(&mut response);
                    Ok(response)
                }
                None => match (path.trim_end_matches('/'), self.discovery()) {
                    (OPENID_CONFIGURATION, Some(published)) => {
                        let document = &published.documents().configuration;
                        openid(&request, negotiate::JSON, document, published.max_age())
                    }
                    (OPENID_KEYS, Some(published)) => {
                        openid(&request, KEY_SET, &published.documents().keys, published.max_age())
                    }
                    (path, _) => self.group_documents(&request, &catalog, &table, path),
                },
            },
        }
    }

    /// What is known of other servers.
    fn table(&self) -> Arc<Table> {
        self.aggregation.as_ref().map(|aggregation| aggregation.table()).unwrap_or_default()
    }

    /// The documents about the issuer of service account tokens.
    fn discovery(&self) -> Option<&Published> {
        self.registry.config().tokens.as_ref()?.discovery.as_ref()
    }

    /// `/api`.
    fn api(&self, request: &Request, catalog: &Catalog) -> Result<Response, Error> {
        check_route(request, self.without_cbor())?;
        if let Some(response) = self.aggregated_discovery(request, catalog, &Table::default(), Root::Api)? {
            return Ok(response);
        }
        let served = self.documents.served(catalog);
        self.document(request, discovery::api_versions(&served, &self.addresses(request)))
    }

    /// `/apis`, for any method.
    fn apis(&self, request: &Request, catalog: &Catalog, table: &Table) -> Result<Response, Error> {
        match self.aggregated_discovery(request, catalog, table, Root::Apis)? {
            Some(response) => Ok(response),
            None => self.document(request, discovery::groups(&self.documents.listed(catalog, table))),
        }
    }

    /// Aggregated discovery, if the client accepts it.
    fn aggregated_discovery(
        &self,
        request: &Request,
        catalog: &Catalog,
        table: &Table,
        root: Root,
    ) -> Result<Option<Response>, Error> {
        let preferences = &request.context.preferences;
        let Some(format) = self.without_cbor().accept_aggregated(preferences) else { return Ok(None) };
        let path = if matches!(root, Root::Api) { "api" } else { "apis" };
        let counted = Counted::path(request, path, count::COMPONENT);
        let tagged = self.documents.aggregated(catalog, table, root);
        let etag = format!("\"{}\"", tagged.etag);
        let mut response = if request.header(IF_NONE_MATCH) == etag {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let ty = schema::builtin::by_name("apidiscovery.v2.APIGroupDiscoveryList");
            let form = DocumentForm::Aggregated(root, format, tagged.etag.clone());
            let make = || -> Result<_, Status> {
                Ok(represent::rewrite(tagged.json.clone(), ty, format)?.into_bytes()?.into())
            };
            let body = self.documents.in_use.get(form, make)?;
            let media_type = match format {
                Format::Yaml => AGGREGATED_YAML,
                Format::Protobuf => AGGREGATED_PROTOBUF,
                // CBOR is not negotiated for this document.
                Format::Json | Format::Pretty | Format::Cbor => AGGREGATED_JSON,
            };
            compress::shared(StatusCode::OK, media_type, body, self.coding(preferences))
        };
        if let Ok(value) = HeaderValue::from_str(&etag) {
            response.headers_mut().insert(ETAG, value);
        }
        set(&mut response, VARY, "Accept");
        set(&mut response, CACHE_CONTROL, "public");
        counted.answered(&mut response);
        Ok(Some(response))
    }

    /// How discovery is negotiated: without CBOR. Only the resources of built-in group versions have it.
    fn without_cbor(&self) -> Negotiator {
        Negotiator { cbor: false, ..self.negotiator() }
    }

    fn addresses(&self, request: &Request) -> [Address; 1] {
        let host = self.config.external_address.clone();
        let host = host.or_else(|| request.uri().authority().map(ToString::to_string));
        let host = host.or_else(|| {
            let value = request.headers().get(http::header::HOST)?.to_str().ok()?;
            Some(value.to_owned())
        });
        [Address { client_cidr: "0.0.0.0/0".into(), server_address: host.unwrap_or_default() }]
    }

    /// `/api`, `/apis/<group>`, `/api/<version>`, `/apis/<group>/<version>`, and the paths below `/version`.
    fn group_documents(
        &self,
        request: &Request,
        catalog: &Catalog,
        table: &Table,
        path: &str,
    ) -> Result<Response, Error> {
        let served = &self.documents.served(catalog);
        let mut parts = path.trim_start_matches('/').split('/');
        let found = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("apis"), Some(group), None, None) if !group.is_empty() => {
                let listed = self.documents.listed(catalog, table);
                let Some(document) = discovery::group(&listed, group) else { return Err(Error::UnknownPath) };
                // The aggregator answers for the other groups, without a route.
                if group == AGGREGATOR {
                    check_route(request, self.without_cbor())?;
                }
                return self.document(request, Some(document));
            }
            (Some("api"), None, None, None) => return self.api(request, catalog),
            (Some("version"), Some(_), ..) => return Err(Status::unknown_resource().into()),
            (Some("api"), Some(version), None, None) => ("", version),
            (Some("apis"), Some(group), Some(version), None) if !group.is_empty() => (group, version),
            _ => return Err(Error::UnknownPath),
        };
        let (group, version) = found;
        if !catalog.serves_group(group) {
            return Err(Error::UnknownPath);
        }
        let document = discovery::resources(served, group, version);
        if document.is_none() {
            return Err(routes::unknown_in(group));
        }
        let known = catalog.group_version(group, version);
        // The resources of custom kinds are served without a route: with every method, and without CBOR.
        if known.is_some_and(|known| known.resources.iter().all(|served| served.is_custom())) {
            return self.document(request, document);
        }
        check_route(request, self.negotiator())?;
        self.document_with(self.negotiator(), request, document)
    }

    /// A discovery document in the negotiated format, which is not CBOR.
    fn document(&self, request: &Request, document: Option<Document>) -> Result<Response, Error> {
        self.document_with(self.without_cbor(), request, document)
    }

    /// A discovery document in the format that is negotiated among those of `negotiator`.
    fn document_with(
        &self,
        negotiator: Negotiator,
        request: &Request,
        document: Option<Document>,
    ) -> Result<Response, Error> {
        let document = document.ok_or_else(|| Status::internal_error("a type of discovery is missing"))?;
        let preferences = &request.context.preferences;
        let format = negotiator.accept_plain(preferences)?;
        let body = represent::encode(document.ty, &document.value, format)?.into_bytes()?;
        Ok(compress::whole(StatusCode::OK, format.media_type(), body, self.coding(preferences)))
    }
}

/// The checks of the reference for a path with a route for GET only.
fn check_route(request: &Request, negotiator: Negotiator) -> Result<(), Status> {
    if request.method() != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let produces = negotiate::route::Produces::Objects;
    negotiate::route::check(request.method(), request.headers(), produces, negotiator)
}

/// A document about the issuer of service account tokens.
fn openid(
    request: &Request,
    media_type: &'static str,
    document: &str,
    max_age: u32,
) -> Result<Response, Error> {
    if request.method() != Method::GET {
        return Err(Status::method_not_allowed().into());
    }
    negotiate::route::check_only(request.headers(), media_type)?;
    let mut response = Response::new(Body::from(document.to_owned()));
    set(&mut response, CONTENT_TYPE, media_type);
    let control = format!("public, max-age={max_age}");
    if let Ok(control) = HeaderValue::from_str(&control) {
        response.headers_mut().insert(CACHE_CONTROL, control);
    }
    Ok(response)
}

/// The list of paths at `/`.
fn root(catalog: &Catalog, table: &Table, has_openid: bool, further: &[&str]) -> Response {
    let mut paths: Vec<String> = [
        "/api",
        "/apis",
        "/apis/",
        "/healthz",
        "/livez",
        "/metrics",
        "/metrics/slis",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/readyz",
        "/version",
    ]
    .iter()
    .map(|path| (*path).to_owned())
    .collect();
    paths.extend(further.iter().map(|path| (*path).to_owned()));
    if has_openid {
        paths.extend([OPENID_CONFIGURATION, OPENID_KEYS].map(str::to_owned));
    }
    for GroupVersion { group, version, .. } in catalog.group_versions().map(|known| &**known) {
        if group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.push(format!("/apis/{group}"));
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    for remote in table.remotes().iter().filter(|remote| !remote.group().is_empty()) {
        paths.push(format!("/apis/{}", remote.group()));
        paths.push(format!("/apis/{}/{}", remote.group(), remote.version()));
    }
    paths.sort();
    paths.dedup();
    let quoted: Vec<_> = paths.iter().map(|path| format!("    {}", schema::json::string(path))).collect();
    let text = format!("{{\n  \"paths\": [\n{}\n  ]\n}}", quoted.join(",\n"));
    json_response(Body::from(text))
}

/// Runs slow work on a thread for blocking work.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Panicked)
}

fn json_response(body: Body) -> Response {
    let mut response = Response::new(body);
    set(&mut response, CONTENT_TYPE, negotiate::JSON);
    response
}

fn set(response: &mut Response, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}
