//! The managed fields of a request: [`merge::managed`] with the kinds and versions that are served.

use crate::{Served, Stored, Target, WriteOptions, object_meta};
use kinds::ScalePaths;
use merge::managed::{Error, Force, Ownership, Scale, Typed, Versions, Writer};
use object::excerpt::excerpt;
use object::field::more;
use object::path_set::Set;
use object::time::Time;
use object::{Text, Value};
use schema::status::{Cause, Details, Reason};
use schema::{Ref, Status, Type};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Updates the managed fields of the object that a request writes.
///
/// The fields of managers in other versions are compared in those versions. [`merge::managed`] is a pure
/// function that asks for conversions. A conversion that needs a webhook is noted and carried out, and the
/// function is called again with its result.
pub(crate) struct Fields<'a> {
    target: &'a Target<'a>,
    now: Text,
    waiting: Mutex<Waiting>,
}

/// The conversions that need a webhook.
#[derive(Default)]
struct Waiting {
    /// The conversions that are to be carried out.
    wanted: Vec<WantedConversion>,
    /// The results of conversions.
    done: Vec<(WantedConversion, Value)>,
}

/// A conversion: the object, and the version to convert it to.
#[derive(Clone, PartialEq)]
struct WantedConversion {
    object: Value,
    to: Text,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(target: &'a Target<'a>) -> Self {
        Self { target, now: Time::now().text(), waiting: Mutex::default() }
    }

    /// Completes `new` as its kind does before ownership is compared (`Strategy::complete`), and updates its
    /// managed fields after an update of `live`, or after a create. Both are in the working version.
    pub(crate) async fn update(
        &self,
        live: Option<&Value>,
        new: &mut Value,
        options: &WriteOptions,
    ) -> Result<(), Status> {
        let served = self.target.served;
        if let Some(map) = new.as_map_mut() {
            served.strategy.complete(map);
        }
        if served.stored.as_ref().is_none_or(|stored| stored.is_working_version) {
            if !served.read_waits() {
                // Without a copy, which would be shared and then copied again on its first change.
                self.ownership().update(live, new, self.writer(options));
                return Ok(());
            }
            let before = new.clone();
            let update = || {
                *new = before.clone();
                self.ownership().update(live, new, self.writer(options));
            };
            return match self.repeated(update).await {
                Ok(()) => Ok(()),
                Err(status) => {
                    // As in the reference: a write does not fail because of managers in another version.
                    let (resource, error) = (served.resource.as_str(), status.message.as_str());
                    log::warn!(resource, error; "the managed fields of an object are dropped, because it cannot be converted");
                    if let Some(new) = new.as_map_mut() {
                        object_meta::remove(new, &["managedFields"]);
                    }
                    Ok(())
                }
            };
        }
        let asked = served.out_of_working(new.clone()).await?;
        let live = match live {
            Some(live) => Some(served.out_of_working(live.clone()).await?),
            None => None,
        };
        let mut written = asked.clone();
        self.repeated(|| {
            written = asked.clone();
            self.ownership().update(live.as_ref(), &mut written, self.writer(options));
        })
        .await?;
        let entries = written.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        let Some(new) = new.as_map_mut() else { return Ok(()) };
        match entries {
            Some(entries) => object_meta::set(new, "managedFields", entries.clone()),
            None => object_meta::remove(new, &["managedFields"]),
        }
        Ok(())
    }

    /// Applies a configuration to an object, or to none. The result is in the version of the request.
    pub(crate) async fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let apply = || self.ownership().apply(live, config, self.writer(options), options.force);
        self.repeated(apply).await?.map_err(|error| refusal(&error))
    }

    /// Calls `act` again until all conversions that it asks for are carried out.
    async fn repeated<T>(&self, mut act: impl FnMut() -> T) -> Result<T, Status> {
        loop {
            let answer = act();
            let wanted = std::mem::take(&mut self.waiting().wanted);
            if wanted.is_empty() {
                return Ok(answer);
            }
            for wanted in wanted {
                let converted = self.convert_through_webhook(wanted.object.clone(), &wanted.to).await?;
                self.waiting().done.push((wanted, converted));
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts an object to another version of the kind.
    async fn convert_through_webhook(&self, object: Value, to: &str) -> Result<Value, Status> {
        let from = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let (Some(from), Some(to)) = (self.served(&from), self.served(to)) else { return Ok(object) };
        to.import(from, object).await
    }

    fn ownership(&self) -> Ownership<'_> {
        let served = self.target.served;
        let subresource = self.target.subresource_name();
        Ownership { ty: &served.ty, api_version: &served.api_version, subresource, versions: self }
    }

    fn writer<'w>(&'w self, options: &'w WriteOptions) -> Writer<'w> {
        Writer { name: &options.field_manager, now: &self.now, empty: &options.empty }
    }

    /// The same objects in another version of the group, if they are served in it. As in the reference,
    /// versions of another group are not known: a write of an event through one group takes the fields from
    /// those who wrote it through the other.
    fn served(&self, version: &str) -> Option<&Arc<Served>> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let is_own_group = self.target.served.group == group;
        is_own_group.then(|| self.target.in_version(group, version)).flatten()
    }
}

