//! What the server says about its API: discovery, OpenAPI, and the list of paths at the root.
//!
//! OpenAPI documents are made when they are first asked for, and kept compressed.

use std::io::Write as _;
use std::sync::OnceLock;

use auth::Authenticated;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzDecoder, GzEncoder};
use http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, HeaderName, IF_NONE_MATCH,
    LOCATION, VARY,
};
use http::{HeaderValue, Method, StatusCode};
use openapi::discovery::{self, Address, Aggregated, Document, Root};
use openapi::v3::Entry;
use registry::Registry;

use super::compress;
use super::negotiate::{self, Wanted};
use super::{Api, path, represent, routes};
use crate::error::plain_text;
use crate::{Body, Error, Request, Response, Status};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The documents about what a registry serves.
pub(crate) struct Documents {
    served: openapi::Served<'static>,
    v2: OnceLock<V2>,
    v3: OnceLock<V3>,
}

struct V2 {
    json: Kept,
    protobuf: Kept,
}

struct V3 {
    index: Bytes,
    documents: Vec<(Entry, Kept)>,
}

/// A document, compressed, with its hash.
struct Kept {
    gzip: Bytes,
    hash: String,
}

impl Kept {
    fn new(document: &[u8]) -> Self {
        let hash = openapi::hash(document);
        let mut encoder = GzEncoder::new(Vec::with_capacity(document.len() / 8), Compression::default());
        // Writing into memory does not fail.
        let gzip = encoder.write_all(document).and_then(|()| encoder.finish()).unwrap_or_default();
        Self { gzip: gzip.into(), hash }
    }

    fn plain(&self) -> Bytes {
        let mut decoder = GzDecoder::new(Vec::with_capacity(self.gzip.len() * 8));
        decoder.write_all(&self.gzip).and_then(|()| decoder.finish()).unwrap_or_default().into()
    }
}

impl Documents {
    /// About what a registry serves.
    pub(crate) fn new(registry: &Registry) -> Self {
        let served = registry.served().iter().map(|served| (served.kind, served.version));
        Self { served: openapi::Served::builtin(served), v2: OnceLock::new(), v3: OnceLock::new() }
    }

    fn v2(&self) -> &V2 {
        self.v2.get_or_init(|| V2 {
            json: Kept::new(&openapi::v2::json(&self.served)),
            protobuf: Kept::new(&openapi::v2::protobuf(&self.served)),
        })
    }

    fn v3(&self) -> &V3 {
        self.v3.get_or_init(|| {
            let paths = openapi::v3::paths(&self.served);
            let documents: Vec<_> = paths
                .into_iter()
                .filter_map(|path| {
                    let document = openapi::v3::document(&self.served, &path)?;
                    Some((Entry::new(path, &document), Kept::new(&document)))
                })
                .collect();
            let entries: Vec<_> = documents.iter().map(|(entry, _)| entry.clone()).collect();
            V3 { index: openapi::v3::index(&entries).into(), documents }
        })
    }
}

impl Api {
    /// A request for a path outside of the resources.
    pub(super) async fn non_resource(
        &self,
        request: Request,
        caller: Authenticated,
        path: &str,
    ) -> Result<Response, Error> {
        self.timeout(request.query())?;
        self.authorizer.authorize(caller, path::path_attributes(request.method(), path))?;
        let trimmed = path.strip_suffix('/').unwrap_or(path);
        match trimmed {
            "" | "/index.html" => Ok(self.root()),
            "/api" if is_read_or_aggregated(&request) => self.api_root(&request, Root::Api),
            "/api" => Err(Status::method_not_allowed().into()),
            "/apis" => self.api_root(&request, Root::Apis),
            "/openapi/v2" => self.openapi_v2(&request).await,
            "/openapi/v3" => self.openapi_v3_index().await,
            _ => match trimmed.strip_prefix("/openapi/v3/") {
                Some(document) => self.openapi_v3(&request, document).await,
                None => self.group_documents(&request, trimmed),
            },
        }
    }

