//! The metadata of objects: how it is read, and the rules that hold for every kind.

use crate::{NameRule, Scope};
use object::excerpt::shorten;
use object::field::{self, BadValue, Path};
use object::name::{self, Messages, Mode};
use object::quote::quote_each;
use object::time::Time;
use object::{Map, Value};
use std::collections::HashSet;

/// The most bytes of all annotations of an object together.
const ANNOTATIONS: usize = 256 << 10;
/// Finalizers that need not be qualified.
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", ORPHAN, FOREGROUND];
/// The most bytes of the name of a field manager.
pub const LONGEST_MANAGER: usize = 128;
/// The most bytes of the name of a subresource in managed fields.
const LONGEST_SUBRESOURCE: usize = 256;
/// The finalizer that keeps an object until its dependents are orphaned.
pub const ORPHAN: &str = "orphan";
/// The finalizer that keeps an object until its dependents are gone.
pub const FOREGROUND: &str = "foregroundDeletion";

/// The metadata of an object, if there is any.
pub fn metadata(object: &Map) -> Option<&Map> {
    object.get("metadata").and_then(Value::as_map)
}

/// The text of a field of the metadata; empty if it is not there.
pub fn text<'a>(object: &'a Map, key: &str) -> &'a str {
    metadata(object).and_then(|metadata| metadata.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// A number in the metadata.
pub fn number(object: &Map, key: &str) -> Option<i64> {
    metadata(object)?.get(key)?.as_i64()
}

/// The finalizers of an object.
pub fn finalizers(object: &Map) -> Vec<&str> {
    let list = metadata(object).and_then(|metadata| metadata.get("finalizers")).and_then(Value::as_list);
    list.unwrap_or_default().iter().filter_map(Value::as_str).collect()
}

/// Whether a delete of the object has begun.
pub fn is_deleting(object: &Map) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

fn check_name(rule: NameRule, text: &str, mode: Mode) -> Messages {
    match rule {
        NameRule::Subdomain => name::name_is_dns_subdomain(text, mode),
        NameRule::Label => name::name_is_dns_label(text, mode),
        NameRule::Label1035 => name::name_is_dns1035_label(text, mode),
        NameRule::PathSegment => name::name_is_path_segment(text, mode),
        NameRule::ConfigMapKey => name::config_map_key(text),
        NameRule::IpAddress => {
            name::address::ip(&Path::UNSET, text).into_vec().into_iter().map(|error| error.detail).collect()
        }
        NameRule::GroupAndResource => match text.rsplit_once('.') {
            None => vec!["name must be in the form of <group>.<resource>".into()],
            Some((group, resource)) => {
                let of = |segment: &'static str, messages: Messages| {
                    messages.into_iter().map(move |message| format!("the {segment} segment {message}").into())
                };
                of("group", name::dns1123_subdomain(group))
                    .chain(of("resource", name::dns1035_label(resource)))
                    .collect()
            }
        },
    }
}

/// The rules for the metadata of any object, with the kind's rule for names.
pub fn validate(object: &Map, scope: Scope, rule: NameRule) -> field::List {
    validate_named(object, scope, |text, mode| check_name(rule, text, mode))
}

/// The same with a rule for names that depends on the object.
pub(crate) fn validate_named(
    object: &Map,
    scope: Scope,
    check_name: impl Fn(&str, Mode) -> Messages,
) -> field::List {
    let path = Path::new("metadata");
    let mut errors = field::List::new();
    let prefix = text(object, "generateName");
    if !prefix.is_empty() {
        errors.append(name::invalid(&path.child("generateName"), prefix, check_name(prefix, Mode::Prefix)));
    }
    let own = text(object, "name");
    if own.is_empty() {
        errors.push(field::Error::required(&path.child("name"), "name or generateName is required"));
    } else {
        errors.append(name::invalid(&path.child("name"), own, check_name(own, Mode::Name)));
    }
    let namespace = text(object, "namespace");
    let at = path.child("namespace");
    match (scope == Scope::Namespaced, namespace) {
        (true, "") => errors.push(field::Error::required(&at, "")),
        (true, namespace) => {
            errors.append(name::invalid(&at, namespace, name::name_is_dns_label(namespace, Mode::Name)));
        }
        (false, "") => {}
        (false, _) => errors.push(field::Error::forbidden(&at, "not allowed on this type")),
    }
    if let Some(generation @ ..0) = number(object, "generation") {
        let why = "must be greater than or equal to 0";
        errors.push(field::Error::invalid(&path.child("generation"), generation, why));
    }
    errors.append(labels(metadata(object), &path.child("labels")));
    errors.append(annotations(metadata(object), &path.child("annotations")));
    validate_owners(object, &path, &mut errors);
    validate_finalizers(object, &path, &mut errors);
    validate_managed_fields(object, &path, &mut errors);
    errors
}

