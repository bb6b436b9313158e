//! Flow schemas: which requests belong to which level, and what a flow is.

use std::sync::Arc;

/// A request, as flow schemas see it.
#[derive(Clone, Copy, Debug)]
pub struct Digest<'a> {
    /// The name of the user.
    pub user: &'a str,
    /// The groups of the user.
    pub groups: &'a [String],
    /// Whether the path is that of a resource.
    pub is_resource_request: bool,
    /// The verb, as permissions name it.
    pub verb: &'a str,
    /// The path.
    pub path: &'a str,
    /// The group of the resource.
    pub api_group: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource; empty for the resource itself.
    pub subresource: &'a str,
    /// The namespace; empty without one.
    pub namespace: &'a str,
    /// The name; empty for a collection.
    pub name: &'a str,
}

/// A flow schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
    /// The name of its level.
    pub level: Arc<str>,
    /// The schema with the lowest number that matches a request decides.
    pub precedence: i64,
    /// What tells flows apart.
    pub distinguisher: Distinguisher,
    /// A request that any of them matches belongs to the schema.
    pub rules: Vec<Rule>,
}

/// What tells the flows of a schema apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distinguisher {
    /// Nothing: it is one flow.
    None,
    /// The name of the user.
    User,
    /// The namespace.
    Namespace,
}

/// Whom and what a schema matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Any of them has to match.
    pub subjects: Vec<Subject>,
    /// Any of them has to match a request for a resource.
    pub resources: Vec<ResourceRule>,
    /// Any of them has to match every other request.
    pub paths: Vec<PathRule>,
}

/// Who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A user, or every one.
    User(String),
    /// A group, or every one.
    Group(String),
    /// A service account, or every one of a namespace.
    ServiceAccount {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
}

/// Requests for resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRule {
    /// Verbs.
    pub verbs: Vec<String>,
    /// Groups of resources.
    pub api_groups: Vec<String>,
    /// Resources, with their subresources as in `pods/log`.
    pub resources: Vec<String>,
    /// Whether requests without a namespace match.
    pub cluster_scope: bool,
    /// Namespaces.
    pub namespaces: Vec<String>,
}

/// Requests for other paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// Verbs.
    pub verbs: Vec<String>,
    /// Paths; one that ends in `*` stands for all below it.
    pub paths: Vec<String>,
}

/// What stands for everything in a list of its own.
const ALL: &str = "*";

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl Schema {
    /// Whether a request belongs to the schema.
    pub fn matches(&self, request: &Digest<'_>) -> bool {
        self.rules.iter().any(|rule| rule.matches(request))
    }

    /// What tells a flow from the others of the schema.
    pub fn flow<'a>(&self, request: &Digest<'a>) -> &'a str {
        match self.distinguisher {
            Distinguisher::None => "",
            Distinguisher::User => request.user,
            Distinguisher::Namespace => request.namespace,
        }
    }
}

impl Rule {
    fn matches(&self, request: &Digest<'_>) -> bool {
        // What is asked for is compared first: it costs less than the groups of a user.
        let is_asked_for = if request.is_resource_request {
            self.resources.iter().any(|rule| rule.matches(request))
        } else {
            self.paths.iter().any(|rule| rule.matches(request))
        };
        is_asked_for && self.subjects.iter().any(|subject| subject.matches(request))
    }
}

