//! `resourcequotas`.

use super::resources::{is_of_quotas, quota_list};
use crate::Resets;
use crate::checks::shown_texts;
use crate::defaults::{round_up, update_map};
use crate::{About, Cell, Check, Column, Deleted, Kind, Rules, Strategy, Subresource, Version, columns};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::quote::{Quoted, quote_each};
use schema::view::{Items, View};
use schema::views::core::v1::{ResourceQuota, ResourceQuotaSpec, ScopeSelector};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "resourcequotas",
    singular: "resourcequota",
    kind: "ResourceQuota",
    short_names: &["quota"],
    versions: &[Version::V1.introduced(0)],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let status = ResourceQuota::of(object).status();
        let used = status.used().map().index();
        let mut hard: Vec<_> = status.hard().iter().collect();
        hard.sort_unstable();
        let (mut requests, mut limits) = (String::new(), String::new());
        for (name, most) in hard {
            let column = if name.starts_with("limits.") { &mut limits } else { &mut requests };
            let separator = if column.is_empty() { "" } else { ", " };
            let used = used.get(name).and_then(|amount| amount.as_str()).unwrap_or("0");
            let _ = write!(column, "{separator}{name}: {used}/{most}");
        }
    } [
        Column::NAME => Cell::name(object),
        Column::text(
            "Request",
            About::Text("Request represents a minimum amount of cpu/memory that a container may consume."),
        ) => Cell::Text(requests),
        Column::text(
            "Limit",
            About::Text(
                "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
            ),
        ) => Cell::Text(limits),
        Column::AGE => Cell::age(object),
    ]),
    deleted: Deleted::Object,
    resets: &Resets::STATUS,
    update_checks: &[Check::MetadataChange, Check::Object, Check::Change],
    strategy: &ResourceQuotaStrategy,
    ..Kind::PLAIN
};

struct ResourceQuotaStrategy;

impl Strategy for ResourceQuotaStrategy {
    fn default(&self, object: &mut Map) {
        update_map(object, "spec", |spec| round_up(spec, "hard"));
        update_map(object, "status", |status| {
            round_up(status, "hard");
            round_up(status, "used");
        });
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        validate_spec(ResourceQuota::of(object).spec())
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        let mut errors = List::new();
        let spec = ResourceQuota::of(new).spec();
        let scopes =
            |spec: ResourceQuotaSpec<'_>| spec.scopes().iter().map(str::to_owned).collect::<BTreeSet<_>>();
        if scopes(spec) != scopes(ResourceQuota::of(old).spec()) {
            let path = Path::new("spec");
            errors.push(Error::invalid(
                &path.child("scopes"),
                shown_scopes(spec.scopes()),
                "field is immutable",
            ));
        }
        errors
    }

    fn validate_status(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata_update(new, old);
        if crate::metadata(new).resource_version().is_empty() {
            errors.push(Error::required(&Path::new("resourceVersion"), ""));
        }
        let status = ResourceQuota::of(new).status();
        let path = Path::new("status");
        errors.append(quota_list(status.hard(), &path.child("hard")));
        errors.append(quota_list(status.used(), &path.child("used")));
        errors
    }
}

fn validate_spec(spec: ResourceQuotaSpec<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = quota_list(spec.hard(), &path.child("hard"));
    errors.append(validate_scopes(spec, &path.child("scopes")));
    if let Some(selector) = spec.scope_selector() {
        let selector_path = path.child("scopeSelector");
        errors.append(validate_selector(spec, selector, &selector_path.child("matchExpressions")));
    }
    errors
}

/// Scopes that exclude each other.
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

fn shown_scopes<'a>(scopes: Items<'a, &'a str>) -> BadValue {
    shown_texts("core.ResourceQuotaScope", scopes)
}

fn is_known(scope: &str) -> bool {
    matches!(scope, "PriorityClass" | "VolumeAttributesClass") || needs_exists(scope)
}

/// Whether a selector can only ask for the scope, without values.
fn needs_exists(scope: &str) -> bool {
    let scopes =
        ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    scopes.contains(&scope)
}

/// Whether a quota of the resource can have the scope.
fn applies(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        scope if is_known(scope) => matches!(
            resource,
            "pods" | "cpu" | "memory" | "limits.cpu" | "limits.memory" | "requests.cpu" | "requests.memory"
        ),
        _ => true,
    }
}

