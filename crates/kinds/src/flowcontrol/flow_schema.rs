//! `flowschemas`.

use super::{FlowControlStrategy, mandatory, same_as_mandatory};
use crate::Resets;
use crate::cells::NONE;
use crate::checks::{required, shown_texts};
use crate::metadata;
use crate::{About, Cell, Check, Column, Generation, Kind, OldVersion, Scope, Subresource, Version, columns};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::{Mode, invalid, name_is_dns_label, name_is_dns_subdomain};
use object::quote::Quoted;
use schema::view::{Items, View};
use schema::views::flowcontrol::v1::{
    FlowSchema, FlowSchemaSpec, NonResourcePolicyRule, PolicyRulesWithSubjects, ResourcePolicyRule,
    ServiceAccountSubject, Subject,
};
use std::sync::LazyLock;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    resource: "flowschemas",
    singular: "flowschema",
    kind: "FlowSchema",
    versions: &[
        Version::V1.introduced(29),
        Version::on_request("v1beta3")
            .introduced(26)
            .deprecated(29)
            .removed(32)
            .replaced_by("flowcontrol.apiserver.k8s.io/v1", "FlowSchema"),
    ],
    old_versions: &[
        OldVersion::named("flowcontrol.apiserver.k8s.io/v1beta2"),
        OldVersion::named("flowcontrol.apiserver.k8s.io/v1beta1"),
    ],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| {
        let schema = FlowSchema::of(object);
        let spec = schema.spec();
        let conditions = schema.status().conditions();
        let dangling = conditions.iter().find(|condition| condition.r#type() == "Dangling");
    } [
        Column::NAME => Cell::name(object),
        Column::text(
            "PriorityLevel",
            About::Field("flowcontrol.v1.PriorityLevelConfigurationReference", "name"),
        ) => Cell::text(spec.priority_level_configuration().name()),
        Column::text(
            "MatchingPrecedence",
            About::Field("flowcontrol.v1.FlowSchemaSpec", "matchingPrecedence"),
        ) => Cell::Integer(spec.matching_precedence()),
        Column::text(
            "DistinguisherMethod",
            About::Field("flowcontrol.v1.FlowSchemaSpec", "distinguisherMethod"),
        ) => Cell::text(spec.distinguisher_method().map_or(NONE, |method| method.r#type())),
        Column::AGE => Cell::age(object),
        Column::text(
            "MissingPL",
            About::Text("references a broken or non-existent PriorityLevelConfiguration"),
        ) => Cell::text(dangling.map_or("?", |condition| condition.status())),
    ]),
    row_order: Some(|object| FlowSchema::of(object).spec().matching_precedence()),
    generation: Generation::Counted,
    resets: &Resets { declared: Some(Resets::STATUS_WITHOUT_METADATA.update), ..Resets::STATUS },
    update_checks: &[Check::Metadata, Check::Object],
    strategy: &FlowControlStrategy { default, validate },
    ..Kind::PLAIN
};

fn default(object: &mut Map) {
    crate::defaults::update_or_insert_map(object, "spec", |spec| {
        super::fill_zero(spec, "matchingPrecedence", 1000)
    });
}

/// Schemas that always exist: `exempt` and `catch-all`.
static MANDATORY: LazyLock<[Map; 2]> =
    LazyLock::new(|| ["exempt", "catch-all"].map(|name| mandatory::<FlowSchema<'_>>(KIND.resource, name)));

fn validate(object: &Map) -> List {
    let spec = FlowSchema::of(object).spec();
    let name = metadata(object).name();
    let mut errors = validate_spec(name, spec);
    let [exempt, catch_all] = &*MANDATORY;
    let fixed = match name {
        "exempt" => Some(exempt),
        "catch-all" => Some(catch_all),
        _ => None,
    };
    errors.extend(same_as_mandatory(spec.map(), fixed, || {
        format!("spec of '{name}' must equal the fixed value")
    }));
    errors
}

/// The lowest precedence.
const LOWEST: i64 = 10_000;

fn validate_spec(name: &str, spec: FlowSchemaSpec<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = List::new();
    let precedence = spec.matching_precedence();
    let why = match precedence {
        ..=0 => Some("must be a positive value".to_owned()),
        1 if name != "exempt" => {
            Some("only the schema named 'exempt' may have matchingPrecedence 1".to_owned())
        }
        LOWEST.. if precedence > LOWEST => Some(format!("must not be greater than {LOWEST}")),
        _ => None,
    };
    errors.extend(why.map(|why| Error::invalid(&path.child("matchingPrecedence"), precedence, why)));
    if let Some(method) = spec.distinguisher_method()
        && !matches!(method.r#type(), "ByNamespace" | "ByUser")
    {
        let shown = format!("flowcontrol.FlowDistinguisherMethod{{Type:{}}}", Quoted(method.r#type()));
        let path = path.child("distinguisherMethod");
        let methods = ["ByNamespace", "ByUser"];
        errors.push(Error::not_supported(&path.child("type"), BadValue::Raw(shown), methods));
    }
    let level = path.child("priorityLevelConfiguration");
    match spec.priority_level_configuration().name() {
        "" => errors.push(Error::required(&level.child("name"), "must reference a priority level")),
        name => errors.append(invalid(&level.child("name"), name, name_is_dns_subdomain(name, Mode::Name))),
    }
    let path = path.child("rules");
    for (at, rule) in spec.rules().iter().enumerate() {
        errors.append(validate_rule(rule, &path.index(at)));
    }
    errors
}

fn validate_rule(rule: PolicyRulesWithSubjects<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let subjects = path.child("subjects");
    if rule.subjects().is_empty() {
        errors.push(Error::required(&subjects, "subjects must contain at least one value"));
    }
    for (at, subject) in rule.subjects().iter().enumerate() {
        errors.append(validate_subject(subject, &subjects.index(at)));
    }
    if rule.resource_rules().is_empty() && rule.non_resource_rules().is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(Error::required(path, why));
    }
    let resources = path.child("resourceRules");
    for (at, rule) in rule.resource_rules().iter().enumerate() {
        errors.append(validate_resources(rule, &resources.index(at)));
    }
    let urls = path.child("nonResourceRules");
    for (at, rule) in rule.non_resource_rules().iter().enumerate() {
        errors.append(validate_urls(rule, &urls.index(at)));
    }
    errors
}

/// A subject has the member that its kind names, and no other.
fn validate_subject(subject: Subject<'_>, path: &Path<'_>) -> List {
    let kind = subject.kind();
    let members = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let Some((_, wanted)) = members.iter().find(|(name, _)| *name == kind) else {
        let kinds = ["Group", "ServiceAccount", "User"];
        return Error::not_supported(&path.child("kind"), kind, kinds).into();
    };
    let member = path.child(wanted);
    let name = member.child("name");
    let mut errors = List::new();
    let is_present = match kind {
        "ServiceAccount" => subject.service_account().map(|account| validate_account(account, &member)),
        "User" => subject.user().map(|user| required(user.name(), &name).into_iter().collect()),
        _ => subject.group().map(|group| required(group.name(), &name).into_iter().collect()),
    };
    match is_present {
        Some(faults) => errors.append(faults),
        None => {
            let why = format!("{wanted} is required when subject kind is '{kind}'");
            errors.push(Error::required(&member, why));
        }
    }
    for (other, key) in members.into_iter().filter(|(other, _)| *other != kind) {
        if subject.map().contains_key(key) {
            let why = format!("{key} is forbidden when subject kind is not '{other}'");
            errors.push(Error::forbidden(&path.child(key), why));
        }
    }
    errors
}

fn validate_account(account: ServiceAccountSubject<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let at = path.child("name");
    match account.name() {
        "" => errors.push(Error::required(&at, "")),
        "*" => {}
        name => errors.append(invalid(&at, name, name_is_dns_subdomain(name, Mode::Name))),
    }
    let at = path.child("namespace");
    match account.namespace() {
        "" => errors.push(Error::required(&at, "must specify namespace for service account")),
        name => errors.append(invalid(&at, name, name_is_dns_label(name, Mode::Name))),
    }
    errors
}

/// `*` stands alone in a list.
fn validate_star<'a>(texts: Items<'a, &'a str>, others: &str, path: &Path<'_>) -> Option<Error> {
    (texts.len() > 1 && has_star(texts)).then(|| {
        let why = format!("if '*' is present, must not specify other {others}");
        Error::invalid(path, shown_texts("string", texts), why)
    })
}

fn has_star<'a>(texts: Items<'a, &'a str>) -> bool {
    texts.iter().any(|text| text == "*")
}

const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn validate_verbs<'a>(verbs: Items<'a, &'a str>, path: &Path<'_>) -> Option<Error> {
    if verbs.is_empty() {
        return Some(Error::required(path, "verbs must contain at least one value"));
    }
    if has_star(verbs) {
        return validate_star(verbs, "verbs", path);
    }
    (!verbs.iter().all(|verb| VERBS.contains(&verb)))
        .then(|| Error::not_supported(path, shown_texts("string", verbs), VERBS))
}

fn validate_resources(rule: ResourcePolicyRule<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(validate_verbs(rule.verbs(), &path.child("verbs")));
    for (key, list, others, why) in [
        ("apiGroups", rule.api_groups(), "api groups", "resource rules must supply at least one api group"),
        ("resources", rule.resources(), "resources", "resource rules must supply at least one resource"),
    ] {
        let path = path.child(key);
        errors.extend(list.is_empty().then(|| Error::required(&path, why)));
        errors.extend(validate_star(list, others, &path));
    }
    let namespaces = rule.namespaces();
    let path = path.child("namespaces");
    if namespaces.is_empty() && !rule.cluster_scope() {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(Error::required(&path, why));
    } else if has_star(namespaces) {
        errors.extend(validate_star(namespaces, "namespaces", &path));
    } else {
        for (at, name) in namespaces.iter().enumerate() {
            for message in name_is_dns_label(name, Mode::Name) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                errors.push(Error::invalid(&path.index(at), name, why));
            }
        }
    }
    errors
}

fn validate_urls(rule: NonResourcePolicyRule<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    errors.extend(validate_verbs(rule.verbs(), &path.child("verbs")));
    let urls = rule.non_resource_urls();
    let path = path.child("nonResourceURLs");
    if urls.is_empty() {
        errors.push(Error::required(&path, "nonResourceURLs must contain at least one value"));
    } else if has_star(urls) {
        errors.extend(validate_star(urls, "non-resource URLs", &path));
    } else {
        for (at, url) in urls.iter().enumerate() {
            errors.extend(url_fault(url).map(|why| Error::invalid(&path.index(at), url, why)));
        }
    }
    errors
}

fn url_fault(url: &str) -> Option<&'static str> {
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if url.contains('*') && url.find('*') != url.strip_suffix("/*").map(|rest| rest.len() + 1) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status, update};

    fn schema(name: &str, spec: &str) -> String {
        format!(
            r#"{{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","metadata":{{"name":"{name}"}},"spec":{{{spec}}}}}"#
        )
    }

    fn rule(rule: &str) -> Vec<String> {
        create(&schema("a", &format!(r#""priorityLevelConfiguration":{{"name":"x"}},"rules":[{{{rule}}}]"#)))
    }

    #[test]
    fn precedence_level_and_distinguisher_are_valid() {
        assert_eq!(
            create(&schema("a", r#""matchingPrecedence":10001,"distinguisherMethod":{"type":"ByMood"}"#)),
            [
                "spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000",
                r#"spec.distinguisherMethod.type: Unsupported value: flowcontrol.FlowDistinguisherMethod{Type:"ByMood"}: supported values: "ByNamespace", "ByUser""#,
                "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            ]
        );
        assert_eq!(
            create(&schema("a", r#""matchingPrecedence":1,"priorityLevelConfiguration":{"name":"x"}"#)),
            [
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"
            ]
        );
    }

    #[test]
    fn subjects_have_the_member_of_their_kind() {
        assert_eq!(
            rule(
                r#""subjects":[{"kind":"User","group":{"name":"g"}},{"kind":"ServiceAccount","serviceAccount":{"name":"","namespace":""}},{"kind":"Robot"}]"#
            ),
            [
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                "spec.rules[0].subjects[1].serviceAccount.name: Required value",
                "spec.rules[0].subjects[1].serviceAccount.namespace: Required value: must specify namespace for service account",
                r#"spec.rules[0].subjects[2].kind: Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User""#,
                "spec.rules[0]: Required value: at least one of resourceRules and nonResourceRules has to be non-empty",
            ]
        );
    }

    #[test]
    fn rules_name_what_they_are_for() {
        let subjects = r#""subjects":[{"kind":"User","user":{"name":"u"}}]"#;
        let path = "spec.rules[0].resourceRules[0]";
        assert_eq!(
            rule(&format!(r#"{subjects},"resourceRules":[{{"verbs":["fly"],"apiGroups":["*","apps"]}}]"#)),
            [
                format!(
                    r#"{path}.verbs: Unsupported value: []string{{"fly"}}: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch""#
                ),
                format!(
                    r#"{path}.apiGroups: Invalid value: []string{{"*", "apps"}}: if '*' is present, must not specify other api groups"#
                ),
                format!("{path}.resources: Required value: resource rules must supply at least one resource"),
                format!(
                    "{path}.namespaces: Required value: resource rules that are not cluster scoped must supply at least one namespace"
                ),
            ]
        );
        let path = "spec.rules[0].nonResourceRules[0]";
        assert_eq!(
            rule(&format!(
                r#"{subjects},"nonResourceRules":[{{"verbs":["*","get"],"nonResourceURLs":["x","/a*","/b/*","/","/*/*"]}}]"#
            )),
            [
                format!(
                    r#"{path}.verbs: Invalid value: []string{{"*", "get"}}: if '*' is present, must not specify other verbs"#
                ),
                format!(r#"{path}.nonResourceURLs[0]: Invalid value: "x": must start with slash"#),
                format!(
                    r#"{path}.nonResourceURLs[1]: Invalid value: "/a*": wildcard can only do suffix matching"#
                ),
                format!(
                    r#"{path}.nonResourceURLs[4]: Invalid value: "/*/*": wildcard can only do suffix matching"#
                ),
            ]
        );
    }

    #[test]
    fn mandatory_schemas_do_not_change() {
        let exempt = |precedence: u32| {
            schema(
                "exempt",
                &format!(
                    r#""matchingPrecedence":{precedence},"priorityLevelConfiguration":{{"name":"exempt"}},"rules":[{{"subjects":[{{"kind":"Group","group":{{"name":"system:masters"}}}}],"resourceRules":[{{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}}],"nonResourceRules":[{{"verbs":["*"],"nonResourceURLs":["*"]}}]}}]"#
                ),
            )
        };
        assert!(create(&exempt(1)).is_empty());
        let errors = update(&exempt(7), &exempt(1));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].ends_with("spec of 'exempt' must equal the fixed value"));
    }

    #[test]
    fn conditions_have_a_type_each() {
        let object = r#"{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"FlowSchema","status":{"conditions":[{"type":"A"},{"type":"A"},{"type":""}]}}"#;
        assert_eq!(
            status(object, object),
            [
                r#"status.conditions[1].type: Duplicate value: "A""#,
                "status.conditions[2].type: Required value: must not be empty",
            ]
        );
    }
}
