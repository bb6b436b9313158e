//! What the definitions of a server share with those of its forks: kinds that are compiled already.
//!
//! A fork begins with definitions of its server, and most of them are served as the server serves them. What
//! is compiled of such a kind is taken over; only where its schema is found for documents is the fork's own.
//! Kinds whose versions are converted by a webhook are not shared, because connections belong to a server.

use crate::definition::{Definition, read_schema};
use crate::kind::Sources;
use cache::Entry;
use kinds::ResourceType;
use object::{Map, Text};
use registry::{Conversion, CustomKind, CustomVersion};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use store::Revision;

/// The kinds that a server serves by definitions. Clones share them.
#[derive(Clone, Default)]
pub struct SharedKinds(Arc<Mutex<HashMap<Text, SharedKind>>>);

/// The kinds of a server, for a fork that begins with a revision of it.
#[derive(Clone)]
pub struct Inherited {
    /// The kinds of the server, as they are at present.
    pub kinds: SharedKinds,
    /// The last revision that server and fork have in common.
    pub revision: Revision,
}

/// What a kind depends on: its form changes only with these.
#[derive(Clone, PartialEq)]
pub(crate) struct Form {
    pub(crate) uid: Text,
    pub(crate) generation: i64,
    pub(crate) accepted: Map,
}

struct SharedKind {
    definition: Arc<Definition>,
    form: Form,
    versions: Vec<(Arc<ResourceType>, bool)>,
    storage_version: Text,
}

impl SharedKinds {
    /// A kind that is about to be served.
    pub(crate) fn note(&self, definition: &Arc<Definition>, form: &Form, kind: &CustomKind) {
        if !matches!(kind.conversion, Conversion::None) {
            self.forget(&definition.name);
            return;
        }
        let versions = kind.versions.iter().map(|version| (version.resource_type.clone(), version.served));
        let shared = SharedKind {
            definition: definition.clone(),
            form: form.clone(),
            versions: versions.collect(),
            storage_version: kind.storage_version.clone(),
        };
        self.all().insert(definition.name.clone(), shared);
    }

    /// A newer state of a definition.
    pub(crate) fn update(&self, definition: &Arc<Definition>) {
        if let Some(shared) = self.all().get_mut(&definition.name) {
            shared.definition = definition.clone();
        }
    }

    /// A definition is not served any more.
    pub(crate) fn forget(&self, name: &str) {
        self.all().remove(name);
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Text, SharedKind>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inherited {
    /// The definition in an entry, if the server has read the same state.
    pub(crate) fn definition(&self, entry: &Entry) -> Option<Arc<Definition>> {
        let revision = entry.mod_revision();
        if revision > self.revision {
            return None;
        }
        let kinds = self.kinds.all();
        let known = &kinds.get(entry.name())?.definition;
        (known.revision == revision && known.uid == entry.uid()).then(|| known.clone())
    }

    /// The kind of a definition that the fork began with, if the server serves it in the same form.
    pub(crate) fn kind(
        &self,
        definition: &Definition,
        form: &Form,
        is_terminating: bool,
        sources: &Sources,
    ) -> Option<CustomKind> {
        if definition.revision > self.revision {
            return None;
        }
        let kinds = self.kinds.all();
        let shared = kinds.get(&definition.name).filter(|shared| shared.form == *form)?;
        let own = |(known, served): &(Arc<ResourceType>, bool)| {
            let (name, uid) = (&definition.name, &definition.uid);
            let schema = read_schema(&sources.definitions, name, uid, definition.generation, &known.version);
            let own = ResourceType { definition: Some(schema), is_terminating, ..ResourceType::clone(known) };
            CustomVersion { resource_type: Arc::new(own), served: *served }
        };
        Some(CustomKind {
            versions: shared.versions.iter().map(own).collect(),
            storage_version: shared.storage_version.clone(),
            conversion: Conversion::None,
        })
    }
}
