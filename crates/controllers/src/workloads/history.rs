//! The revisions of the template of a stateful set or a daemon set: controller revisions whose data is the
//! patch that brings the template back.

use super::claim::{Claim, DependentKind};
use super::dependents::Dependents;
use super::hash::revision_hash;
use super::owner::{Owner, OwnerKind};
use crate::objects::decode;
use cache::Entry;
use kinds::object_meta;
use object::label::Selector;
use object::time::Time;
use object::{Map, RawJson, Value};
use registry::{Address, Client, DeleteOptions};
use schema::status::Reason;
use schema::view::View;
use schema::views::apps::v1::ControllerRevision;
use schema::views::core::v1::PodTemplateSpec;
use schema::{Limits, Shape, Status, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The prefix of revisions in the store.
pub(crate) const PREFIX: &str = "controllerrevisions.apps";
/// The label of a pod with the name or the hash of its revision.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";
/// The label of a revision with its hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// The most bytes of the name of the owner in the name of a revision.
const LONGEST_OWNER: usize = 223;

const REVISIONS: DependentKind =
    DependentKind { group: "apps", resource: "controllerrevisions", kind: "ControllerRevision" };

/// A revision.
#[derive(Clone, Debug)]
pub(crate) struct Revision {
    pub(crate) object: Map,
}

impl Revision {
    fn read(entry: &Entry) -> Result<Self, Status> {
        decode(ControllerRevision::schema(), entry).map(|object| Self { object })
    }

    fn of(value: &Value) -> Self {
        Self { object: value.as_map().cloned().unwrap_or_default() }
    }

    pub(crate) fn name(&self) -> &str {
        object_meta::text(&self.object, "name")
    }

    /// The number of the revision.
    pub(crate) fn number(&self) -> i64 {
        ControllerRevision::of(&self.object).revision()
    }

    /// The data, as JSON.
    pub(crate) fn data(&self) -> &str {
        match self.object.get("data") {
            Some(Value::Raw(raw)) => raw.as_str(),
            _ => "",
        }
    }

    /// A label; empty if it has none.
    pub(crate) fn label(&self, key: &str) -> &str {
        ControllerRevision::of(&self.object).metadata().labels().get(key).unwrap_or_default()
    }

    fn age(&self) -> (i64, Time, &str) {
        let created = object_meta::text(&self.object, "creationTimestamp").parse().unwrap_or(Time::ZERO);
        (self.number(), created, self.name())
    }
}

/// Puts the smallest revision first.
pub(crate) fn sort(revisions: &mut [Revision]) {
    revisions.sort_by(|one, other| one.age().cmp(&other.age()));
}

/// The revisions of an owner.
pub(crate) struct History<'a> {
    pub(crate) client: &'a Client,
    pub(crate) dependents: &'a Dependents,
    pub(crate) owner: &'a Owner,
}

