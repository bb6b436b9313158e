//! The write pipeline: the steps of POST, PUT, PATCH and apply, for every kind.
//!
//! | step | why there |
//! |---|---|
//! | 1 decode, default, convert | once: a body means the same in every attempt (`incoming`; a patch has nothing to decode ahead, and the body of an apply is decoded in its first attempt) |
//! | 2 read | the newest state; a create knows that there is none |
//! | 3 preconditions | a uid in the body must be that of the object, before anything looks at the new state |
//! | 4 build | the new state: the body itself, or the result of a patch or an apply on the old state |
//! | 5 managed fields | before admission, so that the writer owns what it sent and not what plugins set |
//! | 6 mutating admission | sees the state that the client asked for |
//! | 7 owner references, namespace | once more, because a plugin may have changed them |
//! | 7 further permissions of the kind | a role may grant only what its author holds: as admission left it, before anything else is refused |
//! | 8 resource version | a stale one is a conflict, whatever else is wrong with the object |
//! | 9 the kind's write hook | reserves resources such as addresses; released unless the change is committed |
//! | 10 the kind's preparation | restores the fields that this verb or subresource may not change |
//! | 11 validation | of the complete state, and the permissions that a valid state of the kind needs; then the defaults of the storage version of a built-in kind, which a converted body lacks |
//! | 12 permission to create | for a PUT or an apply that creates the object |
//! | 13 validating admission | sees the state to be stored; gives the proof that the commit takes |
//! | 14 commit | if the object is still the one that was read; otherwise everything from step 2 on is done again |
//!
//! A new object gets its name, uid and creation time at the end of step 7, and its resource version is looked
//! at last before the commit. After a conflict every step from 2 on is repeated on the newer state until the
//! request times out, as in the reference; requests of the server itself have no timeout. A POST of a name
//! that exists is not retried; with `generateName` eight names are tried, from the end of step 7 on. A
//! binding and a delete have fewer steps: see `bind` and `delete`.

use crate::commit::{self, Outcome, Oversize, WriteMode};
use crate::convert::{map, map_mut};
use crate::damaged::Damaged;
use crate::error::{status, unknown_reason_500};
use crate::find::{Found, Old};
use crate::managed::{Fields, ScaleOwnership};
use crate::object_meta::{self, Stage};
use crate::preconditions::{check_name, check_no_uid, check_uid, check_version, take_version};
use crate::prepare::{default, default_stored, name_object, prepare_create, prepare_update};
use crate::review::Review;
use crate::{
    Answer, Config, Content, Registry, Target, WriteOptions, WriteRequest, apply, patch, scale, validate,
};
use admission::{Admitted, Attributes, Operation, Reservation};
use bytes::Bytes;
use cache::{Change, Freshness};
use kinds::{Action, WrittenPart};
use merge::Patch;
use merge::managed::keep_times;
use object::time::Time;
use object::{Map, Value};
use observe::{Commit, Part};
use schema::status::Details;
use schema::{Ref, Status};
use std::borrow::Cow;
use store::Revision;

/// The number of names that are tried for an object with `generateName`.
const NAMES: usize = 8;

/// The message of the 409 for a stale resource version.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The body of a write, decoded as far as that is possible without the object.
pub(crate) enum Body<'a> {
    /// A new object, in the working version: POST. It has one attempt, which takes the object without a copy.
    New(Value),
    /// An object in the working version, or a scale: PUT.
    Whole(Value),
    /// A patch.
    Patch(Patch, &'a [u8]),
    /// A configuration that is applied.
    Apply(apply::ApplyBody<'a>),
}

/// One write request.
pub(crate) struct Write<'a> {
    registry: &'a Registry,
    target: &'a Target<'a>,
    options: &'a WriteOptions,
    mode: WriteMode,
    body: Body<'a>,
    /// The name in the request; empty if the name is generated, which only the object has then.
    name: String,
    /// The owners of the fields of the scale, for a request for the subresource `scale`.
    scale: Option<ScaleOwnership<'a>>,
    /// The revision of the damaged object that a PUT or an apply replaces. A POST replaces a damaged object
    /// too, whatever its revision is.
    replaces_damaged: Option<Revision>,
}

