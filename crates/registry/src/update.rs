//! PUT, and the way that all changes of an object take: read, change, check, commit, and once more if somebody else was
//! faster.

use crate::commit::Run;
use crate::convert::{map, map_mut};
use crate::create::{default, with_context};
use crate::error::{bare, parse_number, status};
use crate::managed::{Fields, ScaleFields};
use crate::{Answer, Content, Registry, Served, Target, WriteOptions, object_meta, scale};
use cache::{Entry, Freshness};
use kinds::{Action, Generation, NameRule, Part};
use merge::managed::keep_times;
use object::time::Time;
use object::{Map, Value};
use schema::Status;
use std::sync::Arc;
use store::Revision;

/// What the client is told when somebody else was faster.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";
/// How often a change is tried on a newer state before the client is told.
const TRIES: usize = 64;

/// What an update has of the object before it: nothing if it creates.
pub(crate) struct Before<'a> {
    pub(crate) object: &'a Value,
}

impl Before<'_> {
    /// The object in the version of the request.
    pub(crate) fn in_version(&self, target: &Target<'_>) -> Value {
        let mut object = self.object.clone();
        if !target.served.stored.as_ref().is_some_and(|stored| stored.is_canonical) {
            target.served.from_stored(&mut object);
        }
        object
    }
}

