//! The attributes of a request that authorization decides on.

/// The attributes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `create`, ...; the method in lower case for a path outside of the API's resources.
    pub verb: &'static str,
    /// The resource or path.
    pub target: Target,
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