impl Registry {
    /// Creates an object from a tree in the version of the request.
    pub async fn create(
        &self,
        target: &Target<'_>,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["create"])?;
        if target.served.is_terminating {
            return Err(Status::definition_is_terminating(&target.served.group, &target.served.resource));
        }
        if let Some(review) = Review::of(target.served) {
            return Box::pin(self.review(review, target, object, options)).await;
        }
        match target.subresource.map(|subresource| &subresource.action) {
            None if target.served.stored.is_none() => {
                return self.bind_by_name(target, object, options).await;
            }
            None => {}
            Some(Action::Bind) => return self.bind(target, object, options).await,
            // Boxed, so that its future does not enlarge that of every create.
            Some(Action::Evict) => return Box::pin(self.evict(target, object, options)).await,
            Some(Action::IssueToken) => {
                return Box::pin(self.issue_token(target, object, options)).await;
            }
            Some(_) => return Err(Status::method_not_allowed()),
        }
        let mut object = incoming(target, object).await?;
        {
            let object = map_mut(&mut object)?;
            object_meta::wipe_system_fields(object);
            options.warnings.extend(object_meta::dedup_owners(object, Stage::BeforeAdmission));
        }
        Write::new(self, target, Body::New(object), options)?.run().await
    }

    /// Replaces an object, or a part of it, by a tree in the version of the request; creates it where the
    /// kind allows that.
    pub async fn update(
        &self,
        target: &Target<'_>,
        object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["update"])?;
        let is_scale =
            matches!(target.subresource.map(|subresource| &subresource.action), Some(Action::Scale(_)));
        let mut object = match is_scale {
            true => in_namespace(target, object)?,
            false => incoming(target, object).await?,
        };
        {
            let object = map_mut(&mut object)?;
            check_name(object, target)?;
            if !is_scale {
                options.warnings.extend(object_meta::dedup_owners(object, Stage::BeforeAdmission));
            }
        }
        Write::new(self, target, Body::Whole(object), options)?.run().await
    }

    /// Patches an object, or a part of it.
    pub async fn patch(
        &self,
        target: &Target<'_>,
        format: Patch,
        patch: &[u8],
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["patch"])?;
        Write::new(self, target, Body::Patch(format, patch), options)?.run().await
    }

    /// Applies a configuration to an object, or to a part of it; creates the object if there is none.
    pub async fn apply(
        &self,
        target: &Target<'_>,
        format: apply::Format,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        target.check_verb(&["patch"])?;
        Write::new(self, target, Body::Apply(apply::ApplyBody::new(format, body)), options)?.run().await
    }
}

/// Step 1, and of a patch or an apply step 4: the body in the working version, with its defaults, in the
/// namespace of the request.
async fn incoming(target: &Target<'_>, mut object: Value) -> Result<Value, Status> {
    default(target.served, &mut object)?;
    in_namespace(target, target.served.to_working(object).await?)
}

fn in_namespace(target: &Target<'_>, mut object: Value) -> Result<Value, Status> {
    object_meta::fit_namespace(map_mut(&mut object)?, target.namespace)?;
    Ok(object)
}

impl<'a> Write<'a> {
    fn new(
        registry: &'a Registry,
        target: &'a Target<'a>,
        body: Body<'a>,
        options: &'a WriteOptions,
    ) -> Result<Self, Status> {
        let name = match &body {
            Body::New(object) => object_meta::text(map(object)?, "name").to_owned(),
            _ => {
                target.check_name()?;
                target.name.to_owned()
            }
        };
        let scale = match target.subresource.map(|subresource| &subresource.action) {
            Some(Action::Scale(paths)) => Some(ScaleOwnership::new(target, paths, scale::ty()?, options)),
            _ => None,
        };
        let mode = WriteMode::dry_run_if(options.dry_run);
        Ok(Self { registry, target, options, mode, body, name, scale, replaces_damaged: None })
    }