/// The rule for the names of finalizers that most built-in kinds have beside the general one.
pub fn validate_finalizer_names(object: &Map) -> field::List {
    let path = Path::new("metadata");
    let at = path.child("finalizers");
    finalizers(object)
        .into_iter()
        .enumerate()
        .filter_map(|(index, name)| finalizer(name, &at.index(index)))
        .collect()
}

/// A finalizer is a qualified name, or a standard one.
pub fn finalizer(name: &str, path: &Path<'_>) -> Option<field::Error> {
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let unqualified = !name.contains('/') && !STANDARD_FINALIZERS.contains(&name);
    unqualified.then(|| field::Error::invalid(path, name, why))
}

/// The rules for a change of the metadata of any object.
pub fn validate_update(new: &Map, old: &Map) -> field::List {
    let path = Path::new("metadata");
    let mut errors = field::List::new();
    if is_deleting(old) {
        let before: HashSet<_> = finalizers(old).into_iter().collect();
        let mut extra: Vec<_> = finalizers(new).into_iter().filter(|name| !before.contains(name)).collect();
        extra.sort_unstable();
        extra.dedup();
        if !extra.is_empty() {
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers {}",
                list_of_strings(extra)
            );
            errors.push(field::Error::forbidden(&path.child("finalizers"), why));
        }
    }
    let version = text(new, "resourceVersion");
    if version.is_empty() {
        let why = "must be specified for an update";
        errors.push(field::Error::invalid(&path.child("resourceVersion"), version, why));
    }
    let generation = |object| number(object, "generation").unwrap_or_default();
    if generation(new) < generation(old) {
        let why = "must not be decremented";
        errors.push(field::Error::invalid(&path.child("generation"), generation(new), why));
    }
    let immutable = "field is immutable";
    for key in ["name", "namespace", "uid"] {
        if text(new, key) != text(old, key) {
            errors.push(field::Error::invalid(&path.child(key), text(new, key), immutable));
        }
    }
    for key in ["creationTimestamp", "deletionTimestamp"] {
        if text(new, key) != text(old, key) {
            let shown = text(new, key).parse::<Time>().map_or(BadValue::Null, BadValue::from);
            errors.push(field::Error::invalid(&path.child(key), shown, immutable));
        }
    }
    let grace = |object| number(object, "deletionGracePeriodSeconds");
    if grace(new) != grace(old) {
        let shown = grace(new).map_or(BadValue::Null, BadValue::from);
        errors.push(field::Error::invalid(&path.child("deletionGracePeriodSeconds"), shown, immutable));
    }
    errors.append(labels(metadata(new), &path.child("labels")));
    errors.append(annotations(metadata(new), &path.child("annotations")));
    validate_owners(new, &path, &mut errors);
    validate_managed_fields(new, &path, &mut errors);
    errors
}

fn strings<'a>(metadata: Option<&'a Map>, key: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let map = metadata.and_then(|metadata| metadata.get(key)).and_then(Value::as_map);
    map.into_iter().flat_map(Map::iter).map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// The errors of the metadata at `path` of a template whose objects get labels and annotations from it, and
/// nothing else: in the order of the reference, with its names.
pub(crate) fn only_labels_and_annotations(metadata: &Map, path: &Path<'_>) -> field::List {
    const OTHERS: [(&str, &str); 13] = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    let there = OTHERS.iter().filter(|(key, _)| metadata.contains_key(key));
    there.map(|(_, name)| field::Error::forbidden(&path.child(name), "cannot be set")).collect()
}

/// The rules for the labels in the metadata of an object or of a template.
pub fn labels(metadata: Option<&Map>, path: &Path<'_>) -> field::List {
    label_entries(strings(metadata, "labels"), path)
}

/// The rules for labels in any field.
pub(crate) fn label_entries<'a>(
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    path: &Path<'_>,
) -> field::List {
    let mut errors = field::List::new();
    for (key, value) in labels {
        errors.append(name::invalid(path, key, name::qualified_name(key)));
        errors.append(name::invalid(path, value, name::label_value(value)));
    }
    errors
}

/// The rules for the annotations in the metadata of an object or of a template.
pub fn annotations(metadata: Option<&Map>, path: &Path<'_>) -> field::List {
    let mut errors = field::List::new();
    let mut bytes = 0;
    for (key, value) in strings(metadata, "annotations") {
        errors.append(name::invalid(path, key, name::qualified_name(&key.to_lowercase())));
        bytes += key.len() + value.len();
    }
    if bytes > ANNOTATIONS {
        errors.push(field::Error::too_long(path, Some(ANNOTATIONS)));
    }
    errors
}

