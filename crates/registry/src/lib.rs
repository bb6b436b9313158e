//! The verbs, each a fixed sequence of steps that is the same for every kind. Create, update, patch and apply
//! are one sequence (`write`).
//!
//! 1. **Proof by type.** A verb takes a [`Target`], which is made from an [`auth::Authorized`] and names the
//!    object that was authorized.
//! 2. **One path.** A kind brings data and hooks ([`kinds::Strategy`]); no kind has a handler.
//! 3. **Bytes first.** Reads return entries of the cache; the crate `server` encodes them.
//!
//! Sockets, media types and the encodings of responses are in the crate `server`.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "an index out of range fails the test"))]

mod apply;
mod bind;
mod catalog;
mod client;
mod commit;
mod components;
mod computed;
pub mod conditions;
mod connect;
mod content;
mod convert;
mod damaged;
mod delete;
mod delete_collection;
mod delete_unreadable;
mod error;
mod escalation;
mod evict;
mod find;
mod get;
mod hooks;
mod list;
mod managed;
mod object_meta;
mod options;
mod patch;
mod plugin_writer;
mod policy_permissions;
mod preconditions;
mod prepare;
mod registry;
mod review;
mod scale;
mod selection;
mod stored;
mod target;
mod token;
mod token_request;
mod validate;
mod watch;
mod watch_caches;
mod write;
mod write_request;

use write_request::WriteRequest;

pub use admission::Warnings;
pub use apply::Format as ApplyFormat;
pub use catalog::{Catalog, GroupVersion, Served};
pub use client::{Address, Client};
pub use components::{Components, Health};
pub use computed::Computed;
pub use connect::{Backend, CommandStreams, ConnectOptions, KubeletAddresses, Location, is_proxyable};
pub use content::{Answer, Content, List};
pub use convert::{Conversion, Convert, ConvertError};
pub use damaged::{DamagedObjects, is_damaged};
pub use error::{status, unknown_reason_500};
pub use escalation::Escalation;
pub use hooks::{ValidHook, WriteHook, WriteHooks};
pub use merge::managed::Force;
pub use merge::{FieldValidation, Patch};
pub use options::{DeleteOptions, Forced, Gate, ListOptions, Pairs, WriteKind, WriteOptions};
pub use plugin_writer::PluginWriter;
pub use policy_permissions::PolicyPermissions;
pub use registry::{Config, CustomKind, CustomVersion, Error, GarbageCollection, Registry, specs};
pub use selection::{Emulation, NotYet, Selection};
pub use stored::{ReadableVersion, Stored, StoredVersions};
pub use target::Target;
pub use token_request::TokenIssuing;
pub use watch::Watch;
pub use watch_caches::WatchCaches;
