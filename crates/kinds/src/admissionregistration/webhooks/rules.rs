//! The rules for the rules of a webhook or a policy.

use super::{has_needless_items, one_of, strings};
use object::field::{Error, List, Path};
use schema::view::Items;
use schema::views::admissionregistration::v1::RuleWithOperations;
use std::collections::HashSet;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];

/// The field errors of a rule.
pub(in crate::admissionregistration) fn validate(rule: RuleWithOperations<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let operations = rule.operations();
    let of_operations = path.child("operations");
    errors.append(list(operations, "[]admissionregistration.OperationType", "operations", &of_operations));
    for (at, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push_with(|| Error::not_supported(&of_operations.index(at), operation, OPERATIONS));
        }
    }
    errors.append(list(rule.api_groups(), "[]string", "API groups", &path.child("apiGroups")));
    let of_versions = path.child("apiVersions");
    errors.append(list(rule.api_versions(), "[]string", "API versions", &of_versions));
    for (at, version) in rule.api_versions().iter().enumerate() {
        if version.is_empty() {
            errors.push_with(|| Error::required(&of_versions.index(at), ""));
        }
    }
    errors.append(resources(rule.resources(), &path.child("resources")));
    errors.append(one_of(path, "scope", rule.scope(), &SCOPES));
    errors
}

/// A list has items, and nothing beside an asterisk.
fn list(items: Items<'_, &str>, ty: &str, others: &str, path: &Path<'_>) -> List {
    if items.is_empty() {
        return Error::required(path, "").into();
    }
    if has_needless_items(items) {
        let why = format!("if '*' is present, must not specify other {others}");
        return Error::invalid(path, strings(ty, items), why).into();
    }
    List::new()
}

fn resources(resources: Items<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if resources.is_empty() {
        errors.push(Error::required(path, ""));
    }
    let (mut with_all_subresources, mut of_all_resources) = (HashSet::new(), HashSet::new());
    let (mut is_all, mut is_every_resource, mut has_plain) = (false, false, false);
    for (at, text) in resources.iter().enumerate() {
        if text.is_empty() {
            errors.push_with(|| Error::required(&path.index(at), ""));
            continue;
        }
        is_all |= text == "*/*";
        is_every_resource |= text == "*";
        let Some((resource, subresource)) = text.split_once('/') else {
            // As in the reference, the last one counts.
            has_plain = text != "*";
            continue;
        };
        let needless = |rule: String| {
            Error::invalid(&path.index(at), text, format!("if '{rule}' is present, must not specify {text}"))
        };
        if with_all_subresources.contains(resource) {
            errors.push_with(|| needless(format!("{resource}/*")));
        }
        if of_all_resources.contains(subresource) {
            errors.push_with(|| needless(format!("*/{subresource}")));
        }
        if subresource == "*" {
            with_all_subresources.insert(resource);
        }
        if resource == "*" {
            of_all_resources.insert(subresource);
        }
    }
    if resources.len() > 1 && is_all {
        let why = "if '*/*' is present, must not specify other resources";
        errors.push(Error::invalid(path, strings("[]string", resources), why));
    }
    if is_every_resource && has_plain {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(path, strings("[]string", resources), why));
    }
    errors
}
