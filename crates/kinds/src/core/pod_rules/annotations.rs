//! The rules for annotations of pods and templates that mean something to the server, and that say the same
//! as fields.

use super::{PodOptions, containers};
use crate::core::{app_armor, local_path, tolerations};
use object::field::{Error, List, Path};
use object::quote::Quoted;
use schema::view::Entries;
use schema::views::core::v1::{AppArmorProfile, Container, PodSpec, SeccompProfile};
use std::collections::{HashMap, HashSet};

/// The annotation of a pod that mirrors a static pod of a kubelet.
pub(in crate::core) const MIRROR: &str = "kubernetes.io/config.mirror";
/// The annotation with the seccomp profile of a pod.
pub(in crate::core) const SECCOMP: &str = "seccomp.security.alpha.kubernetes.io/pod";
/// Before the name of a container: the annotation with its seccomp profile.
pub(in crate::core) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const LOCALHOST: &str = "localhost/";

/// The field errors of the annotations of a pod or of a template; `path` is that of the annotations.
pub(crate) fn validate(
    annotations: Entries<'_, &str>,
    spec: PodSpec<'_>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    if annotations.is_empty() {
        return errors;
    }
    if let Some(value) = annotations.get(MIRROR)
        && spec.node_name().is_empty()
    {
        let why = "must set spec.nodeName if mirror pod annotation is set";
        errors.push(Error::invalid(&path.key(MIRROR), value, why));
    }
    if let Some(text) = annotations.get(TOLERATIONS).filter(|text| !text.is_empty()) {
        match tolerations::parsed(text, &path.child(TOLERATIONS)) {
            Ok(of_tolerations) => errors.append(of_tolerations),
            Err(why) => errors.push(Error::invalid(path, TOLERATIONS, why)),
        }
    }
    if !options.invalid_deletion_cost && !has_valid_deletion_cost(annotations) {
        let value = annotations.get(DELETION_COST).unwrap_or_default();
        errors.push(Error::invalid(&path.key(DELETION_COST), value, "must be a 32bit integer"));
    }
    if let Some(profile) = annotations.get(SECCOMP) {
        errors.append(seccomp(profile, &path.child(SECCOMP)));
    }
    for (key, profile) in annotations.iter().filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER)) {
        errors.append(seccomp(profile, &path.child(key)));
    }
    errors.append(app_armor_annotations(annotations, spec, path));
    errors
}

/// Whether the annotation with the cost of a deletion is a number in its plain form, or absent.
pub(super) fn has_valid_deletion_cost(annotations: Entries<'_, &str>) -> bool {
    annotations.get(DELETION_COST).is_none_or(|text| {
        let is_plain = matches!(text.as_bytes(), [b'0'] | [b'-' | b'1'..=b'9', ..]);
        is_plain && text.parse::<i32>().is_ok()
    })
}

fn seccomp(profile: &str, path: &Path<'_>) -> List {
    match profile {
        "runtime/default" | "docker/default" | "unconfined" => List::new(),
        _ => match profile.strip_prefix(LOCALHOST) {
            Some(file) => local_path::descending(file, path),
            None => Error::invalid(path, profile, "must be a valid seccomp profile").into(),
        },
    }
}

fn app_armor_annotations(annotations: Entries<'_, &str>, spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut names: Option<HashSet<&str>> = None;
    for (key, profile) in annotations.iter() {
        let Some(name) = key.strip_prefix(app_armor::ANNOTATION) else { continue };
        let names = names.get_or_insert_with(|| {
            let mut names = HashSet::new();
            containers::each(spec, path, |container, _| {
                names.insert(container.name());
            });
            names
        });
        if !names.contains(name) {
            errors.push(Error::invalid(&path.key(key), name, "container not found"));
        }
        let is_known = matches!(profile, "" | "runtime/default" | "unconfined");
        if !is_known && !profile.starts_with(LOCALHOST) {
            let why = format!("invalid AppArmor profile name: {}", Quoted(profile));
            errors.push(Error::invalid(&path.key(key), profile, why));
        }
    }
    errors
}

