//! The rules for custom resource definitions.
//!
//! | file | what it has the rules for |
//! |---|---|
//! | `spec` | the definition: group, scope, versions, and what stands in each version |
//! | `names` | the names of a kind |
//! | `conversion` | how objects are converted |
//! | `columns` | columns, scale paths, selectable fields |
//! | `schema` | the schema of a version: the order of what follows |
//! | `structural` | that a schema is structural |
//! | `defaults` | that defaults are values of their schema |
//! | `openapi` | every part of a schema by itself: lists, maps, extensions, expressions |
//! | `expressions` | that expressions compile, and what they may cost |
//!
//! What a definition breaks already it may go on to break: `requirements` says what an update may not
//! introduce.

mod columns;
mod conversion;
mod defaults;
mod expressions;
mod go_syntax;
mod names;
mod openapi;
mod requirements;
mod schema;
mod spec;
mod structural;
mod walk;

use super::Approval;
use crate::{Rules, Scope, checks, object_meta};
use ::schema::view::{Items, View};
use ::schema::views::apiextensions::v1::{CustomResourceDefinition, CustomResourceDefinitionVersion};
use object::Map;
use object::field::{Aggregate, Error, List, Path};
use object::name::name_is_dns_subdomain;
use requirements::Requirements;
use spec::Spec;
use std::collections::HashMap;

/// The most versions of a definition: what is kept of a kind grows with their square.
const MOST_VERSIONS: usize = 128;

fn too_many_versions(definition: CustomResourceDefinition<'_>) -> Option<List> {
    let count = definition.spec().versions().len();
    let path = Path::new("spec");
    (count > MOST_VERSIONS)
        .then(|| Error::too_many(&path.child("versions"), Some(count), Some(MOST_VERSIONS)).into())
}

/// Why the schemas of a definition are not structural, which only those of old can be. It is a condition of
/// the definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NonStructural {
    /// The rules that they break.
    Violations(String),
    /// One of them has no structural form.
    Unknown(String),
}

impl NonStructural {
    /// Of a definition; `None` if its schemas are structural.
    pub fn of(definition: &Map) -> Option<Self> {
        let spec = CustomResourceDefinition::of(definition).spec();
        let (path, mut errors) = (Path::new("spec"), List::new());
        if spec.preserve_unknown_fields() {
            errors.push(Error::invalid(&path.child("preserveUnknownFields"), true, "must be false"));
        }
        for (at, version) in spec.versions().iter().enumerate() {
            let Some(schema) = version.schema().and_then(|of| of.open_apiv3_schema()) else { continue };
            if let Some(why) = structural::unsupported(schema) {
                let name = version.name();
                let why = format!("failed to check validation schema for version {name}: {why}");
                return Some(Self::Unknown(why));
            }
            let versions = path.child("versions");
            let version = versions.index(at);
            errors.append(structural::validate(schema, &version.child("schema").child("openAPIV3Schema")));
        }
        Aggregate::new(errors).map(|errors| Self::Violations(errors.to_string()))
    }
}

/// The field errors of a new definition.
pub(super) fn validate(object: &Map) -> List {
    let definition = CustomResourceDefinition::of(object);
    if let Some(refused) = too_many_versions(definition) {
        return refused;
    }
    let spec = definition.spec();
    let wanted = format!("{}.{}", spec.names().plural(), spec.group());
    let mut errors = object_meta::validate_named(object, Scope::Cluster, |name, mode| {
        let mut wrong = name_is_dns_subdomain(name, mode);
        if name != wanted {
            wrong.push(r#"must be spec.names.plural+"."+spec.group"#.into());
        }
        wrong
    });
    let requirements = Requirements::of_new();
    errors.append(Spec::new(spec).validate(&requirements, &Path::new("spec")));
    errors.append(status(definition));
    errors.append(approval(definition, None));
    errors.append(preserve_unknown_fields(definition, None));
    errors
}

/// The field errors of a change of a definition.
pub(super) fn validate_update(new: &Map, old: &Map, rules: &Rules<'_>) -> List {
    let (definition, before) = (CustomResourceDefinition::of(new), CustomResourceDefinition::of(old));
    if let Some(refused) = too_many_versions(definition) {
        return refused;
    }
    let mut errors = rules.metadata_update(new, old);
    let requirements = Requirements::after(before);
    let path = Path::new("spec");
    let (spec, old_spec) = (definition.spec(), before.spec());
    errors.append(Spec::new(spec).validate(&requirements, &path));
    let names = path.child("names");
    let immutable = |new: &str, old: &str, path: &Path<'_>| {
        (new != old).then(|| Error::invalid(path, new, "field is immutable"))
    };
    if requirements::is_established(before) {
        errors.extend(immutable(spec.scope(), old_spec.scope(), &path.child("scope")));
        errors.extend(immutable(spec.names().kind(), old_spec.names().kind(), &names.child("kind")));
    }
    errors.extend(immutable(spec.group(), old_spec.group(), &path.child("group")));
    errors.extend(immutable(spec.names().plural(), old_spec.names().plural(), &names.child("plural")));
    errors.append(status(definition));
    errors.append(approval(definition, Some(before)));
    errors.append(preserve_unknown_fields(definition, Some(before)));
    errors
}

