//! The managed fields of a request: [`merge::managed`] with the kinds and versions that are served.

use crate::{Registry, Served, Target, WriteOptions, object_meta};
use kinds::{FieldPath, Kind, ScalePaths};
use merge::managed::{Error, Force, Manager, Scale, Typed, Versions, Writer};
use object::path::Element;
use object::path_set::Set;
use object::time::Time;
use object::{Text, Value};
use schema::status::{Cause, Details, Reason};
use schema::{Ref, Status, Type};
use std::sync::Arc;

/// Keeps the managed fields of what a request writes.
pub(crate) struct Fields<'a> {
    registry: &'a Registry,
    target: &'a Target<'a>,
    ty: Ref<Type>,
    api_version: String,
    now: Text,
}

impl<'a> Fields<'a> {
    pub(crate) fn of(registry: &'a Registry, target: &'a Target<'a>) -> Self {
        Self {
            registry,
            target,
            ty: Ref::Static(target.served.ty),
            api_version: target.served.api_version(),
            now: Time::now().text(),
        }
    }

    /// Notes who owns what, now that `live` has become `new`, or `new` was made. Both are in the stored version.
    pub(crate) fn update(&self, live: Option<&Value>, new: &mut Value, options: &WriteOptions) {
        let (manager, writer) = (self.manager(), self.writer(options));
        let served = self.target.served;
        if let Some(map) = new.as_map_mut() {
            served.kind.strategy.complete(map);
        }
        if served.stored.as_ref().is_none_or(|stored| stored.is_canonical) {
            return manager.update(live, new, writer);
        }
        let in_version = |object: &Value| {
            let mut object = object.clone();
            served.from_stored(&mut object);
            object
        };
        let mut written = in_version(new);
        manager.update(live.map(in_version).as_ref(), &mut written, writer);
        let entries = written.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        let Some(new) = new.as_map_mut() else { return };
        match entries {
            Some(entries) => object_meta::set(new, "managedFields", entries.clone()),
            None => object_meta::remove(new, &["managedFields"]),
        }
    }

    /// What an applied configuration makes of an object, or of nothing, in the version of the request.
    pub(crate) fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        options: &WriteOptions,
    ) -> Result<Value, Status> {
        let applied = self.manager().apply(live, config, self.writer(options), options.force);
        applied.map_err(|error| refusal(&error))
    }

    fn manager(&self) -> Manager<'_> {
        let subresource = self.target.subresource.map_or("", |subresource| subresource.name);
        Manager { ty: &self.ty, api_version: &self.api_version, subresource, versions: self }
    }

    fn writer<'w>(&'w self, options: &'w WriteOptions) -> Writer<'w> {
        Writer { name: &options.field_manager, now: &self.now, empty: &options.empty }
    }

    /// The same objects in another version, if they are served in it.
    fn served(&self, version: &str) -> Option<&Arc<Served>> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let own = self.target.served;
        if own.kind.group == group && own.version.name == version {
            return Some(own);
        }
        let kept = |served: &Served| served.stored.as_ref().map(|stored| std::ptr::from_ref(stored.kind));
        let found = self.registry.find(group, version, own.kind.resource)?;
        (kept(found) == kept(own)).then_some(found)
    }
}

impl Versions for Fields<'_> {
    fn ty(&self, version: &str) -> Option<Ref<Type>> {
        self.served(version).map(|served| Ref::Static(served.ty))
    }

    fn convert(&self, mut object: Value, from: &str, to: &str) -> Option<Typed> {
        let (from, to) = (self.served(from)?, self.served(to)?);
        from.to_stored(&mut object);
        to.from_stored(&mut object);
        Some(Typed { ty: Ref::Static(to.ty), value: object })
    }

    fn resets(&self, version: &str) -> Option<&Set> {
        let subresource = self.target.subresource.map_or("", |subresource| subresource.name);
        let resets = &self.served(version)?.resets;
        resets.iter().find(|(name, _)| *name == subresource).map(|(_, set)| set)
    }
}