fn validate_owners(object: &Map, path: &Path<'_>, errors: &mut field::List) {
    let at = path.child("ownerReferences");
    let owners =
        metadata(object).and_then(|metadata| metadata.get("ownerReferences")).and_then(Value::as_list);
    let mut controller: Option<String> = None;
    let mut shown: Option<String> = None;
    for owner in owners.unwrap_or_default() {
        let part = |key: &str| owner.get(key).and_then(Value::as_str).unwrap_or_default();
        let version = match part("apiVersion").split_once('/') {
            None => part("apiVersion"),
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
        };
        if version.is_empty() {
            errors.push(field::Error::invalid(
                &at.child("apiVersion"),
                part("apiVersion"),
                "version must not be empty",
            ));
        }
        for (key, why) in [
            ("kind", "kind must not be empty"),
            ("name", "name must not be empty"),
            ("uid", "uid must not be empty"),
        ] {
            if part(key).is_empty() {
                errors.push(field::Error::invalid(&at.child(key), part(key), why));
            }
        }
        if part("apiVersion") == "v1" && part("kind") == "Event" {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(field::Error::invalid(&at, BadValue::Raw(owner_text(owner)), why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let name = format!("{}/{}", part("kind"), part("name"));
            match &controller {
                Some(first) => errors.push_with(|| {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                    );
                    let shown = shown.get_or_insert_with(|| owners_text(owners.unwrap_or_default()));
                    field::Error::invalid(&at, BadValue::Raw(shown.clone()), why)
                }),
                None => controller = Some(name),
            }
        }
    }
}

/// All owner references as they are shown in an error.
fn owners_text(owners: &[Value]) -> String {
    let all: Vec<_> = owners.iter().map(owner_text).collect();
    shorten(format!("[]v1.OwnerReference{{{}}}", all.join(", ")))
}

/// An owner reference as it is shown in an error.
fn owner_text(owner: &Value) -> String {
    let part = |key: &str| quote_each([owner.get(key).and_then(Value::as_str).unwrap_or_default()]);
    let flag = |key: &str| match owner.get(key).and_then(Value::as_bool) {
        Some(flag) => flag.to_string(),
        None => "(*bool)(nil)".to_owned(),
    };
    format!(
        "v1.OwnerReference{{APIVersion:{}, Kind:{}, Name:{}, UID:{}, Controller:{}, BlockOwnerDeletion:{}}}",
        part("apiVersion"),
        part("kind"),
        part("name"),
        part("uid"),
        flag("controller"),
        flag("blockOwnerDeletion")
    )
}

fn validate_finalizers(object: &Map, path: &Path<'_>, errors: &mut field::List) {
    let at = path.child("finalizers");
    let all = finalizers(object);
    for name in &all {
        errors.append(name::invalid(&at, name, name::qualified_name(name)));
    }
    if all.contains(&ORPHAN) && all.contains(&FOREGROUND) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(field::Error::invalid(&at, BadValue::Raw(list_of_strings(all)), why));
    }
}

fn validate_managed_fields(object: &Map, path: &Path<'_>, errors: &mut field::List) {
    let at = path.child("managedFields");
    let entries =
        metadata(object).and_then(|metadata| metadata.get("managedFields")).and_then(Value::as_list);
    for (index, entry) in entries.unwrap_or_default().iter().enumerate() {
        let at = at.index(index);
        let part = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        if !matches!(part("operation"), "Apply" | "Update") {
            let why = "must be `Apply` or `Update`";
            errors.push(field::Error::invalid(&at.child("operation"), part("operation"), why));
        }
        if !matches!(part("fieldsType"), "" | "FieldsV1") {
            let why = "must be `FieldsV1`";
            errors.push(field::Error::invalid(&at.child("fieldsType"), part("fieldsType"), why));
        }
        check_manager(&at.child("manager"), part("manager"), errors);
        if part("subresource").len() > LONGEST_SUBRESOURCE {
            errors.push(field::Error::too_long(&at.child("subresource"), Some(LONGEST_SUBRESOURCE)));
        }
    }
}

/// The rules for the name of a manager.
pub fn check_manager(path: &Path<'_>, manager: &str, errors: &mut field::List) {
    if manager.len() > LONGEST_MANAGER {
        errors.push(field::Error::too_long(path, Some(LONGEST_MANAGER)));
    }
    for (at, character) in manager.char_indices() {
        if !object::quote::is_printable(character) {
            errors.push_with(|| {
                let why = format!("invalid character U+{:04X} (at position {at})", u32::from(character));
                field::Error::invalid(path, manager, why)
            });
        }
    }
}

/// Texts as they are shown in an error: `[]string{"a", "b"}`.
pub fn list_of_strings<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    format!("[]string{{{}}}", quote_each(texts))
}
