//! Bytes of requests and answers as the bodies of a recording.

use schema::protobuf::{self, Envelope};
use schema::{Limits, builtin, json, yaml};
use serde_json::Value;

use crate::file::Body;

/// The Protobuf of built-in kinds.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The body with these bytes. What is written as Protobuf or YAML becomes JSON; what cannot be read is
/// omitted.
pub(crate) fn read(bytes: &[u8], content_type: &str) -> Body {
    if bytes.is_empty() {
        return Body::None;
    }
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        return Body::Json(value);
    }
    if content_type.starts_with(PROTOBUF) {
        return from_protobuf(bytes).map_or(Body::Omitted(bytes.len() as u64), Body::Json);
    }
    if content_type.contains("yaml") {
        let document = yaml::to_json(bytes, &Limits::REQUEST).ok();
        let value = document.and_then(|document| serde_json::from_str(&document.text).ok());
        return value.map_or(Body::Omitted(bytes.len() as u64), Body::Json);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Body::Text(text.to_owned()),
        Err(_) => Body::Omitted(bytes.len() as u64),
    }
}

/// The JSON of a built-in object.
fn from_protobuf(bytes: &[u8]) -> Option<Value> {
    let envelope = Envelope::read(bytes).ok()?;
    let (group, version) = envelope.api_version.split_once('/').unwrap_or(("", envelope.api_version));
    let ty = match envelope.kind {
        // It is the same in every group.
        "DeleteOptions" => builtin::by_name("meta.v1.DeleteOptions"),
        kind => builtin::by_kind(group, version, kind),
    }?;
    let object = protobuf::decode(ty, bytes, &Limits::STORED).ok()?;
    let mut text = Vec::with_capacity(2 * bytes.len());
    json::encode(ty, &object, &mut text);
    serde_json::from_slice(&text).ok()
}

/// The media type in which a body of this type is sent again.
pub(crate) fn replayed_type(content_type: &str) -> &str {
    if content_type.starts_with(PROTOBUF) || content_type == "application/yaml" {
        "application/json"
    } else {
        content_type
    }
}

/// The value of an `Accept` header without formats that are not text.
pub(crate) fn readable_accept(accept: &str) -> String {
    let mut types: Vec<String> = Vec::new();
    for each in accept.split(',').map(str::trim) {
        // Its documents exist as such only; they are not read here.
        let each =
            each.replace(PROTOBUF, "application/json").replace("application/cbor-seq", "application/json");
        let each = each.replace("application/cbor", "application/json");
        if !types.contains(&each) {
            types.push(each);
        }
    }
    types.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bodies_are_read_by_their_form() {
        assert_eq!(read(b"", "application/json"), Body::None);
        assert_eq!(read(b"{\"a\": 1}", ""), Body::Json(json!({"a": 1})));
        assert_eq!(read(b"ok", "text/plain"), Body::Text("ok".into()));
        assert_eq!(read(b"a: 1\n", "application/apply-patch+yaml"), Body::Json(json!({"a": 1})));
        assert_eq!(read(b"\xff\xfe", "application/octet-stream"), Body::Omitted(2));
        assert_eq!(read(b"k8s\0\xff", PROTOBUF), Body::Omitted(5));
    }

    #[test]
    fn protobuf_of_built_in_kinds_becomes_json() {
        for (name, object) in [
            (
                "core.v1.ConfigMap",
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"k": "v"}}),
            ),
            (
                "meta.v1.DeleteOptions",
                json!({"kind": "DeleteOptions", "apiVersion": "apps/v1", "gracePeriodSeconds": 0}),
            ),
        ] {
            let ty = builtin::by_name(name).unwrap();
            let value = json::decode(ty, object.to_string().as_bytes(), &Limits::REQUEST).unwrap().value;
            let mut bytes = Vec::new();
            protobuf::encode(ty, &value, &mut bytes);
            let Body::Json(read) = read(&bytes, PROTOBUF) else { panic!("{name} is not read") };
            for (key, wanted) in object.as_object().unwrap() {
                match wanted.as_object() {
                    // Fields without a value appear in some objects.
                    Some(wanted) => {
                        assert_eq!(read[key].as_object().unwrap().get("name"), wanted.get("name"))
                    }
                    None => assert_eq!(&read[key], wanted, "{name} {key}"),
                }
            }
        }
    }

    #[test]
    fn formats_that_are_not_text_are_not_asked_for() {
        for (given, wanted) in [
            ("application/vnd.kubernetes.protobuf,application/json", "application/json"),
            ("application/vnd.kubernetes.protobuf;stream=watch", "application/json;stream=watch"),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io, application/json",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            ),
            ("*/*", "*/*"),
            ("application/cbor-seq, application/cbor", "application/json"),
        ] {
            assert_eq!(readable_accept(given), wanted);
        }
        assert_eq!(replayed_type(PROTOBUF), "application/json");
        assert_eq!(replayed_type("application/apply-patch+yaml"), "application/apply-patch+yaml");
    }
}
