//! AppArmor profiles of containers: the field, and the annotation that older nodes read.

use super::pod_rules::containers;
use crate::defaults::each;
use crate::map_at;
use object::field::Path;
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::core::v1::{AppArmorProfile, Pod, PodSpec};
use std::collections::{BTreeMap, HashMap};

/// Before the name of a container: the annotation with its profile.
pub(super) const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
/// What is said of the annotation.
pub(super) const DEPRECATED: &str = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
/// The longest path of a profile.
const LONGEST: usize = 4095;

/// For each container of a new pod, writes the annotation if there is none, and takes the profile from it if
/// the container has none.
pub(super) fn settle(pod: &mut Map) {
    let spec = Pod::of(pod).spec();
    let annotations = Pod::of(pod).metadata().annotations();
    let of_pod = spec.security_context().and_then(|context| context.app_armor_profile());
    let annotated = annotations.iter().any(|(key, _)| key.starts_with(ANNOTATION));
    let on_windows = spec.os().is_some_and(|os| os.name() == "windows");
    if on_windows || (of_pod.is_none() && !annotated && !uses_profiles(spec)) {
        return;
    }
    let pod_text = of_pod.and_then(annotation);
    let of_pod = of_pod.map(|profile| profile.map().clone());
    let annotations = annotations.map().clone();
    let annotations = annotations.index();
    let mut written: BTreeMap<String, String> = BTreeMap::new();
    let Some(spec) = map_at(pod, "spec") else { return };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, |container| {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let key = format!("{ANNOTATION}{name}");
            let own = container.get("securityContext").and_then(|context| context.get("appArmorProfile"));
            match (annotations.get(key.as_str()), own.and_then(Value::as_map)) {
                (None, own) => {
                    let text =
                        own.map_or_else(|| pod_text.clone(), |own| annotation(AppArmorProfile::of(own)));
                    if let Some(text) = text {
                        written.entry(key).or_insert(text);
                    }
                }
                (Some(text), None) => {
                    let profile =
                        text.as_str().and_then(profile).filter(|profile| Some(profile) != of_pod.as_ref());
                    if let Some(profile) = profile
                        && let Some(context) = map_at(container, "securityContext")
                    {
                        context.insert(Key::known("appArmorProfile"), profile);
                    }
                }
                (Some(_), Some(_)) => {}
            }
        });
    }
    if written.is_empty() {
        return;
    }
    if let Some(annotations) = map_at(pod, "metadata").and_then(|metadata| map_at(metadata, "annotations")) {
        for (key, text) in written {
            annotations.insert_at(usize::MAX, key.into(), text.into());
        }
    }
}

/// The warnings for annotations of a new pod that name no profile, or one that [`settle`] copies to the
/// container.
pub(super) fn warnings(pod: Pod<'_>) -> Vec<String> {
    let spec = pod.spec();
    let annotations = pod.metadata().annotations().iter();
    let texts: HashMap<_, _> =
        annotations.filter_map(|(key, text)| Some((key.strip_prefix(ANNOTATION)?, text))).collect();
    let on_windows = spec.os().is_some_and(|os| os.name() == "windows");
    let mut warnings = Vec::new();
    if texts.is_empty() || on_windows {
        return warnings;
    }
    let of_pod = spec.security_context().and_then(|context| context.app_armor_profile());
    let of_pod = of_pod.map(|profile| profile.map());
    containers::each(spec, &Path::UNSET, |container, _| {
        let own = container.security_context().and_then(|context| context.app_armor_profile());
        let Some(text) = texts.get(container.name()).filter(|_| own.is_none()) else { return };
        if profile(text).is_none_or(|profile| Some(&profile) != of_pod) {
            let name = container.name();
            warnings.push(format!("metadata.annotations[{ANNOTATION}{name}]: {DEPRECATED}"));
        }
    });
    warnings
}

fn uses_profiles(spec: PodSpec<'_>) -> bool {
    let containers = spec.init_containers().iter().chain(spec.containers().iter());
    let ephemeral = spec.ephemeral_containers().iter().map(|container| container.security_context());
    let mut contexts = containers.map(|container| container.security_context()).chain(ephemeral);
    contexts.any(|context| context.is_some_and(|context| context.app_armor_profile().is_some()))
}

/// The annotation that says the same as a profile.
fn annotation(profile: AppArmorProfile<'_>) -> Option<String> {
    match profile.r#type() {
        "Unconfined" => Some("unconfined".into()),
        "RuntimeDefault" => Some("runtime/default".into()),
        "Localhost" => profile.localhost_profile().map(|name| format!("localhost/{name}")),
        _ => None,
    }
}

/// The profile that an annotation names, if it is a valid one.
fn profile(annotation: &str) -> Option<Map> {
    let profile = |ty: &'static str| Map::from_iter([("type", ty)]);
    match annotation {
        "unconfined" => Some(profile("Unconfined")),
        "runtime/default" => Some(profile("RuntimeDefault")),
        _ => {
            let name = annotation.strip_prefix("localhost/")?;
            let valid = !name.is_empty() && name.trim() == name && name.len() <= LONGEST;
            valid.then(|| Map::from_iter([("type", "Localhost"), ("localhostProfile", name)]))
        }
    }
}
