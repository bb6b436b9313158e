//! The operations of a custom kind. The reference documents them in another way than those of built-in kinds:
//! all of them, in JSON and YAML, and without the deprecated paths for watches.

use super::names::{id_and_tag, title, with_article};
use super::resource::{FOR_ALL_NAMESPACES, status};
use super::{GroupVersionKind, JSON, Method, Operation, Paths, VerbParameters, root};
use crate::parameters::Parameter;
use crate::schemas::{Model, PATCH};
use kinds::{ResourceType, SubresourceBody};

const FORMATS: &[&str] = &[JSON, "application/yaml"];
const PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

/// Adds the paths of a custom kind and of its subresources.
pub(crate) fn of_custom<'a>(resource: &'a ResourceType, options: &VerbParameters, paths: &mut Paths<'a>) {
    let kind = &resource.kind;
    let root = root(&resource.group, &resource.version);
    let operation = |method, action, verb: &str, name: &str, description: String| {
        let (id, tag) = id_and_tag(&root, verb, name);
        let of_kind = GroupVersionKind {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            kind: kind.to_string(),
        };
        Operation {
            method,
            id,
            tag,
            description,
            action: Some((action, of_kind)),
            parameters: vec![Parameter::pretty()],
            body: None,
            consumes: FORMATS,
            produces: FORMATS,
            responses: Vec::new(),
        }
    };
    let list = |name: &str| {
        operation(Method::Get, "list", "list", name, format!("list objects of kind {kind}"))
            .taking(&options.list)
            .answering(&["200"], Model::CustomList(resource))
    };
    let (mut collection, mut name) = (format!("{root}/{}", resource.resource), kind.to_string());
    if resource.is_namespaced() {
        list(&format!("{kind}{FOR_ALL_NAMESPACES}")).push_to(&collection, kind, paths);
        collection = format!("{root}/namespaces/{{namespace}}/{}", resource.resource);
        name = format!("Namespaced{kind}");
    }
    let object = Model::Custom(resource);
    list(&name).push_to(&collection, kind, paths);
    operation(Method::Post, "post", "create", &name, format!("create {}", with_article(kind)))
        .taking(&options.create)
        .carrying(object)
        .answering(&["200", "201", "202"], object)
        .push_to(&collection, kind, paths);
    let description = format!("delete collection of {kind}");
    operation(Method::Delete, "deletecollection", "deletecollection", &name, description)
        .taking(&options.list)
        .answering(&["200"], status())
        .push_to(&collection, kind, paths);
    let item = format!("{collection}/{{name}}");
    operation(Method::Delete, "delete", "delete", &name, format!("delete {}", with_article(kind)))
        .taking(&options.delete)
        .carrying_if_wanted("meta.v1.DeleteOptions")
        .answering(&["200", "202"], status())
        .push_to(&item, kind, paths);
    let mut add_item = |path: &str, name: &str, of: &str, model: Model<'a>| {
        operation(Method::Get, "get", "read", name, format!("read{of} the specified {kind}"))
            .taking(&options.get)
            .answering(&["200"], model)
            .push_to(path, kind, paths);
        operation(Method::Put, "put", "replace", name, format!("replace{of} the specified {kind}"))
            .taking(&options.update)
            .carrying(model)
            .answering(&["200", "201"], model)
            .push_to(path, kind, paths);
        let description = format!("partially update{of} the specified {kind}");
        let patch = operation(Method::Patch, "patch", "patch", name, description);
        Operation { consumes: PATCHES, ..patch }
            .taking(&options.patch)
            .carrying(Model::SpecialType(&PATCH))
            .answering(&["200"], model)
            .push_to(path, kind, paths);
    };
    add_item(&item, &name, "", object);
    for subresource in &resource.subresources {
        let model = match &subresource.body {
            SubresourceBody::Kind(ty) => Model::Type(ty()),
            _ => object,
        };
        let name = format!("{name}{}", title(subresource.name));
        add_item(&format!("{item}/{}", subresource.name), &name, &format!(" {} of", subresource.name), model);
    }
}
