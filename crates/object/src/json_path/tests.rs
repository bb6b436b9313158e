use super::*;
use crate::Map;
use std::time::{Duration, Instant};

fn path(text: &str) -> JsonPath {
    JsonPath::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// A list in a list, so often.
fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Int(1), |value, _| Value::from_iter([value]))
}

#[test]
fn values_of_the_tree_are_not_copied() {
    let object: Value = Map::from_iter([("a", Value::from_iter(["x", "y"]))]).into();
    let found = path(".a[1]").find(&object, Missing::Refused).unwrap();
    let [Cow::Borrowed(value)] = found.as_slice() else { panic!("{found:?}") };
    assert!(std::ptr::eq(*value, &object.get("a").and_then(Value::as_list).unwrap()[1]));
    assert!(matches!(path("'z'").first(&object), Some(Cow::Owned(Value::String(text))) if text == "z"));
}

#[test]
fn the_first_value_is_none_where_the_path_fails() {
    let object: Value = Map::from_iter([("a", Value::from_iter(["x"])), ("n", Value::Null)]).into();
    for text in [".b", ".a.b", ".a[3]", ".n[0]", ".n.x", "range .a", "end", "foo"] {
        assert_eq!(path(text).first(&object), None, "{text}");
    }
    assert_eq!(path(".n").first(&object), Some(Cow::Owned(Value::Null)));
    assert_eq!(path("").first(&object), Some(Cow::Borrowed(&object)));
}

#[test]
fn only_names_are_simple() {
    let names = |text: &str| path(text).simple().map(|names| names.collect::<Vec<_>>().join("/"));
    assert_eq!(names(".spec.a\\.b['c']").as_deref(), Some("spec/a.b/c"));
    assert_eq!(names("$.spec").as_deref(), Some("spec"));
    assert_eq!(names("").as_deref(), Some(""));
    for text in [".a[0]", ".a[*]", "..a", ".*", ".a}{.b", "'a'", ".a[?(@.b)]", "['a','b']"] {
        assert_eq!(names(text), None, "{text}");
    }
}

#[test]
fn a_path_reads_as_it_was_given() {
    assert_eq!(path(" .a [0]").to_string(), " .a [0]");
}

#[test]
fn a_step_past_the_end_of_the_numbers_takes_one_item() {
    let list = Value::from_iter([1i64, 2, 3]);
    let found = path("[::9223372036854775807]").find(&list, Missing::Refused).unwrap();
    assert_eq!(found, [Cow::<Value>::Owned(1.into())]);
}

#[test]
fn a_path_that_multiplies_is_stopped() {
    let deep = nested(200);
    let start = Instant::now();
    for text in [
        "[0,0]".repeat(60),
        "[*]..".repeat(90),
        "..[*]".repeat(90),
        format!("{}[{}]", "[0,0]".repeat(15), "'a',".repeat(100_000) + "'a'"),
    ] {
        assert_eq!(path(&text).find(&deep, Missing::Allowed), Err(Failure::TooMany), "{:.40}", text);
        assert_eq!(path(&format!("[?(@{text})]")).first(&deep), None);
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn many_names_in_a_large_map_are_stopped() {
    let names: Vec<_> = (0..50_000).map(|number| format!("n{number}")).collect();
    let object: Value = Map::from_distinct(names.iter().map(|name| (name.as_str().into(), 1.into()))).into();
    let union: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
    let all = path(&format!("[{}]", union.join(",")));
    assert_eq!(all.find(&object, Missing::Allowed), Err(Failure::TooMany));
    assert_eq!(path("['n7','n49999']").find(&object, Missing::Refused).map(|found| found.len()), Ok(2));
}

#[test]
fn long_texts_are_parsed_in_time() {
    let start = Instant::now();
    for text in
        ["[?(", "[?(')", "[", "['", "{", "}{", "..a", "[?(@)]", "\\", "'", "[0,", "((", "@", "[?([?(@)]"]
    {
        let _ = JsonPath::parse(&text.repeat(100_000));
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn digits_of_all_scripts_are_digits() {
    for (text, error) in [
        ("٣", Error::Number("٣".into())),
        ("𝟗", Error::Number("𝟗".into())),
        ("½", Error::Character('½')),
        ("ⅷ", Error::Character('ⅷ')),
        ("\u{11de0}", Error::Character('\u{11de0}')),
    ] {
        assert_eq!(JsonPath::parse(text), Err(error));
    }
    assert_eq!(Error::Character('\u{11de0}').to_string(), "unrecognized character in action: U+11DE0");
}
