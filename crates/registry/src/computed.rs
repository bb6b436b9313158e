//! Kinds whose objects are computed when a client reads them, and not stored.
//!
//! They can be read and listed, and nothing else. They come and go while the server runs, like custom kinds.

use crate::catalog::{CatalogChange, Served};
use crate::list::filter;
use crate::{ListOptions, Registry, Target};
use kinds::ResourceType;
use object::{Text, Value};
use schema::Status;
use std::collections::HashMap;
use std::sync::Arc;
use tasks::BoxFuture;

/// Computes the objects of a kind.
pub trait Computed: Send + Sync {
    /// The objects in a namespace, or of all namespaces if it is empty; the one called `name`, if there is a
    /// name. They are in the order of lists.
    fn objects<'a>(
        &'a self,
        namespace: &'a str,
        name: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;
}

impl Registry {
    /// Serves computed kinds from the next request on.
    pub async fn serve_computed(&self, kinds: Vec<(ResourceType, Arc<dyn Computed>)>) {
        let changes = kinds.into_iter().map(|(resource_type, computed)| CatalogChange {
            group: resource_type.group.clone(),
            resource: resource_type.resource.clone(),
            now: vec![Arc::new(Served::computed(Arc::new(resource_type), computed))],
        });
        self.change_served(changes.collect()).await;
    }

    /// Stops serving computed kinds, by group and resource. Other kinds of these names stay.
    pub async fn stop_computed(&self, kinds: impl IntoIterator<Item = (&'static str, &'static str)>) {
        let catalog = self.catalog();
        let is_computed = |(group, resource): &(&str, &str)| {
            catalog.custom(group, resource).any(|served| served.computed.is_some())
        };
        let changes = kinds.into_iter().filter(is_computed).map(|(group, resource)| CatalogChange {
            group: group.into(),
            resource: resource.into(),
            now: Vec::new(),
        });
        self.change_served(changes.collect()).await;
    }

    /// The objects of a kind that are not stored, as far as the options select them.
    pub async fn unstored(&self, target: &Target<'_>, options: &ListOptions) -> Result<Vec<Value>, Status> {
        let Some(computed) = &target.served.computed else {
            return self.component_statuses(target, options).await;
        };
        target.check_verb(&["list"])?;
        let filter = filter(target, options)?;
        let mut objects = computed.objects(target.namespace, filter.name.as_deref()).await?;
        objects.retain(|object| {
            let metadata = object.get("metadata").and_then(Value::as_map);
            let text = |key: &str| metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
            let labels = metadata.and_then(|metadata| metadata.get("labels")).and_then(Value::as_map);
            let labels: HashMap<&str, &str> = labels
                .into_iter()
                .flat_map(|labels| labels.iter())
                .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
                .collect();
            let field = |field: &str| text(field.strip_prefix("metadata.")?);
            filter.labels.matches_with(|key| labels.get(key).copied()) && filter.fields.matches_with(field)
        });
        Ok(objects)
    }

    /// One object of a kind that is not stored.
    pub(crate) async fn unstored_object(&self, target: &Target<'_>) -> Result<Value, Status> {
        let Some(computed) = &target.served.computed else { return self.component_status(target).await };
        let mut found = computed.objects(target.namespace, Some(target.name)).await?;
        found.pop().ok_or_else(|| {
            Status::not_found(&target.served.group, &Text::from(&*target.served.resource), target.name)
        })
    }
}
