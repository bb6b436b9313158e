//! What audit keeps of a request besides its annotations.

use std::sync::Arc;

/// Names the object of a request, as far as the object itself says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `metadata.namespace`.
    pub namespace: Box<str>,
    /// `metadata.name`.
    pub name: Box<str>,
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`.
    pub resource_version: Box<str>,
}

/// What audit keeps of a request besides its annotations. All texts are JSON.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// What the object in the body says of itself; only the first counts.
    pub identity: Option<Arc<Identity>>,
    /// The object or the patch in the body. Only from the level `Request` on.
    pub request: Option<Arc<[u8]>>,
    /// The `Status` in the response, if it is one.
    pub status: Option<Arc<[u8]>>,
    /// The object in the response. Only at the level `RequestResponse`.
    pub response: Option<Arc<[u8]>>,
}
