//! The defaults of a pod spec, in pods and in the pod templates of workloads.

use super::image;
use crate::defaults::{
    each, fill, fill_text, round_up, round_up_requirements, update_map, update_or_insert_map,
};
use object::{Key, Map, Value};

/// Sets the defaults of any pod spec. `pod_defaults` has those of pods alone.
pub(crate) fn default(spec: &mut Map) {
    fill_text(spec, "dnsPolicy", "ClusterFirst");
    fill_text(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", Map::new());
    fill(spec, "terminationGracePeriodSeconds", 30i64);
    fill_text(spec, "schedulerName", "default-scheduler");
    each(spec, "volumes", volume);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, container);
    }
    round_up(spec, "overhead");
    round_up_requirements(spec, "resources");
    mirror_service_account(spec);
}

/// Sets the defaults of a pod template; an absent spec counts as an empty one.
pub(crate) fn default_template(template: &mut Map) {
    drop_legacy_annotations(template);
    update_or_insert_map(template, "spec", default);
}

/// Makes `serviceAccountName` and `serviceAccount` agree; if they differ, `serviceAccountName` wins.
pub(crate) fn mirror_service_account(spec: &mut Map) {
    let name = ["serviceAccountName", "serviceAccount"].into_iter().find_map(|key| spec.get(key)).cloned();
    if let Some(name) = name {
        spec.insert(Key::known("serviceAccountName"), name.clone());
        spec.insert(Key::known("serviceAccount"), name);
    }
}

/// Removes the annotations that carried init containers before there was a field.
pub(crate) fn drop_legacy_annotations(object: &mut Map) {
    update_map(object, "metadata", |metadata| {
        update_map(metadata, "annotations", |annotations| {
            annotations.retain(|key, _| !LEGACY_ANNOTATIONS.contains(&key.as_str()));
        });
        if metadata.get("annotations").and_then(Value::as_map).is_some_and(Map::is_empty) {
            metadata.remove("annotations");
        }
    });
}

const LEGACY_ANNOTATIONS: &[&str] = &[
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Sets the defaults of a volume claim spec, in claims and in claim templates.
pub(crate) fn default_claim(spec: &mut Map) {
    fill_text(spec, "volumeMode", "Filesystem");
    round_up_requirements(spec, "resources");
}

/// Sets the defaults of a host path volume.
pub(crate) fn default_host_path(source: &mut Map) {
    fill_text(source, "type", "");
}

/// Sets the defaults of an Azure disk that the schema does not declare.
pub(crate) fn default_azure_disk(source: &mut Map) {
    fill(source, "readOnly", false);
}

fn volume(volume: &mut Map) {
    if !volume.keys().any(|key| key.as_str() != "name") {
        fill(volume, "emptyDir", Map::new());
    }
    update_map(volume, "hostPath", default_host_path);
    update_map(volume, "secret", readable);
    update_map(volume, "configMap", readable);
    update_map(volume, "azureDisk", default_azure_disk);
    update_map(volume, "downwardAPI", |source| {
        readable(source);
        files(source);
    });
    update_map(volume, "projected", |source| {
        readable(source);
        each(source, "sources", |source| {
            update_map(source, "downwardAPI", files);
            update_map(source, "serviceAccountToken", |token| fill(token, "expirationSeconds", 3600i64));
        });
    });
    update_map(volume, "ephemeral", |source| {
        update_map(source, "volumeClaimTemplate", |template| {
            update_or_insert_map(template, "spec", default_claim)
        });
    });
}

/// The default file mode, 0644.
fn readable(source: &mut Map) {
    fill(source, "defaultMode", 0o644i64);
}

fn files(source: &mut Map) {
    each(source, "items", |item| update_map(item, "fieldRef", field_ref));
}

fn field_ref(field_ref: &mut Map) {
    fill_text(field_ref, "apiVersion", "v1");
}

fn container(container: &mut Map) {
    if !container.contains_key("imagePullPolicy") {
        let image = container.get("image").and_then(|image| image.as_str()).unwrap_or_default();
        let policy = if image::is_latest(image) { "Always" } else { "IfNotPresent" };
        fill_text(container, "imagePullPolicy", policy);
    }
    fill_text(container, "terminationMessagePath", "/dev/termination-log");
    fill_text(container, "terminationMessagePolicy", "File");
    each(container, "env", |variable| {
        update_map(variable, "valueFrom", |source| update_map(source, "fieldRef", field_ref));
    });
    round_up_requirements(container, "resources");
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        update_map(container, name, probe);
    }
    update_map(container, "lifecycle", |lifecycle| {
        for moment in ["postStart", "preStop"] {
            update_map(lifecycle, moment, |handler| update_map(handler, "httpGet", http_get));
        }
    });
}

fn probe(probe: &mut Map) {
    fill(probe, "timeoutSeconds", 1i64);
    fill(probe, "periodSeconds", 10i64);
    fill(probe, "successThreshold", 1i64);
    fill(probe, "failureThreshold", 3i64);
    update_map(probe, "httpGet", http_get);
    update_map(probe, "grpc", |action| fill_text(action, "service", ""));
}

fn http_get(action: &mut Map) {
    fill_text(action, "path", "/");
    fill_text(action, "scheme", "HTTP");
}
