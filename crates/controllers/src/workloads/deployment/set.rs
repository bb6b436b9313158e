//! A replica set of a deployment.

use super::super::replicas;
use crate::objects::decode;
use cache::Entry;
use kinds::object_meta;
use object::time::Time;
use object::{Map, Value};
use schema::Status;
use schema::semantic::equal_maps;
use schema::view::View;
use schema::views::apps::v1::{ReplicaSet, ReplicaSetStatus};
use schema::views::core::v1::PodTemplateSpec;
use std::cmp::Reverse;

/// The label of the hash of a template.
pub(super) const HASH_LABEL: &str = "pod-template-hash";

/// A replica set.
#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) object: Map,
}

impl Set {
    pub(super) fn read(entry: &Entry) -> Result<Self, Status> {
        decode(ReplicaSet::schema(), entry).map(|object| Self { object })
    }

    pub(super) fn name(&self) -> &str {
        object_meta::text(&self.object, "name")
    }

    pub(super) fn uid(&self) -> &str {
        object_meta::text(&self.object, "uid")
    }

    /// `spec.replicas`.
    pub(super) fn replicas(&self) -> i64 {
        replicas::replicas(&self.object)
    }

    pub(super) fn status(&self) -> ReplicaSetStatus<'_> {
        ReplicaSet::of(&self.object).status()
    }

    pub(super) fn template(&self) -> Map {
        template(&self.object)
    }

    pub(super) fn is_deleting(&self) -> bool {
        object_meta::is_deleting(&self.object)
    }

    /// Whether the status is that of the newest spec.
    pub(super) fn is_observed(&self) -> bool {
        ReplicaSet::of(&self.object).metadata().generation() <= self.status().observed_generation()
    }

    fn created(&self) -> Time {
        object_meta::text(&self.object, "creationTimestamp").parse().unwrap_or(Time::ZERO)
    }

    /// The order by age, the oldest first.
    fn age(&self) -> (Time, &str) {
        (self.created(), self.name())
    }
}

/// The template of a deployment or replica set.
pub(super) fn template(object: &Map) -> Map {
    let template = object.get("spec").and_then(|spec| spec.get("template"));
    template.and_then(Value::as_map).cloned().unwrap_or_default()
}

pub(super) fn oldest_first(sets: &mut [Set]) {
    sets.sort_by(|one, other| one.age().cmp(&other.age()));
}

/// The largest first, and the newest first of those with the same size.
pub(super) fn largest_and_newest_first(sets: &mut [Set]) {
    sets.sort_by(|one, other| {
        (Reverse(one.replicas()), Reverse(one.age())).cmp(&(Reverse(other.replicas()), Reverse(other.age())))
    });
}

/// The largest first, and the oldest first of those with the same size.
pub(super) fn largest_and_oldest_first(sets: &mut [Set]) {
    sets.sort_by(|one, other| {
        (Reverse(one.replicas()), one.age()).cmp(&(Reverse(other.replicas()), other.age()))
    });
}

/// The smallest revision first. Sets without a valid one count by their age.
pub(super) fn by_revision(sets: &mut [Set]) {
    sets.sort_by(|one, other| {
        let key = |set: &Set| super::revision(&set.object).unwrap_or_default();
        (key(one), one.age()).cmp(&(key(other), other.age()))
    });
}

/// The sum of a count of replica sets.
pub(super) fn sum<'a>(sets: impl IntoIterator<Item = &'a Set>, count: impl Fn(&Set) -> i64) -> i64 {
    sets.into_iter().map(count).sum()
}

/// Whether two templates mean the same but for the label of the hash.
pub(super) fn is_same_template(one: &Map, other: &Map) -> bool {
    equal_maps(PodTemplateSpec::schema(), &without_hash(one.clone()), &without_hash(other.clone()))
}

/// A template without the label of the hash.
pub(super) fn without_hash(mut template: Map) -> Map {
    let labels = template.get_mut("metadata").and_then(|metadata| metadata.as_map_mut()?.get_mut("labels"));
    if let Some(labels) = labels.and_then(Value::as_map_mut)
        && labels.contains_key(HASH_LABEL)
    {
        labels.remove(HASH_LABEL);
    }
    template
}
