//! The definition itself.

use super::requirements::Requirements;
use super::schema::Status;
use super::{columns, conversion, go_syntax, names, schema, structural, walk};
use crate::checks;
use ::schema::view::{Item, Items, View};
use ::schema::views::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
    SelectableField,
};
use object::field::{BadValue, Error, List, Path};
use object::name::dns1123_subdomain;
use object::quote::is_printable;
use std::collections::HashSet;

/// A definition as the reference validates it: what all versions have in common is theirs no longer, but
/// stands once beside them.
pub(super) struct Spec<'a> {
    view: CustomResourceDefinitionSpec<'a>,
    versions: Vec<Version<'a>>,
    common: Parts<'a>,
}

/// A version without what it has in common with all others.
pub(super) struct Version<'a> {
    pub view: CustomResourceDefinitionVersion<'a>,
    pub parts: Parts<'a>,
}

/// What a version says of its objects.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    pub schema: Option<CustomResourceValidation<'a>>,
    pub subresources: Option<CustomResourceSubresources<'a>>,
    pub columns: Items<'a, CustomResourceColumnDefinition<'a>>,
    pub selectable: Items<'a, SelectableField<'a>>,
}

impl Parts<'_> {
    fn none() -> Self {
        Self { schema: None, subresources: None, columns: Items::absent(), selectable: Items::absent() }
    }

    fn has_status(&self) -> bool {
        self.subresources.is_some_and(|subresources| subresources.status().is_some())
    }
}