impl<'a> History<'a> {
    /// The claim of the owner to the revisions that it selects.
    pub(crate) fn claim(&self, selector: &'a Selector) -> Claim<'a> {
        let Self { client, dependents, owner } = *self;
        Claim { client, dependents, kind: REVISIONS, owner, selector, finalizers: &[] }
    }

    /// The revisions that the owner selects and controls, the smallest first.
    pub(crate) fn list(&self, selector: &Selector) -> Result<Vec<Revision>, Status> {
        let owned = self.dependents.controlled(self.owner.namespace(), self.owner.uid())?;
        let selected = owned.iter().filter(|revision| selector.matches(&*revision.entry));
        let mut revisions: Vec<_> =
            selected.map(|revision| Revision::read(&revision.entry)).collect::<Result<_, _>>()?;
        sort(&mut revisions);
        Ok(revisions)
    }

    /// A revision that is not there yet, with the labels of a template and its hash.
    pub(crate) fn new_revision(
        &self,
        template: &Map,
        annotations: &Map,
        data: &str,
        number: i64,
        collisions: i64,
    ) -> Revision {
        let hash = revision_hash(data, collisions);
        self.labelled_revision(template, &[(HASH_LABEL, &hash)], annotations, data, number)
    }

    /// A revision that is not there yet, with the labels of a template and others.
    pub(crate) fn labelled_revision(
        &self,
        template: &Map,
        own_labels: &[(&'static str, &str)],
        annotations: &Map,
        data: &str,
        number: i64,
    ) -> Revision {
        let mut labels = Map::new();
        for (key, value) in PodTemplateSpec::of(template).metadata().labels().iter() {
            labels.insert(key, value);
        }
        own_labels.iter().for_each(|(key, value)| drop(labels.insert(*key, *value)));
        let mut metadata = Map::new();
        metadata.insert("labels", labels);
        if !annotations.is_empty() {
            metadata.insert("annotations", annotations.clone());
        }
        metadata.insert("ownerReferences", self.owner.references());
        let mut object = Map::new();
        object.insert("metadata", metadata);
        object.insert("data", Value::Raw(RawJson::from_checked(data)));
        object.insert("revision", number);
        Revision { object }
    }

    /// The name of a revision by its data.
    pub(crate) fn name_of(&self, data: &str, collisions: i64) -> String {
        let owner = self.owner.name();
        let prefix = owner.get(..LONGEST_OWNER).unwrap_or(owner);
        format!("{prefix}-{}", revision_hash(data, collisions))
    }

    /// Creates a revision under a name that follows from its data. `Err(None)` if another revision has the
    /// name; one with the same data is the one that was wanted.
    pub(crate) async fn create(&self, revision: &Revision, name: &str) -> Result<Revision, Option<Status>> {
        let mut object = revision.object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) {
            metadata.insert("name", name);
        }
        match self.client.create(self.address(""), object.into()).await {
            Ok(created) => Ok(Revision::of(&created)),
            Err(error) if error.reason == Reason::AlreadyExists => {
                let known = Revision::of(&self.client.get(self.address(name)).await?);
                if known.data() == revision.data() { Ok(known) } else { Err(None) }
            }
            Err(error) => Err(Some(error)),
        }
    }

    /// Gives a revision another number.
    pub(crate) async fn renumber(&self, revision: &Revision, number: i64) -> Result<Revision, Status> {
        if revision.number() == number {
            return Ok(revision.clone());
        }
        let mut object = revision.object.clone();
        object.insert("revision", number);
        self.update(revision.name(), object).await
    }

    /// Replaces a revision.
    pub(crate) async fn update(&self, name: &str, object: Map) -> Result<Revision, Status> {
        let updated = self.client.update(self.address(name), object.into()).await?;
        Ok(Revision::of(&updated))
    }

    /// Deletes a revision.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), Status> {
        match self.client.delete(self.address(name), &DeleteOptions::default()).await {
            Err(error) if error.reason == Reason::NotFound => Ok(()),
            outcome => outcome,
        }
    }

    fn address<'n>(&'n self, name: &'n str) -> Address<'n> {
        Address::v1("apps", "controllerrevisions", self.owner.namespace()).named(name)
    }
}

/// The data of a revision: a patch that replaces the template of its owner. The JSON has the fields of all
/// maps in order, as the reference writes it, so that both find the revisions of each other.
pub(crate) fn template_patch(template: &Map) -> String {
    let mut encoded = Vec::new();
    json::encode(PodTemplateSpec::schema(), &Value::from(template.clone()), &mut encoded);
    let decoded = json::decode_shape(&Shape::Any, &encoded, &Limits::STORED).map(|decoded| decoded.value);
    let mut template = decoded.ok().and_then(|value| value.as_map().cloned()).unwrap_or_default();
    template.insert("$patch", "replace");
    let mut patch = String::from(r#"{"spec":{"template":"#);
    write_map(&mut patch, &template);
    patch.push_str("}}");
    patch
}

/// The template that a revision brings back; `None` if its data is no such patch.
pub(crate) fn patched_template(client: &Client, kind: &OwnerKind, revision: &Revision) -> Option<Map> {
    let decoded = client.decode(kind.address("", ""), revision.data()).ok()?;
    decoded.get("spec")?.get("template")?.as_map().cloned()
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null | Value::Bytes(_) | Value::Raw(_) => text.push_str("null"),
        Value::Bool(flag) => text.push_str(if *flag { "true" } else { "false" }),
        // Writing to a string cannot fail.
        Value::Int(number) => drop(write!(text, "{number}")),
        Value::Float(number) => drop(write!(text, "{number}")),
        Value::String(string) => text.push_str(&json::string(string.as_str())),
        Value::List(list) => {
            text.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_value(text, item);
            }
            text.push(']');
        }
        Value::Map(map) => write_map(text, map),
    }
}

fn write_map(text: &mut String, map: &Map) {
    let sorted: BTreeMap<&str, &Value> = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
    text.push('{');
    for (at, (key, value)) in sorted.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&json::string(key));
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}