    /// Steps 2 to 14.
    async fn run(mut self) -> Result<Answer, Status> {
        loop {
            let old = self.read().await?;
            self.check_preconditions(old.as_ref())?;
            let old_view = old.as_ref().map(|old| self.view_to_change(&old.object)).transpose()?;
            if matches!(self.body, Body::Patch(..) | Body::Apply(..)) {
                self.target.observation().step("About to apply patch");
            }
            let mut new = self.build(old_view.as_deref()).await?;
            let request = WriteRequest::write(self.target, self.options);
            let attributes = self.attributes(&request, old_view.as_deref());
            if matches!(self.body, Body::Patch(..) | Body::Apply(..)) {
                self.target.observation().step("About to check admission control");
            }
            self.registry.config().admission.mutate(&attributes, Some(&mut new)).await?;
            let repeated = object_meta::dedup_owners(map_mut(&mut new)?, Stage::AfterAdmission);
            self.options.warnings.extend(repeated);
            if self.scale.is_none() {
                // A plugin may have changed the namespace.
                object_meta::fit_namespace(map_mut(&mut new)?, self.target.namespace)?;
            }
            if old.is_none() && !matches!(self.body, Body::New(_)) {
                // A plugin may have changed the name, for which the permission was asked.
                check_name(map(&new)?, self.target)?;
            }
            self.authorize(&attributes, &new).await?;
            let outcome = match &old {
                Some(old) => self.replace(old, self.put_back(&old.object, new)?, &attributes).await?,
                None => self.make(new, &attributes).await?,
            };
            match outcome {
                Outcome::Done(content) => return self.answer(old.is_none(), content).await,
                Outcome::Conflict(refused) if matches!(self.body, Body::New(_)) => return Err(refused),
                Outcome::Conflict(_) => {}
            }
        }
    }

    /// Step 2: the newest state; 404 if there is none and this write cannot create it.
    async fn read(&mut self) -> Result<Option<Old>, Status> {
        if matches!(self.body, Body::New(_)) {
            return Ok(None);
        }
        self.replaces_damaged = None;
        match self.registry.find(self.target).await? {
            Found::Object(old) => Ok(Some(old)),
            Found::Nothing if self.may_create() => Ok(None),
            Found::Nothing => {
                self.check_preconditions(None)?;
                Err(self.target.not_found())
            }
            Found::Damaged(damaged) => {
                self.check_replaces_damaged(&damaged)?;
                self.replaces_damaged = Some(damaged.revision);
                Ok(None)
            }
        }
    }

    /// A damaged object can be replaced by a PUT or an apply of the whole object, which creates it anew.
    /// Its resource version is still a precondition.
    fn check_replaces_damaged(&self, damaged: &Damaged) -> Result<(), Status> {
        let (Body::Whole(_) | Body::Apply(..), None) = (&self.body, self.target.subresource) else {
            return Err(self.target.damaged(damaged));
        };
        if let Body::Whole(object) = &self.body {
            let version = object_meta::text(map(object)?, "resourceVersion");
            if !version.is_empty() && *version != damaged.revision.to_string() {
                return Err(self.target.conflict(MODIFIED));
            }
        }
        Ok(())
    }

    /// Whether a write creates the object if there is none.
    fn may_create(&self) -> bool {
        match self.body {
            Body::New(_) => true,
            Body::Patch(..) => false,
            Body::Apply(..) => self.target.subresource.is_none(),
            // A PUT of the status of a missing object creates the object.
            Body::Whole(_) => {
                let whole =
                    self.target.subresource.is_none() || self.target.part() == Some(WrittenPart::Status);
                whole && self.target.served.strategy.allow_create_on_update()
            }
        }
    }

    /// Step 3: the uid in the body of a PUT is a precondition. A patch that changes the uid fails validation
    /// instead.
    fn check_preconditions(&self, old: Option<&Old>) -> Result<(), Status> {
        match (&self.body, &self.scale) {
            (Body::Whole(object), None) if self.replaces_damaged.is_none() => {
                let old = old.map(|old| map(&old.object)).transpose()?;
                check_uid(self.target, map(object)?, old, self.mode)
            }
            _ => Ok(()),
        }
    }

