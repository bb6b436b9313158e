//! DELETE of one object.
//!
//! An object without finalizers and without a grace period is removed at once. Any other object is marked
//! (`deletionTimestamp`). It is removed by the write that removes its last finalizer, or, if it has a grace
//! period, by a further delete with a period of zero. By example, for an object of a kind without grace
//! periods:
//!
//! ```text
//! finalizers [a], no policy     marked, finalizers [a]                      answer: the object
//! finalizers [a], Foreground    marked, finalizers [a, foregroundDeletion]  answer: the object
//! no finalizers, no policy      removed                                     answer: a Status, or the object for some kinds
//! ```
//!
//! Of the pipeline's steps a delete has these: read, preconditions, build (the marked state, or none), both
//! steps of admission with the state before and no new one, commit. After a conflict all of them are done
//! again; admission is not, if the delete is the effect of another request that was admitted, such as an
//! eviction. A delete that would not change an object, because it is already marked, ends before admission.
//!
//! For a kind whose versions are converted by a webhook, a delete works on the object in the version of its
//! stored bytes ([`Target::in_place`]). The webhook is called only where an admission webhook or the response
//! needs another version, and for a client to see whether the webhook refuses the object. For all other
//! kinds a delete works on the working version.

use crate::commit::{Outcome, Oversize, WriteMode};
use crate::convert::{map, map_mut};
use crate::find::{Found, Old};
use crate::object_meta::{self, FOREGROUND, ORPHAN};
use crate::prepare::with_context;
use crate::{Answer, Config, Content, DeleteOptions, GarbageCollection, Registry, Target, WriteRequest};
use admission::{Admitted, Operation};
use cache::Entry;
use kinds::{Deleted, Dependents, ResourceType};
use object::time::Time;
use object::{Map, Value};
use schema::{Ref, Status, builtin};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a delete does to the current state of an object.
enum Step {
    /// The object is stored in this marked state, and waits for its finalizers or its grace period.
    Mark(Value),
    /// The object is stored in this marked state, so that watchers see the mark, and removed immediately.
    MarkThenRemove(Value),
    /// The object is removed. The response to a dry run shows this state, with its finalizers updated.
    Remove(Value),
}

/// How much of a step was committed.
enum StepOutcome {
    /// The whole step.
    Done(Deletion),
    /// The mark but not the removal, because of a conflict with another write. The marked state.
    MarkedOnly(Arc<Entry>),
    /// Nothing, because of a conflict with another write.
    Conflict,
}

/// The result of a delete.
pub(crate) enum Deletion {
    /// The object is removed. Its last state.
    Removed(Content),
    /// The object is now marked, and waits in this state.
    Terminating(Content),
    /// The object was marked before, and nothing changed.
    Pending(Content),
}

impl Deletion {
    /// Converts the tree of a dry run to the working version of a target. Entries are converted later.
    async fn converted(self, target: &Target<'_>) -> Result<Self, Status> {
        let convert = async |content| match content {
            Content::Tree(tree) => {
                let version = tree.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
                Ok(Content::Tree(target.stored()?.import_from(&version, tree).await?))
            }
            other => Ok::<_, Status>(other),
        };
        Ok(match self {
            Self::Removed(content) => Self::Removed(convert(content).await?),
            Self::Terminating(content) => Self::Terminating(convert(content).await?),
            Self::Pending(content) => Self::Pending(convert(content).await?),
        })
    }
}

impl Registry {
    /// Deletes an object, or marks it as being deleted.
    pub async fn delete(&self, target: &Target<'_>, options: &DeleteOptions) -> Result<Answer, Status> {
        target.check_verb(&["delete"])?;
        options.check()?;
        if options.ignore_read_errors == Some(true) {
            return Box::pin(self.delete_unreadable(target, options)).await;
        }
        if let Some(why) = target.served.strategy.undeletable(target.name) {
            return Err(Status::forbidden(&target.served.group, &target.served.resource, target.name, why));
        }
        options.warnings.extend(warning(target.served, options));
        let deletion = self.delete_named(target, target.name, options).await?.converted(target).await?;
        let code = match deletion {
            Deletion::Terminating(_) | Deletion::Pending(_) if options.orphan_dependents == Some(false) => {
                202
            }
            _ => 200,
        };
        let content = match deletion {
            Deletion::Terminating(content) => content,
            Deletion::Pending(content) if target.served.strategy.deletes_in_two_phases() => content,
            // The response to a dry run shows the state that would have been removed.
            Deletion::Removed(content @ Content::Tree(_)) => content,
            Deletion::Removed(content) | Deletion::Pending(content) => removed_content(target, content)?,
        };
        Ok(Answer { code, content })
    }

