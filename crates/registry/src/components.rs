//! `ComponentStatus`: the health of the components of a cluster. It is checked when a client reads it, and
//! not stored.

use crate::list::filter;
use crate::{ListOptions, Registry, Target};
use futures_util::future::join_all;
use object::{Map, Value};
use schema::Status;
use tasks::BoxFuture;

/// The components of a cluster.
pub trait Components: Send + Sync {
    /// The names of the components, sorted.
    fn names(&self) -> &[&'static str];

    /// Checks the health of the component `name`. The future completes within seconds.
    fn health<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Health>;
}

/// The health of a component: its condition `Healthy`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether the component is healthy; `None` if that is not known.
    pub is_healthy: Option<bool>,
    /// The answer of the component, or why it gave none.
    pub message: String,
    /// Why the check could not be made.
    pub error: String,
}

impl Registry {
    /// The statuses that the options select, by name.
    pub(crate) async fn component_statuses(
        &self,
        target: &Target<'_>,
        options: &ListOptions,
    ) -> Result<Vec<Value>, Status> {
        target.check_verb(&["list"])?;
        let Some(components) = &self.config().components else { return Ok(Vec::new()) };
        let filter = filter(target, options)?;
        let is_picked = |name: &&&'static str| {
            let field = |field: &str| (field == "metadata.name").then_some(**name);
            let is_named = filter.name.as_deref().is_none_or(|wanted| wanted == **name);
            is_named && filter.labels.matches_with(|_| None) && filter.fields.matches_with(field)
        };
        let names = components.names().iter().filter(is_picked);
        Ok(join_all(names.map(async |name| status(name, components.health(name).await))).await)
    }

    /// The status of one component.
    pub(crate) async fn component_status(&self, target: &Target<'_>) -> Result<Value, Status> {
        match &self.config().components {
            Some(components) if components.names().contains(&target.name) => {
                Ok(status(target.name, components.health(target.name).await))
            }
            _ => Err(Status::not_found(&target.served.group, &target.served.singular, target.name)),
        }
    }
}

fn status(name: &str, health: Health) -> Value {
    let mut condition = Map::from_iter([
        ("type", "Healthy"),
        (
            "status",
            match health.is_healthy {
                Some(true) => "True",
                Some(false) => "False",
                None => "Unknown",
            },
        ),
    ]);
    for (field, text) in [("message", health.message), ("error", health.error)] {
        if !text.is_empty() {
            condition.insert(field, text);
        }
    }
    let mut status = Map::new();
    status.insert("metadata", Map::from_iter([("name", name)]));
    status.insert("conditions", Value::from_iter([condition]));
    status.into()
}
