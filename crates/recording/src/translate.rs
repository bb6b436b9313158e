//! What the new server has chosen in place of what the recorded one had: uids, revisions, generated names,
//! addresses, tokens.

use std::collections::{BTreeMap, HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::mask::PLACEHOLDER;

/// Shorter texts are not looked for within others.
const SHORTEST: usize = 6;

/// Recorded values, and those of the new server.
#[derive(Debug, Default)]
pub(crate) struct Translation {
    texts: HashMap<String, String>,
    revisions: BTreeMap<u64, u64>,
    ports: HashMap<i64, i64>,
    /// Placeholders that were sent: the new server has them, too.
    sent: HashSet<String>,
}

impl Translation {
    /// Learns from a recorded answer and the new one.
    pub(crate) fn learn(&mut self, recorded: &Value, now: &Value) {
        match (recorded, now) {
            (Value::Object(recorded), Value::Object(now)) => self.learn_object(recorded, now),
            (Value::Array(recorded), Value::Array(now)) => {
                for (index, item) in recorded.iter().enumerate() {
                    if let Some(other) = self.counterpart(item, index, now) {
                        self.learn(item, other);
                    }
                }
            }
            (Value::String(recorded), Value::String(now)) if is_placeholder(recorded) => {
                self.learn_text(recorded, now);
            }
            _ => {}
        }
    }

    /// The item of a list that is the same object: by its name, or by its place.
    fn counterpart<'v>(&self, item: &Value, index: usize, items: &'v [Value]) -> Option<&'v Value> {
        fn name(item: &Value) -> Option<(&str, Option<&str>)> {
            let metadata = item.get("metadata").or_else(|| item.get("object")?.get("metadata"))?;
            Some((metadata.get("name")?.as_str()?, metadata.get("namespace").and_then(Value::as_str)))
        }
        let Some((own, namespace)) = name(item) else { return items.get(index) };
        let own = self.texts.get(own).map_or(own, String::as_str);
        items.iter().find(|other| name(other) == Some((own, namespace))).or_else(|| items.get(index))
    }

    fn learn_object(&mut self, recorded: &Map<String, Value>, now: &Map<String, Value>) {
        let text = |fields: &Map<String, Value>, key: &str| {
            fields.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let prefix = text(recorded, "generateName");
        if !prefix.is_empty() && text(now, "generateName") == prefix {
            let (recorded, now) = (text(recorded, "name"), text(now, "name"));
            if recorded.starts_with(&prefix) && now.starts_with(&prefix) {
                self.learn_text(&recorded, &now);
            }
        }
        for (key, recorded) in recorded {
            let Some(now) = now.get(key) else { continue };
            match (key.as_str(), recorded, now) {
                ("resourceVersion", Value::String(recorded), Value::String(now)) => {
                    if let (Ok(recorded), Ok(now)) = (recorded.parse(), now.parse()) {
                        self.revisions.insert(recorded, now);
                    }
                }
                ("uid" | "continue" | "clusterIP", Value::String(recorded), Value::String(now)) => {
                    self.learn_text(recorded, now);
                }
                ("clusterIPs", Value::Array(recorded), Value::Array(now)) => {
                    for (recorded, now) in recorded.iter().zip(now) {
                        self.learn_text(
                            recorded.as_str().unwrap_or_default(),
                            now.as_str().unwrap_or_default(),
                        );
                    }
                }
                ("nodePort" | "healthCheckNodePort", Value::Number(recorded), Value::Number(now)) => {
                    if let Some((recorded, now)) = recorded.as_i64().zip(now.as_i64()) {
                        self.ports.insert(recorded, now);
                    }
                }
                _ => self.learn(recorded, now),
            }
        }
    }

    fn learn_text(&mut self, recorded: &str, now: &str) {
        let is_known = recorded.is_empty() || now.is_empty() || recorded == now || recorded == "None";
        if !is_known && !self.sent.contains(recorded) {
            self.texts.insert(recorded.to_owned(), now.to_owned());
        }
    }

    /// Notes the placeholders of a request that is sent as it was recorded.
    pub(crate) fn note_sent(&mut self, value: &Value) {
        match value {
            Value::String(text) if is_placeholder(text) && !self.texts.contains_key(text) => {
                self.sent.insert(text.clone());
                // What was written as a text comes back in base64.
                self.sent.insert(STANDARD.encode(text));
            }
            Value::Array(items) => items.iter().for_each(|item| self.note_sent(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.note_sent(field)),
            _ => {}
        }
    }

    /// A recorded value as the new server has it.
    pub(crate) fn value(&self, recorded: &Value) -> Value {
        self.at(recorded, "")
    }

    fn at(&self, recorded: &Value, key: &str) -> Value {
        match recorded {
            Value::String(text) if key == "resourceVersion" => self.revision(text).into(),
            Value::String(text) => self.text(text).into(),
            Value::Number(number) if key == "nodePort" || key == "healthCheckNodePort" => number
                .as_i64()
                .and_then(|port| self.ports.get(&port))
                .map_or(recorded.clone(), |port| (*port).into()),
            Value::Array(items) => items.iter().map(|item| self.at(item, key)).collect(),
            Value::Object(fields) => {
                // An operation of a JSON patch has the name of its field in another one.
                let path = fields.get("path").and_then(Value::as_str).unwrap_or_default();
                let patched = path.rsplit('/').next().unwrap_or_default();
                let name = |key: &str| {
                    if key == "value" && !patched.is_empty() { patched.to_owned() } else { key.to_owned() }
                };
                fields
                    .iter()
                    .map(|(key, field)| (self.text(key), self.at(field, &name(key))))
                    .collect::<Map<_, _>>()
                    .into()
            }
            other => other.clone(),
        }
    }

    /// A recorded path with its query as the new server has it.
    pub(crate) fn path(&self, recorded: &str) -> String {
        let (path, query) = recorded.split_once('?').unwrap_or((recorded, ""));
        let mut translated = self.text(path);
        for (index, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            translated.push(if index == 0 { '?' } else { '&' });
            match pair.split_once('=') {
                Some((key @ "resourceVersion", value)) => {
                    translated.push_str(&format!("{key}={}", self.revision(value)))
                }
                _ => translated.push_str(&self.text(pair)),
            }
        }
        translated
    }

    /// A recorded revision: of what the same client read, or the newest one that is known from before.
    fn revision(&self, recorded: &str) -> String {
        match recorded.parse::<u64>() {
            Ok(number) if number > 0 => {
                let known = self.revisions.range(..=number).next_back();
                known.map_or_else(|| recorded.to_owned(), |(_, now)| now.to_string())
            }
            _ => recorded.to_owned(),
        }
    }

    fn text(&self, recorded: &str) -> String {
        if let Some(now) = self.texts.get(recorded) {
            return now.clone();
        }
        let mut text = recorded.to_owned();
        if text.len() > SHORTEST {
            for (recorded, now) in self.texts.iter().filter(|(recorded, _)| recorded.len() >= SHORTEST) {
                if text.contains(recorded.as_str()) {
                    text = text.replace(recorded.as_str(), now);
                }
            }
        }
        text
    }
}

/// Whether a text is a placeholder of a secret, perhaps in base64.
fn is_placeholder(text: &str) -> bool {
    let is_one = |text: &[u8]| text.starts_with(PLACEHOLDER.as_bytes()) || text.starts_with(b"{\"masked-");
    is_one(text.as_bytes()) || (text.len() < 64 && STANDARD.decode(text).is_ok_and(|plain| is_one(&plain)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UID: [&str; 2] = ["0f0e0d0c-0000-4000-8000-000000000001", "0f0e0d0c-0000-4000-8000-000000000002"];

    #[test]
    fn values_of_the_new_server_take_the_place_of_recorded_ones() {
        let mut translation = Translation::default();
        let object = |which: usize, name: &str, version: &str, port: u16| {
            json!({"metadata": {"generateName": "pod-name-", "name": name, "uid": UID[which], "resourceVersion": version},
                "spec": {"clusterIP": format!("10.0.0.{port}"), "ports": [{"nodePort": port}]}})
        };
        translation.learn(&object(0, "pod-name-abc", "100", 7), &object(1, "pod-name-xyz", "205", 8));
        let request = json!({"metadata": {"name": "pod-name-abc", "resourceVersion": "100", "ownerReferences": [{"uid": UID[0]}]},
            "spec": {"clusterIP": "10.0.0.7", "ports": [{"nodePort": 7, "port": 7}]}, "said": "pod-name-abc is gone"});
        let wanted = json!({"metadata": {"name": "pod-name-xyz", "resourceVersion": "205", "ownerReferences": [{"uid": UID[1]}]},
            "spec": {"clusterIP": "10.0.0.8", "ports": [{"nodePort": 8, "port": 7}]}, "said": "pod-name-xyz is gone"});
        assert_eq!(translation.value(&request), wanted);
        assert_eq!(
            translation.path("/api/v1/pods/pod-name-abc?resourceVersion=100&watch=1"),
            "/api/v1/pods/pod-name-xyz?resourceVersion=205&watch=1"
        );
        let patch = json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "100"}]);
        assert_eq!(translation.value(&patch)[0]["value"], "205");
    }

    #[test]
    fn revisions_between_known_ones_are_those_before() {
        let mut translation = Translation::default();
        let list = |version: &str| json!({"metadata": {"resourceVersion": version}});
        translation.learn(&list("100"), &list("10"));
        translation.learn(&list("200"), &list("20"));
        for (recorded, now) in
            [("100", "10"), ("150", "10"), ("200", "20"), ("999", "20"), ("50", "50"), ("0", "0"), ("", "")]
        {
            assert_eq!(translation.revision(recorded), now, "{recorded}");
        }
    }

    #[test]
    fn items_of_lists_are_matched_by_their_names() {
        let mut translation = Translation::default();
        let item =
            |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
        translation.learn(
            &json!({"items": [item("a", "1"), item("b", "2")]}),
            &json!({"items": [item("b", "12"), item("c", "13"), item("a", "11")]}),
        );
        assert_eq!((translation.revision("1"), translation.revision("2")), ("11".into(), "12".into()));
    }

    #[test]
    fn placeholders_are_what_the_server_has_made_unless_they_were_sent() {
        let mut translation = Translation::default();
        translation.note_sent(&json!({"stringData": {"a": "masked-1"}}));
        let sent = STANDARD.encode("masked-1");
        let recorded = json!({"data": {"a": sent, "token": STANDARD.encode("masked-2")}, "status": {"token": "masked-3"}});
        let now = json!({"data": {"a": "b3RoZXI=", "token": "bmV3"}, "status": {"token": "x.y.z"}});
        translation.learn(&recorded, &now);
        assert_eq!(
            translation.value(&recorded),
            json!({"data": {"a": sent, "token": "bmV3"}, "status": {"token": "x.y.z"}})
        );
    }
}