/// What cannot be owned of a kind, by the name of the subresource.
pub(crate) fn resets(kind: &Kind) -> Vec<(&'static str, Set)> {
    let names = std::iter::once("").chain(kind.subresources.iter().map(|subresource| subresource.name));
    let set = |paths: &[FieldPath]| -> Set {
        let path = |path: &FieldPath| path.iter().map(|name| Element::field(*name)).collect::<Vec<_>>();
        paths.iter().map(path).collect::<Vec<_>>().iter().map(Vec::as_slice).collect()
    };
    names.map(|name| (name, set(kind.resets(name)))).filter(|(_, set)| !set.is_empty()).collect()
}

/// Keeps the managed fields of a scale, and with them those of its object.
pub(crate) struct ScaleFields<'a> {
    paths: &'static ScalePaths,
    api_version: String,
    versions: Vec<String>,
    ty: Ref<Type>,
    options: &'a WriteOptions,
    now: Text,
}

const SCALE: &str = "autoscaling/v1";

impl<'a> ScaleFields<'a> {
    pub(crate) fn of(
        target: &Target<'_>,
        paths: &'static ScalePaths,
        ty: &'static Type,
        options: &'a WriteOptions,
    ) -> Self {
        let kind = target.served.kind;
        let versions = kind.versions.iter().map(|version| crate::api_version(kind.group, version.name));
        Self {
            paths,
            api_version: target.served.api_version(),
            versions: versions.collect(),
            ty: Ref::Static(ty),
            options,
            now: Time::now().text(),
        }
    }

    /// Gives the scale of an object its managed fields.
    pub(crate) fn put(&self, object: &Value, scale: &mut Value) {
        let entries = self.scale().entries(object);
        if let Some(map) = scale.as_map_mut().filter(|_| !entries.is_empty()) {
            object_meta::set(map, "managedFields", entries);
        }
    }

    /// Notes who owns what, now that the scale `live` has become `new`.
    pub(crate) fn update(&self, live: &Value, new: &mut Value) {
        self.manager().update(Some(live), new, self.writer());
    }

    /// What an applied configuration makes of a scale.
    pub(crate) fn apply(&self, live: &Value, config: &Value) -> Result<Value, Status> {
        let applied = self.manager().apply(Some(live), config, self.writer(), self.options.force);
        applied.map_err(|error| refusal(&error))
    }

    /// Puts the managed fields of a changed scale into those of its object.
    pub(crate) fn put_back(&self, object: &mut Value, scale: &Value) {
        let entries = scale.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        self.scale().put_back(object, entries.and_then(Value::as_list).unwrap_or_default());
    }

    fn scale(&self) -> Scale<'_> {
        Scale { replicas: self.paths.wanted, api_version: &self.api_version, versions: &self.versions }
    }

    fn manager(&self) -> Manager<'_> {
        Manager { ty: &self.ty, api_version: SCALE, subresource: "scale", versions: self }
    }

    fn writer(&self) -> Writer<'_> {
        Writer { name: &self.options.field_manager, now: &self.now, empty: &[] }
    }
}

/// A scale has one version.
impl Versions for ScaleFields<'_> {
    fn ty(&self, version: &str) -> Option<Ref<Type>> {
        (version == SCALE).then(|| self.ty.clone())
    }

    fn convert(&self, object: Value, _from: &str, to: &str) -> Option<Typed> {
        Some(Typed { ty: self.ty(to)?, value: object })
    }

    fn resets(&self, _version: &str) -> Option<&Set> {
        None
    }
}

/// What the client is told of a configuration that could not be applied.
fn refusal(error: &Error) -> Status {
    match error {
        Error::BadRequest(why) => Status::bad_request(why.clone()),
        Error::Failed(why) => crate::error::bare(why.clone()),
        Error::Conflict(conflicts) => {
            let causes = conflicts.iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".into(),
                message: conflict.message(),
                field: conflict.path.to_string(),
            });
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