/// The field errors of annotations that may not change after a pod is created.
pub(super) fn updates(new: Entries<'_, &str>, old: Entries<'_, &str>, path: &Path<'_>) -> List {
    let is_app_armor = |key: &str| key.starts_with(app_armor::ANNOTATION);
    let is_fixed = |(key, _): &(&str, &str)| *key == MIRROR || is_app_armor(key);
    let kind = |key: &str| if is_app_armor(key) { "AppArmor annotations" } else { "mirror pod annotation" };
    let after: HashMap<_, _> = new.iter().filter(is_fixed).collect();
    let before: HashMap<_, _> = old.iter().filter(is_fixed).collect();
    let mut errors = List::new();
    if after == before {
        return errors;
    }
    for (key, value) in old.iter().filter(is_fixed) {
        if after.get(key) != Some(&value) {
            let why = format!("may not remove or update {}", kind(key));
            errors.push(Error::forbidden(&path.key(key), why));
        }
    }
    for (key, _) in new.iter().filter(is_fixed) {
        if !before.contains_key(key) {
            errors.push(Error::forbidden(&path.key(key), format!("may not add {}", kind(key))));
        }
    }
    errors
}

/// The field errors of security profiles that annotations and fields name differently; `path` is that of the
/// spec.
pub(crate) fn match_fields(annotations: Entries<'_, &str>, spec: PodSpec<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if annotations.is_empty() {
        return errors;
    }
    let of_pod = spec.security_context();
    if let Some(text) = annotations.get(SECCOMP)
        && let Some(profile) = of_pod.and_then(|context| context.seccomp_profile())
    {
        let path = path.child("securityContext");
        errors.extend(differs(text, Profile::from(profile), &path.child("seccompProfile")));
    }
    errors.append(match_containers(annotations, spec, path, SECCOMP_CONTAINER, |container| {
        let own = container.security_context();
        own.and_then(|context| context.seccomp_profile()).map(Profile::from)
    }));
    if spec.os().is_some_and(|os| os.name() == "windows") {
        return errors;
    }
    let of_pod = of_pod.and_then(|context| context.app_armor_profile());
    errors.append(match_containers(annotations, spec, path, app_armor::ANNOTATION, |container| {
        let own = container.security_context();
        own.and_then(|context| context.app_armor_profile()).or(of_pod).map(Profile::from)
    }));
    errors
}

/// A security profile of a field.
#[derive(Clone, Copy)]
struct Profile<'a> {
    /// What the messages call its kind.
    kind: &'static str,
    /// The field that it is.
    field: &'static str,
    ty: &'a str,
    file: Option<&'a str>,
    /// The values of annotations that mean `RuntimeDefault`.
    default: &'static [&'static str],
}

impl<'a> From<SeccompProfile<'a>> for Profile<'a> {
    fn from(profile: SeccompProfile<'a>) -> Self {
        Self {
            kind: "seccomp",
            field: "seccompProfile",
            ty: profile.r#type(),
            file: profile.localhost_profile(),
            default: &["runtime/default", "docker/default"],
        }
    }
}

impl<'a> From<AppArmorProfile<'a>> for Profile<'a> {
    fn from(profile: AppArmorProfile<'a>) -> Self {
        Self {
            kind: "apparmor",
            field: "appArmorProfile",
            ty: profile.r#type(),
            file: profile.localhost_profile(),
            default: &["runtime/default"],
        }
    }
}

fn match_containers<'a>(
    annotations: Entries<'a, &'a str>,
    spec: PodSpec<'a>,
    path: &Path<'_>,
    prefix: &str,
    profile: impl Fn(Container<'a>) -> Option<Profile<'a>>,
) -> List {
    let named = |(key, text): (&'a str, &'a str)| key.strip_prefix(prefix).map(|name| (name, text));
    let texts: HashMap<_, _> = annotations.iter().filter_map(named).collect();
    if texts.is_empty() {
        return List::new();
    }
    let mut errors = List::new();
    containers::each(spec, path, |container, path| {
        if let Some(text) = texts.get(container.name())
            && let Some(profile) = profile(container)
        {
            let path = path.child("securityContext");
            errors.extend(differs(text, profile, &path.child(profile.field)));
        }
    });
    errors
}

/// The error of a profile that an annotation does not name.
fn differs(annotation: &str, profile: Profile<'_>, path: &Path<'_>) -> Option<Error> {
    let Profile { kind, ty, file, default, .. } = profile;
    let other_type = || {
        let why = format!("{kind} type in annotation and field must match");
        Some(Error::forbidden(&path.child("type"), why))
    };
    match (ty, annotation.strip_prefix(LOCALHOST)) {
        ("Unconfined", _) if annotation != "unconfined" => other_type(),
        ("RuntimeDefault", _) if !default.contains(&annotation) => other_type(),
        ("Localhost", None) => other_type(),
        ("Localhost", named) if named != file => {
            let why = format!("{kind} profile in annotation and field must match");
            Some(Error::forbidden(&path.child("localhostProfile"), why))
        }
        _ => None,
    }
}
