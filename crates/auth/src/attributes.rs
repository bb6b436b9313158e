//! What a request wants, in the words that permissions are given in.

/// What a request wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `create`, ...; the method in lower case for a path outside of the API's resources.
    pub verb: &'static str,
    /// What it is about.
    pub target: Target,
}

/// What a request is about.
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
        /// The namespace; empty for all of them, and for what lives in none.
        namespace: String,
        /// The name; empty for a collection.
        name: String,
    },
    /// A path outside of the API's resources.
    Path(String),
}
