//! The approval of APIs in protected groups, which their definitions name in an annotation.

use crate::webhook_client;
use object::quote::Quoted;

/// The annotation.
const ANNOTATION: &str = "api-approved.kubernetes.io";

/// What the annotation of a definition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// There is none.
    Missing,
    /// Neither a link nor a reason to do without.
    Invalid,
    /// A reason to do without.
    Unapproved,
    /// A link to the approval.
    Approved,
}

impl Approval {
    /// The annotation.
    pub const ANNOTATION: &'static str = ANNOTATION;

    /// What the text of the annotation says.
    pub fn of(text: &str) -> Self {
        match text {
            "" => Self::Missing,
            text if text.starts_with("unapproved") => Self::Unapproved,
            text if webhook_client::is_address(text) => Self::Approved,
            _ => Self::Invalid,
        }
    }

    /// Whether definitions of a group need the annotation: the groups of the project itself do.
    pub fn is_needed(group: &str) -> bool {
        ["k8s.io", "kubernetes.io"].iter().any(|domain| {
            group.strip_suffix(domain).is_some_and(|before| before.is_empty() || before.ends_with('.'))
        })
    }

    /// The words for it.
    pub fn message(self, text: &str) -> String {
        const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
        let needed = || format!("protected groups must have approval annotation {}", Quoted(ANNOTATION));
        match self {
            Self::Missing => format!("{}, {SEE}", needed()),
            Self::Invalid => {
                format!(r#"{} with either a URL or a reason starting with "unapproved", {SEE}"#, needed())
            }
            Self::Unapproved => format!("not approved: {}", Quoted(text)),
            Self::Approved => format!("approved in {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protected_groups_are_those_of_the_project() {
        for (group, expected) in [
            ("k8s.io", true),
            ("x.k8s.io", true),
            ("a.kubernetes.io", true),
            ("notk8s.io", false),
            ("example.com", false),
        ] {
            assert_eq!(Approval::is_needed(group), expected, "{group}");
        }
    }

    #[test]
    fn approval_is_a_link_or_a_reason_to_do_without() {
        assert_eq!(Approval::of(""), Approval::Missing);
        assert_eq!(Approval::of("unapproved, an experiment"), Approval::Unapproved);
        assert_eq!(Approval::of("https://github.com/kubernetes/kubernetes/pull/1"), Approval::Approved);
        for bad in ["no link", "/path", "https://", "://host", "1a://host"] {
            assert_eq!(Approval::of(bad), Approval::Invalid, "{bad}");
        }
        assert_eq!(Approval::Approved.message("https://a/b"), "approved in https://a/b");
    }
}
