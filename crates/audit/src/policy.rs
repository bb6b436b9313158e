//! Policies: which requests are recorded, how much of each, and at which stages.
//!
//! The first rule that matches a request decides; without one, nothing is recorded. Rules are made when the
//! policy is read: a decision compares texts and allocates nothing.

mod read;

use observe::AuditLevel;

pub use read::Error;

/// A stage of a request: when an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// The request is known, and not handled yet.
    RequestReceived = 1,
    /// The head of the response is there; only of requests that take long.
    ResponseStarted = 2,
    /// The response is sent.
    ResponseComplete = 4,
    /// The handler panicked.
    Panic = 8,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    /// The word for it in policies and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

/// Some stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages(u8);

impl Stages {
    /// Whether a stage is one of them.
    pub const fn has(self, stage: Stage) -> bool {
        self.0 & stage as u8 != 0
    }

    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Stage> for Stages {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        Self(stages.into_iter().fold(0, |all, stage| all | stage as u8))
    }
}

/// What a policy decides about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// How much is recorded.
    pub level: AuditLevel,
    /// The stages at which nothing is recorded.
    pub omitted: Stages,
    /// Whether managed fields are left out of objects.
    pub omits_managed_fields: bool,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// A path outside of the resources.
    Path(&'a str),
    /// A resource.
    Resource(ResourceTarget<'a>),
}

/// The resource that a request is for, as its path says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTarget<'a> {
    /// The group; empty for that of the core.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The name, or empty.
    pub name: &'a str,
}

/// Who asks for what.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a> {
    /// The user; `None` if it is not known.
    pub user: Option<&'a auth::User>,
    /// The verb.
    pub verb: &'a str,
    /// What the request is for.
    pub target: Target<'a>,
}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    rules: Vec<Rule>,
    omitted: Stages,
    omits_managed_fields: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Rule {
    decision: Decision,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    scope: Scope,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum Scope {
    #[default]
    Everything,
    Resources {
        namespaces: Vec<String>,
        resources: Vec<GroupResources>,
    },
    Paths(Vec<PathPattern>),
}

#[derive(Clone, Debug, Default, PartialEq)]
struct GroupResources {
    group: String,
    /// Empty: all.
    resources: Vec<ResourcePattern>,
    /// Empty: all.
    names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum ResourcePattern {
    /// `*`
    All,
    /// `*/status`
    AllWith(String),
    /// `pods/*`, which is `pods` too.
    WithAny(String),
    /// `pods`, `pods/log`
    Exactly { resource: String, subresource: String },
}

#[derive(Clone, Debug, PartialEq)]
enum PathPattern {
    Exactly(String),
    /// What begins like this.
    Under(String),
}

impl Policy {
    /// Decides about a request.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.matches(attributes));
        rule.map_or(
            Decision {
                level: AuditLevel::None,
                omitted: self.omitted,
                omits_managed_fields: self.omits_managed_fields,
            },
            |rule| rule.decision,
        )
    }
}

fn has(all: &[String], text: &str) -> bool {
    all.iter().any(|known| known == text)
}

impl Rule {
    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let is_by = |user: &auth::User| {
            (self.users.is_empty() || has(&self.users, &user.name))
                && (self.groups.is_empty() || user.groups.iter().any(|group| has(&self.groups, group)))
        };
        let names_users = !self.users.is_empty() || !self.groups.is_empty();
        if names_users && !attributes.user.is_some_and(is_by) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, attributes.verb) {
            return false;
        }
        match (&self.scope, attributes.target) {
            (Scope::Everything, _) => true,
            (Scope::Resources { namespaces, resources }, Target::Resource(target)) => {
                (namespaces.is_empty() || has(namespaces, target.namespace))
                    && (resources.is_empty() || resources.iter().any(|resources| resources.has(&target)))
            }
            (Scope::Paths(patterns), Target::Path(path)) => {
                patterns.iter().any(|pattern| pattern.matches(path))
            }
            _ => false,
        }
    }
}

impl GroupResources {
    fn has(&self, target: &ResourceTarget<'_>) -> bool {
        if self.group != target.group {
            return false;
        }
        self.resources.is_empty()
            || (self.names.is_empty() || has(&self.names, target.name))
                && self.resources.iter().any(|pattern| pattern.matches(target))
    }
}

impl ResourcePattern {
    fn new(text: &str) -> Self {
        if text == "*" {
            return Self::All;
        }
        if let Some(resource) = text.strip_suffix("/*") {
            return Self::WithAny(resource.to_owned());
        }
        match text.split_once('/') {
            Some(("*", subresource)) => Self::AllWith(subresource.to_owned()),
            Some((resource, subresource)) => {
                Self::Exactly { resource: resource.to_owned(), subresource: subresource.to_owned() }
            }
            None => Self::Exactly { resource: text.to_owned(), subresource: String::new() },
        }
    }

    fn matches(&self, target: &ResourceTarget<'_>) -> bool {
        match self {
            Self::All => true,
            Self::AllWith(subresource) => !target.subresource.is_empty() && target.subresource == subresource,
            Self::WithAny(resource) => target.resource == resource,
            Self::Exactly { resource, subresource } => {
                target.resource == resource && target.subresource == subresource
            }
        }
    }
}

impl PathPattern {
    fn new(text: &str) -> Self {
        match text.ends_with('*') {
            true => Self::Under(text.trim_end_matches('*').to_owned()),
            false => Self::Exactly(text.to_owned()),
        }
    }

    fn matches(&self, path: &str) -> bool {
        match self {
            Self::Exactly(known) => known == path,
            Self::Under(begin) => path.starts_with(begin.as_str()),
        }
    }
}

#[cfg(test)]
mod tests;
