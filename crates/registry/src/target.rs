//! The target of a verb: a served kind and the name of an object, with the proof of authorization.

use crate::catalog::{Catalog, Served};
use crate::commit::WriteMode;
use crate::damaged::Damaged;
use crate::prepare;
use crate::stored::{InPlace, Stored};
use auth::{Attributes, Authorized};
use cache::Entry;
use kinds::{Action, Subresource, WrittenPart};
use object::Value;
use observe::{Observation, Span};
use schema::{Ref, Status, Type};
use std::sync::Arc;

/// The kind, subresource, namespace and name that a verb is called for. They are taken from the proof of
/// authorization, and other crates cannot set them, so a verb cannot be called for anything that was not
/// authorized.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub(crate) proof: &'a Authorized,
    pub(crate) catalog: &'a Catalog,
    /// The kind.
    pub(crate) served: &'a Arc<Served>,
    /// The subresource.
    pub(crate) subresource: Option<&'a Subresource>,
    /// The namespace; empty for all namespaces, and for kinds without namespaces.
    pub(crate) namespace: &'a str,
    /// The name; empty for a collection.
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// The target of an authorized request, with the served kind and subresource that it was routed to.
    pub fn new(
        proof: &'a Authorized,
        catalog: &'a Catalog,
        served: &'a Arc<Served>,
        subresource: Option<&'a Subresource>,
    ) -> Result<Self, Status> {
        let auth::Target::Resource { group, version, resource, subresource: part, namespace, name } =
            &proof.attributes().target
        else {
            return Err(Status::unknown_resource());
        };
        let is_same = *group == *served.group
            && *version == *served.version
            && *resource == *served.resource
            && *part == *subresource.map_or("", |subresource| subresource.name);
        if !is_same {
            log::error!(resource = resource.as_str(); "a permission was used for another resource");
            return Err(Status::internal_error("the permission is for another resource"));
        }
        // Authorization has a namespace object in its own namespace; the store has it in none.
        let namespace = if served.is_namespaced() { namespace.as_str() } else { "" };
        Ok(Self { proof, catalog, served, subresource, namespace, name })
    }

    /// The target of an authorized request, looked up in a catalog.
    pub fn find(proof: &'a Authorized, catalog: &'a Catalog) -> Result<Self, Status> {
        let auth::Target::Resource { group, version, resource, subresource, .. } = &proof.attributes().target
        else {
            return Err(Status::unknown_resource());
        };
        let served = catalog.find(group, version, resource).ok_or_else(Status::unknown_resource)?;
        let subresource = match subresource.as_str() {
            "" => None,
            name => Some(served.subresource(name).ok_or_else(Status::unknown_resource)?),
        };
        Self::new(proof, catalog, served, subresource)
    }

    /// What is noted of the request.
    pub fn observation(&self) -> &'a Observation {
        self.proof.observation()
    }

    /// The namespace; empty for all namespaces, and for kinds without namespaces.
    pub fn namespace(&self) -> &'a str {
        self.namespace
    }

    /// The span of a change in the store, by the names of the reference.
    pub(crate) fn store_span(&self, name: &'static str) -> Span {
        let observation = self.observation();
        observation.span(name, || {
            let key = match self.namespace {
                "" => format!("/{}/{}", self.served.resource, self.name),
                namespace => format!("/{}/{namespace}/{}", self.served.resource, self.name),
            };
            vec![
                ("audit-id", observation.audit_id().into()),
                ("key", key.into()),
                ("type", self.served.kind.to_string().into()),
                ("resource", self.served.resource.to_string().into()),
            ]
        })
    }

    /// The kind.
    pub fn served(&self) -> &'a Arc<Served> {
        self.served
    }

    /// An object in the version of the request with the defaults of that version, as an audit log shows the
    /// body of a write.
    pub fn with_defaults(&self, object: &Value) -> Value {
        let mut object = object.clone();
        // An object that is too large with them is refused later.
        let _ = prepare::default(self.served, &mut object);
        object
    }

    /// The subresource; `None` for the object itself.
    pub fn subresource(&self) -> Option<&'a Subresource> {
        self.subresource
    }

    /// The name of the object; empty for a collection.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The collection that the object belongs to. A create through the path of an object, which custom kinds
    /// allow, takes the name from the body.
    #[must_use]
    pub fn collection(self) -> Self {
        Self { name: "", ..self }
    }

    /// The type of the objects in another version, such as `v1`, if they are served in it.
    pub fn ty_in(&self, version: &str) -> Option<Ref<Type>> {
        self.in_version(&self.served.group, version).map(|served| served.ty.clone())
    }

    /// The same objects in another group and version, if they are served in it.
    pub(crate) fn in_version(&self, group: &str, version: &str) -> Option<&'a Arc<Served>> {
        let own = self.served;
        if own.group == group && own.version == version {
            return Some(own);
        }
        let found = self.catalog.find(group, version, &own.resource)?;
        found.shares_objects(own).then_some(found)
    }

    /// For a kind with a conversion webhook, this target in the version of the stored bytes of `entry`, for
    /// work on the metadata without the webhook; for any other kind, this target.
    pub(crate) fn in_place(&self, entry: &Entry) -> Self {
        let Some(Stored { in_place: InPlace::Through(views), .. }) = &self.served.stored else {
            return *self;
        };
        let is_of = |view: &&Arc<Served>| {
            view.stored.as_ref().is_some_and(|stored| stored.is_in_working_version(entry))
        };
        views.iter().find(is_of).map_or(*self, |served| Self { served, ..*self })
    }

    /// The kind in the requested version.
    pub(crate) fn requested(&self) -> &'a Arc<Served> {
        match &self.proof.attributes().target {
            auth::Target::Resource { group, version, resource, .. } if *version != *self.served.version => {
                self.catalog.find(group, version, resource).unwrap_or(self.served)
            }
            _ => self.served,
        }
    }

    /// The stored objects of the kind: 405 for a kind without them, such as a review.
    pub(crate) fn stored(&self) -> Result<&'a Stored, Status> {
        self.served.stored.as_ref().ok_or_else(Status::method_not_allowed)
    }

    /// The name of the subresource; empty for the object itself.
    pub(crate) fn subresource_name(&self) -> &'a str {
        self.subresource.map_or("", |subresource| subresource.name)
    }

    /// The part of the object that the request writes; `None` for the object itself.
    pub(crate) fn part(&self) -> Option<WrittenPart> {
        match self.subresource.map(|subresource| &subresource.action) {
            Some(Action::Part(part)) => Some(*part),
            _ => None,
        }
    }

    /// The attributes to authorize another verb on this target.
    pub(crate) fn attributes_for(&self, verb: &'static str) -> Attributes {
        Attributes { verb: verb.into(), ..self.proof.attributes().clone() }
    }

    /// Refuses a proof that is for another verb: a guard against mistakes of the caller.
    pub(crate) fn check_verb(&self, verbs: &[&str]) -> Result<(), Status> {
        let given = &*self.proof.attributes().verb;
        if verbs.contains(&given) {
            return Ok(());
        }
        log::error!(given, wanted:? = verbs; "a permission was used for another verb");
        Err(Status::internal_error("the permission is for another verb"))
    }

    /// Refuses a name that no object can have.
    pub(crate) fn check_name(&self) -> Result<(), Status> {
        let messages = object::name::name_is_path_segment(self.name, object::name::Mode::Name);
        if messages.is_empty() {
            return Ok(());
        }
        let all: Vec<&str> = messages.iter().map(|message| &**message).collect();
        let name = object::quote::Quoted(self.name);
        Err(Status::bad_request(format!("Name parameter invalid: {name}: {}", all.join(";"))))
    }

    /// 404 for the object.
    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(&self.served.group, &self.served.resource, self.name)
    }

    /// 500 for an object whose stored bytes are damaged.
    pub(crate) fn damaged(&self, damaged: &Damaged) -> Status {
        damaged.status(&self.key(WriteMode::DryRun))
    }

    /// 409 for the object.
    pub(crate) fn conflict(&self, why: &str) -> Status {
        Status::conflict(&self.served.group, &self.served.resource, self.name, why)
    }

    /// The object's key in the store of the reference, as its messages show it. In a dry run, and for an
    /// object that cannot be read, the reference leaves out `/registry`.
    pub(crate) fn key(&self, mode: WriteMode) -> String {
        let namespace =
            if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let root = if mode == WriteMode::DryRun { "" } else { "/registry" };
        format!("{root}/{}/{namespace}{}", self.served.key_prefix, self.name)
    }
}