    /// The list of paths.
    fn root(&self) -> Response {
        let mut paths: Vec<String> = [
            "/api",
            "/apis",
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/openapi/v3/",
            "/readyz",
            "/version",
        ]
        .iter()
        .map(|path| (*path).to_owned())
        .collect();
        for served in self.registry.served() {
            let group = served.kind.group;
            if group.is_empty() {
                paths.push(format!("/api/{}", served.version.name));
            } else {
                paths.push(format!("/apis/{group}"));
                paths.push(format!("/apis/{group}/{}", served.version.name));
            }
        }
        paths.sort();
        paths.dedup();
        let quoted: Vec<_> = paths.iter().map(|path| format!("    {}", schema::json::string(path))).collect();
        let text = format!("{{\n  \"paths\": [\n{}\n  ]\n}}", quoted.join(",\n"));
        json_response(Body::from(text))
    }

    /// `/api` and `/apis`, in the old form or as one document for everything.
    fn api_root(&self, request: &Request, root: Root) -> Result<Response, Error> {
        let wanted = Wanted::of(request.headers(), request.query());
        if wants_aggregated(request.header(ACCEPT)) {
            let tagged = discovery::aggregated(&self.documents.served, root, Aggregated::V2);
            let etag = format!("\"{}\"", tagged.etag);
            let mut response = if matches_etag(request, &etag) {
                let mut response = Response::new(Body::Empty);
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                response
            } else {
                let mut json = tagged.json;
                json.push(b'\n');
                compress::whole(StatusCode::OK, AGGREGATED, json.into(), self.coding(&wanted))
            };
            if let Ok(value) = HeaderValue::from_str(&etag) {
                response.headers_mut().insert(ETAG, value);
            }
            set(&mut response, VARY, "Accept");
            set(&mut response, CACHE_CONTROL, "public");
            return Ok(response);
        }
        let document = match root {
            Root::Api => discovery::api_versions(&self.documents.served, &self.addresses(request)),
            Root::Apis => discovery::groups(&self.documents.served),
        };
        let mut response = self.document(request, document)?;
        set(&mut response, VARY, "Accept");
        Ok(response)
    }

    fn addresses(&self, request: &Request) -> [Address; 1] {
        let host = request.uri().authority().map(ToString::to_string);
        let host = host.or_else(|| {
            let value = request.headers().get(http::header::HOST)?.to_str().ok()?;
            Some(value.to_owned())
        });
        [Address { client_cidr: "0.0.0.0/0".into(), server_address: host.unwrap_or_default() }]
    }

