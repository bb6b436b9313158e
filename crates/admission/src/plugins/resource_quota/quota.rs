//! A resource quota, as it is read once when it changes.

use super::super::resource_list::ResourceList;
use super::evaluator::Evaluator;
use super::scope::Scope;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1::ResourceQuota;

/// A resource quota.
#[derive(Debug)]
pub(super) struct Quota {
    object: Map,
    pub(super) name: String,
    pub(super) namespace: String,
    /// The limits that are asked for.
    pub(super) wanted: ResourceList,
    /// The limits that hold, and what is used of them.
    pub(super) hard: ResourceList,
    pub(super) used: ResourceList,
    pub(super) scopes: Vec<Scope>,
}

impl Quota {
    pub(super) fn read(object: &Map) -> Self {
        let quota = ResourceQuota::of(object);
        let (metadata, spec, status) = (quota.metadata(), quota.spec(), quota.status());
        Self {
            name: metadata.name().to_owned(),
            namespace: metadata.namespace().to_owned(),
            wanted: ResourceList::read(spec.hard()),
            hard: ResourceList::read(status.hard()),
            used: ResourceList::read(status.used()),
            scopes: Scope::all(spec),
            object: object.clone(),
        }
    }

    /// The object with another status, in the version that was read.
    pub(super) fn with_status(&self, hard: &ResourceList, used: &ResourceList) -> Value {
        let mut status = Map::new();
        for (key, list) in [("hard", hard), ("used", used)] {
            if !list.is_empty() {
                status.insert(key, list.to_value());
            }
        }
        let mut object = self.object.clone();
        object.insert("status", status);
        object.into()
    }

    /// The names of the limits that hold and that an evaluator counts.
    pub(super) fn counted_by(&self, evaluator: &Evaluator) -> Vec<&str> {
        self.hard.names().filter(|name| evaluator.counts(name)).collect()
    }

    /// Whether the limits that hold apply to an object.
    pub(super) fn applies_to(&self, object: &Map, evaluator: &Evaluator) -> Result<bool, String> {
        let is_in_scopes = evaluator.is_in_all(object, &self.scopes)?;
        Ok(is_in_scopes && self.hard.names().any(|name| evaluator.counts(name)))
    }
}
