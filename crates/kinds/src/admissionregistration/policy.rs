//! The rules that the policies and their bindings share.
//!
//! The specs of validating and mutating policies have the same fields for what they match, and are read with
//! the views of one of them.

use super::compilation::{self, Texts};
use super::webhooks::{match_conditions, one_of, rules};
use crate::checks;
use crate::conditions;
use crate::label_selector::{self, Values};
use expressions::admission::Scope;
use object::Map;
use object::field::{Error, List, Path};
use object::json_path::JsonPath;
use object::name::{
    Mode, dns1035_label, dns1123_subdomain, invalid, name_is_dns_subdomain, name_is_path_segment,
};
use schema::view::{Items, View};
use schema::views::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations, ParamKind, ParamRef, RuleWithOperations,
    ValidatingAdmissionPolicyBindingSpec, ValidatingAdmissionPolicySpec, ValidatingAdmissionPolicyStatus,
    Variable,
};
use schema::views::meta::v1::LabelSelector;
use std::collections::HashSet;

/// The fields of a spec up to its match conditions. Those that did not change are not checked.
pub(super) fn head(spec: &Map, old: Option<&Map>, path: &Path<'_>) -> List {
    full_head(spec, old, |_| List::new(), path)
}

/// [`head`] of a mutating policy, which matches only what can be changed.
pub(super) fn mutating_head(spec: &Map, old: Option<&Map>, path: &Path<'_>) -> List {
    let at = path.child("matchConstraints");
    full_head(spec, old, |resources| mutating_operations(resources.map(), &at), path)
}

fn full_head(
    spec: &Map,
    old: Option<&Map>,
    operations: impl FnOnce(MatchResources<'_>) -> List,
    path: &Path<'_>,
) -> List {
    let of_spec = ValidatingAdmissionPolicySpec::of(spec);
    let mut errors = match of_spec.failure_policy() {
        None => Error::required(&path.child("failurePolicy"), "").into(),
        policy => one_of(path, "failurePolicy", policy, &["Fail", "Ignore"]),
    };
    if let Some(kind) = of_spec.param_kind() {
        errors.append(param_kind(kind, &path.child("paramKind")));
    }
    let at = path.child("matchConstraints");
    match of_spec.match_constraints() {
        None => errors.push(Error::required(&at, "")),
        Some(resources) => {
            errors.append(match_resources(resources, &at));
            if resources.resource_rules().is_empty() {
                errors.push(Error::required(&at.child("resourceRules"), ""));
            }
            errors.append(operations(resources));
        }
    }
    let same = |key: &str| old.is_some_and(|old| old.get(key) == spec.get(key));
    if !(same("paramKind") && same("matchConditions")) {
        let before = old.map(|old| ValidatingAdmissionPolicySpec::of(old).match_conditions());
        let before = before.into_iter().flat_map(Items::iter);
        let stored: Texts<'_> = before.map(|condition| condition.expression()).collect();
        let scope = Scope::of_conditions(of_spec.param_kind().is_some());
        let path = path.child("matchConditions");
        errors.append(match_conditions(of_spec.match_conditions(), &scope, &stored, &path));
    }
    errors
}

fn param_kind(kind: ParamKind<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (version, at) = (kind.api_version(), path.child("apiVersion"));
    let joined = |messages: object::name::Messages| messages.join(",");
    let mut refuse = |text: &str, why: String| errors.push(Error::invalid(&at, text, why));
    match version.split_once('/').unwrap_or(("", version)) {
        _ if version.is_empty() => errors.push(Error::required(&at, "")),
        (_, version_part) if version_part.contains('/') => {
            refuse(version, format!("unexpected GroupVersion string: {version}"));
        }
        (group, version_part) => {
            let faults = dns1123_subdomain(group);
            if !group.is_empty() && !faults.is_empty() {
                refuse(group, joined(faults));
            }
            let faults = dns1035_label(version_part);
            if version_part.is_empty() {
                refuse(version, "version must be specified".to_owned());
            } else if !faults.is_empty() {
                refuse(version_part, joined(faults));
            }
        }
    }
    let at = path.child("kind");
    let faults = dns1035_label(&kind.kind().to_lowercase());
    if kind.kind().is_empty() {
        errors.push(Error::required(&at, ""));
    } else if !faults.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", joined(faults));
        errors.push(Error::invalid(&at, kind.kind(), why));
    }
    errors
}

fn match_resources(resources: MatchResources<'_>, path: &Path<'_>) -> List {
    let mut errors = match resources.match_policy() {
        None => Error::required(&path.child("matchPolicy"), "").into(),
        policy => one_of(path, "matchPolicy", policy, &["Equivalent", "Exact"]),
    };
    let selectors = [
        ("namespaceSelector", resources.namespace_selector()),
        ("objectSelector", resources.object_selector()),
    ];
    for (key, selector) in selectors {
        errors.append(required_selector(selector, &path.child(key)));
    }
    errors.append(named_rules(resources.resource_rules(), &path.child("resourceRules")));
    errors.append(named_rules(resources.exclude_resource_rules(), &path.child("excludeResourceRules")));
    errors
}

