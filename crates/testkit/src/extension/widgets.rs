//! Writes of widgets.

use hyper::Method;
use serde_json::{Value, json};

use super::{Answer, State, event, json_answer, status};

impl State {
    pub(super) fn create(&mut self, namespace: &str, mut body: Value) -> Answer {
        let name = body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = (namespace.to_owned(), name);
        if self.widgets.contains_key(&key) {
            return status(409, "AlreadyExists", "it exists");
        }
        let uid = format!("00000000-0000-0000-0000-{:012}", self.revision + 1);
        if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("namespace".into(), namespace.into());
            metadata.insert("uid".into(), uid.into());
            metadata.insert("creationTimestamp".into(), "2026-01-01T00:00:00Z".into());
        }
        let made = self.put("ADDED", key, body);
        json_answer(201, &made)
    }

    pub(super) fn object(&mut self, method: &Method, namespace: &str, name: &str, body: &Value) -> Answer {
        let key = (namespace.to_owned(), name.to_owned());
        let Some(widget) = self.widgets.get(&key).cloned() else {
            return status(404, "NotFound", &format!("widgets \"{name}\" not found"));
        };
        match *method {
            Method::GET => json_answer(200, &widget),
            Method::DELETE => {
                let wanted = body.pointer("/preconditions/uid");
                if wanted.is_some_and(|uid| Some(uid) != widget.pointer("/metadata/uid")) {
                    return status(409, "Conflict", "the UID in the precondition is another one");
                }
                let mut marked = widget;
                if let Some(metadata) = marked.get_mut("metadata").and_then(Value::as_object_mut) {
                    metadata.insert("deletionTimestamp".into(), "2026-01-01T00:00:01Z".into());
                    let finalizer = match body.get("propagationPolicy").and_then(Value::as_str) {
                        Some("Foreground") => Some("foregroundDeletion"),
                        Some("Orphan") => Some("orphan"),
                        _ => None,
                    };
                    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
                    if let (Some(finalizer), Some(list)) = (finalizer, finalizers.as_array_mut()) {
                        list.push(finalizer.into());
                    }
                }
                self.finish(key, marked);
                json_answer(200, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            Method::PATCH => {
                let version = body.pointer("/metadata/resourceVersion");
                if version.is_some_and(|version| Some(version) != widget.pointer("/metadata/resourceVersion"))
                {
                    return status(409, "Conflict", "the object has been modified");
                }
                let mut patched = widget;
                merge(&mut patched, body);
                self.finish(key, patched.clone());
                json_answer(200, &patched)
            }
            _ => status(405, "MethodNotAllowed", "the server does not allow this method"),
        }
    }

    /// Stores an object, or removes it if it is being deleted and nothing holds it.
    fn finish(&mut self, key: (String, String), widget: Value) {
        let finalizers = widget.pointer("/metadata/finalizers").and_then(Value::as_array);
        let is_held = finalizers.is_some_and(|finalizers| !finalizers.is_empty());
        if widget.pointer("/metadata/deletionTimestamp").is_none() || is_held {
            self.put("MODIFIED", key, widget);
            return;
        }
        self.revision += 1;
        self.widgets.remove(&key);
        self.tell("DELETED", &key.0, &widget);
    }

    fn put(&mut self, change: &str, key: (String, String), mut widget: Value) -> Value {
        self.revision += 1;
        if let Some(metadata) = widget.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".into(), self.revision.to_string().into());
        }
        self.tell(change, &key.0, &widget);
        self.widgets.insert(key, widget.clone());
        widget
    }

    fn tell(&mut self, kind: &str, namespace: &str, widget: &Value) {
        let event = event(kind, widget);
        self.watchers.retain(|watcher| {
            let concerns = watcher.namespace.is_empty() || watcher.namespace == namespace;
            !concerns || watcher.events.send(event.clone()).is_ok()
        });
    }
}

/// A merge patch.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = json!({});
    }
    for (key, patch) in patch {
        if let (Value::Object(map), false) = (&mut *value, patch.is_null()) {
            merge(map.entry(key.clone()).or_insert(Value::Null), patch);
        } else if let Value::Object(map) = &mut *value {
            map.remove(key);
        }
    }
}
