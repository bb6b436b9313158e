//! Placeholders for secrets: the values of Secrets, and tokens.
//!
//! A value has one placeholder in a whole recording, `masked-N`, so that what was equal stays equal. It is
//! put where a value is expected to be: in base64 in `data` of a Secret, and as JSON where a Secret has to
//! have some. A value that is known by then is replaced in every other text too, such as a message.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::file::Body;

/// What every placeholder begins with.
pub(crate) const PLACEHOLDER: &str = "masked-";
/// Shorter values are words such as `true`, which are everywhere.
const SHORTEST: usize = 8;
/// The most values that are looked for in other texts.
const MOST_KNOWN: usize = 2000;
/// The annotation with the whole object as it was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The secrets that were seen, with their placeholders.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    numbers: HashMap<Vec<u8>, usize>,
    /// Texts to replace wherever they are.
    known: Vec<(String, String)>,
}

impl Masks {
    /// Replaces the secrets of a body of a request to `path`, or of the answer to that.
    pub(crate) fn hide(&mut self, path: &str, body: &mut Body) {
        match body {
            Body::Json(value) => self.hide_in(is_of_secrets(path), value),
            Body::Text(text) => {
                if is_of_secrets(path) {
                    *body = Body::Omitted(text.len() as u64);
                } else {
                    *text = self.scrubbed(text);
                }
            }
            Body::None | Body::Omitted(_) => {}
        }
    }

    /// The same for an event of a watch.
    pub(crate) fn hide_in_event(&mut self, path: &str, event: &mut Value) {
        if let Some(object) = event.get_mut("object") {
            self.hide_in(is_of_secrets(path), object);
        }
    }

    fn hide_in(&mut self, is_secret: bool, value: &mut Value) {
        self.objects(is_secret, value);
        self.scrub(value);
    }

    /// Looks for objects with secrets.
    fn objects(&mut self, is_secret: bool, value: &mut Value) {
        match value {
            Value::Array(items) => {
                for item in items {
                    if is_secret && item.get("op").is_some() {
                        self.operation(item);
                    } else {
                        self.objects(is_secret, item);
                    }
                }
            }
            Value::Object(fields) => {
                let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
                let is_secret = is_secret || matches!(kind.as_str(), "Secret" | "SecretList");
                if is_secret {
                    self.secret(fields);
                }
                for part in ["spec", "status"] {
                    let is_review = matches!(kind.as_str(), "TokenRequest" | "TokenReview");
                    let token = fields.get_mut(part).and_then(|part| part.get_mut("token"));
                    if let Some(Value::String(token)) = token.filter(|_| is_review)
                        && !token.is_empty()
                    {
                        *token = self.placeholder(token.clone().as_bytes());
                    }
                }
                for (key, field) in fields.iter_mut() {
                    // Below these there are no objects of the API.
                    if !matches!(key.as_str(), "data" | "stringData" | "managedFields") {
                        self.objects(is_secret && key == "items", field);
                    }
                }
            }
            _ => {}
        }
    }

    /// A Secret, or a patch for one.
    fn secret(&mut self, fields: &mut Map<String, Value>) {
        for (name, is_encoded) in [("data", true), ("stringData", false)] {
            for (key, value) in fields.get_mut(name).and_then(Value::as_object_mut).into_iter().flatten() {
                self.value(key, value, is_encoded);
            }
        }
        let annotations = fields.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
        if let Some(Value::String(applied)) = annotations.and_then(|all| all.get_mut(LAST_APPLIED)) {
            *applied = match serde_json::from_str::<Value>(applied) {
                Ok(mut object) => {
                    self.objects(true, &mut object);
                    format!("{object}\n")
                }
                Err(_) => self.placeholder(applied.clone().as_bytes()),
            };
        }
    }

    /// An operation of a JSON patch for a Secret.
    fn operation(&mut self, operation: &mut Value) {
        let path = operation.get("path").and_then(Value::as_str).unwrap_or_default().to_owned();
        let Some(value) = operation.get_mut("value") else { return };
        let mut parts = path.split('/').skip(1);
        let is_encoded = match parts.next() {
            None => return self.objects(true, value),
            Some("data") => true,
            Some("stringData") => false,
            Some(_) => {
                // It may be an annotation with the whole object.
                if let Value::String(text) = value {
                    *text = self.placeholder(text.clone().as_bytes());
                }
                return;
            }
        };
        match value {
            Value::Object(values) => {
                values.iter_mut().for_each(|(key, value)| self.value(key, value, is_encoded));
            }
            value => self.value(parts.next().unwrap_or_default(), value, is_encoded),
        }
    }

