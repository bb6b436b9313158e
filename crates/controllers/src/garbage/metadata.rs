//! What the garbage collector reads of an object: its owners and its finalizers. They are at the same place
//! in every kind.

use cache::Entry;
use kinds::object_meta::{self, FOREGROUND, ORPHAN};
use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1::ConfigMap;
use schema::views::meta::v1::OwnerReference;
use schema::{Builder, Error, Part, Ref, Type, json};
use std::sync::LazyLock;

static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("ownerReferences", &[]), Part("finalizers", &[])]);
    Builder::part_of(ConfigMap::schema(), &[metadata]).build()
});

/// What happens to the dependents of an object before the object is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    /// The dependents lose the reference to the object.
    Orphan,
    /// The dependents that block the deletion of the object are deleted.
    Foreground,
}

impl Policy {
    /// The policy of an object with these finalizers; `Orphan` if it has those of both.
    pub(super) fn of<'a>(finalizers: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        [Self::Orphan, Self::Foreground]
            .into_iter()
            .find(|policy| finalizers.clone().any(|name| name == policy.finalizer()))
    }

    /// The finalizer of an object that waits for this policy to be carried out.
    pub(super) fn finalizer(self) -> &'static str {
        match self {
            Self::Orphan => ORPHAN,
            Self::Foreground => FOREGROUND,
        }
    }
}

/// The owners and the finalizers of an object.
pub(super) struct Metadata(Map);

impl Metadata {
    /// Decodes the owners and the finalizers of an entry.
    pub(super) fn read(entry: &Entry) -> Result<Self, Error> {
        schema::stored::decode_part(&PART, entry.bytes()).map(Self)
    }

    /// Takes the owners and the finalizers of any object: what is not of the right type counts as absent.
    pub(super) fn of(object: &Value) -> Self {
        let mut metadata = Map::new();
        let list = |key: &str| object.get("metadata")?.get(key)?.as_list();
        if let Some(owners) = list("ownerReferences") {
            let owners = owners.iter().filter(|owner| owner.as_map().is_some());
            metadata.insert("ownerReferences", owners.cloned().collect::<Vec<Value>>());
        }
        if let Some(finalizers) = list("finalizers") {
            let finalizers = finalizers.iter().filter(|name| name.as_str().is_some());
            metadata.insert("finalizers", finalizers.cloned().collect::<Vec<Value>>());
        }
        let mut object = Map::new();
        object.insert("metadata", metadata);
        Self(object)
    }

    /// Its owners.
    pub(super) fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        self.references().iter().filter_map(Value::as_map).map(OwnerReference::of)
    }

    /// The policy that the object waits for, by its finalizers; `Orphan` if it has the finalizers of both.
    pub(super) fn awaits(&self) -> Option<Policy> {
        Policy::of(object_meta::finalizers(&self.0).into_iter())
    }

    /// A JSON list of its finalizers without one.
    pub(super) fn finalizers_without(&self, finalizer: &str) -> String {
        let finalizers = object_meta::finalizers(&self.0).into_iter();
        let others: Vec<_> = finalizers.filter(|name| *name != finalizer).map(json::string).collect();
        format!("[{}]", others.join(","))
    }

    /// A JSON list of the references to some of its owners.
    pub(super) fn owners_where(&self, picks: impl Fn(OwnerReference<'_>) -> bool) -> String {
        let is_picked =
            |reference: &&Value| reference.as_map().is_some_and(|map| picks(OwnerReference::of(map)));
        list(self.references().iter().filter(is_picked))
    }

    /// A JSON list of its references, none of which blocks the deletion of its owner.
    pub(super) fn owners_unblocked(&self) -> String {
        let mut references = self.references().to_vec();
        for reference in references.iter_mut().filter_map(Value::as_map_mut) {
            if blocks(OwnerReference::of(reference)) {
                reference.insert("blockOwnerDeletion", false);
            }
        }
        list(references.iter())
    }

    fn references(&self) -> &[Value] {
        let metadata = object_meta::metadata(&self.0);
        metadata
            .and_then(|metadata| metadata.get("ownerReferences"))
            .and_then(Value::as_list)
            .unwrap_or_default()
    }
}

/// Whether a reference blocks the deletion of the owner.
pub(super) fn blocks(owner: OwnerReference<'_>) -> bool {
    owner.block_owner_deletion() == Some(true)
}

fn list<'a>(references: impl Iterator<Item = &'a Value>) -> String {
    let text = |reference: &Value| {
        let mut out = Vec::new();
        json::encode(OwnerReference::schema(), reference, &mut out);
        String::from_utf8(out).unwrap_or_default()
    };
    format!("[{}]", references.map(text).collect::<Vec<_>>().join(","))
}
