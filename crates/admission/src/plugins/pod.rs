//! What several plugins ask of pods, and how they change them.

use object::{Map, Value};
use schema::view::{Items, View as _};
use schema::views::core::v1::{EnvFromSource, EnvVar, Pod, PodSpec, Volume};

/// The annotation of a mirror pod, which a kubelet made for a pod that it runs anyway.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// The object as a pod.
pub(super) fn of(object: Option<&Value>) -> Option<Pod<'_>> {
    object.and_then(Value::as_map).map(Pod::of)
}

/// The spec of a pod, to change it.
pub(super) fn spec_mut(object: Option<&mut Value>) -> Option<&mut Map> {
    kinds::map_at(object?.as_map_mut()?, "spec")
}

/// Applies `to` to each map in the list at `key`.
pub(super) fn each(map: &mut Map, key: &str, to: impl FnMut(&mut Map)) {
    let list = map.get_mut(key).and_then(Value::as_list_mut);
    list.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut).for_each(to);
}

/// Puts a value at the end of the list at `key`, which is made if there is none.
pub(super) fn push(map: &mut Map, key: &'static str, value: impl Into<Value>) {
    let list = map.get_or_insert_with(key, || Value::List(object::List::new()));
    if let Some(list) = list.as_list_mut() {
        list.push(value.into());
    }
}

/// Whether a pod is a mirror pod.
pub(super) fn is_mirror(pod: Pod<'_>) -> bool {
    pod.metadata().annotations().get(MIRROR).is_some()
}

/// The service account of a pod; the older field counts where the newer one is empty.
pub(super) fn service_account<'a>(spec: PodSpec<'a>) -> &'a str {
    match spec.service_account_name() {
        "" => spec.service_account(),
        name => name,
    }
}

/// Whether a pod names secrets, other than through claims.
pub(super) fn refers_to_secrets(spec: PodSpec<'_>) -> bool {
    let of_env = |env_from: Items<'_, EnvFromSource<'_>>, env: Items<'_, EnvVar<'_>>| {
        env_from.iter().any(|source| source.secret_ref().is_some_and(|secret| !secret.name().is_empty()))
            || env.iter().any(|variable| {
                let secret = variable.value_from().and_then(|source| source.secret_key_ref());
                secret.is_some_and(|secret| !secret.name().is_empty())
            })
    };
    spec.image_pull_secrets().iter().any(|secret| !secret.name().is_empty())
        || spec.init_containers().iter().any(|container| of_env(container.env_from(), container.env()))
        || spec.containers().iter().any(|container| of_env(container.env_from(), container.env()))
        || spec.ephemeral_containers().iter().any(|container| of_env(container.env_from(), container.env()))
        || spec.volumes().iter().any(volume_refers_to_secrets)
}

/// Whether a volume, which has one source, names secrets.
fn volume_refers_to_secrets(volume: Volume<'_>) -> bool {
    let local = [
        volume.cephfs().and_then(|source| source.secret_ref()),
        volume.cinder().and_then(|source| source.secret_ref()),
        volume.flex_volume().and_then(|source| source.secret_ref()),
        volume.rbd().and_then(|source| source.secret_ref()),
        volume.scale_io().and_then(|source| source.secret_ref()),
        volume.iscsi().and_then(|source| source.secret_ref()),
        volume.storageos().and_then(|source| source.secret_ref()),
        volume.csi().and_then(|source| source.node_publish_secret_ref()),
    ];
    local.into_iter().flatten().any(|secret| !secret.name().is_empty())
        || volume.azure_file().is_some_and(|source| !source.secret_name().is_empty())
        || volume.secret().is_some_and(|source| !source.secret_name().is_empty())
        || volume.projected().is_some_and(|projected| {
            let mut secrets = projected.sources().iter().filter_map(|source| source.secret());
            secrets.any(|secret| !secret.name().is_empty())
        })
}

/// Whether a pod names config maps.
pub(super) fn refers_to_config_maps(spec: PodSpec<'_>) -> bool {
    let of_env = |env_from: Items<'_, EnvFromSource<'_>>, env: Items<'_, EnvVar<'_>>| {
        env_from.iter().any(|source| source.config_map_ref().is_some_and(|map| !map.name().is_empty()))
            || env.iter().any(|variable| {
                let map = variable.value_from().and_then(|source| source.config_map_key_ref());
                map.is_some_and(|map| !map.name().is_empty())
            })
    };
    spec.init_containers().iter().any(|container| of_env(container.env_from(), container.env()))
        || spec.containers().iter().any(|container| of_env(container.env_from(), container.env()))
        || spec.ephemeral_containers().iter().any(|container| of_env(container.env_from(), container.env()))
        || spec.volumes().iter().any(|volume| {
            let projected = volume.projected().into_iter().flat_map(|projected| projected.sources().iter());
            volume.config_map().is_some_and(|map| !map.name().is_empty())
                || projected.filter_map(|source| source.config_map()).any(|map| !map.name().is_empty())
        })
}
