//! What the server says about its API: discovery, and the list of paths at the root. OpenAPI is next door ([`super::specs`]).

use std::sync::OnceLock;

use auth::Authenticated;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, VARY};
use http::{HeaderValue, Method, StatusCode};
use openapi::discovery::{self, Address, Aggregated, Document, Root};
use registry::Registry;

use super::compress;
use super::negotiate::{self, Format, Wanted};
use super::specs::{V2, V3};
use super::{Api, path, represent, routes};
use crate::{Body, Error, Request, Response, Status};

const AGGREGATED_JSON: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_YAML: &str = "application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_CBOR: &str = "application/cbor;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The group of the server that stands before all others.
const AGGREGATOR: &str = "apiregistration.k8s.io";

/// The documents about what a registry serves.
pub(crate) struct Documents {
    served: openapi::Served<'static>,
    v2: OnceLock<V2>,
    v3: OnceLock<V3>,
}

impl Documents {
    /// About what a registry serves.
    pub(crate) fn new(registry: &Registry) -> Self {
        let served = registry.served().iter().map(|served| (served.kind, served.version));
        Self { served: openapi::Served::builtin(served), v2: OnceLock::new(), v3: OnceLock::new() }
    }

    /// The document of OpenAPI v2.
    pub(super) fn v2(&self) -> &V2 {
        self.v2.get_or_init(|| V2::new(&self.served))
    }

    /// The documents of OpenAPI v3.
    pub(super) fn v3(&self) -> &V3 {
        self.v3.get_or_init(|| V3::new(&self.served))
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
        self.authorizer.authorize(caller, path::path_attributes(request.method(), path))?;
        match path {
            "/" | "/index.html" => Ok(self.root()),
            "/apis" => self.apis(&request),
            "/apis/" => self.document(&request, discovery::groups(&self.documents.served)),
            "/openapi/v2" => self.openapi_v2(&request).await,
            "/openapi/v3" => self.openapi_v3_index(&request).await,
            _ if path.starts_with("//") => Err(Error::UnknownPath),
            _ => match path.strip_prefix("/openapi/v3/") {
                Some(document) => self.openapi_v3(&request, document).await,
                None => self.group_documents(&request, path.trim_end_matches('/')),
            },
        }
    }

    /// The list of paths.
    fn root(&self) -> Response {
        let mut paths: Vec<String> = [
            "/api",
            "/apis",
            "/apis/",
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

    /// `/api`.
    fn api(&self, request: &Request) -> Result<Response, Error> {
        self.check_route(request)?;
        if let Some(response) = self.aggregated(request, Root::Api)? {
            return Ok(response);
        }
        self.document(request, discovery::api_versions(&self.documents.served, &self.addresses(request)))
    }

    /// `/apis`, which takes any method.
    fn apis(&self, request: &Request) -> Result<Response, Error> {
        match self.aggregated(request, Root::Apis)? {
            Some(response) => Ok(response),
            None => self.document(request, discovery::groups(&self.documents.served)),
        }
    }

    /// One document for everything, for those who accept it.
    fn aggregated(&self, request: &Request, root: Root) -> Result<Option<Response>, Error> {
        let wanted = Wanted::of(request.headers(), request.query());
        let Some(format) = self.negotiation().accept_aggregated(&wanted) else { return Ok(None) };
        let tagged = discovery::aggregated(&self.documents.served, root, Aggregated::V2);
        let etag = format!("\"{}\"", tagged.etag);
        let mut response = if request.header(IF_NONE_MATCH) == etag {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            response
        } else {
            let ty = schema::builtin::by_name("apidiscovery.v2.APIGroupDiscoveryList");
            let body = represent::rewrite(tagged.json, ty, format)?;
            let media_type = match format {
                Format::Json | Format::Pretty => AGGREGATED_JSON,
                Format::Yaml => AGGREGATED_YAML,
                Format::Protobuf => AGGREGATED_PROTOBUF,
                Format::Cbor => AGGREGATED_CBOR,
            };
            compress::whole(StatusCode::OK, media_type, body, self.coding(&wanted))
        };
        if let Ok(value) = HeaderValue::from_str(&etag) {
            response.headers_mut().insert(ETAG, value);
        }
        set(&mut response, VARY, "Accept");
        set(&mut response, CACHE_CONTROL, "public");
        Ok(Some(response))
    }

    /// What the reference looks at before it answers where it has routes with one method.
    fn check_route(&self, request: &Request) -> Result<(), Status> {
        if request.method() != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let produces = negotiate::route::Produces::Objects;
        negotiate::route::check(request.method(), request.headers(), produces, self.negotiation())
    }

    fn addresses(&self, request: &Request) -> [Address; 1] {
        let host = request.uri().authority().map(ToString::to_string);
        let host = host.or_else(|| {
            let value = request.headers().get(http::header::HOST)?.to_str().ok()?;
            Some(value.to_owned())
        });
        [Address { client_cidr: "0.0.0.0/0".into(), server_address: host.unwrap_or_default() }]
    }

    /// `/api`, `/apis/<group>`, `/api/<version>`, `/apis/<group>/<version>`, and what is below `/version`.
    fn group_documents(&self, request: &Request, path: &str) -> Result<Response, Error> {
        let served = &self.documents.served;
        let mut parts = path.trim_start_matches('/').split('/');
        let found = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("apis"), Some(group), None, None) if !group.is_empty() => {
                let Some(document) = discovery::group(served, group) else { return Err(Error::UnknownPath) };
                // The other groups are answered for by the aggregator, which has no routes.
                if group == AGGREGATOR {
                    self.check_route(request)?;
                }
                return self.document(request, Some(document));
            }
            (Some("api"), None, None, None) => return self.api(request),
            (Some("version"), Some(_), ..) => return Err(Status::unknown_resource().into()),
            (Some("api"), Some(version), None, None) => ("", version),
            (Some("apis"), Some(group), Some(version), None) if !group.is_empty() => (group, version),
            _ => return Err(Error::UnknownPath),
        };
        let (group, version) = found;
        if !routes::serves_group(&self.registry, group) {
            return Err(Error::UnknownPath);
        }
        let document = discovery::resources(served, group, version);
        if document.is_none() {
            return Err(Status::unknown_resource().into());
        }
        self.check_route(request)?;
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
}

/// Runs what takes its time where it holds nobody up.
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
