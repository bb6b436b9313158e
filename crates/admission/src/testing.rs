//! What tests of plugins share: a cache with the objects of all built-in kinds, and writes as a plugin sees
//! them.

use crate::plugins::{Builtin, Parts, PluginSettings, Shared};
use crate::{Attributes, Operation, Pick, Plugin, Request, Reservation, Warnings};
use auth::{Authorizer, User};
use cache::{Cache, CacheOptions, Change, Field, Spec};
use kinds::{ResourceType, Scope, Storage};
use object::Value;
use observe::Observation;
use schema::{GroupVersionKind, Limits, Status, json};
use std::sync::Arc;
use store::memory::Memory;
use tasks::BoxFuture;
use tokio::time::Instant;

/// The parts of a server that plugins are made of.
pub(crate) struct Fixture {
    pub(crate) cache: Arc<Cache>,
    pub(crate) authorizer: Authorizer,
    pub(crate) shared: Shared,
    pub(crate) settings: PluginSettings,
}

impl Fixture {
    /// A server without objects, in which everybody may do everything.
    pub(crate) async fn new() -> Self {
        let own = kinds::all().filter(|kind| kind.storage == Storage::Own);
        let specs = own.map(|kind| {
            let prefix = match kind.group {
                "" => kind.resource.to_owned(),
                group => format!("{}.{group}", kind.resource),
            };
            let spec = match kind.scope {
                Scope::Namespaced => Spec::namespaced(&prefix).unwrap(),
                Scope::Cluster => Spec::cluster(&prefix).unwrap(),
            };
            kind.fields.list.iter().map(kinds::SelectableField::from).fold(spec, |spec, field| {
                let path = field.paths.first().unwrap_or(&field.name).as_str();
                spec.field(Field::at(field.name.clone(), path))
            })
        });
        let cache = Cache::open(Arc::new(Memory::default()), specs, CacheOptions::default()).await;
        let (cache, settings) = (Arc::new(cache.unwrap()), PluginSettings::default());
        let shared = Shared::new(&cache, settings.gates).unwrap();
        Self { cache, authorizer: Authorizer::always_allow(), shared, settings }
    }

    /// Stores an object as it is: `put("limitranges", json)`. Its kind and version have to come first.
    pub(crate) async fn put(&self, prefix: &str, json: &str) {
        let resource = self.cache.resource(prefix).unwrap();
        let object: Value =
            schema::json::decode_shape(&schema::Shape::Any, json.as_bytes(), &Limits::STORED).unwrap().value;
        let text = |key: &str| {
            let metadata = object.get("metadata").and_then(|metadata| metadata.get(key));
            metadata.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let change = Change::put(&resource, &text("namespace"), &text("name"), json.to_owned());
        self.cache.commit(change).await.unwrap();
    }

    /// A plugin, with the text of its configuration.
    pub(crate) fn make<P: Builtin>(&self, configuration: Option<&str>) -> Result<P, String> {
        P::make(&Parts {
            cache: &self.cache,
            authorizer: &self.authorizer,
            shared: &self.shared,
            settings: self.settings,
            configuration: configuration.map(str::as_bytes),
        })
    }
}

/// A write, as text: the resource, the caller, and the states before and after in the working version.
#[derive(Clone)]
pub(crate) struct Write<'a> {
    pub(crate) operation: Operation,
    pub(crate) group: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) old: Option<&'a str>,
    pub(crate) new: Option<&'a str>,
    pub(crate) user: User,
    pub(crate) dry_run: bool,
    pub(crate) warnings: Warnings,
    pub(crate) observation: Observation,
    pub(crate) deadline: Option<Instant>,
    pub(crate) asks_webhooks: bool,
    /// Parameters of policies: resource, namespace, object.
    pub(crate) params: Vec<(&'a str, &'a str, Value)>,
}

impl<'a> Write<'a> {
    /// A create of an object of the core group.
    pub(crate) fn create(resource: &'a str, new: &'a str) -> Self {
        Self {
            operation: Operation::Create,
            group: "",
            resource,
            subresource: "",
            old: None,
            new: Some(new),
            user: User { name: "alice".into(), ..User::default() },
            dry_run: false,
            warnings: Warnings::default(),
            observation: Observation::none(),
            deadline: None,
            asks_webhooks: true,
            params: Vec::new(),
        }
    }

    /// An update of an object of the core group.
    pub(crate) fn update(resource: &'a str, old: &'a str, new: &'a str) -> Self {
        Self { operation: Operation::Update, old: Some(old), ..Self::create(resource, new) }
    }

    /// Mutating admission by one plugin: what it makes of the object.
    pub(crate) async fn mutate(&self, plugin: &dyn Plugin) -> Result<Option<Value>, Status> {
        let resource = self.resource_type();
        let (old, mut new) = (self.tree(&resource, self.old), self.tree(&resource, self.new));
        let shown = new.clone().or_else(|| old.clone()).unwrap_or_default();
        plugin.mutate(&self.attributes(&resource, &shown, old.as_ref()), new.as_mut()).wait().await?;
        Ok(new)
    }