    /// Steps 4 and 5: the new state, in the working version, with its managed fields.
    async fn build(&mut self, old: Option<&Value>) -> Result<Value, Status> {
        if let Some(scale) = &self.scale {
            return build_scale(self.target, self.options, scale, &mut self.body, old);
        }
        let (target, options) = (self.target, self.options);
        let fields = Fields::of(target);
        let mut new = match &mut self.body {
            Body::New(object) => {
                let mut new = std::mem::take(object);
                fields.update(None, &mut new, options).await?;
                return Ok(new);
            }
            Body::Whole(object) => {
                let mut new = object.clone();
                fields.update(old, &mut new, options).await?;
                if old.is_none() {
                    let new = map_mut(&mut new)?;
                    object_meta::remove(new, &["resourceVersion"]);
                    if self.replaces_damaged.is_some() {
                        // A copy of the damaged object: it keeps its uid, so that its dependents still
                        // refer to it.
                        object_meta::remove(
                            new,
                            &["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"],
                        );
                    } else {
                        object_meta::wipe_system_fields(new);
                    }
                }
                return Ok(new);
            }
            Body::Patch(format, bytes) => {
                let old = old.ok_or_else(|| target.not_found())?;
                let current = in_version(target, old).await?;
                let ty = &target.served.ty;
                let patched =
                    patch::apply(*format, ty, &current, bytes, Some(&*target.served.strategy), options)?;
                let mut new = incoming(target, patched).await?;
                fields.update(Some(old), &mut new, options).await?;
                new
            }
            Body::Apply(body) => {
                let config = body.config()?;
                let live = match old {
                    Some(old) => Some(in_version(target, old).await?),
                    None => None,
                };
                let new = fields.apply(live.as_deref(), &config.value, options).await?;
                if let Some(why) = target.served.strategy.conversion_fault(map(&new)?) {
                    return Err(unknown_reason_500(apply::unconvertible(target, &config.value, &why)));
                }
                apply::report(config, options)?;
                incoming(target, new).await?
            }
        };
        let map = map_mut(&mut new)?;
        if old.is_none() {
            check_no_uid(target, map)?;
            object_meta::remove(map, &["resourceVersion"]);
            object_meta::wipe_system_fields(map);
        }
        check_name(map, target)?;
        Ok(new)
    }