fn required_selector(selector: Option<LabelSelector<'_>>, path: &Path<'_>) -> List {
    match selector {
        None => Error::required(path, "").into(),
        Some(selector) => label_selector::validate(selector, Values::Checked, path),
    }
}

fn named_rules(all: Items<'_, NamedRuleWithOperations<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for (at, rule) in all.iter().enumerate() {
        let path = path.index(at);
        let names = path.child("resourceNames");
        let mut seen = HashSet::new();
        for (at, name) in rule.resource_names().iter().enumerate() {
            let path = names.index(at);
            errors.append(invalid(&path, name, name_is_path_segment(name, Mode::Name)));
            errors.extend((!seen.insert(name)).then(|| Error::duplicate(&path, name)));
        }
        errors.append(rules::validate(RuleWithOperations::of(rule.map()), &path));
    }
    errors
}

/// What is deleted cannot be changed.
pub(super) fn mutating_operations(resources: &Map, path: &Path<'_>) -> List {
    let rules = MatchResources::of(resources).resource_rules();
    let path = path.child("resourceRules");
    let path = path.child("operations");
    let operations = rules.iter().flat_map(|rule| rule.operations().iter());
    operations
        .filter_map(|operation| checks::one_of(operation, &["*", "CONNECT", "CREATE", "UPDATE"], &path))
        .collect()
}

fn is_identifier(name: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(is_word)
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !cel::escape::is_reserved(name)
}

/// The variables of a policy, which the expressions of `scope` can name afterwards.
pub(super) fn variables(
    all: Items<'_, Variable<'_>>,
    scope: &Scope,
    stored: &Texts<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    for (at, variable) in all.iter().enumerate() {
        let path = path.index(at);
        let (name, at) = (variable.name(), path.child("name"));
        if name.trim().is_empty() {
            errors.push(Error::required(&at, "name is not specified"));
        } else if !is_identifier(name) {
            errors.push(Error::invalid(&at, name, "name is not a valid CEL identifier"));
        }
        let (text, at) = (variable.expression(), path.child("expression"));
        if text.trim().is_empty() {
            errors.push(Error::required(&at, "expression is not specified"));
        } else if let Err(fault) = scope.add_variable(name, text, stored.stage(text)).compiled {
            errors.push(compilation::error(&fault, text, &at));
        }
    }
    errors
}

/// The fields that the specs of both kinds of bindings have.
pub(super) fn binding(spec: &Map, path: &Path<'_>) -> List {
    let spec = ValidatingAdmissionPolicyBindingSpec::of(spec);
    let at = path.child("policyName");
    let mut errors = match spec.policy_name() {
        "" => Error::required(&at, "").into(),
        name => invalid(&at, name, name_is_dns_subdomain(name, Mode::Name)),
    };
    if let Some(reference) = spec.param_ref() {
        errors.append(param_ref(reference, &path.child("paramRef")));
    }
    if let Some(resources) = spec.match_resources() {
        errors.append(match_resources(resources, &path.child("matchResources")));
    }
    errors
}

fn param_ref(reference: ParamRef<'_>, path: &Path<'_>) -> List {
    let (name, selector) = (reference.name(), reference.selector());
    let is_both = !name.is_empty() && selector.is_some();
    let exclusive =
        |path: &Path<'_>| is_both.then(|| Error::forbidden(path, "name and selector are mutually exclusive"));
    let at = path.child("name");
    let mut errors = match name {
        "" => List::new(),
        name => invalid(&at, name, name_is_path_segment(name, Mode::Name)),
    };
    errors.extend(exclusive(&at));
    if let Some(selector) = selector {
        let at = path.child("selector");
        errors.append(label_selector::validate(selector, Values::Checked, &at));
        errors.extend(exclusive(&at));
    }
    if name.is_empty() && selector.is_none() {
        errors.push(Error::required(path, "one of name or selector must be specified"));
    }
    let at = path.child("parameterNotFoundAction");
    let action = reference.parameter_not_found_action().unwrap_or_default();
    errors.extend(checks::required_one_of(action, &["Deny", "Allow"], &at));
    errors
}

/// The status of a validating policy.
pub(super) fn validate_status(status: ValidatingAdmissionPolicyStatus<'_>) -> List {
    let path = Path::new("status");
    let mut errors = List::new();
    if let Some(checking) = status.type_checking() {
        let at = path.child("typeChecking");
        let at = at.child("expressionWarnings");
        for (index, warning) in checking.expression_warnings().iter().enumerate() {
            let path = at.index(index);
            errors.extend(checks::required(warning.warning(), &path.child("warning")));
            errors.extend(field_reference(warning.field_ref().trim(), &path.child("fieldRef")));
        }
    }
    errors.append(conditions::validate(status.conditions(), &path.child("conditions")));
    errors
}

fn field_reference(text: &str, path: &Path<'_>) -> Option<Error> {
    checks::required(text, path).or_else(|| {
        let error = JsonPath::parse(text).err()?;
        Some(Error::invalid(path, text, format!("invalid JSONPath: {error}")))
    })
}