/// The field errors of a change of a definition's status.
pub(super) fn validate_status(new: &Map, old: &Map, rules: &Rules<'_>) -> List {
    let mut errors = rules.metadata_update(new, old);
    errors.append(accepted_names(CustomResourceDefinition::of(new)));
    errors
}

fn accepted_names(definition: CustomResourceDefinition<'_>) -> List {
    let path = Path::new("status");
    names::validate(definition.status().accepted_names(), &path.child("acceptedNames"))
}

fn status(definition: CustomResourceDefinition<'_>) -> List {
    let path = Path::new("status");
    let mut errors = accepted_names(definition);
    errors.append(stored_versions(
        definition.status().stored_versions(),
        definition.spec().versions(),
        &path.child("storedVersions"),
    ));
    errors
}

/// The versions that objects are stored in: the storage version, and others that are still there.
fn stored_versions(
    stored: Items<'_, &str>,
    versions: Items<'_, CustomResourceDefinitionVersion<'_>>,
    path: &Path<'_>,
) -> List {
    let shown = || checks::shown_texts("string", stored);
    if stored.is_empty() {
        return Error::invalid(path, shown(), "must have at least one stored version").into();
    }
    let mut errors = List::new();
    let mut rest: HashMap<&str, usize> = stored.iter().enumerate().map(|(at, name)| (name, at)).collect();
    for version in versions.iter() {
        let is_stored = rest.remove(version.name()).is_some();
        if version.storage() && !is_stored {
            let why = format!("must have the storage version {}", version.name());
            errors.push(Error::invalid(path, shown(), why));
        }
    }
    let mut rest: Vec<_> = rest.into_iter().collect();
    rest.sort_unstable_by_key(|(_, at)| *at);
    for (name, at) in rest {
        errors.push_with(|| {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            Error::invalid(&path.index(at), name, why)
        });
    }
    errors
}

/// The groups of the project itself need the annotation. Who left it as it was is not asked for it.
fn approval(new: CustomResourceDefinition<'_>, old: Option<CustomResourceDefinition<'_>>) -> List {
    fn said(of: CustomResourceDefinition<'_>) -> &str {
        of.metadata().annotations().get(Approval::ANNOTATION).unwrap_or_default()
    }
    let state = Approval::of(said(new));
    if !Approval::is_needed(new.spec().group()) || old.is_some_and(|old| Approval::of(said(old)) == state) {
        return List::new();
    }
    let metadata = Path::new("metadata");
    let annotations = metadata.child("annotations");
    let path = annotations.key(Approval::ANNOTATION);
    let why = state.message(said(new));
    match state {
        Approval::Approved | Approval::Unapproved => List::new(),
        Approval::Missing => Error::required(&path, why).into(),
        Approval::Invalid => Error::invalid(&path, said(new), why).into(),
    }
}

fn preserve_unknown_fields(
    new: CustomResourceDefinition<'_>,
    old: Option<CustomResourceDefinition<'_>>,
) -> List {
    let preserves = |of: CustomResourceDefinition<'_>| of.spec().preserve_unknown_fields();
    if !preserves(new) || old.is_some_and(preserves) {
        return List::new();
    }
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    Error::invalid(&Path::new("spec").child("preserveUnknownFields"), true, why).into()
}

#[cfg(test)]
mod tests;
