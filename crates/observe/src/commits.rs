//! Who is told of the commits of a request.

use std::fmt;

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Nothing was written yet.
    Begins,
    /// The change is durable, and the client does not know of it yet.
    Done,
}

/// A function that is called at the commits of a request.
pub(crate) struct CommitHook(pub(crate) Box<dyn Fn(Commit) + Send + Sync>);

impl fmt::Debug for CommitHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommitHook(..)")
    }
}
