//! From a definition to the kind that the registry serves.

use crate::columns::Table;
use crate::conditions;
use crate::conversion;
use crate::definition::read_schema;
use cache::Resource;
use kinds::{
    Action, CustomStrategy, Generation, ResourceType, ScalePaths, Scope, SelectableField, Subresource,
    object_meta, preferred_first,
};
use object::json_path::JsonPath;
use object::path::Element;
use object::path_set::Set;
use object::{Map, Text, Value};
use registry::{CustomKind, CustomVersion};
use schema::structural::{CompileError, Node, Structural};
use schema::view::{Items, View};
use schema::views::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
    CustomResourceSubresourceScale, JSONSchemaProps,
};
use schema::{Builder, GroupVersionKind, Ref};
use std::borrow::Cow;
use std::sync::Arc;

/// Why a definition cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schema cannot be compiled.
    #[error("version {version}: {error}")]
    Schema {
        /// The version.
        version: String,
        /// The reason.
        error: CompileError,
    },
    /// The definition cannot be decoded.
    #[error("{0}")]
    Unreadable(String),
    /// The definition has no storage version.
    #[error("no version is the storage version")]
    Storage,
    /// The definition has no accepted names yet.
    #[error("not all names are accepted")]
    Names,
}

/// What kinds are made with besides their definitions.
pub struct Sources {
    /// The definitions, from which documents read schemas when somebody asks for them.
    pub definitions: Arc<Resource>,
    /// Connections to conversion webhooks.
    pub clients: conversion::Clients,
}

/// The kind that a definition describes, by the names that its status accepts.
pub fn kind_of(definition: &Map, sources: &Sources) -> Result<CustomKind, Error> {
    let view = CustomResourceDefinition::of(definition);
    let (spec, names) = (view.spec(), view.status().accepted_names());
    let named = [names.plural(), names.singular(), names.kind(), names.list_kind()];
    if named.contains(&"") {
        return Err(Error::Names);
    }
    let versions = spec.versions();
    let storage = versions.iter().find(|version| version.storage()).ok_or(Error::Storage)?;
    let announced_storage: Option<Text> = storage
        .served()
        .then(|| format!("{}/{}/{}", spec.group(), storage.name(), spec.names().kind()).into());
    let is_terminating = conditions::is_true(view.status().conditions(), "Terminating");
    let stored_as = structural(spec, storage)?;
    let mut custom = Vec::with_capacity(versions.len());
    for version in versions.iter() {
        let schema = structural(spec, version)?;
        let subresources = subresources(version);
        let scale = subresources.iter().find_map(|subresource| match &subresource.action {
            Action::Scale(fields) => Some(fields.clone()),
            _ => None,
        });
        let has_status = subresources.iter().any(|subresource| subresource.name == "status");
        let resource_type = ResourceType {
            singular: names.singular().into(),
            short_names: texts(names.short_names()),
            categories: texts(names.categories()),
            subresources,
            announced_storage: announced_storage.clone(),
            deprecated: version.deprecated().then(|| warning(spec, version)),
            fields: fields(version, stored_as.root()),
            generation: Generation::Counted,
            unowned: if has_status { unowned() } else { Vec::new() },
            strategy: Ref::Shared(Arc::new(CustomStrategy::new(schema.clone(), has_status, scale))),
            definition: Some(read_schema(
                &sources.definitions,
                object_meta::text(definition, "name"),
                object_meta::text(definition, "uid"),
                object_meta::number(definition, "generation").unwrap_or_default(),
                version.name(),
            )),
            is_terminating,
            ..plain(definition, version, schema)
        };
        let table = Table::new(version.additional_printer_columns());
        let resource_type = ResourceType { columns: table.columns, row: table.row, ..resource_type };
        custom.push(CustomVersion { resource_type: Arc::new(resource_type), served: version.served() });
    }
    custom.sort_by(|one, other| preferred_first(&one.resource_type.version, &other.resource_type.version));
    let conversion = conversion::of(view, &sources.clients);
    Ok(CustomKind { versions: custom, storage_version: storage.name().into(), conversion })
}

/// A version with its types, and everything else as it is without a word in the definition.
fn plain(
    definition: &Map,
    version: CustomResourceDefinitionVersion<'_>,
    schema: Arc<Structural>,
) -> ResourceType {
    let view = CustomResourceDefinition::of(definition);
    let (spec, names) = (view.spec(), view.status().accepted_names());
    let kind_called = |kind: &str| GroupVersionKind {
        group: spec.group().into(),
        version: version.name().into(),
        kind: kind.into(),
    };
    let kind = kind_called(names.kind());
    let package: Vec<&str> = spec.group().rsplit('.').collect();
    let name = format!("{}.{}.{}", package.join("."), version.name(), names.kind());
    let ty = Builder::new(name.clone()).kind(kind.clone()).object().custom(schema).build();
    let of_lists = Builder::new(format!("{name}List")).kind(kind_called(names.list_kind()));
    let scope = if spec.scope() == "Cluster" { Scope::Cluster } else { Scope::Namespaced };
    ResourceType {
        list_kind: names.list_kind().into(),
        list_ty: Some(of_lists.list_of(&ty).build()),
        ..ResourceType::custom(&kind, names.plural(), scope, ty)
    }
}

/// The compiled schema of a version. Without one, and where unknown fields are kept everywhere, objects are
/// kept as they are.
fn structural(
    spec: CustomResourceDefinitionSpec<'_>,
    version: CustomResourceDefinitionVersion<'_>,
) -> Result<Arc<Structural>, Error> {
    let failed = |error| Error::Schema { version: version.name().to_owned(), error };
    let schema = version.schema().and_then(|schema| schema.open_apiv3_schema());
    match schema.filter(|_| !spec.preserve_unknown_fields()) {
        Some(schema) => Structural::compile(schema).map_err(failed),
        None => {
            let mut any = Map::new();
            any.insert("type", "object");
            any.insert("x-kubernetes-preserve-unknown-fields", true);
            Structural::compile(JSONSchemaProps::of(&any)).map_err(failed)
        }
    }
}

