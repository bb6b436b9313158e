//! AppArmor profiles of containers: the field, and the annotation that older nodes read.

use crate::defaults::each;
use crate::{map_at, metadata};
use object::{Key, Map, Value};
use schema::view::View;
use schema::views::core::v1::{AppArmorProfile, Pod};

/// Before the name of a container: the annotation with its profile.
const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The longest path of a profile.
const LONGEST: usize = 4095;

/// For each container of a new pod, writes the annotation if there is none, and takes the profile from it if the container
/// has none.
pub(super) fn settle(pod: &mut Map) {
    let spec = Pod::of(pod).spec();
    if spec.os().is_some_and(|os| os.name() == "windows") {
        return;
    }
    let of_pod = spec.security_context().and_then(|context| context.app_armor_profile());
    let pod_text = of_pod.and_then(annotation);
    let of_pod = of_pod.map(|profile| profile.map().clone());
    let annotations = metadata(pod).annotations().map().clone();
    let annotations = annotations.index();
    if of_pod.is_none() && !annotations.keys().any(|key| key.starts_with(ANNOTATION)) && !uses_profiles(pod) {
        return;
    }
    let mut written: Vec<(Key, String)> = Vec::new();
    let Some(spec) = map_at(pod, "spec") else { return };
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, |container| {
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            let key = format!("{ANNOTATION}{name}");
            let own = container.get("securityContext").and_then(|context| context.get("appArmorProfile"));
            match (annotations.get(key.as_str()), own.and_then(Value::as_map)) {
                (None, Some(own)) => {
                    written.extend(annotation(AppArmorProfile::of(own)).map(|text| (key.into(), text)))
                }
                (None, None) => written.extend(pod_text.clone().map(|text| (key.into(), text))),
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
    if !written.is_empty()
        && let Some(annotations) =
            map_at(pod, "metadata").and_then(|metadata| map_at(metadata, "annotations"))
    {
        for (key, text) in written {
            annotations.insert(key, text);
        }
    }
}

fn uses_profiles(pod: &Map) -> bool {
    let spec = Pod::of(pod).spec();
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
