//! What servers behind this one need to know: whose client certificates it takes, and which proxies it
//! trusts.
//!
//! Other servers on the same store have authorities of their own, so nothing that they wrote is taken away,
//! except for certificates that have expired.

use super::Boot;
use object::{Key, Map, Value};
use registry::Address;
use schema::{Limits, Shape, Status, json};

const MAPS: Address<'static> = Address::core("configmaps", "kube-system");
const NAME: &str = "extension-apiserver-authentication";

impl Boot<'_> {
    /// The config map, with what this server has to say.
    pub(super) async fn authentication_info(&self) -> Result<(), Status> {
        let text = format!(r#"{{"metadata":{{"name":"{NAME}"}}}}"#);
        self.apply_with(MAPS, &text, |map, _| {
            let own = [("client-ca-file", &self.values.client_authority)];
            let proxy = self.values.proxy.iter().map(|(key, value)| (*key, value));
            for (key, value) in own.into_iter().chain(proxy) {
                add(map, key, value);
            }
        })
        .await
    }
}

/// Adds to what a key of the config map says.
fn add(map: &mut Map, key: &'static str, own: &str) {
    if map.get("data").is_none_or(|data| data.as_map().is_none()) {
        map.insert(Key::known("data"), Value::Map(Map::new()));
    }
    let Some(data) = map.get_mut("data").and_then(Value::as_map_mut) else { return };
    let known = data.get(key).and_then(Value::as_str).unwrap_or_default();
    let both = match key.ends_with("-ca-file") {
        true => pki::combine(&[known, own], clock::now()),
        false => union(known, own),
    };
    data.insert(Key::known(key), Value::from(both.as_str()));
}

/// The texts of two lists in JSON, each once. One that cannot be read is empty.
fn union(known: &str, own: &str) -> String {
    let read = |list: &str| json::decode_shape(&Shape::Any, list.as_bytes(), &Limits::REQUEST);
    let lists = [read(known), read(own)].map(|list| list.unwrap_or_default().value);
    let mut all: Vec<&str> = Vec::new();
    for text in lists.iter().filter_map(Value::as_list).flatten().filter_map(Value::as_str) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    schema::json::string_list(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_joined_in_their_order() {
        assert_eq!(union("", r#"["a","b"]"#), r#"["a","b"]"#);
        assert_eq!(union(r#"["c","a"]"#, r#"["a","b"]"#), r#"["c","a","b"]"#);
        assert_eq!(union("no list", "[]"), "[]");
    }

    #[test]
    fn other_keys_and_what_others_said_stay() {
        let mut map = Map::new();
        add(&mut map, "requestheader-allowed-names", r#"["a"]"#);
        add(&mut map, "requestheader-group-headers", r#"["g"]"#);
        add(&mut map, "requestheader-allowed-names", r#"["b"]"#);
        let data = map.get("data").unwrap();
        assert_eq!(data.get("requestheader-allowed-names").unwrap().as_str(), Some(r#"["a","b"]"#));
        assert_eq!(data.get("requestheader-group-headers").unwrap().as_str(), Some(r#"["g"]"#));
    }
}
