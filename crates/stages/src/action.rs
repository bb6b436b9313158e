//! What a stage does to an object.

use crate::Stage;
use crate::template::{Functions, Template};
use object::{Map, Value};
use schema::{Limits, Shape, yaml};

/// Something that a stage does.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Tells people.
    Event {
        /// `Normal` or `Warning`.
        kind: String,
        /// The reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// Changes the finalizers to these.
    Finalizers(Vec<String>),
    /// Deletes the object at once.
    Delete,
    /// Changes the object, or a subresource of it.
    Patch {
        /// The subresource; empty for the object itself.
        subresource: String,
        /// The format of the patch.
        kind: PatchKind,
        /// The patch.
        patch: Value,
    },
}

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// A JSON patch.
    Json,
    /// A merge patch.
    Merge,
    /// A strategic merge patch.
    Strategic,
    /// What fits the kind: strategic for pods and nodes, merge for others.
    Usual,
}

/// What a stage asks for, before it is made of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Event { kind: String, reason: String, message: String },
    Finalizers { add: Vec<String>, remove: Vec<String>, empties: bool },
    Delete,
    Patch { subresource: String, root: String, kind: PatchKind, template: Template },
}

impl Step {
    /// Reads an item of `spec.steps`, which may have several parts.
    pub(crate) fn parse(step: &Value) -> Result<Vec<Self>, String> {
        let mut steps = Vec::new();
        if step.get("apply").is_some_and(|apply| !apply.is_null()) {
            return Err("apply is not supported".to_owned());
        }
        steps.extend(step.get("event").filter(|event| !event.is_null()).map(event));
        steps.extend(step.get("finalizers").filter(|it| !it.is_null()).map(finalizers));
        if step.get("delete") == Some(&Value::Bool(true)) {
            steps.push(Self::Delete);
        }
        if let Some(patch) = step.get("patch").filter(|patch| !patch.is_null()) {
            steps.push(Self::patch(patch).map_err(|why| format!("patch: {why}"))?);
        }
        Ok(steps)
    }

    /// Reads `spec.next`, the older form.
    pub(crate) fn parse_next(next: &Value) -> Result<Vec<Self>, String> {
        let mut steps = Self::parse(next)?;
        for (at, patch) in next.get("patches").and_then(Value::as_list).unwrap_or_default().iter().enumerate()
        {
            steps.push(Self::patch(patch).map_err(|why| format!("patches[{at}]: {why}"))?);
        }
        if next.get("statusPatchAs").is_some_and(|it| !it.is_null()) {
            return Err("statusPatchAs is not supported".to_owned());
        }
        let template = text(next, "statusTemplate");
        if !template.is_empty() {
            let subresource = next.get("statusSubresource").and_then(Value::as_str).unwrap_or("status");
            steps.push(Self::Patch {
                subresource: subresource.to_owned(),
                root: "status".to_owned(),
                kind: PatchKind::Usual,
                template: Template::parse(&template).map_err(|why| format!("statusTemplate: {why}"))?,
            });
        }
        Ok(steps)
    }

    fn patch(patch: &Value) -> Result<Self, String> {
        if patch.get("impersonation").is_some_and(|it| !it.is_null()) {
            return Err("impersonation is not supported".to_owned());
        }
        Ok(Self::Patch {
            subresource: text(patch, "subresource"),
            root: text(patch, "root"),
            kind: match text(patch, "type").as_str() {
                "" => PatchKind::Usual,
                "json" => PatchKind::Json,
                "merge" => PatchKind::Merge,
                "strategic" => PatchKind::Strategic,
                other => return Err(format!("unknown patch type {other}")),
            },
            template: Template::parse(&text(patch, "template")).map_err(|why| format!("template: {why}"))?,
        })
    }

    /// What the step does to an object; `None` for nothing.
    fn action(&self, object: &Value, functions: &dyn Functions) -> Result<Option<Action>, String> {
        Ok(match self {
            Self::Event { kind, reason, message } => {
                let (kind, reason, message) = (kind.clone(), reason.clone(), message.clone());
                Some(Action::Event { kind, reason, message })
            }
            Self::Finalizers { add, remove, empties } => {
                let before = finalizers_of(object);
                let kept = before.iter().filter(|one| !empties && !remove.contains(one));
                let mut after: Vec<String> = kept.cloned().collect();
                for one in add {
                    if !after.contains(one) {
                        after.push(one.clone());
                    }
                }
                (after != before).then_some(Action::Finalizers(after))
            }
            Self::Delete => Some(Action::Delete),
            Self::Patch { subresource, root, kind, template } => {
                let text = template.render(object, functions)?;
                let decoded = yaml::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST);
                let patch = decoded.map_err(|why| format!("{why}: {text}"))?.value;
                let patch = match (root.as_str(), kind) {
                    ("", _) => patch,
                    (root, PatchKind::Json) => below(root, patch)?,
                    (root, _) => {
                        let mut wrapped = Map::new();
                        wrapped.insert(root, patch);
                        wrapped.into()
                    }
                };
                Some(Action::Patch { subresource: subresource.clone(), kind: *kind, patch })
            }
        })
    }
}

impl Stage {
    /// What the stage does to an object. After a delete only events follow.
    pub fn actions(&self, object: &Value, functions: &dyn Functions) -> Result<Vec<Action>, String> {
        let mut actions = Vec::new();
        let mut is_deleted = false;
        for step in &self.steps {
            if is_deleted && !matches!(step, Step::Event { .. }) {
                continue;
            }
            is_deleted |= *step == Step::Delete;
            actions.extend(step.action(object, functions)?);
        }
        Ok(actions)
    }
}

fn text(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn event(event: &Value) -> Step {
    let kind = if text(event, "type") == "Warning" { "Warning" } else { "Normal" };
    Step::Event { kind: kind.to_owned(), reason: text(event, "reason"), message: text(event, "message") }
}

fn finalizers(change: &Value) -> Step {
    let values = |key: &str| {
        let items = change.get(key).and_then(Value::as_list).unwrap_or_default();
        items.iter().map(|item| text(item, "value")).filter(|value| !value.is_empty()).collect()
    };
    Step::Finalizers {
        add: values("add"),
        remove: values("remove"),
        empties: change.get("empty") == Some(&Value::Bool(true)),
    }
}

fn finalizers_of(object: &Value) -> Vec<String> {
    let finalizers = object.get("metadata").and_then(|metadata| metadata.get("finalizers"));
    let finalizers = finalizers.and_then(Value::as_list).unwrap_or_default();
    finalizers.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The operations of a JSON patch, with paths that begin below a field.
fn below(root: &str, patch: Value) -> Result<Value, String> {
    let Value::List(_) = &patch else { return Err("a JSON patch is a list of operations".to_owned()) };
    let operations = patch.as_list().unwrap_or_default().iter().map(|operation| {
        let mut operation = operation.clone();
        let path = format!("/{root}{}", text(&operation, "path"));
        if let Some(map) = operation.as_map_mut() {
            map.insert("path", path.as_str());
        }
        operation
    });
    Ok(operations.collect::<Vec<_>>().into())
}
