mod old_versions;

use super::*;
use serde_json::{Value, json};

fn layout() -> Layout {
    Layout::new("/registry", MediaType::Protobuf)
}

fn key(text: &str) -> Key {
    Key::try_from(text).unwrap()
}

/// What is stored of an object, and the object that is read from it.
fn round(layout: &Layout, at: &str, object: &Value) -> (Bytes, Value) {
    let framed = cache::frame::of(object.to_string().as_bytes()).unwrap();
    let stored = layout.encode_value(&key(at), framed).unwrap();
    let read = layout.decode_value(&key(at), stored.clone(), Patience::Now).unwrap();
    (stored, serde_json::from_slice(cache::frame::json(&read).unwrap()).unwrap())
}

fn config_map() -> Value {
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7"}, "data": {"k": "v"}})
}

#[test]
fn keys_are_those_of_the_reference() {
    let layout = layout();
    for (ours, stored) in [
        ("pods/default/web", "/registry/pods/default/web"),
        ("nodes/one", "/registry/minions/one"),
        ("services/default/web", "/registry/services/specs/default/web"),
        ("endpoints/default/web", "/registry/services/endpoints/default/web"),
        ("replicationcontrollers/default/web", "/registry/controllers/default/web"),
        ("deployments.apps/default/web", "/registry/deployments/default/web"),
        ("ingresses.networking.k8s.io/default/web", "/registry/ingress/default/web"),
        ("clusterroles.rbac.authorization.k8s.io/a:b", "/registry/clusterroles/a:b"),
        (
            "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com",
            "/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com",
        ),
        (
            "apiservices.apiregistration.k8s.io/v1.apps",
            "/registry/apiregistration.k8s.io/apiservices/v1.apps",
        ),
        ("widgets.example.com/default/a", "/registry/example.com/widgets/default/a"),
        ("widgets.example.com/a", "/registry/example.com/widgets/a"),
    ] {
        assert_eq!(layout.encode_key(&key(ours)), Some(key(stored)), "{ours}");
        assert_eq!(layout.decode_key(&key(stored)), Some(key(ours)), "{stored}");
    }
}

#[test]
fn keys_of_other_things_are_left_alone() {
    for stored in [
        "/registry/masterleases/10.0.0.1",
        "/registry/ranges/serviceips",
        "/registry/podsecuritypolicy/restricted",
        "/registry/health",
        "/elsewhere/pods/default/web",
        "compact_rev_key",
    ] {
        assert_eq!(layout().decode_key(&key(stored)), None, "{stored}");
    }
    assert_eq!(layout().encode_key(&key("unknown/a")), None);
}

#[test]
fn every_kind_has_its_place() {
    let layout = layout();
    for kind in kinds::all().filter(|kind| kind.storage == kinds::Storage::Own) {
        let ours = key(&format!("{}/a/b", kinds::store_prefix(kind.group, kind.resource)));
        let stored = layout.encode_key(&ours).unwrap();
        assert_eq!(layout.decode_key(&stored), Some(ours.clone()));
        assert!(stored.as_bytes().starts_with(&layout.encode_prefix(ours.as_bytes())));
    }
}

#[test]
fn prefixes_lead_to_the_same_keys() {
    for (ours, stored) in [
        ("", "/registry/"),
        ("pods/", "/registry/pods/"),
        ("services/default/", "/registry/services/specs/default/"),
        ("widgets.example.com/", "/registry/example.com/widgets/"),
        ("widgets.example.com/default/a", "/registry/example.com/widgets/default/a"),
    ] {
        assert_eq!(layout().encode_prefix(ours.as_bytes()), stored);
    }
}

