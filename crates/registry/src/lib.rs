//! The verbs: for each one file, and in it the fixed sequence that a request goes through, for every kind alike.
//!
//! 1. **Proof by type.** A verb is asked with a [`Target`], which is made of an [`auth::Authorized`] and says what that was
//!    given for.
//! 2. **One path.** A kind brings data and hooks ([`kinds::Strategy`]); no kind has a handler.
//! 3. **Bytes first.** Reads hand on entries of the cache; what they are written as is decided by the layer above.
//!
//! Sockets, media types and encodings of answers are left to the layer above.

mod admit;
mod apply;
mod bind;
mod commit;
mod content;
mod convert;
mod create;
mod delete;
mod delete_collection;
mod error;
mod get;
mod list;
mod managed;
mod object_meta;
mod options;
mod patch;
mod registry;
mod scale;
mod served;
mod token;
mod update;
mod warnings;
mod watch;

pub use apply::Config;
pub use content::{Answer, Content, List};
pub use error::status;
pub use merge::managed::Force;
pub use merge::{FieldValidation, Patch};
pub use object_meta::random_uid;
pub use options::{DeleteOptions, Forced, Gate, ListOptions, Pairs, Write, WriteOptions};
pub use registry::{Error, Registry, Selection, Settings, Target, specs};
pub use served::{Served, Stored, api_version};
pub use warnings::Warnings;
pub use watch::Watch;
