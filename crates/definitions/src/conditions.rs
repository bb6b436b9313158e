//! The conditions of a definition.

use crate::definition::{Definition, conditions_of};
use crate::names::Taken;
use kinds::{Approval, NonStructural};
use object::{Map, Value};
use registry::conditions;
use schema::view::Items;
use schema::views::apiextensions::v1::CustomResourceDefinitionCondition;

/// A condition without its time.
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'static str,
    pub(crate) status: &'static str,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

impl Condition<'_> {
    /// Sets the condition in a status. `lastTransitionTime` changes only with the status of the condition.
    pub(crate) fn set(&self, status: &mut Map) {
        let fields = [
            ("type", self.kind),
            ("status", self.status),
            ("reason", self.reason),
            ("message", self.message),
        ];
        conditions::set(status, Map::from_iter(fields));
    }
}

/// Whether a condition is `True`.
pub(crate) fn is_true(conditions: Items<'_, CustomResourceDefinitionCondition<'_>>, kind: &str) -> bool {
    conditions.iter().any(|condition| condition.r#type() == kind && condition.status() == "True")
}

/// The status of a definition by its spec and the names of others, before its kind is served.
pub(crate) fn settle(definition: &Definition, taken: &Taken<'_>) -> Map {
    let mut status = definition.status.clone();
    if definition.lacks_names() {
        let (names, conflict) = taken.settle(&definition.names, definition.accepted());
        status.insert("acceptedNames", names);
        let accepted = match &conflict {
            Some(conflict) => Condition {
                kind: "NamesAccepted",
                status: "False",
                reason: conflict.reason,
                message: &conflict.message,
            },
            None => Condition {
                kind: "NamesAccepted",
                status: "True",
                reason: "NoConflicts",
                message: "no conflicts found",
            },
        };
        accepted.set(&mut status);
        let known = conditions_of(&definition.status);
        let is_first = !known.iter().any(|condition| condition.r#type() == "Established");
        let (reason, message) = match conflict {
            Some(_) => ("NotAccepted", "not all names are accepted"),
            None => ("Installing", "the initial names have been accepted"),
        };
        if !is_true(known, "Established") && (is_first || conflict.is_none()) {
            Condition { kind: "Established", status: "False", reason, message }.set(&mut status);
        }
    }
    if Approval::is_needed(&definition.group) {
        let approval = Approval::of(&definition.approval);
        let (value, reason) = match approval {
            Approval::Missing => ("False", "MissingAnnotation"),
            Approval::Invalid => ("False", "InvalidAnnotation"),
            Approval::Unapproved => ("False", "UnapprovedAnnotation"),
            Approval::Approved => ("True", "ApprovedAnnotation"),
        };
        let kind = "KubernetesAPIApprovalPolicyConformant";
        let message = approval.message(&definition.approval);
        Condition { kind, status: value, reason, message: &message }.set(&mut status);
    }
    status
}

/// Says in a status whether the schemas of a definition are structural.
pub(crate) fn note_structure(status: &mut Map, found: Option<&NonStructural>) {
    let kind = "NonStructuralSchema";
    let (value, reason, message) = match found {
        None => return remove(status, kind),
        Some(NonStructural::Violations(message)) => ("True", "Violations", message),
        Some(NonStructural::Unknown(message)) => ("Unknown", "StructuralError", message),
    };
    Condition { kind, status: value, reason, message }.set(status);
}

/// Sets `Established` in a status, if the names are accepted.
pub(crate) fn establish(definition: &Definition, status: &mut Map) {
    let known = conditions_of(status);
    if !is_true(known, "NamesAccepted") || is_true(known, "Established") {
        return;
    }
    let kind = "Established";
    let condition = match definition.has_valid_authority {
        true => Condition {
            kind,
            status: "True",
            reason: "InitialNamesAccepted",
            message: "the initial names have been accepted",
        },
        false => Condition {
            kind,
            status: "False",
            reason: "InvalidCABundle",
            message: "The conversion webhook CABundle is invalid",
        },
    };
    condition.set(status);
}

fn remove(status: &mut Map, kind: &str) {
    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_list_mut) {
        conditions.retain(|condition| condition.get("type").and_then(Value::as_str) != Some(kind));
    }
}
