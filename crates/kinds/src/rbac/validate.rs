//! The rules for roles and bindings.

use super::GROUP;
use crate::Scope;
use crate::label_selector::{self, Values};
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, invalid, name_is_dns_subdomain, name_is_path_segment};
use object::quote::{Quoted, quote_each};
use schema::view::Items;
use schema::views::rbac::v1::{AggregationRule, PolicyRule, RoleRef, Subject};

/// The field errors of the rules of a role.
pub(super) fn rules(rules: Items<'_, PolicyRule<'_>>, scope: Scope) -> List {
    let path = Path::new("rules");
    rules.iter().enumerate().map(|(at, of)| rule(of, scope, &path.index(at))).collect()
}

fn rule(rule: PolicyRule<'_>, scope: Scope, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if rule.verbs().is_empty() {
        errors.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    let urls = rule.non_resource_urls();
    if !urls.is_empty() {
        let mut refuse = |why: &'static str| {
            let shown = BadValue::Raw(format!("[]string{{{}}}", quote_each(urls.iter())));
            errors.push(Error::invalid(&path.child("nonResourceURLs"), shown, why));
        };
        if scope == Scope::Namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if ![rule.api_groups(), rule.resources(), rule.resource_names()].into_iter().all(Items::is_empty) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return errors;
    }
    if rule.api_groups().is_empty() {
        let why = "resource rules must supply at least one api group";
        errors.push(Error::required(&path.child("apiGroups"), why));
    }
    if rule.resources().is_empty() {
        let why = "resource rules must supply at least one resource";
        errors.push(Error::required(&path.child("resources"), why));
    }
    errors
}

/// The field errors of the aggregation rule of a cluster role.
pub(super) fn aggregation(rule: AggregationRule<'_>, values: Values) -> List {
    let path = Path::new("aggregationRule");
    let path = path.child("clusterRoleSelectors");
    let selectors = rule.cluster_role_selectors();
    let mut errors = List::new();
    if selectors.is_empty() {
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(Error::required(&path, why));
    }
    for (at, selector) in selectors.iter().enumerate() {
        let path = path.index(at);
        errors.append(label_selector::validate(selector, values, &path));
        if label_selector::compile(selector).is_err() {
            errors.push(Error::invalid(&path, BadValue::Null, "invalid label selector."));
        }
    }
    errors
}

/// Whether a stored aggregation rule may keep invalid values.
pub(super) fn values_after(old: Option<AggregationRule<'_>>) -> Values {
    let path = Path::new("aggregationRule");
    let selectors = old.map(|rule| rule.cluster_role_selectors());
    let is_invalid = |selector| !label_selector::validate(selector, Values::Checked, &path).is_empty();
    match selectors.is_some_and(|selectors| selectors.iter().any(is_invalid)) {
        true => Values::Unchecked,
        false => Values::Checked,
    }
}

/// The field errors of a binding.
pub(super) fn binding(role: RoleRef<'_>, subjects: Items<'_, Subject<'_>>, scope: Scope) -> List {
    let path = Path::new("roleRef");
    let mut errors = List::new();
    if role.api_group() != GROUP {
        errors.push(Error::not_supported(&path.child("apiGroup"), role.api_group(), [GROUP]));
    }
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    if !kinds.contains(&role.kind()) {
        errors.push(Error::not_supported(&path.child("kind"), role.kind(), kinds.iter().copied()));
    }
    let name = path.child("name");
    match role.name() {
        "" => errors.push(Error::required(&name, "")),
        text => errors.append(invalid(&name, text, name_is_path_segment(text, Mode::Name))),
    }
    let path = Path::new("subjects");
    for (at, of) in subjects.iter().enumerate() {
        errors.append(subject(of, scope, &path.index(at)));
    }
    errors
}

