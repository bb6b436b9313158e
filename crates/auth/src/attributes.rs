//! The attributes of a request that authorization decides on.

use object::{field_selector, label};
use std::borrow::Cow;

/// The attributes of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    /// `get`, `list`, `create`, ...; the method in lower case for a path outside of the API's resources.
    pub verb: Cow<'static, str>,
    /// The resource or path.
    pub target: Target,
    /// The selectors of a list, watch or deletecollection; none if it has none.
    pub selectors: Option<Box<Selectors>>,
}

/// The resource or path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A resource.
    Resource {
        /// The API group; empty for the core group.
        group: String,
        /// The version.
        version: String,
        /// The resource.
        resource: String,
        /// The subresource; empty for the resource itself.
        subresource: String,
        /// The namespace; empty for all namespaces, and for cluster-scoped resources.
        namespace: String,
        /// The name; empty for a collection.
        name: String,
    },
    /// A path outside of the API's resources.
    Path(String),
}

/// The requirements of the selectors of a request. Authorizers may rely on them: the request does not see
/// other objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selectors {
    /// The requirements of the field selector.
    pub fields: Vec<field_selector::Requirement>,
    /// Why the field selector cannot be read.
    pub fields_error: Option<String>,
    /// The requirements of the label selector.
    pub labels: Vec<label::Requirement>,
    /// Why the label selector cannot be read.
    pub labels_error: Option<String>,
}

impl Attributes {
    /// A request without selectors.
    pub fn new(verb: impl Into<Cow<'static, str>>, target: Target) -> Self {
        Self { verb: verb.into(), target, selectors: None }
    }

    /// A request for a path outside of the API's resources.
    pub fn path(verb: impl Into<Cow<'static, str>>, path: impl Into<String>) -> Self {
        Self::new(verb, Target::Path(path.into()))
    }
}