    /// Deletes one object of the target's kind and namespace, with admission.
    pub(crate) async fn delete_named(
        &self,
        target: &Target<'_>,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Deletion, Status> {
        self.delete_one(target, name, options, None).await
    }

    /// Deletes one object of the target's kind and namespace. Without `admitted`, admission plugins are
    /// asked; with it, the admission of another request counts.
    pub(crate) async fn delete_one(
        &self,
        target: &Target<'_>,
        name: &str,
        options: &DeleteOptions,
        mut admitted: Option<Admitted>,
    ) -> Result<Deletion, Status> {
        let named = Target { name, ..*target };
        named.check_name()?;
        // In a collection of all namespaces, a name does not identify an object.
        if target.served.is_namespaced() && target.namespace.is_empty() {
            return Err(Status::bad_request("Namespace parameter required."));
        }
        let mode = WriteMode::dry_run_if(options.is_dry_run());
        let mut needs_conversion = options.needs_conversion;
        let mut marked: Option<Arc<Entry>> = None;
        let deletion = loop {
            let (named, found) = self.find_in_place(&named).await?;
            let is_other = |entry: &Entry| marked.as_ref().is_some_and(|marked| marked.uid() != entry.uid());
            let old = match found {
                Found::Object(old) if !is_other(&old.entry) => old,
                Found::Damaged(damaged) => return Err(named.damaged(&damaged)),
                Found::Object(_) | Found::Nothing => {
                    // A client that waits for the mark, such as a kubelet, has removed the object already.
                    let gone = marked.ok_or_else(|| named.not_found())?;
                    break Deletion::Removed(Content::Entry(gone));
                }
            };
            if std::mem::take(&mut needs_conversion) {
                target.stored()?.check_conversion(std::slice::from_ref(&old.entry)).await?;
            }
            check_preconditions(target.served, &old.entry, options)?;
            let Some(step) = step(&named, old.object.clone(), options, self.config())? else {
                return Ok(Deletion::Pending(Content::Entry(old.entry)));
            };
            let attempt = match admitted.take() {
                // Plugins see the name and the completed options in a delete by name. In a deletecollection
                // they see no name, and the options as they were sent.
                None if !target.name.is_empty() => {
                    let options = complete(&named, &old, options)?;
                    self.admit_delete(&named, &old.object, &options).await?
                }
                None => self.admit_delete(&Target { name: "", ..named }, &old.object, options).await?,
                Some(given) => {
                    let attempt = given.for_attempt();
                    admitted = Some(given);
                    attempt
                }
            };
            match self.commit_step(&named, &old, step, mode, attempt).await? {
                StepOutcome::Done(deletion) => break deletion,
                StepOutcome::MarkedOnly(entry) => marked = Some(entry),
                StepOutcome::Conflict => {}
            }
        };
        if let Some(admitted) = admitted {
            admitted.committed().await;
        }
        Ok(deletion)
    }

    /// Both steps of admission for a delete.
    async fn admit_delete(
        &self,
        target: &Target<'_>,
        old: &Value,
        options: &DeleteOptions,
    ) -> Result<Admitted, Status> {
        let request = WriteRequest::delete(target, options);
        let attributes = request.attributes(Operation::Delete, Some(old));
        let admission = &self.config().admission;
        admission.mutate(&attributes, None).await?;
        admission.validate(&attributes, None).await
    }