/// How many of the hard limits a scope does not apply to. Each scope is counted once, however often it is
/// there.
struct Unsupported<'a> {
    spec: ResourceQuotaSpec<'a>,
    counts: HashMap<&'a str, usize>,
}

impl<'a> Unsupported<'a> {
    fn new(spec: ResourceQuotaSpec<'a>) -> Self {
        Self { spec, counts: HashMap::new() }
    }

    fn count(&mut self, scope: &'a str) -> usize {
        if !is_known(scope) {
            return 0;
        }
        *self.counts.entry(scope).or_insert_with(|| {
            let hard = self.spec.hard().iter();
            hard.filter(|(name, _)| is_of_quotas(name) && !applies(scope, name)).count()
        })
    }
}

fn conflicts(scopes: &BTreeSet<&str>) -> usize {
    CONFLICTS.into_iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count()
}

/// Adds an error several times, until the list is full.
fn repeat(errors: &mut List, times: usize, make: impl Fn() -> Error) {
    for _ in 0..times {
        errors.push_with(&make);
        if errors.left_out() > 0 {
            return;
        }
    }
}

fn validate_scopes(spec: ResourceQuotaSpec<'_>, path: &Path<'_>) -> List {
    let scopes = spec.scopes();
    let mut unsupported = Unsupported::new(spec);
    let mut errors = List::new();
    let mut refuse = |times: usize, why: &'static str| {
        repeat(&mut errors, times, || Error::invalid(path, shown_scopes(scopes), why));
    };
    for scope in scopes.iter() {
        refuse(usize::from(!is_known(scope)), "unsupported scope");
        refuse(unsupported.count(scope), "unsupported scope applied to resource");
    }
    refuse(conflicts(&scopes.iter().collect()), "conflicting scopes");
    errors
}

/// The paths do not tell which of the expressions is wrong, as in the reference.
fn validate_selector(spec: ResourceQuotaSpec<'_>, selector: ScopeSelector<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut unsupported = Unsupported::new(spec);
    let operator_path = path.child("operator");
    for expression in selector.match_expressions().iter() {
        let (scope, operator, values) = (expression.scope_name(), expression.operator(), expression.values());
        if !is_known(scope) {
            errors.push(Error::invalid(&path.child("scopeName"), scope, "unsupported scope"));
        }
        repeat(&mut errors, unsupported.count(scope), || {
            Error::invalid(path, shown_selector(selector), "unsupported scope applied to resource")
        });
        if needs_exists(scope) && operator != "Exists" {
            let why = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or \
                ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(Error::invalid(&operator_path, operator, why));
        }
        match (operator, values.is_empty()) {
            ("In" | "NotIn", true) => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(Error::required(&path.child("values"), why));
            }
            ("Exists" | "DoesNotExist", false) => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(Error::invalid(&path.child("values"), shown_texts("string", values), why));
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => {}
            _ => errors.push(Error::invalid(&operator_path, operator, "not a valid selector operator")),
        }
    }
    let scopes = selector.match_expressions().iter().map(|expression| expression.scope_name()).collect();
    for _ in 0..conflicts(&scopes) {
        errors.push(Error::invalid(path, shown_scopes(spec.scopes()), "conflicting scopes"));
    }
    errors
}

