//! What audit logs say of webhooks: which changed an object and how, and which failed without an effect.

use super::configuration::Webhook;
use crate::Attributes;
use crate::conditions::FailurePolicy;
use observe::AuditLevel;
use schema::Limits;
use schema::json::{self, Node};

/// The call of a webhook.
pub(super) struct Place<'a> {
    /// 0, or 1 when mutating webhooks are called again.
    pub(super) round: u8,
    /// The place among the webhooks.
    pub(super) index: usize,
    pub(super) attributes: &'a Attributes<'a>,
    pub(super) webhook: &'a Webhook,
}

impl Place<'_> {
    /// Notes whether a webhook changed the object, and the patch that was applied.
    pub(super) fn mutated(&self, is_changed: bool, patch: Option<&[u8]>) {
        let level = self.attributes.observation.audit_level();
        if level == AuditLevel::None {
            return;
        }
        let mut value = self.head();
        value.push_str(&format!(",\"mutated\":{is_changed}}}"));
        self.attributes.annotate(&self.key("mutation.webhook.admission.k8s.io/"), &value);
        if level >= AuditLevel::Request
            && let Some(patch) = patch.and_then(sorted)
        {
            let value = format!("{},\"patch\":{patch},\"patchType\":\"JSONPatch\"}}", self.head());
            self.attributes.annotate(&self.key("patch.webhook.admission.k8s.io/"), &value);
        }
    }

    /// Notes that a webhook failed, if that does not count.
    pub(super) fn failed_open(&self, role: &str, policy: FailurePolicy) {
        if policy == FailurePolicy::Ignore && self.attributes.observation.audit_level() > AuditLevel::None {
            let prefix = match role {
                "mutating" => "failed-open.mutation.webhook.admission.k8s.io/",
                _ => "failed-open.validating.webhook.admission.k8s.io/",
            };
            self.attributes.annotate(&self.key(prefix), &self.webhook.name);
        }
    }

    fn key(&self, prefix: &str) -> String {
        format!("{prefix}round_{}_index_{}", self.round, self.index)
    }

    fn head(&self) -> String {
        let (configuration, webhook) =
            (json::string(&self.webhook.configuration), json::string(&self.webhook.name));
        format!("{{\"configuration\":{configuration},\"webhook\":{webhook}")
    }
}

/// A patch with the members of its operations in order, and their values as they are.
fn sorted(patch: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(patch).ok()?;
    let Node::List(operations) = Node::read(text, &Limits::REQUEST).ok()? else { return None };
    let mut out = String::with_capacity(patch.len() + 16);
    out.push('[');
    for (index, operation) in operations.into_iter().enumerate() {
        let Node::Object(mut members) = operation else { return None };
        members.sort_by(|a, b| a.key.cmp(&b.key));
        out.push_str(if index > 0 { "," } else { "" });
        write(&Node::Object(members), &mut out);
    }
    out.push(']');
    Some(out)
}

fn write(node: &Node<'_>, out: &mut String) {
    match node {
        Node::Null => out.push_str("null"),
        Node::Scalar(text) => {
            for character in text.chars() {
                match character {
                    '<' => out.push_str("\\u003c"),
                    '>' => out.push_str("\\u003e"),
                    '&' => out.push_str("\\u0026"),
                    other => out.push(other),
                }
            }
        }
        Node::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (index, member) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&json::string(&member.key));
                out.push(':');
                write(&member.value, out);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_is_shown_with_its_operations_in_order_and_its_values_as_they_are() {
        let patch = br#"[ {"path": "/a", "op": "add", "value": {"z": "<1>", "a": [1.0, null]}}, {"op":"remove","path":"/b"} ]"#;
        assert_eq!(
            sorted(patch).unwrap(),
            r#"[{"op":"add","path":"/a","value":{"z":"\u003c1\u003e","a":[1.0,null]}},{"op":"remove","path":"/b"}]"#
        );
        assert_eq!(sorted(b"null"), None);
    }
}
