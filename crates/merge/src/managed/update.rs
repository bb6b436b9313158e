//! The owners of fields after a write that is not an apply.
//!
//! Changed and added fields belong to the writer alone, removed ones have no owner. A write never fails
//! because of owners.

use super::check::{Duplicates, check_typed};
use super::compare::{Comparison, compare};
use super::entries::{Gone, Id, Operation, Owned, Owners};
use super::fields::reconciled;
use super::place::{Form, Place};
use super::{Ownership, Writer};
use crate::node::shape_of;
use object::path::{Element, Path};
use object::path_set::Set;
use object::{Text, Value};
use schema::{Ref, Shape};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// How many managers keep entries of their own for updates.
const MOST_UPDATERS: usize = 10;
/// The manager that gets the fields of entries that are not kept.
const ANCIENT: &str = "ancient-changes";

/// Fields that cannot be owned.
pub(crate) static STRIPPED: LazyLock<Set> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let top = ["apiVersion", "kind", "metadata"].map(|name| Path::from(vec![Element::field(name)]));
    let below = metadata.map(|name| Path::from(vec![Element::field("metadata"), Element::field(name)]));
    top.iter().chain(&below).map(|path| &path[..]).collect()
});

impl Ownership<'_> {
    /// Updates the owners after `live` has become `new`. Both are without their managed fields.
    pub(crate) fn note(
        &self,
        live: &Value,
        new: &Value,
        owners: &mut Owners,
        writer: Writer<'_>,
    ) -> Result<(), String> {
        let shape = shape_of(self.ty);
        let place = Place::of(&shape);
        check_typed(self.ty, new, Duplicates::Allowed).map_err(|faults| {
            format!("failed to convert new object ({}) to smd typed: {faults}", self.shown(new))
        })?;
        let mut comparison = compare(place, live, new, Form::Typed).map_err(|why| why.to_string())?;
        for list in writer.empty.iter().filter(|list| list.get(live).is_none() && list.get(new).is_none()) {
            comparison.modified.insert(list);
        }
        // Entries of built-in types that this server wrote already fit their type.
        self.reconcile(owners, |owned| owned.is_read() || !matches!(self.ty, Ref::Static(_)));
        if comparison.is_same() {
            owners.retain(|_, owned| !owned.is_empty());
            return Ok(());
        }
        let mut versions = Comparisons::new(self, live, new, Form::Typed, comparison);
        let manager = if writer.name.is_empty() { "unknown" } else { writer.name };
        let id = Id::new(manager, Operation::Update, self.api_version, self.subresource);
        let (mut own, mut kept) = (Set::new(), None);
        if let Some(known) = versions.find(&self.api_version.into())? {
            own = known.written.difference(&STRIPPED);
            // A manager that writes the same fields again keeps its entry.
            kept = owners.get(&id).filter(|before| !own.is_empty() && before.has(&own)).cloned();
            if let Some(kept) = &mut kept {
                kept.take(&Gone::new(known.removed.difference(&own)));
            }
        }
        for (_, owned) in owners.iter_mut().filter(|(owner, _)| kept.is_none() || **owner != id) {
            versions.release(owned)?;
        }
        owners.retain(|_, owned| !owned.is_empty());
        if !own.is_empty() {
            let time = Value::String(writer.now.clone());
            let owned = match (kept, owners.get(&id)) {
                (Some(kept), _) => kept.at(time),
                (None, Some(before)) => Owned::new(own.union(&before.set()), self.api_version, Some(time)),
                (None, None) => Owned::new(own, self.api_version, Some(time)),
            };
            owners.insert(id, owned);
        }
        cap(owners);
        Ok(())
    }

    /// Drops entries of versions that no longer exist, and adapts the others to the current type, where
    /// `is_due`.
    pub(crate) fn reconcile(&self, owners: &mut Owners, is_due: impl Fn(&Owned) -> bool) {
        let mut types: BTreeMap<Text, Option<Shape>> = BTreeMap::new();
        owners.retain(|_, owned| {
            let own = owned.version == self.api_version;
            if own && !is_due(owned) {
                return true;
            }
            let shape = types.entry(owned.version.clone()).or_insert_with(|| {
                if own {
                    Some(shape_of(self.ty))
                } else {
                    self.versions.ty(&owned.version).as_ref().map(shape_of)
                }
            });
            let Some(shape) = shape else { return false };
            if is_due(owned)
                && let Some(set) = reconciled(&owned.set(), Place::of(shape))
            {
                owned.replace_set(set);
            }
            true
        });
    }
}

/// The differences between two objects, in every requested version.
pub(crate) struct Comparisons<'a> {
    ownership: &'a Ownership<'a>,
    live: &'a Value,
    new: &'a Value,
    form: Form,
    /// By version; `None` for a version that the objects cannot be converted to.
    known: BTreeMap<Text, Option<VersionComparison>>,
}

/// The differences in one version, in fields that can be owned.
pub(crate) struct VersionComparison {
    /// The paths that were changed or added.
    pub(crate) written: Set,
    /// The paths that were removed.
    removed: Set,
    /// Both sets: other managers no longer own these paths.
    gone: Gone,
}

