use super::*;
use crate::Field;

fn spec() -> Spec {
    Spec::namespaced("events")
        .unwrap()
        .field(Field::new("spec.nodeName"))
        .field(Field::new("status.replicas").absent("0"))
        .field(Field::at("source", "source.component").or("reportingComponent"))
        .field(Field::new("reason"))
}

fn texts<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    values.map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
}

fn field(json: &str, field: usize) -> Option<String> {
    let scanned = scan(&spec(), json).unwrap();
    scanned.record.field(json.as_bytes(), field).map(|value| String::from_utf8(value.to_vec()).unwrap())
}

#[test]
fn metadata_is_found() {
    let json = r#"{"metadata":{"name":"a","namespace":"b","uid":"u","deletionTimestamp":"2024-01-01T00:00:00Z",
        "labels":{"app":"x","tier":""},"ownerReferences":[{"kind":"A","uid":"o1"},{"uid":"o2","controller":true}],
        "managedFields":[{"fieldsV1":{"f:metadata":{"f:labels":{}}}}]}}"#;
    let scanned = scan(&spec(), json).unwrap();
    assert_eq!(scanned.name(), b"a");
    assert_eq!(scanned.namespace(), b"b");
    assert_eq!(scanned.record.uid(scanned.json.as_bytes()), b"u");
    let record = scanned.record;
    assert!(record.is_deleting());
    assert_eq!(texts(record.owners(json.as_bytes())), ["o1", "o2"]);
    let labels: Vec<_> = record.labels(json.as_bytes()).map(|pair| texts(pair.into_iter())).collect();
    assert_eq!(labels, [["app", "x"], ["tier", ""]]);
}

#[test]
fn absence_and_null_count_as_empty() {
    let json = r#"{"metadata":{"labels":null,"ownerReferences":null,"deletionTimestamp":null,"uid":null}}"#;
    let scanned = scan(&spec(), json).unwrap();
    assert!(!scanned.record.is_deleting());
    assert_eq!(scanned.record.labels(json.as_bytes()).len(), 0);
    assert!(scanned.name().is_empty() && scanned.record.uid(scanned.json.as_bytes()).is_empty());
}

#[test]
fn fields_are_found_where_they_are_declared() {
    let json = r#"{"reason":"Killed","spec":{"a":{"nodeName":"wrong"},"nodeName":"n1"},"status":{"replicas":3},"metadata":{}}"#;
    assert_eq!(field(json, 0).as_deref(), Some("n1"));
    assert_eq!(field(json, 1).as_deref(), Some("3"));
    assert_eq!(field(json, 2), None);
    assert_eq!(field(json, 3).as_deref(), Some("Killed"));
}