    /// Commits a step.
    async fn commit_step(
        &self,
        target: &Target<'_>,
        old: &Old,
        step: Step,
        mode: WriteMode,
        mut admitted: Admitted,
    ) -> Result<StepOutcome, Status> {
        let outcome = match step {
            Step::Mark(object) => {
                let hook = self.config().hooks.of(&target.served.group, &target.served.resource);
                let hook = hook.filter(|_| mode == WriteMode::Persist);
                let work = hook.and_then(|hook| hook.after_commit(old.entry.name(), ""));
                work.into_iter().for_each(|work| admitted.after_commit(work));
                return Ok(
                    match self
                        .replace(target, old, object, mode, Oversize::DropManagedFields, admitted)
                        .await?
                    {
                        Outcome::Done(content) => StepOutcome::Done(Deletion::Terminating(content)),
                        Outcome::Conflict(_) => StepOutcome::Conflict,
                    },
                );
            }
            Step::MarkThenRemove(object) => {
                // The mark and the removal are one delete: plugins are asked once for both.
                let mark = admitted.for_attempt();
                match self.replace(target, old, object, mode, Oversize::DropManagedFields, mark).await? {
                    Outcome::Done(Content::Entry(marked)) if mode == WriteMode::Persist => {
                        match self.remove(target, &marked, mode, admitted).await? {
                            Outcome::Conflict(_) => return Ok(StepOutcome::MarkedOnly(marked)),
                            done => done,
                        }
                    }
                    other => other,
                }
            }
            Step::Remove(object) if mode == WriteMode::DryRun && object != old.object => {
                Outcome::Done(Content::Tree(object))
            }
            Step::Remove(_) => self.remove(target, &old.entry, mode, admitted).await?,
        };
        Ok(match outcome {
            Outcome::Done(content) => StepOutcome::Done(Deletion::Removed(content)),
            Outcome::Conflict(_) => StepOutcome::Conflict,
        })
    }
}

/// The content of the response for a removed object: a `Status` of success, or the object for kinds that
/// return it.
fn removed_content(target: &Target<'_>, content: Content) -> Result<Content, Status> {
    if target.served.deleted == Deleted::Object {
        return Ok(content);
    }
    let uid = match &content {
        Content::Entry(entry) => entry.uid().to_owned(),
        Content::Tree(tree) => object_meta::text(map(tree)?, "uid").to_owned(),
        Content::Other { .. } => String::new(),
    };
    let served = target.served;
    let mut details = Map::new();
    let facts =
        [("name", target.name), ("group", &*served.group), ("kind", &*served.resource), ("uid", &uid)];
    for (key, value) in facts {
        if !value.is_empty() {
            details.insert(key, value);
        }
    }
    status_of_success(details)
}

/// A `Status` of success with details.
pub(crate) fn status_of_success(details: Map) -> Result<Content, Status> {
    let mut success = Map::new();
    success.insert("kind", "Status");
    success.insert("apiVersion", "v1");
    success.insert("status", "Success");
    success.insert("details", details);
    let ty = builtin::by_name("meta.v1.Status")
        .ok_or_else(|| Status::internal_error("the type of a status is missing"))?;
    Ok(Content::Other { ty: Ref::Static(ty), value: success.into() })
}

/// The warning for a delete whose default propagation may surprise.
pub(crate) fn warning(resource: &ResourceType, options: &DeleteOptions) -> Option<String> {
    let has_policy = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
    resource.strategy.warning_without_propagation_policy().filter(|_| !has_policy).map(str::to_owned)
}

pub(crate) fn check_preconditions(
    resource: &ResourceType,
    entry: &Entry,
    options: &DeleteOptions,
) -> Result<(), Status> {
    // In the reference, kinds that are deleted in two phases check preconditions on a way of their own, with
    // other messages.
    let has_own_messages = resource.strategy.deletes_in_two_phases();
    let name = if has_own_messages { &resource.resource } else { &resource.kind };
    // The reference has one type for the events of both groups.
    let group = if resource.group == "events.k8s.io" { "" } else { resource.group.as_str() };
    let conflict = |why: String| Err(Status::conflict(group, name, entry.name(), &why));
    let failed = |what: &str, expected: &str, found: &str| {
        format!("Precondition failed: {what} in precondition: {expected}, {what} in object meta: {found}")
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != entry.uid()) {
        if has_own_messages {
            return conflict(failed("UID", uid, entry.uid()));
        }
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            entry.uid()
        ));
    }
    let found = entry.mod_revision().0.to_string();
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != found) {
        if has_own_messages {
            return conflict(failed("ResourceVersion", version, &found));
        }
        return conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({found}). The object might have been modified"
        ));
    }
    Ok(())
}

