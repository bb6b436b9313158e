//! A write request in the form that admission takes.

use crate::convert::map;
use crate::delete_unreadable::OPTION;
use crate::error::status;
use crate::{DamagedObjects, DeleteOptions, Served, Target, WriteOptions, object_meta};
use admission::{Attributes, Operation, Pick, Request, Warnings};
use cache::{Filter, Freshness, Query};
use kinds::{ResourceType, SubresourceBody};
use merge::FieldValidation;
use object::{Map, Value};
use schema::{GroupVersionKind, Status, json};
use std::sync::Arc;
use tasks::BoxFuture;
use tokio::time::Instant;

/// A write, delete or connect request for admission: its target and its options.
pub(crate) struct WriteRequest<'a> {
    target: &'a Target<'a>,
    options: RequestOptions<'a>,
}

enum RequestOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// The warnings of a connection, whose options are its object.
    Connect(&'a Warnings),
}

impl<'a> WriteRequest<'a> {
    pub(crate) fn write(target: &'a Target<'a>, options: &'a WriteOptions) -> Self {
        Self { target, options: RequestOptions::Write(options) }
    }

    pub(crate) fn delete(target: &'a Target<'a>, options: &'a DeleteOptions) -> Self {
        Self { target, options: RequestOptions::Delete(options) }
    }

    pub(crate) fn connect(target: &'a Target<'a>, warnings: &'a Warnings) -> Self {
        Self { target, options: RequestOptions::Connect(warnings) }
    }

    /// The admission attributes. `old` is the object before the write.
    pub(crate) fn attributes<'b>(&'b self, operation: Operation, old: Option<&'b Value>) -> Attributes<'b> {
        let target = self.target;
        Attributes {
            operation,
            resource: &target.requested().resource_type,
            subresource: target.subresource_name(),
            namespace: target.namespace,
            name: target.name,
            old,
            user: target.proof.user(),
            observation: target.proof.observation(),
            dry_run: match self.options {
                RequestOptions::Write(options) => options.dry_run,
                RequestOptions::Delete(options) => options.is_dry_run(),
                RequestOptions::Connect(_) => false,
            },
            warnings: self.warnings(),
            request: self,
            passes: None,
        }
    }

    fn warnings(&self) -> &Warnings {
        match self.options {
            RequestOptions::Write(options) => &options.warnings,
            RequestOptions::Delete(options) => &options.warnings,
            RequestOptions::Connect(warnings) => warnings,
        }
    }

    /// What is served of a resource.
    fn served(&self, resource: &ResourceType) -> Result<&'a Arc<Served>, Status> {
        let ResourceType { group, version, resource, .. } = resource;
        self.target.catalog.find(group, version, resource).ok_or_else(Status::unknown_resource)
    }

    /// Whether the body is of the subresource's own kind, such as `Scale`. Such a kind has one version.
    fn has_own_kind(&self) -> bool {
        self.target
            .subresource
            .is_some_and(|subresource| !matches!(subresource.body, SubresourceBody::Object))
    }
}