fn subresources(version: CustomResourceDefinitionVersion<'_>) -> Vec<Subresource> {
    let Some(given) = version.subresources() else { return Vec::new() };
    let status = given.status().map(|_| Subresource::STATUS);
    let scale = given.scale().map(|scale| Subresource::scale(Ref::Shared(Arc::new(scale_paths(scale)))));
    status.into_iter().chain(scale).collect()
}

fn scale_paths(scale: CustomResourceSubresourceScale<'_>) -> ScalePaths {
    let steps = |path: &str| -> Cow<'static, [Text]> {
        let path = path.strip_prefix('.').unwrap_or(path);
        path.split('.').filter(|step| !step.is_empty()).map(Text::from).collect()
    };
    ScalePaths {
        spec_replicas: steps(scale.spec_replicas_path()),
        status_replicas: steps(scale.status_replicas_path()),
        selector: steps(scale.label_selector_path().unwrap_or_default()),
        are_open: true,
    }
}

/// The selectable fields, which the cache indexes. An object that lacks one has the default that the storage
/// version gives it.
fn fields(version: CustomResourceDefinitionVersion<'_>, storage: &Node) -> Vec<SelectableField> {
    let fields = version.selectable_fields().iter().filter_map(|field| {
        let path = JsonPath::parse(field.json_path()).ok()?;
        let steps: Vec<&str> = path.simple()?.collect();
        let name = field.json_path();
        let name: Text = name.strip_prefix('.').unwrap_or(name).into();
        let mut absent = defaults(&steps, storage);
        let is_plain = absent.iter().all(|(_, value)| value.is_empty());
        let (_, outermost) = absent.remove(0);
        Some(SelectableField {
            index: name.clone(),
            paths: vec![steps.join(".").into()],
            name,
            absent: outermost,
            absent_within: if is_plain { Vec::new() } else { absent },
            indexed: true,
        })
    });
    fields.collect()
}

/// The values that defaults give a field, by the part of its path that an object has: none of it first, all
/// of it last.
fn defaults(steps: &[&str], root: &Node) -> Vec<(Text, Text)> {
    let mut values = Vec::with_capacity(steps.len() + 1);
    let mut node = Some(root);
    for at in 0..steps.len() {
        let (part, rest) = steps.split_at(at);
        let [step, below @ ..] = rest else { break };
        node = node.and_then(|node| node.property(step)).map(|node| &**node);
        let default = node.and_then(|node| node.default.as_ref()).map(|default| default.value());
        let text = match below.iter().fold(default, |value, step| value?.get(step)) {
            Some(Value::String(text)) => text.as_str().into(),
            Some(Value::Int(number)) => number.to_string().into(),
            Some(Value::Bool(truth)) => truth.to_string().into(),
            _ => Text::EMPTY,
        };
        values.push((part.join(".").into(), text));
    }
    values.push((steps.join(".").into(), Text::EMPTY));
    values
}

/// With a status subresource, the object itself does not write the status, and the status does not write the
/// spec.
fn unowned() -> Vec<(Text, Set)> {
    let of = |field: &'static str| [[Element::field(field)].as_slice()].into_iter().collect::<Set>();
    vec![(Text::EMPTY, of("status")), (Text::known("status"), of("spec"))]
}

/// The warning of a deprecated version: the author's, or one that names the best version to use instead.
fn warning(spec: CustomResourceDefinitionSpec<'_>, version: CustomResourceDefinitionVersion<'_>) -> Text {
    if let Some(given) = version.deprecation_warning() {
        return given.into();
    }
    let (group, kind) = (spec.group(), spec.names().kind());
    let text = format!("{group}/{} {kind} is deprecated", version.name());
    let better = spec.versions();
    let better = better.iter().filter(|other| {
        other.served() && !other.deprecated() && preferred_first(other.name(), version.name()).is_lt()
    });
    match better.map(|other| other.name()).min_by(|one, other| preferred_first(one, other)) {
        Some(better) => format!("{text}; use {group}/{better} {kind}").into(),
        None => text.into(),
    }
}

fn texts(list: Items<'_, &str>) -> Vec<Text> {
    list.iter().map(Text::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, json};

    #[test]
    fn absent_selectable_field_has_the_default_of_what_is_absent() {
        let values = |schema: &str, path: &[&str]| {
            let decoded = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default());
            let decoded = decoded.unwrap().value;
            let compiled = Structural::compile(JSONSchemaProps::of(decoded.as_map().unwrap())).unwrap();
            let values = defaults(path, compiled.root());
            values.into_iter().map(|(part, value)| format!("{part}={value}")).collect::<Vec<_>>()
        };
        let leaf = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{"color":{"type":"string","default":"red"}}}}}"#;
        assert_eq!(values(leaf, &["spec", "color"]), ["=", "spec=red", "spec.color="]);
        let nested = r#"{"type":"object","properties":{"spec":{"type":"object","default":{"size":{}},"properties":{
            "size":{"type":"object","default":{"x":1},"properties":{"x":{"type":"integer","default":2}}}}}}}"#;
        assert_eq!(values(nested, &["spec", "size", "x"]), ["=2", "spec=1", "spec.size=2", "spec.size.x="]);
        assert_eq!(values(nested, &["spec", "other"]), ["=", "spec=", "spec.other="]);
    }
}