#[test]
fn built_in_kinds_are_protobuf_in_its_envelope() {
    let (stored, read) = round(&layout(), "configmaps/n/a", &config_map());
    assert!(stored.starts_with(b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap"), "{stored:?}");
    let mut expected = config_map();
    expected["metadata"]["resourceVersion"] = "".into();
    expected["metadata"]["creationTimestamp"] = Value::Null;
    assert_eq!(read, expected);
}

#[test]
fn the_media_type_decides_how_they_are_written_and_not_how_they_are_read() {
    let json = Layout::new("/registry", MediaType::Json);
    let (stored, read) = round(&json, "configmaps/n/a", &config_map());
    let text = String::from_utf8(stored.to_vec()).unwrap();
    assert_eq!(
        text,
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"uid\":\"u\",\
         \"creationTimestamp\":null},\"data\":{\"k\":\"v\"}}\n"
    );
    let framed = layout().decode_value(&key("configmaps/n/a"), stored, Patience::Now).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(cache::frame::json(&framed).unwrap()).unwrap(), read);
}

#[test]
fn decoded_objects_have_the_defaults_of_their_version() {
    let stored = br#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":"n"},"spec":{"ports":[{"port":80}]}}"#;
    let framed =
        layout().decode_value(&key("services/n/a"), Bytes::from_static(stored), Patience::Now).unwrap();
    let read: Value = serde_json::from_slice(cache::frame::json(&framed).unwrap()).unwrap();
    assert_eq!(read["spec"]["sessionAffinity"], "None");
    assert_eq!(read["spec"]["ports"][0]["protocol"], "TCP");
}

#[test]
fn other_versions_are_read_as_they_are() {
    let scaler = json!({"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1", "metadata": {"name": "a", "namespace": "n"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70}});
    let (stored, read) = round(&layout(), "horizontalpodautoscalers.autoscaling/n/a", &scaler);
    assert!(stored.windows(14).any(|window| window == b"autoscaling/v1"));
    assert_eq!(read["apiVersion"], "autoscaling/v1");
    assert_eq!(read["spec"]["targetCPUUtilizationPercentage"], 70);
}

#[test]
fn custom_kinds_are_json_with_sorted_keys() {
    let widget = json!({"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "a", "namespace": "n", "resourceVersion": "7"},
        "spec": {"z": [{"b": 1, "a": "<"}], "a": null}});
    let (stored, read) = round(&layout(), "widgets.example.com/n/a", &widget);
    assert_eq!(
        String::from_utf8(stored.to_vec()).unwrap(),
        "{\"apiVersion\":\"example.com/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\"},\
         \"spec\":{\"a\":null,\"z\":[{\"a\":\"\\u003c\",\"b\":1}]}}\n"
    );
    assert_eq!(read["spec"], widget["spec"]);
}

#[test]
fn definitions_are_kept_in_the_older_version() {
    let version = |name: &str, path: &str| {
        json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": {"type": "object"}},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": path}]})
    };
    let definition = |columns: &str| {
        json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.example.com", "resourceVersion": ""},
        "spec": {"group": "example.com", "names": {"plural": "widgets", "kind": "Widget"}, "scope": "Namespaced",
            "versions": [version("v1", ".spec.size"), version("v2", columns)],
            "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]}}}})
    };
    let at = "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com";
    for columns in [".spec.size", ".spec.other"] {
        let definition = definition(columns);
        let (stored, read) = round(&layout(), at, &definition);
        let stored: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!(stored["apiVersion"], "apiextensions.k8s.io/v1beta1");
        let spec = &stored["spec"];
        assert_eq!(spec["version"], "v1");
        assert_eq!(spec["preserveUnknownFields"], false);
        assert_eq!(spec["validation"], json!({"openAPIV3Schema": {"type": "object"}}));
        assert_eq!(spec["versions"][0].get("schema"), None);
        assert_eq!(spec["conversion"]["webhookClientConfig"], json!({"url": "https://a"}));
        let is_common = columns == ".spec.size";
        assert_eq!(spec.get("additionalPrinterColumns").is_some(), is_common);
        let columns = if is_common { spec } else { &spec["versions"][1] };
        assert!(columns["additionalPrinterColumns"][0].get("JSONPath").is_some());
        for part in ["versions", "conversion"] {
            assert_eq!(read["spec"][part], definition["spec"][part], "{part}");
        }
        assert_eq!(read["apiVersion"], "apiextensions.k8s.io/v1");
    }
}

#[test]
fn a_definition_from_before_there_were_several_versions_is_read() {
    let stored = br#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"a.b.c"},
        "spec":{"group":"b.c","version":"v1","names":{"plural":"a","kind":"A"},"scope":"Cluster","subresources":{"status":{}}}}"#;
    let at = key("customresourcedefinitions.apiextensions.k8s.io/a.b.c");
    let framed = layout().decode_value(&at, Bytes::from_static(stored), Patience::Now).unwrap();
    let read: Value = serde_json::from_slice(cache::frame::json(&framed).unwrap()).unwrap();
    assert_eq!(
        read["spec"]["versions"],
        json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}])
    );
    assert_eq!(read["spec"]["preserveUnknownFields"], true);
}