    /// What the client sees of an object: the object itself, or its scale.
    fn view<'v>(&self, object: &'v Value) -> Result<Cow<'v, Value>, Status> {
        match &self.scale {
            None => Ok(Cow::Borrowed(object)),
            Some(manager) => scale::of(object, manager.paths).map(Cow::Owned),
        }
    }

    /// What the request changes: the object itself, or its scale with managed fields.
    fn view_to_change<'v>(&self, object: &'v Value) -> Result<Cow<'v, Value>, Status> {
        match &self.scale {
            None => Ok(Cow::Borrowed(object)),
            Some(manager) => {
                let mut scale = scale::to_change(object, manager.paths)?;
                manager.put(object, &mut scale);
                Ok(Cow::Owned(scale))
            }
        }
    }

    /// The object with its changed scale; for all other requests, `new` itself.
    fn put_back(&self, old: &Value, new: Value) -> Result<Value, Status> {
        let Some(manager) = &self.scale else { return Ok(new) };
        let mut object = old.clone();
        let scale = map(&new)?;
        scale::validate(scale, manager.paths, self.target)?;
        if matches!(self.body, Body::Patch(..) | Body::Apply(..)) {
            scale::check_patched_uid(self.target, scale, map(&object)?)?;
        }
        scale::apply(scale, map_mut(&mut object)?, manager.paths, self.target, self.mode)?;
        manager.put_back(&mut object, &new);
        Ok(object)
    }

    fn attributes<'b>(&'b self, request: &'b WriteRequest<'_>, old: Option<&'b Value>) -> Attributes<'b> {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        Attributes { name: &self.name, ..request.attributes(operation, old) }
    }

    /// Steps 8 to 14 for an object that exists.
    async fn replace(
        &self,
        old: &Old,
        mut new: Value,
        attributes: &Attributes<'_>,
    ) -> Result<Outcome, Status> {
        let target = self.target;
        check_version(target, map_mut(&mut new)?, &old.entry)?;
        let before = Attributes { old: Some(&old.object), ..*attributes };
        let mut reserved = self.before_write(&before, &mut new).await?;
        let outcome = self.replace_reserved(old, new, attributes, &mut reserved).await;
        abandon(reserved).await;
        outcome
    }

    /// Steps 10 to 14 for an object that exists. The reservation is taken out of `reserved` for the
    /// commit.
    async fn replace_reserved(
        &self,
        old: &Old,
        mut new: Value,
        attributes: &Attributes<'_>,
        reserved: &mut Option<Reservation>,
    ) -> Result<Outcome, Status> {
        let target = self.target;
        let objects = self.registry.config().objects;
        prepare_update(target, map_mut(&mut new)?, map(&old.object)?, objects.gates);
        validate::update(target, &new, &old.object, objects, self.options)?;
        if target.part().is_none() {
            self.authorize_valid(attributes, map(&new)?, Some(map(&old.object)?)).await?;
        }
        default_stored(target, &mut new)?;
        keep_times(&mut new, &old.object);
        let shown = self.view(&old.object)?;
        let attributes = Attributes { old: Some(&*shown), ..*attributes };
        let mut admitted = self.admit(&attributes, &*self.view(&new)?).await?;
        if is_done(target, map(&new)?, map(&old.object)?) {
            // The write removed the last finalizer: the object is removed, and the response is the state that
            // would have been stored. The reservation is not needed.
            let removed = self.registry.remove(target, &old.entry, self.mode, admitted).await?;
            return Ok(match removed {
                Outcome::Done(_) => Outcome::Done(Content::Tree(new)),
                conflict => conflict,
            });
        }
        self.add_hook_work(&mut admitted, reserved.take(), &attributes);
        self.registry.replace(target, old, new, self.mode, self.oversize(), admitted).await
    }

    /// The naming at the end of step 7, and steps 8 to 14 for a new object.
    async fn make(&self, new: Value, attributes: &Attributes<'_>) -> Result<Outcome, Status> {
        let (name, prefix) = {
            let new = map(&new)?;
            (object_meta::text(new, "name"), object_meta::text(new, "generateName"))
        };
        let strategy = &self.target.served.strategy;
        let generated = name.is_empty() && !prefix.is_empty() && !strategy.names_itself();
        let names = if generated { NAMES } else { 1 };
        let mut spare = Some(new);
        let mut outcome = Outcome::Conflict(Status::internal_error("no name was tried"));
        for left in (0..names).rev() {
            // The last attempt takes the object: a shared one would be copied on its first change.
            let next = if left == 0 { spare.take() } else { spare.clone() };
            let Some(mut object) = next else { break };
            {
                let object = map_mut(&mut object)?;
                if self.replaces_damaged.is_none() || object_meta::text(object, "uid").is_empty() {
                    object_meta::fill_system_fields(object, Time::now());
                }
                name_object(self.target, object);
            }
            outcome = self.make_named(object, attributes).await?;
            if matches!(outcome, Outcome::Done(_)) {
                break;
            }
        }
        Ok(outcome)
    }

    async fn make_named(&self, mut new: Value, attributes: &Attributes<'_>) -> Result<Outcome, Status> {
        let mut reserved = self.before_write(attributes, &mut new).await?;
        let outcome = self.make_reserved(new, attributes, &mut reserved).await;
        abandon(reserved).await;
        outcome
    }

    /// Steps 10 to 14 for a new object with a name. The reservation is taken out of `reserved` for the
    /// commit.
    async fn make_reserved(
        &self,
        mut new: Value,
        attributes: &Attributes<'_>,
        reserved: &mut Option<Reservation>,
    ) -> Result<Outcome, Status> {
        let target = self.target;
        self.options.warnings.extend(target.served.strategy.preparation_warnings(map(&new)?));
        let objects = self.registry.config().objects;
        prepare_create(target, map_mut(&mut new)?, objects.gates);
        validate::create(target, &new, objects, self.options)?;
        self.authorize_valid(attributes, map(&new)?, None).await?;
        default_stored(target, &mut new)?;
        if !matches!(self.body, Body::New(_)) {
            let Config { authorizer, .. } = self.registry.config();
            // Step 12: a PUT or an apply that creates.
            authorizer.check(target.proof.user(), &target.attributes_for("create")).await?;
        }
        let made = object_meta::text(map(&new)?, "name").to_owned();
        // Plugins see the name that the request has, or else the generated one.
        let name = if self.name.is_empty() { &made } else { &self.name };
        let mut admitted = self.admit(&Attributes { name, ..*attributes }, &new).await?;
        let attributes = Attributes { name: &made, ..*attributes };
        self.add_hook_work(&mut admitted, reserved.take(), &attributes);
        if self.mode == WriteMode::Persist {
            take_version(map_mut(&mut new)?)?;
        }
        self.commit_new(new, admitted).await
    }

    /// Step 7, after the owner references.
    async fn authorize(&self, attributes: &Attributes<'_>, new: &Value) -> Result<(), Status> {
        let Config { authorizer, .. } = self.registry.config();
        let hook = self.hook();
        match hook.and_then(|hook| hook.authorize(self.target.proof, authorizer, attributes, new)) {
            Some(step) => step.await,
            None => Ok(()),
        }
    }

    /// The end of step 11.
    async fn authorize_valid(
        &self,
        attributes: &Attributes<'_>,
        new: &Map,
        old: Option<&Map>,
    ) -> Result<(), Status> {
        let Config { authorizer, .. } = self.registry.config();
        let Some(hook) = self.hook().and_then(|hook| hook.after_validation()) else { return Ok(()) };
        let refused = hook.check(self.target.proof, authorizer, attributes, (new, old)).await;
        refused.or_else(|error| {
            validate::refuse(self.target, new, object_meta::text(new, "name"), &error.into())
        })
    }

    fn hook(&self) -> Option<&dyn crate::WriteHook> {
        let served = self.target.served;
        self.registry.config().hooks.of(&served.group, &served.resource)
    }

    /// Step 9.
    async fn before_write(
        &self,
        attributes: &Attributes<'_>,
        new: &mut Value,
    ) -> Result<Option<Reservation>, Status> {
        let Config { authorizer, .. } = self.registry.config();
        match self.hook() {
            Some(hook) => hook.before_write(attributes, authorizer, new).await,
            None => Ok(None),
        }
    }

    /// Step 13.
    async fn admit(&self, attributes: &Attributes<'_>, new: &Value) -> Result<Admitted, Status> {
        self.registry.config().admission.validate(attributes, Some(new)).await
    }

    /// Adds what the kind's hook reserved, and its work after the commit, to the proof of admission.
    fn add_hook_work(&self, admitted: &mut Admitted, reserved: Option<Reservation>, of: &Attributes<'_>) {
        reserved.into_iter().for_each(|reservation| admitted.reserve(reservation));
        let work = self.hook().and_then(|hook| hook.after_commit(of.name, of.subresource));
        work.into_iter().for_each(|work| admitted.after_commit(work));
    }

    /// Step 14 for a new object: commits it if there is none of its name, or a damaged one.
    async fn commit_new(&self, mut new: Value, admitted: Admitted) -> Result<Outcome, Status> {
        let target = self.target;
        let stored = target.stored()?;
        let bytes = match self.mode {
            WriteMode::Persist => commit::encode(stored, &mut new, self.oversize()).await?,
            WriteMode::DryRun => Bytes::new(),
        };
        let object = map(&new)?;
        let (namespace, name) = (object_meta::text(object, "namespace"), object_meta::text(object, "name"));
        if self.mode == WriteMode::DryRun && self.replaces_damaged.is_some() {
            return Ok(Outcome::Done(Content::Tree(stored.as_read(new).await?)));
        }
        if self.mode == WriteMode::DryRun {
            return match stored.resource.get(namespace, name, Freshness::MostRecent).await {
                Ok(Some(entry)) => Ok(Outcome::Conflict(already_exists(target, object, entry.is_deleting()))),
                Ok(None) | Err(cache::Error::Corrupt(_)) => {
                    Ok(Outcome::Done(Content::Tree(stored.as_read(new).await?)))
                }
                // The object exists, although it cannot be decrypted now.
                Err(cache::Error::Unavailable(_)) => {
                    Ok(Outcome::Conflict(already_exists(target, object, false)))
                }
                Err(error) => Err(status(error)),
            };
        }
        let change = Change::put(&stored.resource, namespace, name, bytes);
        let change = match self.replaces_damaged {
            Some(revision) => change.expect_revision(revision),
            None => change.create_or_replace_damaged(),
        };
        let observation = target.observation();
        let _span = target.store_span("Create etcd3");
        observation.step_with("Encode succeeded", "len", change.size());
        observation.commit(Commit::Begins);
        let committing = self.registry.commit_state(stored, change, &mut new, self.oversize(), admitted);
        let outcome = observation.timed(Part::Store, committing).await;
        match outcome {
            Ok(committed) => {
                observation.commit(Commit::Done);
                observation.step("Txn call succeeded");
                let entry = committed.entry().cloned();
                let entry = entry.ok_or_else(|| Status::internal_error("a commit without a state"))?;
                if let Some(revision) = self.replaces_damaged {
                    log::warn!(object:% = format_args!("{entry:?}"), revision:%; "a damaged object was replaced");
                }
                stored.note_written(&entry, &new);
                Ok(Outcome::Done(Content::Entry(entry)))
            }
            Err(cache::Error::Conflict(conflict)) => {
                let is_deleting = conflict.found.as_ref().is_some_and(|entry| entry.is_deleting());
                Ok(Outcome::Conflict(already_exists(target, map(&new)?, is_deleting)))
            }
            Err(error) => Err(status(error)),
        }
    }

    fn oversize(&self) -> Oversize {
        match self.body {
            Body::Apply(..) => Oversize::Refuse,
            _ => Oversize::DropManagedFields,
        }
    }

    async fn answer(&self, created: bool, content: Content) -> Result<Answer, Status> {
        let code = if created { 201 } else { 200 };
        let answer = Answer { code, content };
        match &self.scale {
            None => Ok(answer),
            Some(manager) => scale::answer(self.target.stored()?, answer, manager.paths).await,
        }
    }
}