impl Request for WriteRequest<'_> {
    fn options(&self, operation: Operation) -> Value {
        let mut object = Map::new();
        let kind = match operation {
            Operation::Connect => return Value::Null,
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
        };
        object.insert("kind", kind);
        object.insert("apiVersion", "meta.k8s.io/v1");
        match self.options {
            RequestOptions::Write(options) => write_options(options, &mut object),
            RequestOptions::Delete(options) => delete_options(options, &mut object),
            RequestOptions::Connect(_) => return Value::Null,
        }
        object.into()
    }

    fn deadline(&self) -> Option<Instant> {
        match self.options {
            RequestOptions::Write(options) => options.deadline,
            RequestOptions::Delete(options) => options.deadline,
            RequestOptions::Connect(_) => None,
        }
    }

    fn asks_webhooks(&self) -> bool {
        !matches!(self.options, RequestOptions::Write(options) if options.is_startup)
    }

    fn equivalents(&self) -> Vec<Arc<ResourceType>> {
        let served = self.target.served;
        let all = self.target.catalog.versions_of(served).filter(|other| served.shares_objects(other));
        let found: Vec<_> = all.map(|other| other.resource_type.clone()).collect();
        // A kind without stored objects, such as a review, is equivalent to itself only.
        if found.is_empty() { vec![served.resource_type.clone()] } else { found }
    }

    fn resources_of(&self, kind: &GroupVersionKind) -> Vec<Arc<ResourceType>> {
        let GroupVersionKind { group, version, kind } = kind;
        let served = self.target.catalog.group_version(group, version);
        let resources = served.iter().flat_map(|served| &served.resources);
        let of_kind = resources.filter(|served| served.kind == *kind);
        of_kind.map(|served| served.resource_type.clone()).collect()
    }

    fn parameters<'a>(
        &'a self,
        resource: &'a ResourceType,
        namespace: &'a str,
        pick: Pick<'a>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            let served = self.served(resource)?;
            let Some(stored) = &served.stored else { return Ok(Vec::new()) };
            let entries = match pick {
                Pick::Name(name) => {
                    let found = stored.resource.get(namespace, name, Freshness::Any).await;
                    Vec::from_iter(found.map_err(status)?)
                }
                Pick::Labels(selector) => {
                    let within =
                        if namespace.is_empty() { Filter::all() } else { Filter::namespace(namespace) };
                    let filter = within.labels(selector.clone());
                    let found = stored.resource.list(Query::new(Freshness::Any, filter)).await;
                    let found = found.map_err(status)?;
                    DamagedObjects::of_cache(served, &found.damaged).refuse(served)?;
                    found.collect()
                }
            };
            let mut objects = served.read(&entries).await?;
            for object in &mut objects {
                if let (false, Some(object)) = (served.is_custom(), object.as_map_mut()) {
                    // As in the reference, whose copies of built-in objects are without managed fields.
                    object_meta::remove(object, &["managedFields"]);
                }
                json::make_plain(&served.ty, object);
            }
            Ok(objects)
        })
    }

    fn to_version<'a>(
        &'a self,
        object: Value,
        resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(async move {
            if self.has_own_kind() {
                return Ok(object);
            }
            let served = self.served(resource)?;
            served.out_of_working_of(self.target.served, object).await
        })
    }

    fn to_working<'a>(
        &'a self,
        mut object: Value,
        resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(async move {
            map(&object)?;
            if self.has_own_kind() {
                return Ok(object);
            }
            let served = self.served(resource)?;
            crate::prepare::default(served, &mut object)?;
            let object = self.target.served.import(served, object).await?;
            self.target.served.to_working(object).await
        })
    }
}

fn write_options(options: &WriteOptions, object: &mut Map) {
    if options.dry_run {
        object.insert("dryRun", Value::from(vec![Value::from("All")]));
    }
    if options.names_manager {
        object.insert("fieldManager", options.field_manager.as_str());
    }
    if options.names_validation {
        let name = match options.field_validation {
            FieldValidation::Ignore => "Ignore",
            FieldValidation::Warn => "Warn",
            FieldValidation::Strict => "Strict",
        };
        object.insert("fieldValidation", name);
    }
}

fn delete_options(options: &DeleteOptions, object: &mut Map) {
    if let Some(seconds) = options.grace_period_seconds {
        object.insert("gracePeriodSeconds", seconds);
    }
    let mut preconditions = Map::new();
    for (key, value) in [("uid", &options.uid), ("resourceVersion", &options.resource_version)] {
        if let Some(value) = value {
            preconditions.insert(key, value.as_str());
        }
    }
    if !preconditions.is_empty() {
        object.insert("preconditions", preconditions);
    }
    if let Some(orphan) = options.orphan_dependents {
        object.insert("orphanDependents", orphan);
    }
    if let Some(policy) = &options.propagation_policy {
        object.insert("propagationPolicy", policy.as_str());
    }
    if !options.dry_run.is_empty() {
        let values: Vec<Value> = options.dry_run.iter().map(|value| value.as_str().into()).collect();
        object.insert("dryRun", values);
    }
    if let Some(ignore) = options.ignore_read_errors {
        object.insert(OPTION, ignore);
    }
}
