//! The defaults of a pod spec, in pods and in the pod templates of workloads.

use super::image;
use crate::defaults::{at, each, fill, fill_text, round_up, round_up_requirements, within};
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
    within(template, "spec", default);
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
    at(object, "metadata", |metadata| {
        at(metadata, "annotations", |annotations| {
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
    at(volume, "hostPath", default_host_path);
    at(volume, "secret", readable);
    at(volume, "configMap", readable);
    at(volume, "azureDisk", default_azure_disk);
    at(volume, "downwardAPI", |source| {
        readable(source);
        files(source);
    });
    at(volume, "projected", |source| {
        readable(source);
        each(source, "sources", |source| {
            at(source, "downwardAPI", files);
            at(source, "serviceAccountToken", |token| fill(token, "expirationSeconds", 3600i64));
        });
    });
    at(volume, "ephemeral", |source| {
        at(source, "volumeClaimTemplate", |template| within(template, "spec", default_claim));
    });
}

/// The default file mode, 0644.
fn readable(source: &mut Map) {
    fill(source, "defaultMode", 0o644i64);
}

fn files(source: &mut Map) {
    each(source, "items", |item| at(item, "fieldRef", field_ref));
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
        at(variable, "valueFrom", |source| at(source, "fieldRef", field_ref));
    });
    round_up_requirements(container, "resources");
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        at(container, name, probe);
    }
    at(container, "lifecycle", |lifecycle| {
        for moment in ["postStart", "preStop"] {
            at(lifecycle, moment, |handler| at(handler, "httpGet", http_get));
        }
    });
}

fn probe(probe: &mut Map) {
    fill(probe, "timeoutSeconds", 1i64);
    fill(probe, "periodSeconds", 10i64);
    fill(probe, "successThreshold", 1i64);
    fill(probe, "failureThreshold", 3i64);
    at(probe, "httpGet", http_get);
    at(probe, "grpc", |action| fill_text(action, "service", ""));
}

fn http_get(action: &mut Map) {
    fill_text(action, "path", "/");
    fill_text(action, "scheme", "HTTP");
}