fn shown_selector(selector: ScopeSelector<'_>) -> BadValue {
    let mut out = String::new();
    for expression in selector.match_expressions().iter() {
        let separator = if out.is_empty() { "" } else { ", " };
        let values = match expression.values().is_empty() {
            true => "(nil)".to_owned(),
            false => format!("{{{}}}", quote_each(expression.values().iter())),
        };
        let _ = write!(
            out,
            "{separator}core.ScopedResourceSelectorRequirement{{ScopeName:{}, Operator:{}, Values:[]string{values}}}",
            Quoted(expression.scope_name()),
            Quoted(expression.operator())
        );
    }
    BadValue::Raw(format!(
        "core.ScopeSelector{{MatchExpressions:[]core.ScopedResourceSelectorRequirement{{{out}}}}}"
    ))
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, update};

    fn object(spec: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"ResourceQuota","spec":{{{spec}}}}}"#)
    }

    #[test]
    fn names_and_amounts_are_those_of_quotas() {
        assert_eq!(
            create(&object(
                r#""hard":{"foo":"1","pods":"500m","secrets":"-1","hugepages-2Mi":"1","count/deployments.apps":"-5"}"#
            )),
            [
                "spec.hard[foo]: Invalid value: foo: must be a standard resource type or fully qualified",
                "spec.hard[foo]: Invalid value: foo: must be a standard resource for quota",
                r#"spec.hard[pods]: Invalid value: resource.Quantity{i:resource.int64Amount{value:500, scale:-3}, d:resource.infDecAmount{Dec:(*inf.Dec)(nil)}, s:"500m", Format:"DecimalSI"}: must be an integer"#,
                r#"spec.hard[secrets]: Invalid value: "-1": must be greater than or equal to 0"#,
                r#"spec.hard[count/deployments.apps]: Invalid value: "-5": must be greater than or equal to 0"#,
            ]
        );
    }

    #[test]
    fn scopes_are_known_apply_and_do_not_conflict() {
        let two = r#"[]core.ResourceQuotaScope{"BestEffort", "NotBestEffort"}"#;
        assert_eq!(
            create(&object(r#""hard":{"services":"1","pods":"1"},"scopes":["BestEffort","NotBestEffort"]"#)),
            [
                format!("spec.scopes: Invalid value: {two}: unsupported scope applied to resource"),
                format!("spec.scopes: Invalid value: {two}: unsupported scope applied to resource"),
                format!("spec.scopes: Invalid value: {two}: conflicting scopes"),
            ]
        );
        assert_eq!(
            create(&object(r#""scopes":["Nope"]"#)),
            [r#"spec.scopes: Invalid value: []core.ResourceQuotaScope{"Nope"}: unsupported scope"#]
        );
        let quota = |scopes: &str| object(&format!(r#""hard":{{"pods":"1"}},"scopes":[{scopes}]"#));
        assert!(update(&quota(r#""BestEffort""#), &quota(r#""BestEffort""#)).is_empty());
        assert_eq!(
            update(&quota(""), &quota(r#""BestEffort""#)),
            ["spec.scopes: Invalid value: []core.ResourceQuotaScope(nil): field is immutable"]
        );
    }

    #[test]
    fn selectors_have_values_where_their_operator_takes_them() {
        let path = "spec.scopeSelector.matchExpressions";
        let create = |hard: &str, expressions: &str| {
            create(&object(&format!(
                r#""hard":{{{hard}}},"scopeSelector":{{"matchExpressions":[{expressions}]}}"#
            )))
        };
        let exists = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        assert_eq!(
            create(
                "",
                r#"{"scopeName":"X","operator":"In"},{"scopeName":"PriorityClass","operator":"Exists","values":["x"]},{"scopeName":"Terminating","operator":"is"}"#
            ),
            [
                format!(r#"{path}.scopeName: Invalid value: "X": unsupported scope"#),
                format!(
                    "{path}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                ),
                format!(
                    r#"{path}.values: Invalid value: []string{{"x"}}: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"#
                ),
                format!(r#"{path}.operator: Invalid value: "is": {exists}"#),
                format!(r#"{path}.operator: Invalid value: "is": not a valid selector operator"#),
            ]
        );
        assert_eq!(
            create(
                r#""secrets":"1""#,
                r#"{"scopeName":"BestEffort","operator":"Exists"},{"scopeName":"NotBestEffort","operator":"Exists"}"#
            )[1..],
            [
                format!(
                    r#"{path}: Invalid value: core.ScopeSelector{{MatchExpressions:[]core.ScopedResourceSelectorRequirement{{core.ScopedResourceSelectorRequirement{{ScopeName:"BestEffort", Operator:"Exists", Values:[]string(nil)}}, core.ScopedResourceSelectorRequirement{{ScopeName:"NotBestEffort", Operator:"Exists", Values:[]string(nil)}}}}}}: unsupported scope applied to resource"#
                ),
                format!("{path}: Invalid value: []core.ResourceQuotaScope(nil): conflicting scopes"),
            ]
        );
    }

    #[test]
    fn status_has_names_and_amounts_of_quotas() {
        let quota =
            |status: &str| format!(r#"{{"apiVersion":"v1","kind":"ResourceQuota","status":{{{status}}}}}"#);
        assert_eq!(
            status(&quota(r#""hard":{"pods":"-1"},"used":{"foo":"1"}"#), &quota("")),
            [
                r#"status.hard[pods]: Invalid value: "-1": must be greater than or equal to 0"#,
                "status.used[foo]: Invalid value: foo: must be a standard resource type or fully qualified",
                "status.used[foo]: Invalid value: foo: must be a standard resource for quota",
            ]
        );
    }
}
