//! The rules of a role, in the form in which they are compared with requests.

use crate::{Attributes, Target};
use object::{Map, Text, Value};
use schema::view::Items;
use schema::views::rbac::v1;
use std::fmt;
use std::sync::Arc;

/// Stands for every verb, group, resource or path.
const ALL: &str = "*";

/// The verbs that have a bit of their own in [`Verbs`].
const KNOWN: [&str; 11] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "impersonate",
    "bind",
    "escalate",
];

/// The rules of a role. Clones share them.
pub type PolicyRules = Arc<[PolicyRule]>;

/// A rule of a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyRule {
    /// The verbs; `*` for all.
    pub verbs: Box<[Text]>,
    /// The API groups; `*` for all.
    pub groups: Box<[Text]>,
    /// The resources, and subresources after a slash; `*` for all.
    pub resources: Box<[Text]>,
    /// The names; empty for all.
    pub names: Box<[Text]>,
    /// The paths outside of the API's resources; a `*` at the end stands for any end.
    pub paths: Box<[Text]>,
    /// The same as `verbs`.
    known_verbs: Verbs,
}

/// Which of the [known](KNOWN) verbs a rule has, and in the highest bit whether it has every other verb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Verbs(u16);

impl Verbs {
    const EVERY: Self = Self(u16::MAX);

    fn of(verbs: &[Text]) -> Self {
        verbs.iter().fold(Self::default(), |all, verb| Self(all.0 | Self::granted(verb).0))
    }

    fn granted(verb: &str) -> Self {
        if verb == ALL { Self::EVERY } else { Self::known(verb).unwrap_or_default() }
    }

    fn known(verb: &str) -> Option<Self> {
        KNOWN.iter().position(|known| *known == verb).map(|at| Self(1 << at))
    }
}

/// The attributes of a request, prepared for the comparison with many rules.
pub(crate) struct PolicyRequest<'a> {
    verb: &'a str,
    known_verb: Option<Verbs>,
    target: &'a Target,
}

impl<'a> PolicyRequest<'a> {
    pub(crate) fn new(attributes: &'a Attributes) -> Self {
        let verb = &*attributes.verb;
        Self { verb, known_verb: Verbs::known(verb), target: &attributes.target }
    }
}

impl PolicyRule {
    /// A rule with these lists.
    pub fn new(
        verbs: Box<[Text]>,
        groups: Box<[Text]>,
        resources: Box<[Text]>,
        names: Box<[Text]>,
        paths: Box<[Text]>,
    ) -> Self {
        Self { known_verbs: Verbs::of(&verbs), verbs, groups, resources, names, paths }
    }

    /// The rules of a role.
    pub fn read(rules: Items<'_, v1::PolicyRule<'_>>) -> PolicyRules {
        let texts = |items: Items<'_, &str>| items.iter().map(Text::from).collect();
        let rules = rules.iter().map(|rule| {
            Self::new(
                texts(rule.verbs()),
                texts(rule.api_groups()),
                texts(rule.resources()),
                texts(rule.resource_names()),
                texts(rule.non_resource_urls()),
            )
        });
        rules.collect()
    }

    /// The rule as a part of a role.
    pub fn to_value(&self) -> Value {
        let mut map = Map::new();
        for (field, list) in [
            ("verbs", &self.verbs),
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !list.is_empty() {
                map.insert(field, list.iter().cloned().collect::<Value>());
            }
        }
        map.into()
    }

    /// Whether it allows a request.
    pub(crate) fn allows(&self, request: &PolicyRequest<'_>) -> bool {
        self.has_verb(request)
            && match request.target {
                Target::Resource { group, resource, subresource, name, .. } => {
                    has(&self.groups, group)
                        && self.resources.iter().any(|of| is_resource(of, resource, subresource))
                        && (self.names.is_empty() || self.names.iter().any(|of| of == name.as_str()))
                }
                Target::Path(path) => self.paths.iter().any(|of| is_path(of, path)),
            }
    }

    fn has_verb(&self, request: &PolicyRequest<'_>) -> bool {
        match request.known_verb {
            Some(verb) => self.known_verbs.0 & verb.0 != 0,
            None => has(&self.verbs, request.verb),
        }
    }
}

/// Whether a list has a text, or stands for all.
pub(super) fn has(list: &[Text], wanted: &str) -> bool {
    list.iter().any(|of| of == wanted || of == ALL)
}

