//! POST: a new object.
//!
//! The sequence: defaults, namespace, stamps, version, managed fields, name, the kind's own preparation, rules, commit.

use crate::convert::{map, map_mut};
use crate::error::{bare, parse_number, status};
use crate::managed::Fields;
use crate::object_meta::{self, Stage};
use crate::{Answer, Content, Registry, Target, WriteOptions};
use cache::{Change, Freshness};
use kinds::{Action, Caller, Context, Generation, NameRule};
use object::time::Time;
use object::{Map, Value};
use schema::Status;
use schema::status::Details;

/// How often another name is tried for an object that leaves its name to the server.
const TRIES: usize = 8;

impl Registry {
    /// Makes an object of a tree in the version of the request.
    pub async fn create(
        &self,
        target: &Target<'_>,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["create"])?;
        match target.subresource.map(|subresource| subresource.action) {
            None => {}
            Some(Action::Bind) => return self.bind(target, object, options).await,
            Some(_) => return Err(Status::method_not_allowed()),
        }
        default(target, &mut object);
        {
            let object = map_mut(&mut object)?;
            object_meta::fit_namespace(object, target.namespace)?;
            object_meta::stamp_new(object, Time::now());
            options.warnings.extend(object_meta::dedup_owners(object, Stage::Sent));
        }
        target.served.to_stored(&mut object);
        Fields::of(self, target).update(None, &mut object, options);
        self.create_stored(target, object, options).await
    }

    /// Makes an object of a tree in the stored version, with its defaults, its place and the server's stamps.
    pub(crate) async fn create_stored(
        &self,
        target: &Target<'_>,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        {
            let object = map_mut(&mut object)?;
            if target.served.kind.strategy.names_itself() && object_meta::text(object, "name").is_empty() {
                object_meta::set(object, "name", object_meta::random_uid());
            }
        }
        let (name, prefix) = {
            let object = map(&object)?;
            (object_meta::text(object, "name"), object_meta::text(object, "generateName"))
        };
        self.admit_create(target, if name.is_empty() { prefix } else { name }).await?;
        let generated = name.is_empty() && !prefix.is_empty();
        let tries = if generated { TRIES } else { 1 };
        let mut refused = Status::internal_error("no name was tried");
        for _ in 0..tries {
            // What is shared would be copied as soon as it is changed.
            let mut object = if generated { object.clone() } else { std::mem::take(&mut object) };
            let map = map_mut(&mut object)?;
            if generated {
                let prefix = object_meta::text(map, "generateName");
                let name = match target.served.kind.strategy.name_rule() {
                    NameRule::IpAddress => prefix.to_owned(),
                    _ => object_meta::generate_name(prefix),
                };
                object_meta::set(map, "name", name);
            }
            prepare(target, map);
            validate(target, &object)?;
            if !options.dry_run {
                take_version(map_mut(&mut object)?)?;
            }
            match self.commit_new(target, &object, options).await? {
                Ok(content) => return Ok(Answer { code: 201, content }),
                Err(exists) => refused = exists,
            }
        }
        Err(refused)
    }

    /// Commits a new object, if there is none of its name.
    async fn commit_new(
        &self,
        target: &Target<'_>,
        object: &Value,
        options: &WriteOptions,
    ) -> Result<Result<Content, Status>, Status> {
        let stored = target.stored()?;
        let map = map(object)?;
        let (namespace, name) = (object_meta::text(map, "namespace"), object_meta::text(map, "name"));
        if options.dry_run {
            let found = stored.resource.get(namespace, name, Freshness::MostRecent).await.map_err(status)?;
            return Ok(match found {
                Some(entry) => Err(already_exists(target, map, entry.is_deleting())),
                None => Ok(Content::Tree(object.clone())),
            });
        }
        let change = Change::put(&stored.resource, namespace, name, stored.encode(object)).create_only();
        match self.cache().commit(change).await {
            Ok(committed) => {
                let entry = committed.entry().cloned();
                let entry = entry.ok_or_else(|| Status::internal_error("a commit without a state"))?;
                Ok(Ok(Content::Entry(entry)))
            }
            Err(cache::Error::Conflict(conflict)) => {
                let going = conflict.found.as_ref().is_some_and(|entry| entry.is_deleting());
                Ok(Err(already_exists(target, map, going)))
            }
            Err(error) => Err(status(error)),
        }
    }
}

/// Defaults of the request's version, then those of the kind.
pub(crate) fn default(target: &Target<'_>, object: &mut Value) {
    schema::default(target.served.ty, object);
    if let Some(map) = object.as_map_mut() {
        target.served.kind.strategy.default(map);
    }
}

/// What the kind does to a new object.
fn prepare(target: &Target<'_>, object: &mut Map) {
    let kind = target.served.kind;
    with_context(target, |context| kind.strategy.prepare_create(object, context));
    if matches!(kind.generation, Generation::Counted | Generation::One) {
        object_meta::set(object, "generation", 1);
    }
}

/// Calls a hook with what it may know.
pub(crate) fn with_context<T>(target: &Target<'_>, hook: impl FnOnce(&Context<'_>) -> T) -> T {
    let user = target.proof.user();
    let now = Time::now().text();
    let caller = Caller { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra };
    hook(&Context { now: &now, caller })
}

/// The rules for a new object: first those of the kind, then those for any metadata.
fn validate(target: &Target<'_>, object: &Value) -> Result<(), Status> {
    let kind = target.served.kind;
    let stored = target.stored()?;
    let map = map(object)?;
    let name = object_meta::text(map, "name");
    let mut errors = object_meta::validate(map, kind, kind.strategy.name_rule());
    errors.extend(object_meta::validate_own_finalizers(map));
    errors.extend(schema::validate(stored.ty, object, None));
    errors.extend(kind.strategy.validate_create(map));
    if errors.is_empty() {
        errors = object_meta::validate(map, kind, NameRule::PathSegment);
    }
    if !errors.is_empty() {
        return Err(Status::invalid(kind.group, kind.kind, name, &errors));
    }
    Ok(())
}

/// Takes the resource version out of an object that is about to be kept for the first time: there can be none yet, and one that is
/// no number counts as none. A dry run does not come here.
fn take_version(object: &mut Map) -> Result<(), Status> {
    let version = parse_number::<u64>("ParseUint", object_meta::text(object, "resourceVersion"));
    if version.is_ok_and(|version| version != 0) {
        return Err(bare("resourceVersion should not be set on objects to be created"));
    }
    object_meta::remove(object, &["resourceVersion"]);
    Ok(())
}

/// 409, with a word more where the name was generated or the object that is there is going.
fn already_exists(target: &Target<'_>, object: &Map, is_going: bool) -> Status {
    let kind = target.served.kind;
    let name = object_meta::text(object, "name");
    let mut refused = Status::already_exists(kind.group, kind.resource, name);
    if !object_meta::text(object, "generateName").is_empty() {
        refused.message.push_str(", the server was not able to generate a unique name for the object");
        let details = refused.details.take().map_or_else(Details::default, |details| *details);
        refused.details = Some(Details { retry_after_seconds: 1, ..details }.into());
    }
    if is_going {
        refused.message = format!("object is being deleted: {}", refused.message);
    }
    refused
}