#[test]
fn definitions_are_written_as_the_reference_writes_them() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"caBundle": "YQ==", "url": "https://example.com"}}},
            "group": "example.com", "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "shortNames": ["w"], "singular": "widget"},
            "scope": "Namespaced", "versions": [{"name": "v1", "served": true, "storage": true,
                "additionalPrinterColumns": [{"jsonPath": ".spec.size", "name": "Size", "priority": 1, "type": "integer"}],
                "subresources": {"scale": {"specReplicasPath": ".a", "statusReplicasPath": ".b"}, "status": {}},
                "schema": {"openAPIV3Schema": {"properties": {"size": {"minimum": 1, "type": "integer"}}, "type": "object"}}}]},
        "status": {"acceptedNames": {"kind": "Widget", "plural": "widgets"}, "storedVersions": ["v1"],
            "conditions": [{"message": "m", "reason": "R", "lastTransitionTime": "2026-01-02T03:04:05Z", "status": "True", "type": "Established"}]}});
    let at = "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com";
    let (stored, read) = round(&layout(), at, &definition);
    assert_eq!(
        String::from_utf8(stored.to_vec()).unwrap(),
        r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"widgets.example.com","uid":"u","creationTimestamp":"2026-01-02T03:04:05Z"},"spec":{"group":"example.com","version":"v1","names":{"plural":"widgets","singular":"widget","shortNames":["w"],"kind":"Widget","listKind":"WidgetList"},"scope":"Namespaced","validation":{"openAPIV3Schema":{"type":"object","properties":{"size":{"type":"integer","minimum":1}}}},"subresources":{"status":{},"scale":{"specReplicasPath":".a","statusReplicasPath":".b"}},"versions":[{"name":"v1","served":true,"storage":true}],"additionalPrinterColumns":[{"name":"Size","type":"integer","priority":1,"JSONPath":".spec.size"}],"conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"https://example.com","caBundle":"YQ=="},"conversionReviewVersions":["v1"]},"preserveUnknownFields":false},"status":{"conditions":[{"type":"Established","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"R","message":"m"}],"acceptedNames":{"plural":"widgets","kind":"Widget"},"storedVersions":["v1"]}}"#.to_owned() + "\n"
    );
    assert_eq!(read["spec"], definition["spec"]);
}

#[test]
fn unreadable_values_say_why() {
    for (stored, reason) in [
        (&b"k8s\0\n\x08\n\x02v9\x12\x02Xx"[..], "ConfigMap has no version \"v9\""),
        (b"k8s:enc:aescbc:v1:key:abc", "invalid character"),
        (b"", "unexpected end"),
    ] {
        let refused = layout()
            .decode_value(&key("configmaps/n/a"), Bytes::from_static(stored), Patience::Now)
            .unwrap_err();
        assert!(matches!(&refused, DecodeError::Damaged(why) if why.contains(reason)), "{refused}");
    }
}

#[test]
fn custom_objects_are_read_from_json_and_cbor_and_written_as_the_layout_says() {
    let at = key("widgets.example.com/n/a");
    let widget = json!({"kind": "Widget", "apiVersion": "example.com/v1",
        "metadata": {"name": "a", "namespace": "n", "generation": 1, "resourceVersion": "7"}, "spec": {"z": [1, null], "a": "b"}});
    let [json, cbor] = [CustomMediaType::Json, CustomMediaType::Cbor].map(|ty| layout().custom(ty));
    let framed = || cache::frame::of(widget.to_string().as_bytes()).unwrap();
    let as_cbor = cbor.encode_value(&at, framed()).unwrap();
    assert!(as_cbor.starts_with(&schema::cbor::PREFIX), "{as_cbor:?}");
    assert!(!as_cbor.windows(15).any(|text| text == b"resourceVersion"));
    let as_json = json.encode_value(&at, framed()).unwrap();
    assert!(as_json.starts_with(b"{"));
    for (layout, own, other) in [(json, &as_json, &as_cbor), (cbor, &as_cbor, &as_json)] {
        let read = |stored: &Bytes| layout.decode_value(&at, stored.clone(), Patience::Now).unwrap();
        let (current, stale) = (read(own), read(other));
        for framed in [&current, &stale] {
            let read: Value = serde_json::from_slice(cache::frame::json(framed).unwrap()).unwrap();
            assert_eq!(read["spec"], widget["spec"]);
        }
        assert_eq!(cache::frame::stale(&current), stale, "a write of the same object writes the other bytes");
    }
}

#[test]
fn malformed_metadata_of_custom_objects_is_dropped_field_by_field() {
    let at = key("widgets.example.com/n/a");
    let stored = json!({"kind": "Widget", "apiVersion": "example.com/v1", "spec": {"annotations": {"a": 1}},
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": null, "unknown": 42,
            "annotations": {"a": 1, "b": "c"}, "labels": {"invalid": "x y"}, "creationTimestamp": 7}});
    let mut cbor = Vec::new();
    let tree = schema::json::decode_shape(
        &schema::Shape::Any,
        stored.to_string().as_bytes(),
        &schema::Limits::STORED,
    );
    schema::cbor::encode_shape(&schema::Shape::Any, &tree.unwrap().value, &mut cbor);
    for stored in [Bytes::from(stored.to_string()), Bytes::from(cbor)] {
        let framed = layout().decode_value(&at, stored, Patience::Now).unwrap();
        let mut read: Value = serde_json::from_slice(cache::frame::json(&framed).unwrap()).unwrap();
        read["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        assert_eq!(
            read["metadata"],
            json!({"name": "a", "namespace": "n", "uid": "u", "generation": 1, "creationTimestamp": null, "labels": {"invalid": "x y"}})
        );
        assert_eq!(read["spec"], json!({"annotations": {"a": 1}}));
        assert_eq!(framed, cache::frame::stale(&framed), "a write of the same object repairs it");
    }
    let none = Bytes::from_static(br#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":"a"}"#);
    assert!(matches!(layout().decode_value(&at, none, Patience::Now), Err(DecodeError::Damaged(_))));
}