impl Registry {
    /// Replaces an object, or a part of it, by a tree in the version of the request; creates it where the kind allows that.
    pub async fn update(
        &self,
        target: &Target<'_>,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["update"])?;
        if let Some(Action::Scale(paths)) = target.subresource.map(|subresource| subresource.action) {
            return self.update_scale(target, &object, paths, options).await;
        }
        default(target, &mut object);
        target.served.to_stored(&mut object);
        {
            let object = map_mut(&mut object)?;
            object_meta::fit_namespace(object, target.namespace)?;
            check_name(object, target)?;
            options.warnings.extend(object_meta::dedup_owners(object, object_meta::Stage::Sent));
        }
        let run = Run::dry_if(options.dry_run);
        let fields = Fields::of(self, target);
        let change = |before: Before<'_>| {
            check_uid(target, map(&object)?, Some(map(before.object)?), run)?;
            let mut new = object.clone();
            fields.update(Some(before.object), &mut new, options);
            Ok(new)
        };
        match self.change(target, options, change).await {
            Err(Unchanged::Missing) => {
                check_uid(target, map(&object)?, None, run)?;
                // What is put as the status of nothing is an object too.
                let whole = target.subresource.is_none() || part(target) == Some(Part::Status);
                if !whole || !target.served.kind.strategy.creates_on_update() {
                    return Err(target.not_found());
                }
                fields.update(None, &mut object, options);
                let new = map_mut(&mut object)?;
                object_meta::remove(new, &["resourceVersion"]);
                object_meta::stamp_new(new, Time::now());
                self.create_stored(target, object, options).await
            }
            Err(Unchanged::Refused(status)) => Err(status),
            Ok(answer) => Ok(answer),
        }
    }

    async fn update_scale(
        &self,
        target: &Target<'_>,
        scale: &Value,
        paths: &'static kinds::ScalePaths,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        let mut wanted = scale.clone();
        object_meta::fit_namespace(map_mut(&mut wanted)?, target.namespace)?;
        check_name(map(&wanted)?, target)?;
        let run = Run::dry_if(options.dry_run);
        let fields = ScaleFields::of(target, paths, scale::ty()?, options);
        let change = |before: Before<'_>| {
            let mut current = scale::of(before.object, paths)?;
            fields.put(before.object, &mut current);
            let mut wanted = wanted.clone();
            fields.update(&current, &mut wanted);
            let mut object = before.object.clone();
            scale::apply(map(&wanted)?, map_mut(&mut object)?, paths, target, run)?;
            fields.put_back(&mut object, &wanted);
            Ok(object)
        };
        let answer = self.change(target, options, change).await.map_err(|why| why.into_status(target))?;
        scale::answer(target.stored()?, answer, paths)
    }

    /// Reads the object, lets `change` make a new one of it, in the stored version, and commits that if it may be.
    pub(crate) async fn change(
        &self,
        target: &Target<'_>,
        options: &WriteOptions,
        mut change: impl FnMut(Before<'_>) -> Result<Value, Status>,
    ) -> Result<Answer, Unchanged> {
        let stored = target.stored()?;
        target.check_name()?;
        for _ in 0..TRIES {
            let found = stored.resource.get(target.namespace, target.name, Freshness::MostRecent).await;
            let Some(entry) = found.map_err(status)? else { return Err(Unchanged::Missing) };
            let before = stored.decode(&entry)?;
            let object = change(Before { object: &before })?;
            match self.attempt(target, &entry, &before, object, options).await? {
                Some(content) => return Ok(Answer { code: 200, content }),
                // Somebody else was faster: the same on the newer state.
                None => continue,
            }
        }
        Err(target.conflict(MODIFIED).into())
    }

    /// Checks and commits one new state; `None` if the object was changed meanwhile.
    async fn attempt(
        &self,
        target: &Target<'_>,
        entry: &Arc<Entry>,
        before: &Value,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Option<Content>, Status> {
        let old = map(before)?;
        let new = map_mut(&mut object)?;
        check_version(target, new, entry)?;
        self.admit_update(target).await?;
        prepare(target, new, old);
        validate(target, &object, before)?;
        if part(target).is_some() && target.stored()?.is_canonical {
            // What was put together of two objects may lack what neither of them had to say: the reference fills it in when it
            // reads what it has stored.
            default(target, &mut object);
        }
        keep_times(&mut object, before);
        let run = Run::dry_if(options.dry_run);
        if is_done(target, map(&object)?, old) {
            // The last finalizer was just taken away. The answer is the state that would have been.
            return Ok(self.remove(target, entry, run).await?.map(|_| Content::Tree(object)));
        }
        self.replace(target, entry, before, object, run).await
    }
}

/// Why an object was not changed.
pub(crate) enum Unchanged {
    /// It is not there.
    Missing,
    /// The client is told this.
    Refused(Status),
}

impl From<Status> for Unchanged {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

impl Unchanged {
    pub(crate) fn into_status(self, target: &Target<'_>) -> Status {
        match self {
            Self::Missing => target.not_found(),
            Self::Refused(status) => status,
        }
    }
}

/// Refuses an object that calls itself other than the path does.
pub(crate) fn check_name(object: &Map, target: &Target<'_>) -> Result<(), Status> {
    let name = object_meta::text(object, "name");
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let namespace = object_meta::text(object, "namespace");
    if !target.namespace.is_empty()
        && target.served.kind.is_namespaced()
        && !namespace.is_empty()
        && namespace != target.namespace
    {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            target.namespace
        )));
    }
    Ok(())
}

/// A uid in an object that is put in place of another is a precondition; a patch that changes it breaks a rule instead.
pub(crate) fn check_uid(target: &Target<'_>, new: &Map, old: Option<&Map>, run: Run) -> Result<(), Status> {
    let wanted = object_meta::text(new, "uid");
    let there = old.map(|old| object_meta::text(old, "uid")).unwrap_or_default();
    if wanted.is_empty() || wanted == there {
        return Ok(());
    }
    Err(target.conflict(&format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}",
        target.key(run)
    )))
}

/// A resource version in the new object must be that of the old one; without one, the newest state is meant where the kind allows
/// that.
fn check_version(target: &Target<'_>, new: &mut Map, entry: &Entry) -> Result<(), Status> {
    let Served { kind, .. } = &**target.served;
    let wanted = match object_meta::text(new, "resourceVersion") {
        "" => Revision::ZERO,
        text => parse_number("ParseUint", text).map(Revision).map_err(bare)?,
    };
    if wanted == Revision::ZERO {
        if !kind.strategy.updates_unconditionally() {
            let path = object::field::Path::new("metadata");
            let error = object::field::Error::invalid(
                &path.child("resourceVersion"),
                object::field::BadValue::Raw("0x0".into()),
                "must be specified for an update",
            );
            return Err(Status::invalid(kind.group, kind.resource, target.name, &[error]));
        }
    } else if wanted != entry.mod_revision() {
        return Err(target.conflict(MODIFIED));
    }
    object_meta::set(new, "resourceVersion", entry.mod_revision().0.to_string());
    Ok(())
}

