//! The mode `ABAC`: policies of a file.
//!
//! Each line of the file is a policy: a JSON object of `abac.authorization.kubernetes.io/v1beta1`, or of its
//! version `v0`, which is also that of an object without a version. Lines that are empty or begin with `#`
//! are ignored.

#[cfg(test)]
mod tests;

use crate::rbac::is_path;
use crate::{Attributes, Authorize, PathRule, Reason, ResourceRule, Rules, Target, User, Verdict};
use object::Map;
use object::quote::Quoted;
use schema::{Builder, FieldBuilder, Limits, Ref, Shape, Type, json};
use std::sync::LazyLock;
use tasks::Deferred;

const V0: &str = "abac.authorization.kubernetes.io/v0";
const V1BETA1: &str = "abac.authorization.kubernetes.io/v1beta1";

/// Stands for every user, group, namespace, resource or path.
const ALL: &str = "*";

/// Decides by the policies of a file.
#[derive(Debug)]
pub struct Abac {
    policies: Vec<Policy>,
}

/// Why a policy file is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {text}: {why}")]
pub struct PolicyFileError {
    /// The number of the line.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What is wrong with the line.
    pub why: String,
}

/// A policy. If it names a user and a group, both have to match; if it names neither, it matches no user.
#[derive(Debug, Default)]
struct Policy {
    user: String,
    group: String,
    is_read_only: bool,
    api_group: String,
    resource: String,
    namespace: String,
    path: String,
}

impl Abac {
    /// The policies of a file.
    pub fn parse(text: &str) -> Result<Self, PolicyFileError> {
        let mut policies = Vec::new();
        let mut unversioned = 0;
        for (index, line) in text.lines().enumerate() {
            let content = line.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let invalid = |why| PolicyFileError { line: index + 1, text: line.to_owned(), why };
            let (policy, version) = Policy::read(content).map_err(invalid)?;
            unversioned += usize::from(version == Version::None);
            policies.push(policy);
        }
        if unversioned > 0 {
            log::warn!(lines = unversioned; "the policy file has lines without a version");
        }
        Ok(Self { policies })
    }
}

/// The version of a policy, as its line gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    None,
    V0,
    V1beta1,
}

static HEAD: LazyLock<Ref<Type>> = LazyLock::new(|| texts("Head", &["kind", "apiVersion"]).build());

static POLICY_V0: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let readonly = FieldBuilder::new(Shape::Bool);
    texts("Policy", &["user", "group", "resource", "namespace"]).field("readonly", readonly).build()
});

static POLICY_V1BETA1: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let names = ["user", "group", "apiGroup", "resource", "namespace", "nonResourcePath"];
    let spec = texts("PolicySpec", &names).field("readonly", FieldBuilder::new(Shape::Bool)).build();
    Builder::new("Policy").field("spec", FieldBuilder::new(Shape::Struct(spec))).build()
});

fn texts(name: &str, fields: &[&str]) -> Builder {
    let add = |builder: Builder, field: &&str| builder.field(field, FieldBuilder::new(Shape::String));
    fields.iter().fold(Builder::new(name), add)
}

impl Policy {
    /// Reads a line. Fields that the version does not have are ignored.
    fn read(line: &str) -> Result<(Self, Version), String> {
        if !line.starts_with('{') {
            return Err("not a JSON object".into());
        }
        let decode = |ty: &Ref<Type>| {
            let object = json::decode_part(ty.clone(), line.as_bytes(), &Limits::STORED);
            object
                .map(|object| object.as_map().cloned().unwrap_or_default())
                .map_err(|error| error.to_string())
        };
        let head = decode(&HEAD)?;
        let version = match (text(&head, "kind").as_str(), text(&head, "apiVersion").as_str()) {
            ("" | "Policy", "") => Version::None,
            ("" | "Policy", V0) => Version::V0,
            ("Policy", V1BETA1) => Version::V1beta1,
            (kind, version) => {
                let (kind, version) = (Quoted(kind), Quoted(version));
                return Err(format!("no kind {kind} is registered for version {version}"));
            }
        };
        let policy = match version {
            Version::None | Version::V0 => Self::v0(&decode(&POLICY_V0)?),
            Version::V1beta1 => {
                let policy = decode(&POLICY_V1BETA1)?;
                policy.get("spec").and_then(|spec| spec.as_map()).map(Self::v1beta1).unwrap_or_default()
            }
        };
        Ok((policy.for_all_authenticated(), version))
    }