/// Decides what a delete does to an object. `None` if the object is already marked, and nothing changes.
fn step(
    target: &Target<'_>,
    mut object: Value,
    options: &DeleteOptions,
    config: &Config,
) -> Result<Option<Step>, Status> {
    let kind = &*target.served.resource_type;
    let object_map = map_mut(&mut object)?;
    if kind.strategy.deletes_in_two_phases() {
        if !object_meta::is_deleting(object_map) {
            object_meta::set(object_map, "deletionTimestamp", Time::now().text());
            if kind.strategy.propagates_in_first_phase() {
                set_finalizers(object_map, &first_phase_finalizers(object_map, options));
            }
            with_context(target, config.objects.gates, |context| {
                kind.strategy.prepare_deletion(object_map, context)
            });
            return Ok(Some(Step::Mark(object)));
        }
        // The second phase is not due: the object stays as it is.
        if !kind.strategy.may_be_removed(object_map) {
            return Ok(None);
        }
    }
    let requested = options.grace_period_seconds.map(negative_means_one);
    let graceful = match mark_graceful(target, object_map, requested) {
        Graceful::Pending => return Ok(None),
        graceful => graceful,
    };
    if config.garbage_collection == GarbageCollection::On {
        let finalizers = wanted_finalizers(kind, object_map, options);
        set_finalizers(object_map, &finalizers);
    }
    let waits = !object_meta::finalizers(object_map).is_empty();
    Ok(Some(match graceful {
        Graceful::Marked(_) if waits => Step::Mark(object),
        Graceful::Marked(seconds) if seconds > 0 => Step::Mark(object),
        Graceful::Marked(_) => Step::MarkThenRemove(object),
        Graceful::No | Graceful::Pending if waits => {
            mark(object_map);
            Step::Mark(object)
        }
        Graceful::No | Graceful::Pending => Step::Remove(object),
    }))
}

/// Sets the finalizers. The same finalizers in another order are left as they are.
fn set_finalizers(object: &mut Map, finalizers: &[String]) {
    let before: BTreeSet<&str> = object_meta::finalizers(object).into_iter().collect();
    let wanted: BTreeSet<&str> = finalizers.iter().map(String::as_str).collect();
    if before == wanted {
        return;
    }
    if finalizers.is_empty() {
        object_meta::remove(object, &["finalizers"]);
    } else {
        let list: Vec<Value> = finalizers.iter().map(|name| Value::from(name.as_str())).collect();
        object_meta::set(object, "finalizers", list);
    }
}

/// A negative grace period is one second.
fn negative_means_one(seconds: i64) -> i64 {
    if seconds < 0 { 1 } else { seconds }
}

/// The delete options as plugins see them: completed by the kind and the object.
fn complete(target: &Target<'_>, old: &Old, options: &DeleteOptions) -> Result<DeleteOptions, Status> {
    let strategy = &target.served.strategy;
    let object = map(&old.object)?;
    let mut options = options.clone();
    if strategy.deletes_in_two_phases() {
        options.uid.get_or_insert_with(|| old.entry.uid().to_owned());
        if !object_meta::is_deleting(object) {
            return Ok(options);
        }
    }
    options.grace_period_seconds = options.grace_period_seconds.map(negative_means_one);
    if !object_meta::is_deleting(object)
        && let Some(seconds) = strategy.grace(object, options.grace_period_seconds)
    {
        options.grace_period_seconds = Some(seconds);
    }
    Ok(options)
}

/// The graceful deletion of an object.
enum Graceful {
    /// The object has no grace period.
    No,
    /// The object was just marked, or its grace period just shortened, with this period in seconds.
    Marked(i64),
    /// The object was marked before, and its grace period does not become shorter.
    Pending,
}