    /// Validating admission by one plugin.
    pub(crate) async fn validate(&self, plugin: &dyn Plugin) -> Result<Option<Reservation>, Status> {
        let resource = self.resource_type();
        let (old, new) = (self.tree(&resource, self.old), self.tree(&resource, self.new));
        let shown = new.clone().or_else(|| old.clone()).unwrap_or_default();
        plugin.validate(&self.attributes(&resource, &shown, old.as_ref()), new.as_ref()).wait().await
    }

    /// What something makes of the new object, which sees the write as plugins do.
    pub(crate) async fn through<T>(
        &self,
        step: impl AsyncFnOnce(&Attributes<'_>, &mut Value) -> Result<T, Status>,
    ) -> Result<(T, Value), Status> {
        let resource = self.resource_type();
        let (old, new) = (self.tree(&resource, self.old), self.tree(&resource, self.new));
        let shown = new.clone().or_else(|| old.clone()).unwrap_or_default();
        let mut object = shown.clone();
        let outcome = step(&self.attributes(&resource, &shown, old.as_ref()), &mut object).await?;
        Ok((outcome, object))
    }

    fn resource_type(&self) -> ResourceType {
        let kind = kinds::all().find(|kind| kind.group == self.group && kind.resource == self.resource);
        let Some(kind) = kind else {
            // One that is not built in, with objects like certificate signing requests.
            let name = self.resource.into();
            let kind = GroupVersionKind { group: self.group.into(), version: "v1".into(), kind: name };
            let ty = schema::builtin::by_name("certificates.v1.CertificateSigningRequest").unwrap();
            return ResourceType::custom(&kind, self.resource, Scope::Cluster, schema::Ref::Static(ty));
        };
        ResourceType::builtin(kind, kind.versions.first().unwrap()).unwrap()
    }

    fn tree(&self, resource: &ResourceType, text: Option<&str>) -> Option<Value> {
        let ty = match resource.subresource(self.subresource).map(|subresource| &subresource.body) {
            Some(kinds::SubresourceBody::Kind(ty)) => schema::Ref::Static(ty()),
            _ => resource.ty.clone(),
        };
        text.map(|text| json::decode(&ty, text.as_bytes(), &Limits::REQUEST).unwrap().value)
    }

    fn attributes<'b>(
        &'b self,
        resource: &'b ResourceType,
        shown: &'b Value,
        old: Option<&'b Value>,
    ) -> Attributes<'b> {
        let text = |key: &str| {
            let metadata = shown.get("metadata").and_then(|metadata| metadata.get(key));
            metadata.and_then(Value::as_str).unwrap_or_default()
        };
        Attributes {
            operation: self.operation,
            resource,
            subresource: self.subresource,
            namespace: text("namespace"),
            name: text("name"),
            old,
            user: &self.user,
            observation: &self.observation,
            dry_run: self.dry_run,
            warnings: &self.warnings,
            request: self,
            passes: None,
        }
    }
}

impl Request for Write<'_> {
    fn options(&self, _operation: Operation) -> Value {
        Value::Null
    }

    fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn asks_webhooks(&self) -> bool {
        self.asks_webhooks
    }

    fn equivalents(&self) -> Vec<Arc<ResourceType>> {
        vec![Arc::new(self.resource_type())]
    }

    fn resources_of(&self, kind: &GroupVersionKind) -> Vec<Arc<ResourceType>> {
        let rows = kinds::all().filter(|row| kind.group == row.group && kind.kind == row.kind);
        let versions = rows.flat_map(|row| row.versions.iter().map(move |version| (row, version)));
        let named = versions.filter(|(_, version)| kind.version == version.name);
        named.filter_map(|(row, version)| ResourceType::builtin(row, version)).map(Arc::new).collect()
    }

    fn parameters<'a>(
        &'a self,
        resource: &'a ResourceType,
        namespace: &'a str,
        pick: Pick<'a>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        let is_picked = |params: &&(&str, &str, Value)| {
            let metadata = params.2.get("metadata").and_then(Value::as_map);
            let label = |key: &str| metadata?.get("labels")?.get(key)?.as_str();
            params.0 == resource.resource.as_str()
                && params.1 == namespace
                && match pick {
                    Pick::Name(name) => metadata.and_then(|of| of.get("name")?.as_str()) == Some(name),
                    Pick::Labels(selector) => selector.matches_with(label),
                }
        };
        let found = self.params.iter().filter(is_picked).map(|params| params.2.clone()).collect();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn to_version<'a>(
        &'a self,
        object: Value,
        _resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(std::future::ready(Ok(object)))
    }

    fn to_working<'a>(
        &'a self,
        object: Value,
        _resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>> {
        Box::pin(std::future::ready(Ok(object)))
    }
}
