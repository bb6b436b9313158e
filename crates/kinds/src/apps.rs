//! The kinds of `apps`.

use crate::core::pod_rules::PodOptions;
use crate::defaults::update_map;
use crate::{Kind, checks, label_selector, template, workload};
use object::field::{BadValue, Error, List, Path};
use object::quote::Quoted;
use object::{Map, Value};
use schema::views::core::v1::PodTemplateSpec;
use schema::views::meta::v1::LabelSelector;

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

#[cfg(test)]
mod tests;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &controller_revision::KIND,
    &daemon_set::KIND,
    &deployment::KIND,
    &replica_set::KIND,
    &stateful_set::KIND,
];

/// The feature `DeploymentReplicaSetTerminatingReplicas` is off: drops the field unless the old object uses
/// it.
fn drop_terminating(new: &mut Map, old: &Map) {
    let kept = old.get("status").is_some_and(|status| status.get("terminatingReplicas").is_some());
    if !kept {
        update_map(new, "status", |status: &mut Map| {
            drop::<Option<Value>>(status.remove("terminatingReplicas"))
        });
    }
}

/// The field errors of the selector and the template in a spec at `path`: of deployments and replica sets,
/// which have the same messages.
fn selector_and_template(
    selector: Option<LabelSelector<'_>>,
    template: PodTemplateSpec<'_>,
    options: &PodOptions,
    path: &Path<'_>,
) -> List {
    let (selector_path, template_path) = (path.child("selector"), path.child("template"));
    let mut errors = workload::selector(selector, "deployment", &selector_path);
    match workload::mismatch(selector, template, &template_path) {
        Err(_) => {
            let shown = label_selector::shown(selector);
            errors.push(Error::invalid(&selector_path, shown, "invalid label selector"));
        }
        Ok(mismatch) => {
            errors.extend(mismatch);
            errors.append(template::validate(template, options, &template_path));
            let spec = template_path.child("spec");
            errors.append(workload::always_restarted(template.spec(), "ReplicaSet", &spec));
        }
    }
    errors
}

/// A strategy for updates as an error shows it; `of` is its Go type, `rolling` that of its field
/// `rollingUpdate`.
fn shown_strategy(strategy: &Map, of: &str, rolling: &str) -> BadValue {
    if strategy.contains_key("rollingUpdate") {
        return checks::shown(Some(&strategy.clone().into()));
    }
    let ty = strategy.get("type").and_then(Value::as_str).unwrap_or_default();
    BadValue::Raw(format!("apps.{of}{{Type:{}, RollingUpdate:(*apps.{rolling})(nil)}}", Quoted(ty)))
}