/// Marks an object whose kind is deleted gracefully.
fn mark_graceful(target: &Target<'_>, object: &mut Map, requested: Option<i64>) -> Graceful {
    let kind = &*target.served.resource_type;
    if object_meta::is_deleting(object) {
        if kind.strategy.grace(object, requested).is_none() {
            return Graceful::No;
        }
        return match object_meta::number(object, "deletionGracePeriodSeconds") {
            None | Some(0) => Graceful::No,
            Some(period) => match requested {
                Some(wanted) if wanted < period => shorten(object, period, wanted),
                _ => Graceful::Pending,
            },
        };
    }
    let Some(seconds) = kind.strategy.grace(object, requested) else { return Graceful::No };
    let deadline = after(Time::now(), seconds);
    object_meta::set(object, "deletionTimestamp", deadline.text());
    object_meta::set(object, "deletionGracePeriodSeconds", seconds);
    bump_generation(object);
    Graceful::Marked(seconds)
}

fn after(time: Time, seconds: i64) -> Time {
    Time::from_unix(time.unix().saturating_add(seconds))
}

/// Shortens the grace period of a marked object.
fn shorten(object: &mut Map, period: i64, wanted: i64) -> Graceful {
    let set: Time = object_meta::text(object, "deletionTimestamp").parse().unwrap_or(Time::ZERO);
    let (mut deadline, mut seconds) = (after(set, wanted - period), wanted);
    let now = Time::now();
    if deadline < now {
        deadline = now;
        if wanted != 0 {
            seconds = 1;
        }
    }
    object_meta::set(object, "deletionTimestamp", deadline.text());
    object_meta::set(object, "deletionGracePeriodSeconds", seconds);
    Graceful::Marked(seconds)
}

/// Marks an object that waits for its finalizers only.
fn mark(object: &mut Map) {
    if !object_meta::is_deleting(object) {
        bump_generation(object);
    }
    let now = Time::now();
    let set = object_meta::text(object, "deletionTimestamp").parse::<Time>().ok();
    if set.is_none_or(|set| set > now) {
        object_meta::set(object, "deletionTimestamp", now.text());
    }
    object_meta::set(object, "deletionGracePeriodSeconds", 0);
}

/// Increments `generation`: the start of a deletion counts as a change of the desired state.
fn bump_generation(object: &mut Map) {
    if let Some(generation) = object_meta::number(object, "generation").filter(|generation| *generation > 0) {
        object_meta::set(object, "generation", generation + 1);
    }
}

/// The finalizers of an object that is deleted in two phases, with those of the propagation policy. Unlike
/// for other kinds, `orphanDependents: false` deletes dependents in the foreground.
fn first_phase_finalizers(object: &Map, options: &DeleteOptions) -> Vec<String> {
    let there = object_meta::finalizers(object);
    let wanted = |name: &str| match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(orphan), _) => orphan == (name == ORPHAN),
        (None, Some(policy)) => policy == if name == ORPHAN { "Orphan" } else { "Foreground" },
        (None, None) => there.contains(&name),
    };
    let own = there.iter().copied().filter(|name| !matches!(*name, ORPHAN | FOREGROUND));
    own.chain([ORPHAN, FOREGROUND].into_iter().filter(|name| wanted(name))).map(str::to_owned).collect()
}

/// The finalizers of an object, with those of the propagation policy.
fn wanted_finalizers(kind: &ResourceType, object: &Map, options: &DeleteOptions) -> Vec<String> {
    let there = object_meta::finalizers(object);
    let own =
        there.iter().filter(|name| !matches!(**name, ORPHAN | FOREGROUND)).map(|name| (*name).to_owned());
    let mut wanted: Vec<String> = own.collect();
    if kind.dependents == Dependents::Unsupported {
        return wanted;
    }
    let policy = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(true), _) | (None, Some("Orphan")) => Some(ORPHAN),
        (Some(false), _) | (None, Some("Background")) => None,
        (None, Some("Foreground")) => Some(FOREGROUND),
        (None, _) => {
            let given = there.iter().find(|name| matches!(**name, ORPHAN | FOREGROUND));
            match given {
                Some(name) if *name == ORPHAN => Some(ORPHAN),
                Some(_) => Some(FOREGROUND),
                None if kind.dependents == Dependents::Orphan => Some(ORPHAN),
                None => None,
            }
        }
    };
    wanted.extend(policy.map(str::to_owned));
    wanted
}