    /// In `v0` an absent property matches everything, and a policy is for all API groups.
    fn v0(policy: &Map) -> Self {
        let (namespace, resource) = (text(policy, "namespace"), text(policy, "resource"));
        let path = if namespace.is_empty() && resource.is_empty() { ALL } else { "" };
        let or_all = |text: String| if text.is_empty() { ALL.to_owned() } else { text };
        let (user, group) = (text(policy, "user"), text(policy, "group"));
        Self {
            user: if group.is_empty() { or_all(user) } else { user },
            group,
            is_read_only: flag(policy, "readonly"),
            api_group: ALL.into(),
            resource: or_all(resource),
            namespace: or_all(namespace),
            path: path.into(),
        }
    }

    fn v1beta1(spec: &Map) -> Self {
        Self {
            user: text(spec, "user"),
            group: text(spec, "group"),
            is_read_only: flag(spec, "readonly"),
            api_group: text(spec, "apiGroup"),
            resource: text(spec, "resource"),
            namespace: text(spec, "namespace"),
            path: text(spec, "nonResourcePath"),
        }
    }

    /// Restricts `*` as user or group to authenticated users.
    fn for_all_authenticated(self) -> Self {
        if self.user == ALL || self.group == ALL {
            Self { user: String::new(), group: User::AUTHENTICATED.into(), ..self }
        } else {
            self
        }
    }

    fn is_for(&self, user: &User) -> bool {
        let Self { user: name, group, .. } = self;
        let is_given = !name.is_empty() || !group.is_empty();
        is_given && (name.is_empty() || *name == user.name) && (group.is_empty() || user.is_in(group))
    }

    fn allows(&self, attributes: &Attributes) -> bool {
        if self.is_read_only && !matches!(&*attributes.verb, "get" | "list" | "watch") {
            return false;
        }
        let is = |given: &str, asked: &str| given == ALL || given == asked;
        match &attributes.target {
            Target::Resource { group, resource, namespace, .. } => {
                is(&self.namespace, namespace) && is(&self.resource, resource) && is(&self.api_group, group)
            }
            Target::Path(path) => is_path(&self.path, path),
        }
    }
}

fn text(map: &Map, name: &str) -> String {
    map.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned()
}

fn flag(map: &Map, name: &str) -> bool {
    map.get(name).and_then(|value| value.as_bool()).unwrap_or_default()
}

impl Authorize for Abac {
    fn counted_as(&self) -> Option<(&'static str, &str)> {
        Some(("ABAC", "abac"))
    }

    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        let is_allowed = self.policies.iter().any(|policy| policy.is_for(user) && policy.allows(attributes));
        Deferred::Now(if is_allowed {
            Verdict::allow(Reason::NONE)
        } else {
            Verdict::no_opinion("No policy matched.")
        })
    }

    fn rules(&self, user: &User, namespace: &str) -> Rules {
        let mut rules = Rules::default();
        let is_here = |policy: &&Policy| policy.namespace == ALL || policy.namespace == namespace;
        for policy in self.policies.iter().filter(|policy| policy.is_for(user)).filter(is_here) {
            let verbs: &[&str] = if policy.is_read_only { &["get", "list", "watch"] } else { &[ALL] };
            let verbs: Vec<String> = verbs.iter().map(|verb| (*verb).to_owned()).collect();
            if !policy.resource.is_empty() {
                rules.resources.push(ResourceRule {
                    verbs: verbs.clone(),
                    groups: vec![policy.api_group.clone()],
                    resources: vec![policy.resource.clone()],
                    names: vec![],
                });
            }
            if !policy.path.is_empty() {
                rules.paths.push(PathRule { verbs, paths: vec![policy.path.clone()] });
            }
        }
        rules
    }
}
