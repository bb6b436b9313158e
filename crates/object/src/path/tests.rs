use super::*;
use crate::{Map, RawJson};

fn pod() -> Value {
    let port = |number: i64, name: &str| -> Value {
        Map::from_iter([
            ("containerPort", Value::from(number)),
            ("protocol", "TCP".into()),
            ("name", name.into()),
        ])
        .into()
    };
    let web: Value = Map::from_iter([
        ("name", Value::from("web")),
        ("ports", Value::from_iter([port(80, "http"), port(443, "https")])),
    ])
    .into();
    let metadata: Value = Map::from_iter([("finalizers", Value::from_iter(["a", "b"]))]).into();
    Map::from_iter([("metadata", metadata), ("containers", Value::from_iter([web]))]).into()
}

fn path(texts: &[&str]) -> Path {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn https() -> Path {
    path(&[
        "f:containers",
        r#"k:{"name":"web"}"#,
        "f:ports",
        r#"k:{"containerPort":443,"protocol":"TCP"}"#,
        "f:name",
    ])
}

#[test]
fn a_path_reads_as_in_conflicts() {
    let shown = r#".containers[name="web"].ports[containerPort=443,protocol="TCP"].name"#;
    assert_eq!(https().to_string(), shown);
    assert_eq!(Path::new().to_string(), "");
}

#[test]
fn every_sort_of_element_leads_somewhere() {
    let pod = pod();
    assert_eq!(https().get(&pod), Some(&"https".into()));
    assert_eq!(path(&["f:metadata", "f:finalizers", r#"v:"b""#]).get(&pod), Some(&"b".into()));
    assert_eq!(path(&["f:metadata", "f:finalizers", "i:0"]).get(&pod), Some(&"a".into()));
    assert_eq!(Path::new().get(&pod), Some(&pod));
}

#[test]
fn a_path_into_something_else_leads_nowhere() {
    let mut pod = pod();
    for elements in [
        &["f:nothing"][..],
        &["i:0"],
        &["f:containers", "f:name"],
        &["f:containers", "i:1"],
        &["f:containers", "i:-1"],
        &["f:containers", r#"k:{"name":"db"}"#],
        &["f:containers", r#"k:{"name":"web","image":"x"}"#],
        &["f:metadata", "f:finalizers", r#"v:"c""#],
        &["f:metadata", "f:finalizers", r#"k:{}"#],
        &["f:metadata", "f:finalizers", r#"v:"a""#, "f:x"],
    ] {
        assert_eq!(path(elements).get(&pod), None, "{elements:?}");
        assert_eq!(path(elements).get_mut(&mut pod), None, "{elements:?}");
    }
}

#[test]
fn a_change_leaves_clones_alone() {
    let original = pod();
    let mut changed = original.clone();
    *https().get_mut(&mut changed).unwrap() = "tls".into();
    assert_eq!(https().get(&original), Some(&"https".into()));
    assert_eq!(https().get(&changed), Some(&"tls".into()));

    let mut untouched = original.clone();
    assert_eq!(path(&["f:containers", "i:0", "f:nothing"]).get_mut(&mut untouched), None);
    let list = |value: &Value| value.get("containers").and_then(Value::as_list).map(<[Value]>::as_ptr);
    assert_eq!(list(&untouched), list(&original));
    assert_ne!(list(&changed), list(&original));
}

#[test]
fn whole_numbers_and_fractions_are_compared_as_floats() {
    let element = |value: Value| Element::Value(value);
    assert_eq!(element(80.into()), element(80.0.into()));
    assert_eq!(element(9_007_199_254_740_993_i64.into()), element(9_007_199_254_740_992.0.into()));
    assert_ne!(element(9_007_199_254_740_993_i64.into()), element(9_007_199_254_740_992_i64.into()));
    assert!(element(1.into()) < element(1.5.into()));
    let ordered = [1_i64, 3, 2].map(|last| element(last.into()));
    assert!(ordered[0] < ordered[2] && ordered[2] < ordered[1]);
}

#[test]
fn strict_order_separates_numbers_with_equal_floats() {
    let values: [Value; 4] = [
        9_007_199_254_740_992_i64.into(),
        9_007_199_254_740_993_i64.into(),
        9_007_199_254_740_992.0.into(),
        9_007_199_254_740_994_i64.into(),
    ];
    for (a, first) in values.iter().enumerate() {
        for (b, second) in values.iter().enumerate() {
            assert_eq!(strict(ElementRef::Value(first), ElementRef::Value(second)), a.cmp(&b));
        }
    }
}

#[test]
fn binary_data_is_the_text_it_has_in_json() {
    let bytes = Element::Value(Value::Bytes(b"hi"[..].into()));
    assert_eq!(bytes, Element::Value("aGk=".into()));
    assert_eq!(bytes.text(), r#"v:"aGk=""#);
    assert_eq!(bytes.to_string(), r#"[="aGk="]"#);
    let raw = Element::Value(RawJson::from_checked("[1]").into());
    assert_eq!(raw.text(), "v:[1]");
    assert!(raw > Element::Value(Value::Null));
}

#[test]
fn keys_are_sorted_whatever_they_are_made_from() {
    let keys = Element::keyed([("b", 1.into()), ("a", 2.into())]);
    assert_eq!(keys.text(), r#"k:{"a":2,"b":1}"#);
    assert_eq!(keys, keys.borrowed().to_owned());
}

#[test]
fn json_that_nests_too_deep_is_refused() {
    let nested = |depth: usize| format!("v:{}{}", "[".repeat(depth), "]".repeat(depth)).parse::<Element>();
    assert!(nested(512).is_ok());
    for depth in [513, 1_000_000] {
        assert!(nested(depth).unwrap_err().to_string().starts_with("incrementDepth: exceeded max depth"));
    }
}

#[test]
fn an_element_takes_three_words() {
    assert_eq!(size_of::<Element>(), 24);
}