/// What no change may touch is put back; then the kind has its say.
fn prepare(target: &Target<'_>, new: &mut Map, old: &Map) {
    let kind = target.served.kind;
    keep_metadata(new, old, &["generation"]);
    let part = part(target);
    with_context(target, |context| match part {
        None => kind.strategy.prepare_update(new, old, context),
        Some(Part::Status) => kind.strategy.prepare_status(new, old, context),
        Some(part) => kind.strategy.prepare_part(part, new, old, context),
    });
    let counted = matches!(kind.generation, Generation::Counted | Generation::CountedLater);
    if counted && part != Some(Part::Status) && kind.strategy.counts(new, old) {
        let generation = object_meta::number(old, "generation").unwrap_or_default();
        object_meta::set(new, "generation", generation + 1);
    }
    if object_meta::text(new, "uid").is_empty() {
        keep_metadata(new, old, &["uid"]);
    }
    keep_metadata(new, old, &["creationTimestamp"]);
    if object_meta::is_deleting(old) {
        keep_metadata(new, old, &["deletionTimestamp"]);
    }
    if object_meta::number(new, "deletionGracePeriodSeconds").is_none() {
        keep_metadata(new, old, &["deletionGracePeriodSeconds"]);
    }
}

/// The part of the object that the request changes; nothing for the object itself.
fn part(target: &Target<'_>) -> Option<Part> {
    match target.subresource.map(|subresource| subresource.action) {
        Some(Action::Part(part)) => Some(part),
        _ => None,
    }
}

fn keep_metadata(new: &mut Map, old: &Map, keys: &[&'static str]) {
    let Some(metadata) = object_meta::metadata_mut(new) else { return };
    for key in keys {
        match object_meta::metadata(old).and_then(|old| old.get(key)) {
            Some(value) => drop(metadata.insert(*key, value.clone())),
            None => drop(metadata.remove(key)),
        }
    }
}

/// The rules for a change: first those for any metadata, then those of the kind.
fn validate(target: &Target<'_>, object: &Value, before: &Value) -> Result<(), Status> {
    let kind = target.served.kind;
    let stored = target.stored()?;
    let (new, old) = (map(object)?, map(before)?);
    let mut errors = object_meta::validate(new, kind, NameRule::PathSegment);
    let metadata = object_meta::validate_update(new, old);
    errors.extend(metadata.iter().cloned());
    // The kinds of the reference check all of it once more, by their own rule for names.
    errors.extend(metadata);
    errors.extend(object_meta::validate_own_finalizers(new));
    errors.extend(object_meta::validate(new, kind, kind.strategy.name_rule()));
    errors.extend(object_meta::validate_own_finalizers(new));
    errors.extend(schema::validate(stored.ty, object, Some(before)));
    errors.extend(match part(target) {
        None => kind.strategy.validate_update(new, old),
        Some(Part::Status) => kind.strategy.validate_status(new, old),
        Some(part) => kind.strategy.validate_part(part, new, old),
    });
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(kind.group, kind.kind, target.name, &errors)) }
}

/// Whether an object that is being deleted has nothing left to wait for.
fn is_done(target: &Target<'_>, new: &Map, old: &Map) -> bool {
    object_meta::finalizers(new).is_empty()
        && object_meta::is_deleting(old)
        && object_meta::number(old, "deletionGracePeriodSeconds").unwrap_or_default() == 0
        && target.served.kind.strategy.is_finished(new)
}