/// Whether the resource of a rule is that of a request.
fn is_resource(of: &str, resource: &str, subresource: &str) -> bool {
    if of == ALL {
        return true;
    }
    if subresource.is_empty() {
        return of == resource;
    }
    // `resource/subresource`, or `*/subresource`. A subresource can have a slash itself.
    let Some(parent) = of.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/')) else {
        return false;
    };
    parent == resource || parent == ALL
}

/// Whether the path of a rule is that of a request.
pub(crate) fn is_path(of: &str, path: &str) -> bool {
    of == path || (of.ends_with('*') && path.starts_with(of.trim_end_matches('*')))
}

/// As messages about escalation show it.
impl fmt::Display for PolicyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        let mut separator = "";
        for (name, list) in [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ] {
            if !list.is_empty() {
                write!(f, "{separator}{name}:{}", super::QuotedList(list))?;
                separator = ", ";
            }
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[&str]) -> Box<[Text]> {
        items.iter().map(|item| Text::from(*item)).collect()
    }

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> PolicyRule {
        PolicyRule::new(list(verbs), list(groups), list(resources), list(names), list(&[]))
    }

    fn allows(rule: &PolicyRule, verb: &'static str, group: &str, resource: &str, name: &str) -> bool {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let target = Target::Resource {
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: subresource.into(),
            namespace: "n".into(),
            name: name.into(),
        };
        rule.allows(&PolicyRequest::new(&Attributes::new(verb, target)))
    }

    #[test]
    fn verbs_and_groups_are_exact_or_star() {
        let some = rule(&["get", "frobnicate"], &["apps"], &["deployments"], &[]);
        assert!(allows(&some, "get", "apps", "deployments", ""));
        assert!(allows(&some, "frobnicate", "apps", "deployments", ""));
        for (verb, group) in [("list", "apps"), ("unknown", "apps"), ("get", ""), ("*", "apps"), ("get", "*")]
        {
            assert!(!allows(&some, verb, group, "deployments", ""), "{verb} {group}");
        }
        let all = rule(&["*"], &["*"], &["deployments"], &[]);
        assert!(allows(&all, "get", "apps", "deployments", "") && allows(&all, "any", "", "deployments", ""));
    }

    #[test]
    fn subresources_are_granted_by_name_by_star_or_with_everything() {
        let of = |resource| rule(&["get"], &["*"], &[resource], &[]);
        for (granted, asked, expected) in [
            ("pods", "pods", true),
            ("pods", "pods/log", false),
            ("pods/log", "pods/log", true),
            ("pods/log", "pods", false),
            ("*/scale", "deployments/scale", true),
            ("*/scale", "scale", false),
            ("*/scale", "deployments", false),
            ("*/scale", "deployments/xscale", false),
            ("pods/*", "pods/log", false),
            ("pods/*", "pods/*", true),
            ("*", "pods/log", true),
            ("nodes/proxy/a", "nodes/proxy/a", true),
            ("*/proxy/a", "nodes/proxy/a", true),
        ] {
            assert_eq!(allows(&of(granted), "get", "", asked, ""), expected, "{granted} {asked}");
        }
    }

    #[test]
    fn names_limit_named_requests() {
        let named = rule(&["get", "create"], &[""], &["pods"], &["a"]);
        assert!(allows(&named, "get", "", "pods", "a"));
        assert!(!allows(&named, "get", "", "pods", "b"));
        assert!(!allows(&named, "create", "", "pods", ""));
    }

    #[test]
    fn paths_end_with_stars() {
        for (granted, asked, expected) in [
            ("/metrics", "/metrics", true),
            ("/metrics", "/metrics/a", false),
            ("/debug/*", "/debug/pprof/heap", true),
            ("/debug/*", "/debug/", true),
            ("/debug/*", "/debug", false),
            ("/x**", "/xyz", true),
            ("*", "/anything", true),
        ] {
            let rule = PolicyRule::new(list(&["get"]), list(&[]), list(&[]), list(&[]), list(&[granted]));
            let asked_for = |verb| rule.allows(&PolicyRequest::new(&Attributes::path(verb, asked)));
            assert_eq!(asked_for("get"), expected, "{granted} {asked}");
            assert!(!asked_for("post"));
        }
    }
}
