//! Bindings: which role they give to whom.

use object::Text;
use object::quote::Quoted;
use schema::views::rbac::v1;
use std::fmt;
use std::sync::Arc;

/// The role of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    /// The API group.
    pub group: Text,
    /// The kind.
    pub kind: RoleKind,
    /// The name.
    pub name: Text,
}

/// The kind of the role of a binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleKind {
    /// A role in the namespace of the binding.
    Role,
    /// A cluster role.
    ClusterRole,
    /// A kind that is not a role.
    Unsupported(Text),
}

impl RoleRef {
    /// The role of a binding.
    pub fn read(role: v1::RoleRef<'_>) -> Self {
        let kind = match role.kind() {
            "Role" => RoleKind::Role,
            "ClusterRole" => RoleKind::ClusterRole,
            other => RoleKind::Unsupported(other.into()),
        };
        Self { group: role.api_group().into(), kind, name: role.name().into() }
    }
}

impl fmt::Display for RoleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::Unsupported(kind) => kind,
        })
    }
}

/// A role binding, or with an empty namespace a cluster role binding.
#[derive(Debug)]
pub(super) struct Binding {
    pub(super) namespace: Text,
    pub(super) name: Text,
    pub(super) role: RoleRef,
}

/// A subject of a binding.
#[derive(Debug)]
pub(super) enum Subject {
    User(Text),
    Group(Text),
    ServiceAccount { namespace: Text, name: Text },
}

impl Subject {
    /// A subject that can be the user of a request. A service account without a namespace is in that of the
    /// binding; in a cluster role binding it matches no user.
    pub(super) fn read(subject: v1::Subject<'_>, binding_namespace: &str) -> Option<Self> {
        let name = Text::from(subject.name());
        match subject.kind() {
            "User" => Some(Self::User(name)),
            "Group" => Some(Self::Group(name)),
            "ServiceAccount" => match (subject.namespace(), binding_namespace) {
                ("", "") => None,
                ("", namespace) | (namespace, _) => {
                    Some(Self::ServiceAccount { namespace: namespace.into(), name })
                }
            },
            _ => None,
        }
    }
}

/// The grant of a binding to one of its subjects. Its `Display` is the reason of a decision.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) binding: Arc<Binding>,
    pub(super) subject: Subject,
    /// The position of the subject in the binding: of those that a user has, the first is in the reason.
    pub(super) position: usize,
}

impl Grant {
    /// The order among the grants of a namespace: that of lists of bindings.
    pub(super) fn order(&self) -> (&str, usize) {
        (&self.binding.name, self.position)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { namespace, name, role } = &*self.binding;
        f.write_str("RBAC: allowed by ")?;
        match namespace.as_str() {
            "" => write!(f, "ClusterRoleBinding {}", Quoted(name))?,
            namespace => write!(f, "RoleBinding {}", Quoted(&format!("{name}/{namespace}")))?,
        }
        write!(f, " of {} {} to ", role.kind, Quoted(&role.name))?;
        match &self.subject {
            Subject::User(name) => write!(f, "User {}", Quoted(name)),
            Subject::Group(name) => write!(f, "Group {}", Quoted(name)),
            Subject::ServiceAccount { namespace, name } => {
                write!(f, "ServiceAccount {}", Quoted(&format!("{name}/{namespace}")))
            }
        }
    }
}
