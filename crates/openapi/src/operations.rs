//! The operations of each path, for both versions of OpenAPI.

mod custom;
mod names;
mod resource;

use crate::parameters::Parameter;
use crate::schemas::{Model, VERSION_INFO};
use crate::served::{GroupVersion, ServedResources};
use names::id_and_tag;
use schema::builtin::by_name;
use std::collections::BTreeMap;

pub(crate) use custom::of_custom;
pub(crate) use resource::{VerbParameters, of_resource};

/// The methods, in the order in which a document has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Method {
    Get,
    Put,
    Post,
    Delete,
    Options,
    Head,
    Patch,
}

impl Method {
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Put => "put",
            Self::Post => "post",
            Self::Delete => "delete",
            Self::Options => "options",
            Self::Head => "head",
            Self::Patch => "patch",
        }
    }
}

/// One operation.
pub(crate) struct Operation<'a> {
    pub(crate) method: Method,
    pub(crate) id: String,
    pub(crate) tag: String,
    pub(crate) description: String,
    /// The `x-kubernetes-action` and the kind that it acts on.
    pub(crate) action: Option<(&'static str, GroupVersionKind)>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<RequestBody<'a>>,
    pub(crate) consumes: &'static [&'static str],
    pub(crate) produces: &'static [&'static str],
    pub(crate) responses: Vec<Response<'a>>,
}

/// The `x-kubernetes-group-version-kind` of an operation.
#[derive(Clone)]
pub(crate) struct GroupVersionKind {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// The body of a request.
pub(crate) struct RequestBody<'a> {
    pub(crate) model: Model<'a>,
    pub(crate) required: bool,
}

/// One response of an operation.
pub(crate) struct Response<'a> {
    pub(crate) code: &'static str,
    pub(crate) description: &'static str,
    pub(crate) model: Model<'a>,
}

/// Operations by path.
pub(crate) type Paths<'a> = BTreeMap<String, Vec<Operation<'a>>>;

const JSON: &str = "application/json";
const OBJECTS: &[&str] = &[JSON, "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The paths of discovery, and those outside of the API groups. The reference does not document the discovery
/// of custom kinds.
pub(crate) fn about_the_server<'a>(served: &ServedResources) -> Paths<'a> {
    let mut paths = Paths::new();
    let mut add = |path: &str, id: String, tag: String, description, consumes, produces, model| {
        let operation = Operation {
            method: Method::Get,
            id,
            tag,
            description: String::from(description),
            action: None,
            parameters: Vec::new(),
            body: None,
            consumes,
            produces,
            responses: vec![Response { code: "200", description: "OK", model }],
        };
        paths.insert(path.to_owned(), vec![operation]);
    };
    let mut add_discovery = |path: &str, rest: &str, description, ty| {
        if let Some(ty) = by_name(ty) {
            let (id, tag) = id_and_tag(path, "get", rest);
            add(path, id, tag, description, OBJECTS, OBJECTS, Model::Type(ty));
        }
    };
    for group in served.groups() {
        if group.name.is_empty() {
            add_discovery("/api/", "APIVersions", "get available API versions", "meta.v1.APIVersions");
        } else if !group.versions.iter().all(GroupVersion::is_custom) {
            let path = format!("/apis/{}/", group.name);
            add_discovery(&path, "APIGroup", "get information of a group", "meta.v1.APIGroup");
        }
        for version in group.versions.iter().filter(|version| !version.is_custom()) {
            let path = format!("{}/", root(&group.name, &version.name));
            add_discovery(&path, "APIResources", "get available resources", "meta.v1.APIResourceList");
        }
    }
    add_discovery("/apis/", "APIVersions", "get available API versions", "meta.v1.APIGroupList");
    add(
        "/version/",
        "getCodeVersion".into(),
        "version".into(),
        "get the version information for this server",
        &[JSON],
        &[JSON],
        Model::SpecialType(&VERSION_INFO),
    );
    add(
        "/.well-known/openid-configuration/",
        "getServiceAccountIssuerOpenIDConfiguration".into(),
        "WellKnown".into(),
        "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        &[],
        &[JSON],
        Model::Text,
    );
    add(
        "/openid/v1/jwks/",
        "getServiceAccountIssuerOpenIDKeyset".into(),
        "openid".into(),
        "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        &[],
        &["application/jwk-set+json"],
        Model::Text,
    );
    paths
}

/// The parameters that all operations of a path have.
pub(crate) fn shared_parameters<'o>(operations: &'o [Operation<'_>]) -> Vec<&'o Parameter> {
    let has = |operation: &Operation<'_>, wanted: &Parameter| {
        operation.parameters.iter().any(|other| other.name == wanted.name && other.place == wanted.place)
    };
    // If the descriptions of a parameter differ, that of the last operation is used for all.
    let last = operations.last().map(|operation| operation.parameters.as_slice()).unwrap_or_default();
    last.iter().filter(|parameter| operations.iter().all(|operation| has(operation, parameter))).collect()
}

/// Whether `parameter` is one of the common parameters of the path.
pub(crate) fn is_shared(parameter: &Parameter, shared: &[&Parameter]) -> bool {
    shared.iter().any(|other| other.name == parameter.name && other.place == parameter.place)
}

/// `/api/v1` or `/apis/apps/v1`.
pub(crate) fn root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}