    /// A value of a Secret.
    fn value(&mut self, key: &str, value: &mut Value, is_encoded: bool) {
        let Value::String(text) = value else { return };
        if text.is_empty() {
            return;
        }
        let plain = if is_encoded { STANDARD.decode(&*text).ok() } else { None };
        let plain = plain.unwrap_or_else(|| text.as_bytes().to_vec());
        let mut placeholder = self.placeholder(&plain);
        if matches!(key, ".dockerconfigjson" | ".dockercfg") {
            placeholder = format!("{{\"{placeholder}\":{{}}}}");
        }
        *text = if is_encoded { STANDARD.encode(placeholder) } else { placeholder };
    }

    /// The placeholder of a secret.
    fn placeholder(&mut self, plain: &[u8]) -> String {
        if plain.starts_with(PLACEHOLDER.as_bytes()) {
            return String::from_utf8_lossy(plain).into_owned();
        }
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry(plain.to_vec()).or_insert(next);
        let placeholder = format!("{PLACEHOLDER}{number}");
        if number == next && plain.len() >= SHORTEST && self.known.len() < MOST_KNOWN {
            if let Ok(text) = std::str::from_utf8(plain) {
                self.known.push((text.to_owned(), placeholder.clone()));
            }
            self.known.push((STANDARD.encode(plain), STANDARD.encode(&placeholder)));
        }
        placeholder
    }

    fn scrub(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.scrubbed(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.scrub(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.scrub(field)),
            _ => {}
        }
    }

    fn scrubbed(&self, text: &str) -> String {
        let mut text = text.to_owned();
        if text.len() >= SHORTEST {
            for (secret, placeholder) in &self.known {
                if text.contains(secret.as_str()) {
                    text = text.replace(secret.as_str(), placeholder);
                }
            }
        }
        text
    }
}

