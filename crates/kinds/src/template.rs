//! The pod template of a workload: what every write does with it.

use crate::Gates;
use crate::core::pod_gates;
use crate::core::pod_rules::{self, PodOptions, annotations};
use crate::core::pod_warnings;
use crate::object_meta;
use object::field::{Error, List, Path};
use object::{Map, Value};
use schema::view::View;
use schema::views::core::v1::PodTemplateSpec;

/// The field path of the pod spec of a workload.
pub(crate) const POD_SPEC: &[&str] = &["spec", "template", "spec"];

/// Drops the fields of disabled features from the pod spec at `path`, unless the old object uses them. Does
/// nothing if the path is empty.
pub(crate) fn drop_disabled(new: &mut Map, old: Option<&Map>, path: &[&str], gates: Gates) {
    if path.is_empty() {
        return;
    }
    let old = old.and_then(|old| path.iter().try_fold(old, |map, key| map.get(key)?.as_map()));
    if let Some(spec) = path.iter().try_fold(new, |map, key| map.get_mut(key)?.as_map_mut()) {
        pod_gates::drop_disabled(spec, old, gates);
    }
}

/// Whether the pod templates of two objects differ.
pub(crate) fn differs(new: &Map, old: &Map) -> bool {
    fn template(object: &Map) -> Option<&Value> {
        object.get("spec")?.get("template")
    }
    template(new) != template(old)
}

/// The field errors of a pod template at `path`.
pub(crate) fn validate(template: PodTemplateSpec<'_>, options: &PodOptions, path: &Path<'_>) -> List {
    let mut errors = validate_metadata(template, options, path);
    let (pod_spec, spec) = (template.spec(), path.child("spec"));
    errors.append(pod_rules::spec(pod_spec, None, options, &spec));
    errors.append(annotations::match_fields(template.metadata().annotations(), pod_spec, &spec));
    if !pod_spec.ephemeral_containers().is_empty() {
        let why = "ephemeral containers not allowed in pod template";
        errors.push(Error::forbidden(&spec.child("ephemeralContainers"), why));
    }
    errors
}

/// The field errors of the metadata of a pod template at `path`.
pub(crate) fn validate_metadata(
    template: PodTemplateSpec<'_>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let metadata = template.metadata();
    let mut errors = object_meta::labels(Some(metadata.map()), &path.child("labels"));
    let path = path.child("annotations");
    errors.append(object_meta::annotations(Some(metadata.map()), &path));
    errors.append(annotations::validate(metadata.annotations(), template.spec(), options, &path));
    errors
}

/// The warnings for a pod template at `path`. `old` is the template before, if there was one; what it has is
/// warned of again.
pub(crate) fn warnings(
    template: PodTemplateSpec<'_>,
    _old: Option<PodTemplateSpec<'_>>,
    path: &Path<'_>,
) -> Vec<String> {
    pod_warnings::of_template(template, path)
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, warnings};

    fn object(metadata: &str, spec: &str) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"PodTemplate","template":{{"metadata":{{{metadata}}},"spec":{{"containers":[{{"name":"c","image":" i"}}]{spec}}}}}}}"#
        )
    }

    #[test]
    fn templates_have_the_rules_of_pods_under_their_own_paths() {
        let text = object(
            r#""labels":{"a":"-"},"annotations":{"controller.kubernetes.io/pod-deletion-cost":"x","seccomp.security.alpha.kubernetes.io/pod":"unconfined"}"#,
            r#","hostNetwork":true,"nodeName":"n","schedulingGates":[{"name":"g"}],"ephemeralContainers":[{"name":"e","image":"i"}],
            "securityContext":{"seccompProfile":{"type":"RuntimeDefault"}},"restartPolicy":"x""#,
        );
        let found = create(&text);
        assert!(found[0].starts_with(r#"template.labels: Invalid value: "-": a valid label"#));
        assert_eq!(
            found[1..],
            [
                r#"template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "x": must be a 32bit integer"#,
                r#"template.spec.restartPolicy: Unsupported value: "x": supported values: "Always", "OnFailure", "Never""#,
                "template.spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match",
                "template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template",
            ]
        );
        assert_eq!(update(&text, &text).len(), 4, "the cost of a deletion may stay as it is");
    }

    #[test]
    fn templates_are_warned_of_under_their_own_paths() {
        let annotations =
            r#""annotations":{"container.apparmor.security.beta.kubernetes.io/c":"unconfined"}"#;
        let text = object(annotations, r#","terminationGracePeriodSeconds":-1"#);
        assert_eq!(
            warnings(&text, None),
            [
                r#"template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use the "appArmorProfile" field instead"#,
                "template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            ]
        );
    }
}