impl<'a> Spec<'a> {
    pub(super) fn new(view: CustomResourceDefinitionSpec<'a>) -> Self {
        let versions = view.versions();
        let is_common = |key: &str| {
            let mut values = versions.iter().map(|version| version.map().get(key));
            let first = values.next();
            first.is_some_and(|first| values.all(|value| value == first))
        };
        let [schema, subresources, columns, selectable] =
            ["schema", "subresources", "additionalPrinterColumns", "selectableFields"].map(is_common);
        let parts = |version: CustomResourceDefinitionVersion<'a>, common: bool| Parts {
            schema: version.schema().filter(|_| schema == common),
            subresources: version.subresources().filter(|_| subresources == common),
            columns: if columns == common { version.additional_printer_columns() } else { Items::absent() },
            selectable: if selectable == common { version.selectable_fields() } else { Items::absent() },
        };
        Self {
            view,
            versions: versions.iter().map(|view| Version { view, parts: parts(view, false) }).collect(),
            common: versions.get(0).map_or_else(Parts::none, |version| parts(version, true)),
        }
    }

    pub(super) fn conversion(&self) -> Option<CustomResourceConversion<'a>> {
        self.view.conversion()
    }

    fn parts(&self) -> impl Iterator<Item = &Parts<'a>> {
        std::iter::once(&self.common).chain(self.versions.iter().map(|version| &version.parts))
    }

    /// Each schema once.
    pub(super) fn schemas(&self) -> Vec<JSONSchemaProps<'a>> {
        self.parts().filter_map(|parts| parts.schema?.open_apiv3_schema()).collect()
    }

    /// Whether no version is without a schema.
    pub(super) fn has_every_schema(&self) -> bool {
        self.has_common_schema() || self.versions.iter().all(|version| has_schema(&version.parts))
    }

    fn has_common_schema(&self) -> bool {
        has_schema(&self.common)
    }

    /// The field errors of a definition.
    pub(super) fn validate(&self, requirements: &Requirements<'_>, path: &Path<'_>) -> List {
        let too_deep = self.too_deep(path);
        if !too_deep.is_empty() {
            return too_deep;
        }
        let mut errors = List::new();
        errors.append(group(self.view.group(), &path.child("group")));
        let scopes = ["Cluster", "Namespaced"];
        errors.extend(checks::required_one_of(self.view.scope(), &scopes, &path.child("scope")));
        errors.append(self.schemas_are_there(requirements, path));
        let preserves = self.view.preserve_unknown_fields();
        let schemas = self.schemas();
        let has_defaults = schemas.iter().any(|of| walk::any(*of, &|of| of.r#default().is_some()));
        if has_defaults && preserves {
            let why = "must be false in order to use defaults in the schema";
            errors.push(Error::invalid(&path.child("preserveUnknownFields"), true, why));
        }
        let is_structural = !preserves
            || has_defaults
            || schemas.iter().any(|schema| walk::any(*schema, &has_extensions))
            || requirements.structural();
        let context = schema::Context { requirements, is_structural, bounds_expressions: true };
        errors.append(self.validate_versions(&context, path));
        errors.append(self.version_list(&path.child("versions")));
        let own = self.view.names();
        errors.append(names::required(own, &path.child("names")));
        errors.append(names::validate(own, &path.child("names")));
        let status = Status::of(self.parts().any(Parts::has_status));
        let first = self.versions.first().map_or("", |version| version.view.name());
        let context = self.context_of(first, &context);
        errors.append(schema::validate(self.common.schema, status, &context, &path.child("validation")));
        errors.append(columns::subresources(self.common.subresources, &path.child("subresources")));
        errors.append(columns::columns(self.common.columns, &path.child("additionalPrinterColumns")));
        if !self.common.selectable.is_empty() {
            let missing = "selectableFields may only be set when validations.schema is included";
            errors.append(selectable_fields(&self.common, missing, path));
        }
        if let Some(conversion) = self.view.conversion() {
            let path = path.child("conversion");
            if conversion.strategy() != "None" && preserves {
                let why = "must be None if spec.preserveUnknownFields is true";
                errors.push(Error::invalid(&path.child("strategy"), conversion.strategy(), why));
            }
            errors.append(conversion::validate(conversion, requirements, &path));
        }
        errors
    }

    /// The version of this name.
    pub(super) fn version(&self, name: &str) -> Option<CustomResourceDefinitionVersion<'a>> {
        self.versions.iter().map(|version| version.view).find(|version| version.name() == name)
    }

    /// What holds for the schema of a version: the cost of its single expressions counts if it changed.
    fn context_of<'c>(&self, version: &str, context: &schema::Context<'c>) -> schema::Context<'c> {
        let schema = self.version(version).and_then(|version| version.schema());
        let is_same =
            self.version(version).is_some() && context.requirements.has_same_schema(version, schema);
        schema::Context { bounds_expressions: !is_same, ..*context }
    }

    /// Schemas that nest too deep are refused before anything else looks at them.
    fn too_deep(&self, path: &Path<'_>) -> List {
        let mut errors = List::new();
        let mut check = |parts: &Parts<'_>, path: &Path<'_>| {
            let schema = parts.schema.and_then(CustomResourceValidation::open_apiv3_schema);
            if schema.is_some_and(walk::is_too_deep) {
                let why = format!("schemas may nest at most {} deep", walk::MOST_DEPTH);
                errors.push(Error::forbidden(&path.child("openAPIV3Schema"), why));
            }
        };
        check(&self.common, &path.child("validation"));
        let versions = path.child("versions");
        for (at, version) in self.versions.iter().enumerate() {
            check(&version.parts, &versions.index(at).child("schema"));
        }
        errors
    }

    fn schemas_are_there(&self, requirements: &Requirements<'_>, path: &Path<'_>) -> List {
        let versions = path.child("versions");
        let all = requirements.schemas();
        if self.has_common_schema() || !all && self.view.preserve_unknown_fields() {
            return List::new();
        }
        let why = if all { "schemas are required" } else { "because otherwise all fields are pruned" };
        let missing = self
            .versions
            .iter()
            .enumerate()
            .filter(|(_, version)| !has_schema(&version.parts) && (all || version.view.served()));
        missing
            .map(|(at, _)| Error::required(&versions.index(at).child("schema").child("openAPIV3Schema"), why))
            .collect()
    }

    fn validate_versions(&self, context: &schema::Context<'_>, path: &Path<'_>) -> List {
        let mut errors = List::new();
        let versions = path.child("versions");
        let has_own_subresources = self.versions.iter().any(|version| version.parts.subresources.is_some());
        for (at, version) in self.versions.iter().enumerate() {
            let path = versions.index(at);
            let name = version.view.name();
            errors.extend(names::label(name, &path.child("name")));
            errors.append(deprecation(version.view, &path.child("deprecationWarning")));
            let parts = &version.parts;
            let named = self.versions.iter().find(|version| version.view.name() == name);
            let status = Status::of(match has_own_subresources {
                true => named.is_some_and(|version| version.parts.has_status()),
                false => self.common.has_status(),
            });
            let context = self.context_of(name, context);
            errors.append(schema::validate(parts.schema, status, &context, &path.child("schema")));
            errors.append(columns::subresources(parts.subresources, &path.child("subresources")));
            errors.append(columns::columns(parts.columns, &path.child("additionalPrinterColumns")));
            if !parts.selectable.is_empty() {
                let missing =
                    "selectableFields may only be set when version.schema.openAPIV3Schema is not included";
                errors.append(selectable_fields(parts, missing, &path));
            }
        }
        errors
    }

    /// Names are distinct, and one version is stored.
    fn version_list(&self, path: &Path<'_>) -> List {
        let mut errors = List::new();
        let shown = || BadValue::Raw(go_syntax::versions(&self.versions));
        let mut names = HashSet::new();
        if !self.versions.iter().all(|version| names.insert(version.view.name())) {
            errors.push(Error::invalid(path, shown(), "must contain unique version names"));
        }
        if self.versions.iter().filter(|version| version.view.storage()).count() != 1 {
            let why = "must have exactly one version marked as storage version";
            errors.push(Error::invalid(path, shown(), why));
        }
        // The reference keeps the name of the first version beside the versions and looks at it again.
        if let Some(first) = self.versions.first().map(|version| version.view.name())
            && !first.is_empty()
        {
            errors.extend(names::label(first, &Path::new("spec").child("version")));
        }
        errors
    }
}