/// Steps 4 and 5 for a scale: `old` and the new state are scales.
fn build_scale(
    target: &Target<'_>,
    options: &WriteOptions,
    fields: &ScaleOwnership<'_>,
    body: &mut Body<'_>,
    old: Option<&Value>,
) -> Result<Value, Status> {
    let old = old.ok_or_else(|| target.not_found())?;
    let new = match body {
        Body::New(object) | Body::Whole(object) => {
            let mut new = object.clone();
            fields.update(old, &mut new);
            return Ok(new);
        }
        Body::Patch(format, bytes) => {
            let mut new = patch::apply(*format, &Ref::Static(scale::ty()?), old, bytes, None, options)?;
            fields.update(old, &mut new);
            new
        }
        Body::Apply(body) => {
            let config = body.config()?;
            let new = fields.apply(old, &config.value)?;
            apply::report(config, options)?;
            new
        }
    };
    let new = in_namespace(target, new)?;
    check_name(map(&new)?, target)?;
    Ok(new)
}

/// Releases the reservation of a refused write, before the response.
async fn abandon(reserved: Option<Reservation>) {
    if let Some(reserved) = reserved {
        reserved.abandon().await;
    }
}

/// An object in the version of the request.
async fn in_version<'v>(target: &Target<'_>, object: &'v Value) -> Result<Cow<'v, Value>, Status> {
    if target.stored()?.is_working_version {
        return Ok(Cow::Borrowed(object));
    }
    Ok(Cow::Owned(target.served.out_of_working(object.clone()).await?))
}

/// Whether an object that is being deleted can be removed: no finalizers and no grace period are left.
fn is_done(target: &Target<'_>, new: &Map, old: &Map) -> bool {
    object_meta::finalizers(new).is_empty()
        && object_meta::is_deleting(old)
        && object_meta::number(old, "deletionGracePeriodSeconds").unwrap_or_default() == 0
        && target.served.strategy.may_be_removed(new)
}

/// 409 for a name that exists. The message says if the name was generated, or if the existing object is being
/// deleted.
fn already_exists(target: &Target<'_>, object: &Map, is_deleting: bool) -> Status {
    let served = target.served;
    let name = object_meta::text(object, "name");
    let mut refused = Status::already_exists(&served.group, &served.resource, name);
    if !object_meta::text(object, "generateName").is_empty() {
        refused.message.push_str(", the server was not able to generate a unique name for the object");
        let details = refused.details.take().map_or_else(Details::default, |details| *details);
        refused.details = Some(Details { retry_after_seconds: 1, ..details }.into());
    }
    if is_deleting {
        refused.message = format!("object is being deleted: {}", refused.message);
    }
    refused
}