impl VersionComparison {
    fn new(comparison: Comparison) -> Self {
        let written = comparison.modified.union(&comparison.added);
        let gone = Gone::new(written.union(&comparison.removed));
        Self { written, removed: comparison.removed, gone }
    }
}

impl<'a> Comparisons<'a> {
    /// Starts with the differences in the version of the request.
    pub(crate) fn new(
        ownership: &'a Ownership<'a>,
        live: &'a Value,
        new: &'a Value,
        form: Form,
        comparison: Comparison,
    ) -> Self {
        let own = VersionComparison::new(ownership.filtered(ownership.api_version, comparison));
        let known = BTreeMap::from([(Text::from(ownership.api_version), Some(own))]);
        Self { ownership, live, new, form, known }
    }

    /// The differences in a version.
    pub(crate) fn find(&mut self, version: &Text) -> Result<Option<&VersionComparison>, String> {
        if !self.known.contains_key(version) {
            let found = self.convert(version)?;
            self.known.insert(version.clone(), found);
        }
        Ok(self.known.get(version).and_then(Option::as_ref))
    }

    fn convert(&self, version: &Text) -> Result<Option<VersionComparison>, String> {
        let ownership = self.ownership;
        let convert = |object: &Value| match self.form {
            Form::Typed => Ok(ownership.versions.convert(object.clone(), ownership.api_version, version)),
            Form::Plain => ownership.convert_plain(object, ownership.api_version, version),
        };
        let live = convert(self.live).map_err(|why| format!("failed to convert old object: {why}"))?;
        let new = convert(self.new).map_err(|why| format!("failed to convert new object: {why}"))?;
        let (Some(live), Some(new)) = (live, new) else { return Ok(None) };
        let shape = shape_of(&new.ty);
        let comparison = compare(Place::of(&shape), &live.value, &new.value, self.form)
            .map_err(|why| format!("failed to compare objects: {why}"))?;
        Ok(Some(VersionComparison::new(ownership.filtered(version, comparison))))
    }

    /// Removes the fields from an owner that the writer changed or removed. The owner may be left without
    /// fields.
    pub(crate) fn release(&mut self, owned: &mut Owned) -> Result<(), String> {
        let version = owned.version.clone();
        let Some(known) = self.find(&version)? else {
            owned.replace_set(Set::new());
            return Ok(());
        };
        if known.gone.is_empty() {
            return Ok(());
        }
        owned.take(&known.gone);
        Ok(())
    }
}

/// Merges the oldest entries of updates, so that there are at most [`MOST_UPDATERS`].
fn cap(owners: &mut Owners) {
    let mut updaters: Vec<(Id, i64, String)> = Vec::new();
    if owners.keys().filter(|id| id.operation == Operation::Update).count() <= MOST_UPDATERS {
        return;
    }
    for (id, owned) in owners.iter().filter(|(id, _)| id.operation == Operation::Update) {
        let time = owned.time.as_ref().and_then(Value::as_str);
        let time = time.and_then(|time| time.parse::<object::time::Time>().ok());
        updaters.push((id.clone(), time.map_or(0, object::time::Time::unix), id.text()));
    }
    updaters.sort_by(|a, b| a.1.cmp(&b.1).then_with(|| a.2.cmp(&b.2)));
    let mut count = updaters.len();
    let mut first: BTreeMap<Text, Id> = BTreeMap::new();
    let mut buckets: BTreeMap<Text, Bucket> = BTreeMap::new();
    for (id, ..) in updaters {
        if count <= MOST_UPDATERS {
            break;
        }
        let Some(owned) = owners.get(&id).cloned() else { continue };
        let version = owned.version.clone();
        let Some(oldest) = first.get(&version) else {
            first.insert(version, id);
            continue;
        };
        let bucket = buckets.entry(version.clone()).or_insert_with(|| Bucket::of(owners, &version, oldest));
        count -= 1;
        if id == bucket.id {
            continue;
        }
        owners.remove(&id);
        bucket.sets.push(owned.set());
        bucket.time = owned.time;
    }
    for (version, Bucket { id, mut sets, time }) in buckets {
        // The newest first, as each was put before what was there.
        sets.reverse();
        owners.insert(id, Owned::new(Set::union_of(sets), version, time));
    }
}

/// The entry of a version that old entries are put into, and the fields of all of them.
struct Bucket {
    id: Id,
    sets: Vec<Set>,
    time: Option<Value>,
}

impl Bucket {
    /// The entry that is there already; otherwise it begins with the oldest of the others.
    fn of(owners: &mut Owners, version: &Text, oldest: &Id) -> Self {
        let id = Id::new(ANCIENT, Operation::Update, version, "");
        let begun = match owners.get(&id) {
            Some(there) => Some(there.clone()),
            None => owners.remove(oldest),
        };
        let sets = begun.iter().map(Owned::set).collect();
        Self { id, sets, time: begun.and_then(|begun| begun.time) }
    }
}
