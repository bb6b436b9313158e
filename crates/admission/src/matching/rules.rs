//! The rules of webhooks and policies, compiled: which operations on which resources they are about.

use crate::{Attributes, Operation};
use object::Text;
use schema::view::{Items, View as _};
use schema::views::admissionregistration::v1::{NamedRuleWithOperations, RuleWithOperations};

/// One rule.
#[derive(Debug)]
pub(crate) struct Rule {
    /// A bit for each operation.
    operations: u8,
    groups: Names,
    versions: Names,
    resources: Vec<Resource>,
    scope: Scope,
    /// The names of the objects; empty for all.
    names: Vec<Text>,
}

/// Names, or all of them.
#[derive(Debug)]
enum Names {
    All,
    These(Vec<Text>),
}

#[derive(Debug)]
struct Resource {
    resource: Text,
    /// Empty for the object itself.
    subresource: Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
    /// One that does not exist, which nothing is in.
    Unknown,
}

/// The properties of a write that rules are compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RuleSubject<'a> {
    pub(crate) operation: Operation,
    pub(crate) resource: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) name: &'a str,
    pub(crate) is_namespaced: bool,
}

impl<'a> RuleSubject<'a> {
    pub(crate) fn of(attributes: &'a Attributes<'_>) -> Self {
        Self {
            operation: attributes.operation,
            resource: &attributes.resource.resource,
            subresource: attributes.subresource,
            name: attributes.name,
            // A namespace is not in itself.
            is_namespaced: !attributes.namespace.is_empty() && !attributes.is_resource("", "namespaces"),
        }
    }
}

impl Rule {
    /// A rule of a policy, which can be about objects of some names.
    pub(crate) fn named(rule: NamedRuleWithOperations<'_>) -> Self {
        let names = rule.resource_names().iter().map(Text::from).collect();
        Self { names, ..Self::new(RuleWithOperations::of(rule.map())) }
    }

    pub(crate) fn new(rule: RuleWithOperations<'_>) -> Self {
        let operations = rule.operations().iter().map(|name| match name {
            "*" => u8::MAX,
            name => OPERATIONS.iter().filter(|of| of.name() == name).map(|of| bit(*of)).sum(),
        });
        let resources = rule.resources().iter().map(|text| {
            let (resource, subresource) = text.split_once('/').unwrap_or((text, ""));
            Resource { resource: resource.into(), subresource: subresource.into() }
        });
        Self {
            operations: operations.fold(0, |all, one| all | one),
            groups: Names::new(rule.api_groups()),
            versions: Names::new(rule.api_versions()),
            resources: resources.collect(),
            scope: match rule.scope() {
                None | Some("*") => Scope::All,
                Some("Cluster") => Scope::Cluster,
                Some("Namespaced") => Scope::Namespaced,
                Some(_) => Scope::Unknown,
            },
            names: Vec::new(),
        }
    }

    /// Whether a request is meant, in some group and version.
    pub(crate) fn may_match(&self, request: RuleSubject<'_>) -> bool {
        let is_in_scope = match self.scope {
            Scope::All => true,
            Scope::Cluster => !request.is_namespaced,
            Scope::Namespaced => request.is_namespaced,
            Scope::Unknown => false,
        };
        is_in_scope
            && self.operations & bit(request.operation) != 0
            && self
                .resources
                .iter()
                .any(|of| is(&of.resource, request.resource) && is(&of.subresource, request.subresource))
            && (self.names.is_empty() || self.names.iter().any(|name| name.as_str() == request.name))
    }

    /// Whether a group and version are meant.
    pub(crate) fn matches(&self, group: &str, version: &str) -> bool {
        self.groups.have(group) && self.versions.have(version)
    }
}

const OPERATIONS: [Operation; 4] =
    [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

fn bit(operation: Operation) -> u8 {
    match operation {
        Operation::Create => 1,
        Operation::Update => 2,
        Operation::Delete => 4,
        Operation::Connect => 8,
    }
}

fn is(pattern: &str, name: &str) -> bool {
    pattern == "*" || pattern == name
}

impl Names {
    fn new(names: Items<'_, &str>) -> Self {
        match names.iter().any(|name| name == "*") {
            true => Self::All,
            false => Self::These(names.iter().map(Text::from).collect()),
        }
    }

    fn have(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.iter().any(|of| of.as_str() == name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, json};

    fn rule(text: &str) -> Rule {
        let ty = RuleWithOperations::schema();
        let decoded = json::decode(ty, text.as_bytes(), &Limits::REQUEST).unwrap().value;
        Rule::new(RuleWithOperations::of(decoded.as_map().unwrap()))
    }

    fn request<'a>(operation: Operation, resource: &'a str, namespace: &str) -> RuleSubject<'a> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        RuleSubject { operation, resource, subresource, name: "", is_namespaced: !namespace.is_empty() }
    }

    #[test]
    fn operations_resources_and_scopes_have_wildcards() {
        let some = rule(
            r#"{"operations":["CREATE","DELETE"],"apiGroups":["","apps"],"apiVersions":["v1"],"resources":["pods","*/scale","nodes/*"]}"#,
        );
        assert!(some.may_match(request(Operation::Create, "pods", "a")));
        assert!(some.may_match(request(Operation::Delete, "pods", "a")));
        assert!(!some.may_match(request(Operation::Update, "pods", "a")));
        assert!(!some.may_match(request(Operation::Create, "pods/status", "a")));
        assert!(some.may_match(request(Operation::Create, "deployments/scale", "a")));
        assert!(some.may_match(request(Operation::Create, "nodes/status", "")));
        // As in the reference, a wildcard includes the object itself.
        assert!(some.may_match(request(Operation::Create, "nodes", "")));
        assert!(some.matches("apps", "v1") && !some.matches("batch", "v1") && !some.matches("", "v2"));
        let all =
            r#"{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"scope":"SCOPE"}"#;
        for (scope, cluster, namespaced) in
            [("*", true, true), ("Cluster", true, false), ("Namespaced", false, true), ("x", false, false)]
        {
            let all = rule(&all.replace("SCOPE", scope));
            assert_eq!(all.may_match(request(Operation::Connect, "nodes", "")), cluster, "{scope}");
            assert_eq!(all.may_match(request(Operation::Update, "pods", "a")), namespaced, "{scope}");
            assert!(all.matches("any.example.com", "v7"));
            assert!(!all.may_match(request(Operation::Update, "pods/status", "a")));
        }
    }
}
