//! What verbs answer with. How it is written is for the layer above.

use cache::Entry;
use object::Value;
use schema::{Ref, Type};
use std::sync::Arc;

/// The answer of a verb that is about one object.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code: 200, 201, 202.
    pub code: u16,
    /// What is sent.
    pub content: Content,
}

/// One object.
#[derive(Clone, Debug)]
pub enum Content {
    /// An object of the kind, as it is stored: canonical bytes, mostly in the storage version.
    Entry(Arc<Entry>),
    /// An object of the kind that is not stored (a dry run): a tree in the working version.
    Tree(Value),
    /// An object of another type: a scale, a status.
    Other {
        /// The type.
        ty: Ref<Type>,
        /// The tree, with its `apiVersion` and `kind`.
        value: Value,
    },
}

impl From<Arc<Entry>> for Content {
    fn from(entry: Arc<Entry>) -> Self {
        Self::Entry(entry)
    }
}

/// The answer to a list.
#[derive(Debug)]
pub struct List {
    /// The objects, in the order of their keys, and the revision of the state that they are from.
    pub objects: cache::List,
    /// The token for the rest; empty if there is none.
    pub token: String,
    /// How many objects are left, for `remainingItemCount`; none where the reference leaves it out.
    pub remaining: Option<usize>,
}