/// Whether a path is one of Secrets.
fn is_of_secrets(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.strip_prefix("/api/v1/").unwrap_or_default().split('/').peekable();
    if parts.peek() == Some(&"watch") {
        parts.next();
    }
    match (parts.next(), parts.next(), parts.next()) {
        (Some("secrets"), ..) => true,
        (Some("namespaces"), Some(_), Some(resource)) => resource == "secrets",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECRETS: &str = "/api/v1/namespaces/default/secrets";

    fn hidden(masks: &mut Masks, path: &str, value: Value) -> Value {
        let mut body = Body::Json(value);
        masks.hide(path, &mut body);
        match body {
            Body::Json(value) => value,
            other => panic!("{other:?}"),
        }
    }

    fn encoded(text: &str) -> String {
        STANDARD.encode(text)
    }

    #[test]
    fn values_of_secrets_have_placeholders_that_stay() {
        let mut masks = Masks::default();
        let secret = |data: Value| json!({"kind": "Secret", "metadata": {"name": "s"}, "data": data});
        let first = hidden(
            &mut masks,
            "/x",
            secret(json!({"a": encoded("hush-hush"), "b": encoded("other-one"), "c": ""})),
        );
        assert_eq!(first["data"], json!({"a": encoded("masked-1"), "b": encoded("masked-2"), "c": ""}));
        let list = json!({"kind": "SecretList", "items": [{"data": {"z": encoded("other-one")}}]});
        assert_eq!(hidden(&mut masks, SECRETS, list)["items"][0]["data"]["z"], encoded("masked-2"));
        let written = json!({"kind": "Secret", "stringData": {"a": "hush-hush"}});
        assert_eq!(hidden(&mut masks, SECRETS, written)["stringData"]["a"], "masked-1");
        let mut event = json!({"type": "ADDED", "object": secret(json!({"a": encoded("hush-hush")}))});
        masks.hide_in_event(SECRETS, &mut event);
        assert_eq!(event["object"]["data"]["a"], encoded("masked-1"));
        // What is masked already, as in a recording of a replay, stays.
        let again = hidden(&mut masks, SECRETS, secret(json!({"a": encoded("masked-9")})));
        assert_eq!(again["data"]["a"], encoded("masked-9"));
    }

    #[test]
    fn patches_of_secrets_are_masked_in_all_their_forms() {
        let mut masks = Masks::default();
        let path = "/api/v1/namespaces/default/secrets/s";
        let merge = hidden(&mut masks, path, json!({"data": {"a": encoded("hush-hush"), "gone": null}}));
        assert_eq!(merge, json!({"data": {"a": encoded("masked-1"), "gone": null}}));
        let operations = json!([
            {"op": "add", "path": "/data/a", "value": encoded("hush-hush")},
            {"op": "replace", "path": "/data", "value": {"b": encoded("second-one")}},
            {"op": "add", "path": "", "value": {"stringData": {"c": "hush-hush"}}},
            {"op": "add", "path": "/metadata/annotations/x", "value": "third-one"},
            {"op": "remove", "path": "/data/a"},
        ]);
        let text = hidden(&mut masks, path, operations).to_string();
        for secret in ["hush-hush", "second-one", "third-one"] {
            assert!(!text.contains(secret) && !text.contains(&encoded(secret)), "{text}");
        }
        let applied = json!({"kind": "Secret", "data": {"a": encoded("hush-hush")}}).to_string();
        let object = json!({"kind": "Secret", "metadata": {"annotations": {LAST_APPLIED: applied}}});
        let text = hidden(&mut masks, path, object).to_string();
        assert!(!text.contains(&encoded("hush-hush")) && text.contains(&encoded("masked-1")), "{text}");
        let mut body = Body::Text("data: hush".into());
        masks.hide(path, &mut body);
        assert_eq!(body, Body::Omitted(10), "what is not understood is not written");
    }

    #[test]
    fn tokens_and_known_values_are_masked_everywhere() {
        let mut masks = Masks::default();
        let answer =
            json!({"kind": "TokenRequest", "spec": {"audiences": ["a"]}, "status": {"token": "aaa.bbb.ccc"}});
        assert_eq!(hidden(&mut masks, "/x", answer)["status"]["token"], "masked-1");
        let review = json!({"kind": "TokenReview", "spec": {"token": "aaa.bbb.ccc"}});
        assert_eq!(hidden(&mut masks, "/x", review)["spec"]["token"], "masked-1");
        let status = json!({"kind": "Status", "message": "invalid token aaa.bbb.ccc!"});
        assert_eq!(hidden(&mut masks, "/x", status)["message"], "invalid token masked-1!");
        let mut body = Body::Text("said aaa.bbb.ccc".into());
        masks.hide("/x", &mut body);
        assert_eq!(body, Body::Text("said masked-1".into()));
    }

    #[test]
    fn other_objects_keep_their_data() {
        let map = json!({"kind": "ConfigMap", "data": {"a": "plain-text"}, "stringData": {"b": "c"}});
        assert_eq!(hidden(&mut Masks::default(), "/api/v1/namespaces/default/configmaps", map.clone()), map);
    }

    #[test]
    fn secret_that_has_to_be_json_stays_so() {
        let text = encoded(r#"{"auths": {"r": {"auth": "x"}}}"#);
        let secret = json!({"kind": "Secret", "data": {".dockerconfigjson": text}});
        let masked = hidden(&mut Masks::default(), SECRETS, secret);
        let plain = STANDARD.decode(masked["data"][".dockerconfigjson"].as_str().unwrap()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&plain).unwrap(), json!({"masked-1": {}}));
    }

    #[test]
    fn paths_of_secrets_are_known() {
        for path in
            ["/api/v1/secrets", "/api/v1/secrets?watch=1", SECRETS, "/api/v1/watch/namespaces/a/secrets/b"]
        {
            assert!(is_of_secrets(path), "{path}");
        }
        for path in
            ["/api/v1/namespaces/secrets", "/apis/x/v1/secrets", "/api/v1/namespaces/a/pods/secrets", "/"]
        {
            assert!(!is_of_secrets(path), "{path}");
        }
    }
}