fn subject(subject: Subject<'_>, scope: Scope, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (name, group) = (path.child("name"), path.child("apiGroup"));
    if subject.name().is_empty() {
        errors.push(Error::required(&name, ""));
    }
    match subject.kind() {
        "ServiceAccount" => {
            if !subject.name().is_empty() {
                let messages = name_is_dns_subdomain(subject.name(), Mode::Name);
                errors.append(invalid(&name, subject.name(), messages));
            }
            if !subject.api_group().is_empty() {
                errors.push(Error::not_supported(&group, subject.api_group(), [""]));
            }
            if scope == Scope::Cluster && subject.namespace().is_empty() {
                errors.push(Error::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" if subject.api_group() == GROUP => {}
        "User" | "Group" => errors.push(Error::not_supported(&group, subject.api_group(), [GROUP])),
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(Error::not_supported(&path.child("kind"), other, kinds));
        }
    }
    errors
}

/// A binding is to one role for all its life.
pub(super) fn same_role(new: RoleRef<'_>, old: RoleRef<'_>) -> List {
    let fields = |role: RoleRef<'_>| [role.api_group(), role.kind(), role.name()].map(str::to_owned);
    if fields(new) == fields(old) {
        return List::new();
    }
    let shown = format!(
        "rbac.RoleRef{{APIGroup:{}, Kind:{}, Name:{}}}",
        Quoted(new.api_group()),
        Quoted(new.kind()),
        Quoted(new.name())
    );
    Error::invalid(&Path::new("roleRef"), BadValue::Raw(shown), "cannot change roleRef").into()
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};

    fn object(kind: &str, fields: &str) -> String {
        format!(r#"{{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"{kind}",{fields}}}"#)
    }

    #[test]
    fn rules_are_about_resources_or_about_paths() {
        let rules = r#""rules":[{"verbs":[]},{"verbs":["get"],"nonResourceURLs":["/x"],"resources":["pods"]},
            {"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]"#;
        let both = "rules cannot apply to both regular resources and non-resource URLs";
        let expected = [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[0].resources: Required value: resource rules must supply at least one resource",
            r#"rules[1].nonResourceURLs: Invalid value: []string{"/x"}: namespaced rules cannot apply to non-resource URLs"#,
            &format!(r#"rules[1].nonResourceURLs: Invalid value: []string{{"/x"}}: {both}"#),
        ];
        let role = object("Role", rules);
        assert_eq!(create(&role), expected);
        assert_eq!(create(&object("ClusterRole", rules)).len(), 4);
        assert_eq!(update(&role, &role).len(), 10, "an update is checked twice");
    }

    #[test]
    fn selectors_of_an_aggregation_rule_are_checked_unless_they_were_wrong_before() {
        let role = |selectors: &str| {
            object("ClusterRole", &format!(r#""aggregationRule":{{"clusterRoleSelectors":[{selectors}]}}"#))
        };
        let create = |selectors: &str| create(&role(selectors));
        let path = "aggregationRule.clusterRoleSelectors";
        let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        assert_eq!(create(""), [format!("{path}: Required value: {why}")]);
        assert!(
            create(r#"{"matchLabels":{"a":"b"}},{"matchExpressions":[{"key":"a","operator":"Exists"}]}"#)
                .is_empty()
        );
        let odd = r#"{"matchExpressions":[{"key":"a","operator":"In"},{"key":"a","operator":"Exists","values":["b"]},{"key":"a","operator":"Odd"}]}"#;
        assert_eq!(
            create(odd),
            [
                format!(
                    "{path}[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
                ),
                format!(
                    "{path}[0].matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                ),
                format!(
                    "{path}[0].matchExpressions[2].operator: Invalid value: \"Odd\": not a valid selector operator"
                ),
                format!("{path}[0]: Invalid value: \"null\": invalid label selector."),
            ]
        );
        let selector = r#"{"matchExpressions":[{"key":"a","operator":"In","values":["-"]}]}"#;
        assert_eq!(create(selector).len(), 2);
        let bad = role(selector);
        assert_eq!(update(&bad, &bad).len(), 2);
        assert_eq!(update(&bad, &object("ClusterRole", r#""rules":[]"#)).len(), 4);
    }

    #[test]
    fn bindings_name_a_role_and_subjects_of_known_kinds() {
        let text = r#""roleRef":{"apiGroup":"x","kind":"Role","name":""},"subjects":[{"kind":"ServiceAccount","name":"A","apiGroup":"x"},
            {"kind":"User","name":"","apiGroup":"rbac.authorization.k8s.io"},{"kind":"Robot","name":"x"},{"kind":"Group","name":"g","apiGroup":"x"}]"#;
        let errors = create(&object("ClusterRoleBinding", text));
        assert_eq!(
            errors[0],
            r#"roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#
        );
        assert_eq!(errors[1], r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#);
        assert_eq!(errors[2], "roleRef.name: Required value");
        assert!(
            errors[3].starts_with(r#"subjects[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain"#)
        );
        assert_eq!(
            errors[4..],
            [
                r#"subjects[0].apiGroup: Unsupported value: "x": supported values: """#,
                "subjects[0].namespace: Required value",
                "subjects[1].name: Required value",
                r#"subjects[2].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
                r#"subjects[3].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
            ]
        );
    }

    #[test]
    fn role_of_a_binding_cannot_be_changed() {
        let binding = |name: &str| {
            let role = format!(
                r#""roleRef":{{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"{name}"}}"#
            );
            object("RoleBinding", &role)
        };
        assert!(update(&binding("a"), &binding("a")).is_empty());
        assert_eq!(
            update(&binding("b"), &binding("a")),
            [
                r#"roleRef: Invalid value: rbac.RoleRef{APIGroup:"rbac.authorization.k8s.io", Kind:"Role", Name:"b"}: cannot change roleRef"#
            ]
        );
    }
}