#[test]
fn absent_value_depends_on_what_the_object_has_of_the_path() {
    let field = Field::new("spec.size.x").absent("none");
    let field = field.absent_within("spec", "of spec").absent_within("spec.size", "of size");
    let spec = Spec::namespaced("widgets").unwrap().field(field.absent_within("spec.size.x", ""));
    for (object, expected) in [
        ("", "none"),
        (r#","spec":null"#, "none"),
        (r#","spec":{}"#, "of spec"),
        (r#","spec":{"size":null,"x":1}"#, "of spec"),
        (r#","spec":{"size":{"y":1}}"#, "of size"),
        (r#","spec":{"size":{"x":null}}"#, "of size"),
        (r#","spec":{"size":{"x":""}}"#, ""),
        (r#","spec":{"size":{"x":"y"}}"#, "y"),
        (r#","spec":{"size":{"x":7}},"status":{}"#, "7"),
    ] {
        let json = format!(r#"{{"metadata":{{"name":"a"}}{object}}}"#);
        let record = scan(&spec, &json).unwrap().record.moved(3, 5);
        let found = record.field_part(0);
        let value = match record.field(json.as_bytes(), 0) {
            Some(_) => scan(&spec, &json).unwrap().record.field(json.as_bytes(), 0).unwrap().to_vec(),
            None => spec.fields()[0].absent_value(found).as_bytes().to_vec(),
        };
        assert_eq!(String::from_utf8(value).unwrap(), expected, "{object}");
    }
}

#[test]
fn a_value_with_parts_is_none() {
    assert_eq!(field(r#"{"metadata":{},"spec":{"nodeName":{"nodeName":"x"}}}"#, 0), None);
    assert_eq!(field(r#"{"metadata":{},"spec":["nodeName"]}"#, 0), None);
    assert_eq!(field(r#"{"metadata":{},"spec":{"nodeName":null}}"#, 0), None);
}

#[test]
fn the_first_path_that_has_a_value_wins() {
    assert_eq!(field(r#"{"metadata":{},"reportingComponent":"b"}"#, 2).as_deref(), Some("b"));
    let both = r#"{"metadata":{},"reportingComponent":"b","source":{"component":"a"}}"#;
    assert_eq!(field(both, 2).as_deref(), Some("a"));
    let swapped = r#"{"metadata":{},"source":{"component":"a"},"reportingComponent":"b"}"#;
    assert_eq!(field(swapped, 2).as_deref(), Some("a"));
    let empty = r#"{"metadata":{},"source":{"component":""},"reportingComponent":"b"}"#;
    assert_eq!(field(empty, 2).as_deref(), Some("b"));
}

#[test]
fn escaped_values_are_kept_aside() {
    let json = r#"{"metadata":{"name":"a\u0062","labels":{"k\n":"\"v\""}},"reason":"a\u003cb"}"#;
    assert_eq!(field(json, 3).as_deref(), Some("a<b"));
    let scanned = scan(&spec(), json).unwrap();
    assert_eq!(scanned.name(), b"ab");
    let labels: Vec<_> = scanned.record.labels(json.as_bytes()).map(|pair| texts(pair.into_iter())).collect();
    assert_eq!(labels, [["k\n", "\"v\""]]);
}

#[test]
fn nothing_that_is_damaged_panics() {
    let json = r#"{"kind":"Event","metadata":{"name":"a\u00e9","uid":"u","resourceVersion":"7","labels":{"a":"b"},"ownerReferences":[{"uid":"o"}]},"spec":{"nodeName":"n"},"status":{"replicas":3}}"#;
    let mut random = fastrand::Rng::with_seed(7);
    for cut in 0..json.len() {
        assert!(scan(&spec(), &json[..cut]).is_err(), "{cut}");
    }
    for _ in 0..20_000 {
        let mut bytes = json.as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            bytes[at] = *random.choice(b"{}[]\",:\\u0n x").unwrap();
        }
        if let Ok(scanned) = scan(&spec(), &String::from_utf8_lossy(&bytes)) {
            scanned.record.labels(&bytes).count();
            scanned.record.moved(40, -3).labels(&bytes[..20]).count();
        }
    }
}

#[test]
fn objects_without_metadata_are_refused() {
    for json in
        ["{}", "[]", "null", r#"{"metadata":[]}"#, r#"{"metadata":{},"metadata":{}}"#, r#"{"metadata":{}} x"#]
    {
        assert!(scan(&spec(), json).is_err(), "{json}");
    }
}

/// Marks that many values of one label have in common would let most of the others through.
#[test]
fn values_that_differ_in_one_character_leave_different_marks() {
    for key in ["app", "app.kubernetes.io/name"] {
        for prefix in ["", "g", "group-1"] {
            let values = || (0..10u8).flat_map(|ten| (0..10u8).map(move |one| format!("{prefix}{ten}{one}")));
            let marks: Vec<u64> =
                values().map(|value| label_marks(key.as_bytes(), value.as_bytes())).collect();
            let first = marks[0];
            let alike = marks.iter().filter(|marks| **marks & first == first).count();
            assert!(alike <= 3, "{alike} of 100 values of {key} that begin with {prefix:?} look alike");
        }
    }
}