fn has_schema(parts: &Parts<'_>) -> bool {
    parts.schema.is_some_and(|schema| schema.open_apiv3_schema().is_some())
}

/// Whether a schema uses what only structural schemas have.
fn has_extensions(schema: JSONSchemaProps<'_>) -> bool {
    schema.x_kubernetes_embedded_resource()
        || schema.x_kubernetes_preserve_unknown_fields().is_some()
        || schema.x_kubernetes_int_or_string()
        || !schema.x_kubernetes_list_map_keys().is_empty()
        || schema.x_kubernetes_list_type().is_some()
        || !schema.x_kubernetes_validations().is_empty()
}

fn group(name: &str, path: &Path<'_>) -> List {
    let wrong = dns1123_subdomain(name);
    if name.is_empty() {
        Error::required(path, "").into()
    } else if !wrong.is_empty() {
        Error::invalid(path, name, wrong.join(",")).into()
    } else if !name.contains('.') {
        Error::invalid(path, name, "should be a domain with at least one dot").into()
    } else {
        List::new()
    }
}

fn deprecation(version: CustomResourceDefinitionVersion<'_>, path: &Path<'_>) -> List {
    let Some(warning) = version.deprecation_warning() else { return List::new() };
    let invalid = |why: String| Error::invalid(path, warning, why);
    if !version.deprecated() {
        return invalid("can only be set for deprecated versions".to_owned()).into();
    }
    let mut errors = List::new();
    if warning.len() > 256 {
        errors.push(invalid("must be <= 256 characters long".to_owned()));
    }
    if warning.is_empty() {
        errors.push(invalid("must not be an empty string".to_owned()));
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, char)| !is_printable(*char)) {
        errors.push(invalid(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        )));
    }
    errors
}

fn selectable_fields(parts: &Parts<'_>, missing: &'static str, path: &Path<'_>) -> List {
    let fields = path.child("selectableFields");
    match parts.schema.and_then(CustomResourceValidation::open_apiv3_schema) {
        None => Error::invalid(&fields, "", missing).into(),
        Some(schema) => match structural::unsupported(schema) {
            Some(why) => Error::invalid(&path.child("schema.openAPIV3Schema"), "", why).into(),
            None => columns::selectable_fields(parts.selectable, schema, &fields),
        },
    }
}