impl Subject {
    fn matches(&self, request: &Digest<'_>) -> bool {
        match self {
            Self::User(name) => name == ALL || name == request.user,
            Self::Group(name) => name == ALL || request.groups.contains(name),
            Self::ServiceAccount { namespace, name } => {
                let account = request.user.strip_prefix(SERVICE_ACCOUNT);
                let account = account.and_then(|rest| rest.strip_prefix(namespace.as_str()));
                let account = account.and_then(|rest| rest.strip_prefix(':'));
                account.is_some_and(|account| name == ALL || account == name)
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, request: &Digest<'_>) -> bool {
        has(&self.verbs, request.verb)
            && self.names_resource(request)
            && has(&self.api_groups, request.api_group)
            && match request.namespace {
                "" => self.cluster_scope,
                namespace => has(&self.namespaces, namespace),
            }
    }

    fn names_resource(&self, request: &Digest<'_>) -> bool {
        is_all(&self.resources)
            || self.resources.iter().any(|named| match named.split_once('/') {
                Some((resource, subresource)) => {
                    resource == request.resource && subresource == request.subresource
                }
                None => named == request.resource && request.subresource.is_empty(),
            })
    }
}

impl PathRule {
    fn matches(&self, request: &Digest<'_>) -> bool {
        has(&self.verbs, request.verb) && self.paths.iter().any(|path| is_path(path, request.path))
    }
}

/// Whether a path is the one of a rule or below it.
fn is_path(rule: &str, path: &str) -> bool {
    if rule == ALL || rule == path {
        return true;
    }
    let stem = rule.strip_suffix('*').unwrap_or(rule);
    match stem.strip_suffix('/') {
        Some(_) => path.starts_with(stem),
        None => path.strip_prefix(stem).is_some_and(|rest| rest.starts_with('/')),
    }
}

fn is_all(list: &[String]) -> bool {
    matches!(list, [one] if one == ALL)
}

fn has(list: &[String], value: &str) -> bool {
    is_all(list) || list.iter().any(|known| known == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(words: &str) -> Vec<String> {
        words.split_whitespace().map(str::to_owned).collect()
    }

    fn request<'a>(verb: &'a str, resource: &'a str, namespace: &'a str) -> Digest<'a> {
        Digest {
            user: "system:serviceaccount:ns:bot",
            groups: &[],
            is_resource_request: true,
            verb,
            path: "",
            api_group: "apps",
            resource,
            subresource: "",
            namespace,
            name: "",
        }
    }

    #[test]
    fn subjects_are_users_groups_and_accounts() {
        let groups = list("a b");
        let request = Digest { groups: &groups, ..request("get", "x", "") };
        let account = |namespace: &str, name: &str| Subject::ServiceAccount {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        for (subject, expected) in [
            (Subject::User("*".into()), true),
            (Subject::User("system:serviceaccount:ns:bot".into()), true),
            (Subject::User("bot".into()), false),
            (Subject::Group("b".into()), true),
            (Subject::Group("c".into()), false),
            (account("ns", "*"), true),
            (account("ns", "bot"), true),
            (account("ns", "bo"), false),
            (account("n", "*"), false),
        ] {
            assert_eq!(subject.matches(&request), expected, "{subject:?}");
        }
    }

    #[test]
    fn resource_rules_compare_verb_group_resource_and_scope() {
        let rule = ResourceRule {
            verbs: list("get list"),
            api_groups: list("apps"),
            resources: list("deployments deployments/scale"),
            cluster_scope: false,
            namespaces: list("ns"),
        };
        assert!(rule.matches(&request("get", "deployments", "ns")));
        assert!(!rule.matches(&request("watch", "deployments", "ns")));
        assert!(!rule.matches(&request("get", "replicasets", "ns")));
        assert!(!rule.matches(&request("get", "deployments", "other")));
        assert!(!rule.matches(&request("get", "deployments", "")));
        let scale = Digest { subresource: "scale", ..request("get", "deployments", "ns") };
        assert!(rule.matches(&scale));
        let status = Digest { subresource: "status", ..scale };
        assert!(!rule.matches(&status));
        let all = ResourceRule { resources: list("*"), cluster_scope: true, ..rule };
        assert!(all.matches(&Digest { namespace: "", ..status }));
    }

    #[test]
    fn a_path_of_a_rule_stands_for_those_below_it() {
        for (rule, path, expected) in [
            ("*", "/x", true),
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", true),
            ("/healthz", "/healthzz", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("/heal*", "/healthz", false),
        ] {
            assert_eq!(is_path(rule, path), expected, "{rule} {path}");
        }
    }
}
