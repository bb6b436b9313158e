//! The volume with the token of a pod's service account, the server's certificate authority and the pod's
//! namespace.

use super::super::pod::{each, push};
use object::{Key, Map, Text, Value};
use schema::view::{Items, View as _};
use schema::views::core::v1::{Container, PodSpec, VolumeMount};

/// The start of the names of such volumes.
const PREFIX: &str = "kube-api-access-";

/// Where containers find the files. A container that has something else there gets no volume.
const PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The lifetime that a kubelet asks for: an hour, recognisable because clients that never read the file again
/// get a longer one.
const EXPIRATION_SECONDS: i64 = 60 * 60 + 7;

/// Mounts the volume into all containers of a pod, and adds it if a container needs it.
pub(super) fn mount(spec: &mut Map) {
    let view = PodSpec::of(spec);
    let found = view.volumes().iter().map(|volume| volume.name()).find(|name| name.starts_with(PREFIX));
    let has_volume = found.is_some();
    let name: Text = found.map_or_else(|| object::name::generate(PREFIX).into(), Text::from);
    let mut is_needed = false;
    for key in ["initContainers", "containers"] {
        each(spec, key, |container| {
            if !has_mount(Container::of(container).volume_mounts()) {
                push(container, "volumeMounts", volume_mount(&name));
                is_needed = true;
            }
        });
    }
    if is_needed && !has_volume {
        push(spec, "volumes", volume(name));
    }
}

fn has_mount<'a>(mounts: Items<'a, VolumeMount<'a>>) -> bool {
    mounts.iter().any(|mount| mount.mount_path() == PATH)
}

fn volume_mount(name: &Text) -> Map {
    map([("name", name.clone().into()), ("readOnly", true.into()), ("mountPath", text(PATH))])
}

fn volume(name: Text) -> Map {
    let token = map([("expirationSeconds", EXPIRATION_SECONDS.into()), ("path", text("token"))]);
    let authority = map([
        ("name", text("kube-root-ca.crt")),
        ("items", list(map([("key", text("ca.crt")), ("path", text("ca.crt"))]))),
    ]);
    let field = map([("apiVersion", text("v1")), ("fieldPath", text("metadata.namespace"))]);
    let namespace = map([("path", text("namespace")), ("fieldRef", field.into())]);
    let sources = [
        map([("serviceAccountToken", token.into())]),
        map([("configMap", authority.into())]),
        map([("downwardAPI", map([("items", list(namespace))]).into())]),
    ];
    let projected = map([("sources", sources.into_iter().collect()), ("defaultMode", 0o644_i64.into())]);
    map([("name", name.into()), ("projected", projected.into())])
}

fn map<const N: usize>(entries: [(&'static str, Value); N]) -> Map {
    Map::from_distinct(entries.map(|(key, value)| (Key::known(key), value)))
}

fn list(item: Map) -> Value {
    Value::from_iter([item])
}

fn text(text: &'static str) -> Value {
    Value::String(Text::known(text))
}
