//! The results of the verbs. The crate `server` encodes them.

use cache::Entry;
use object::Value;
use schema::{Ref, Type};
use std::sync::Arc;

/// The result of a verb on one object.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status code: 200, 201, 202.
    pub code: u16,
    /// The object of the response.
    pub content: Content,
}

/// The object of a response.
#[derive(Clone, Debug)]
pub enum Content {
    /// An object of the kind, as it is stored: canonical bytes, mostly in the storage version.
    Entry(Arc<Entry>),
    /// An object of the kind that is not stored: of a dry run, removed by this write, or a component status.
    /// A tree in the working version.
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

/// The result of a list.
#[derive(Debug)]
pub struct List {
    /// The objects, in the order of their keys, and the revision of the state that they are from.
    pub objects: cache::List,
    /// The continue token of the next page; empty on the last page.
    pub token: String,
    /// `remainingItemCount`: the number of objects after this page; `None` where the reference omits it.
    pub remaining: Option<usize>,
}

impl List {
    /// The list twice.
    pub fn twice(self) -> [Self; 2] {
        let Self { objects, token, remaining } = self;
        let [first, second] = objects.twice();
        [Self { objects: first, token: token.clone(), remaining }, Self { objects: second, token, remaining }]
    }
}