    /// `/apis/<group>`, `/api/<version>`, `/apis/<group>/<version>`.
    fn group_documents(&self, request: &Request, path: &str) -> Result<Response, Error> {
        let served = &self.documents.served;
        let mut parts = path.trim_start_matches('/').split('/');
        let found = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("apis"), Some(group), None, None) if !group.is_empty() => {
                return match discovery::group(served, group) {
                    Some(document) => self.document(request, Some(document)),
                    None => Err(Error::UnknownPath),
                };
            }
            (Some("api"), Some(version), None, None) => ("", version),
            (Some("apis"), Some(group), Some(version), None) if !group.is_empty() => (group, version),
            _ => return Err(Error::UnknownPath),
        };
        let (group, version) = found;
        if path.starts_with("//") || !routes::serves_group(&self.registry, group) {
            return Err(Error::UnknownPath);
        }
        let document = discovery::resources(served, group, version);
        if document.is_none() {
            return Err(Status::unknown_resource().into());
        }
        if request.method() != Method::GET {
            return Err(Status::method_not_allowed().into());
        }
        self.document(request, document)
    }

    /// A document of discovery in the form that is accepted.
    fn document(&self, request: &Request, document: Option<Document>) -> Result<Response, Error> {
        let document = document.ok_or_else(|| Status::internal_error("a type of discovery is missing"))?;
        let wanted = Wanted::of(request.headers(), request.query());
        let format = self.negotiation().accept_plain(&wanted)?;
        let body = represent::encode(document.ty, &document.value, format)?;
        Ok(compress::whole(StatusCode::OK, format.media_type(), body, self.coding(&wanted)))
    }

    /// The index of the documents of OpenAPI v3.
    async fn openapi_v3_index(&self) -> Result<Response, Error> {
        let documents = self.documents.clone();
        let index = blocking(move || documents.v3().index.clone()).await?;
        let mut response = Response::new(Body::from(index));
        set(&mut response, CONTENT_TYPE, "text/plain; charset=utf-8");
        Ok(response)
    }

    async fn openapi_v3(&self, request: &Request, path: &str) -> Result<Response, Error> {
        let documents = self.documents.clone();
        blocking(move || documents.v3().documents.len()).await?;
        let Some((_, kept)) = self.documents.v3().documents.iter().find(|(entry, _)| entry.path == path)
        else {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NOT_FOUND;
            return Ok(response);
        };
        let accept = request.header(ACCEPT);
        if accept.contains(V3_PROTOBUF) && !accept.contains("application/json") && !accept.contains("*/*") {
            return Err(Status::not_acceptable(
                "only the following media types are accepted: application/json",
            )
            .into());
        }
        let hash = request.query().values("hash").next();
        if let Some(hash) = hash.as_deref().filter(|hash| !hash.is_empty()) {
            if hash != kept.hash {
                let mut response = Response::new(Body::Empty);
                *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
                set(&mut response, CONTENT_TYPE, negotiate::JSON);
                let location = format!("/openapi/v3/{path}?hash={}", kept.hash);
                if let Ok(value) = HeaderValue::from_str(&location) {
                    response.headers_mut().insert(LOCATION, value);
                }
                return Ok(response);
            }
            let mut response = self.kept(request, kept, "application/json").await?;
            // A year: the address changes with the document.
            set(&mut response, CACHE_CONTROL, "public, immutable");
            set(&mut response, EXPIRES, "Thu, 31 Dec 2037 23:55:55 GMT");
            return Ok(response);
        }
        self.kept(request, kept, "application/json").await
    }

    async fn openapi_v2(&self, request: &Request) -> Result<Response, Error> {
        let documents = self.documents.clone();
        blocking(move || documents.v2().json.gzip.len()).await?;
        let v2 = self.documents.v2();
        let accept = request.header(ACCEPT);
        let first = accept.split(',').map(str::trim).find_map(|clause| {
            let media_type = clause.split(';').next().unwrap_or_default().trim();
            match media_type {
                V2_PROTOBUF | V2_PROTOBUF_OLD => Some((&v2.protobuf, V2_PROTOBUF)),
                "" | "application/json" | "*/*" | "application/*" => Some((&v2.json, "application/json")),
                _ => None,
            }
        });
        match first {
            Some((kept, media_type)) => self.kept(request, kept, media_type).await,
            None => Ok(plain_text(StatusCode::NOT_ACCEPTABLE, "")),
        }
    }

    /// A kept document: as it is kept for those who can read that, unpacked for the others.
    async fn kept(
        &self,
        request: &Request,
        kept: &Kept,
        media_type: &'static str,
    ) -> Result<Response, Error> {
        let etag = format!("\"{}\"", kept.hash);
        let mut response = if matches_etag(request, &etag) {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else if Wanted::of(request.headers(), request.query()).gzip() {
            let mut response = Response::new(Body::from(kept.gzip.clone()));
            set(&mut response, CONTENT_ENCODING, "gzip");
            response
        } else {
            Response::new(Body::from(kept.plain()))
        };
        set(&mut response, CONTENT_TYPE, media_type);
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
        if let Ok(value) = HeaderValue::from_str(&etag) {
            response.headers_mut().insert(ETAG, value);
        }
        Ok(response)
    }
}

/// Runs what takes its time where it holds nobody up.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Panicked)
}

/// Whether any of the accepted media types is the one document for everything.
fn wants_aggregated(accept: &str) -> bool {
    accept.split(',').any(|clause| {
        let mut parts = clause.split(';').map(str::trim);
        let is_json = parts.next() == Some("application/json");
        let mut asked: Vec<_> = parts.filter(|part| !part.starts_with("q=")).collect();
        asked.sort_unstable();
        is_json && asked == ["as=APIGroupDiscoveryList", "g=apidiscovery.k8s.io", "v=v2"]
    })
}

/// `/api` has one method, but for clients of aggregated discovery, which is older than that rule.
fn is_read_or_aggregated(request: &Request) -> bool {
    matches!(*request.method(), Method::GET) || request.header(ACCEPT).contains("as=APIGroupDiscoveryList")
}

fn matches_etag(request: &Request, etag: &str) -> bool {
    request.header(IF_NONE_MATCH).split(',').any(|given| given.trim() == etag)
}

fn json_response(body: Body) -> Response {
    let mut response = Response::new(body);
    set(&mut response, CONTENT_TYPE, negotiate::JSON);
    response
}

fn set(response: &mut Response, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}