impl Versions for Fields<'_> {
    fn ty(&self, version: &str) -> Option<Ref<Type>> {
        self.served(version).map(|served| served.ty.clone())
    }

    fn convert(&self, object: Value, from: &str, to: &str) -> Option<Typed> {
        let (from, to) = (self.served(from)?, self.served(to)?);
        let own = self.target.served;
        if own.stored.as_ref().is_some_and(Stored::is_in_place) {
            // Only metadata changes, which has the same fields in all versions.
            return Some(Typed { ty: own.ty.clone(), value: object });
        }
        if let Some(value) = to.import_now(from, &object) {
            return Some(Typed { ty: to.ty.clone(), value });
        }
        let mut waiting = self.waiting();
        let wanted = WantedConversion { object, to: to.api_version.clone() };
        match waiting.done.iter().find(|(known, _)| *known == wanted) {
            Some((_, value)) => Some(Typed { ty: to.ty.clone(), value: value.clone() }),
            None => {
                waiting.wanted.push(wanted);
                None
            }
        }
    }

    fn unowned(&self, version: &str) -> Option<&Set> {
        let subresource = self.target.subresource_name();
        let unowned = &self.served(version)?.unowned;
        unowned.iter().find(|(name, _)| name == subresource).map(|(_, set)| set)
    }
}

/// Updates the managed fields of a scale, and those of its object.
pub(crate) struct ScaleOwnership<'a> {
    /// The field paths of the scale in its object.
    pub(crate) paths: &'a ScalePaths,
    api_version: Text,
    versions: Vec<String>,
    ty: Ref<Type>,
    options: &'a WriteOptions,
    now: Text,
}

const SCALE: &str = "autoscaling/v1";

impl<'a> ScaleOwnership<'a> {
    pub(crate) fn new(
        target: &Target<'_>,
        paths: &'a ScalePaths,
        ty: &'static Type,
        options: &'a WriteOptions,
    ) -> Self {
        let all = target.catalog.versions_of(target.served);
        let same = all.filter(|served| served.is_same_resource(target.served));
        Self {
            paths,
            api_version: target.served.api_version.clone(),
            versions: same.map(|served| served.api_version.to_string()).collect(),
            ty: Ref::Static(ty),
            options,
            now: Time::now().text(),
        }
    }

    /// Sets the managed fields of a scale from those of its object.
    pub(crate) fn put(&self, object: &Value, scale: &mut Value) {
        let entries = self.scale().entries(object);
        if let Some(map) = scale.as_map_mut().filter(|_| !entries.is_empty()) {
            object_meta::set(map, "managedFields", entries);
        }
    }

    /// Updates the managed fields after the scale `live` was changed to `new`.
    pub(crate) fn update(&self, live: &Value, new: &mut Value) {
        self.ownership().update(Some(live), new, self.writer());
    }

    /// Applies a configuration to a scale.
    pub(crate) fn apply(&self, live: &Value, config: &Value) -> Result<Value, Status> {
        let applied = self.ownership().apply(Some(live), config, self.writer(), self.options.force);
        applied.map_err(|error| refusal(&error))
    }

    /// Sets the managed fields of an object from those of its changed scale.
    pub(crate) fn put_back(&self, object: &mut Value, scale: &Value) {
        let entries = scale.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        self.scale().put_back(object, entries.and_then(Value::as_list).unwrap_or_default());
    }

    fn scale(&self) -> Scale<'_> {
        Scale {
            replicas: &self.paths.spec_replicas,
            api_version: &self.api_version,
            versions: &self.versions,
        }
    }

    fn ownership(&self) -> Ownership<'_> {
        Ownership { ty: &self.ty, api_version: SCALE, subresource: "scale", versions: self }
    }

    fn writer(&self) -> Writer<'_> {
        Writer { name: &self.options.field_manager, now: &self.now, empty: &[] }
    }
}

/// A scale has one version.
impl Versions for ScaleOwnership<'_> {
    fn ty(&self, version: &str) -> Option<Ref<Type>> {
        (version == SCALE).then(|| self.ty.clone())
    }

    fn convert(&self, object: Value, _from: &str, to: &str) -> Option<Typed> {
        Some(Typed { ty: self.ty(to)?, value: object })
    }

    fn unowned(&self, _version: &str) -> Option<&Set> {
        None
    }
}

/// Sets the managed fields of an object that is not stored, and whose type has one version.
pub(crate) fn put_fields(
    ty: &Ref<Type>,
    api_version: &str,
    subresource: &str,
    object: &mut Value,
    options: &WriteOptions,
) {
    struct OneVersion<'a>(&'a Ref<Type>, &'a str);
    impl Versions for OneVersion<'_> {
        fn ty(&self, version: &str) -> Option<Ref<Type>> {
            (version == self.1).then(|| self.0.clone())
        }

        fn convert(&self, object: Value, _from: &str, to: &str) -> Option<Typed> {
            Some(Typed { ty: self.ty(to)?, value: object })
        }

        fn unowned(&self, _version: &str) -> Option<&Set> {
            None
        }
    }
    let now = Time::now().text();
    let writer = Writer { name: &options.field_manager, now: &now, empty: &options.empty };
    let versions = &OneVersion(ty, api_version);
    Ownership { ty, api_version, subresource, versions }.update(None, object, writer);
}

/// The status of a configuration that cannot be applied.
fn refusal(error: &Error) -> Status {
    match error {
        Error::BadRequest(why) => Status::bad_request(why.clone()),
        Error::Failed(why) => crate::error::unknown_reason_500(why.clone()),
        Error::Conflict(conflicts) => {
            let causes = conflicts.listed().map(|conflict| Cause {
                reason: "FieldManagerConflict".into(),
                message: conflict.message(),
                field: excerpt(&conflict.path),
            });
            let left_out = Some(conflicts.left_out()).filter(|count| *count > 0);
            let left_out = left_out.map(|count| Cause { message: more(count), ..Cause::default() });
            let causes = causes.chain(left_out);
            Status {
                code: 409,
                reason: Reason::Conflict,
                message: conflicts.to_string(),
                details: Some(Details { causes: causes.collect(), ..Details::default() }.into()),
                token: String::new(),
            }
        }
    }
}

/// Whether an apply is forced.
pub(crate) fn force_if(forced: bool) -> Force {
    if forced { Force::Yes } else { Force::No }
}
