use super::*;
use crate::path::Path;
use std::time::{Duration, Instant};

fn set(text: &str) -> Set {
    Set::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn path(texts: &[&str]) -> Path {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn the_whole_object_is_in_no_set() {
    let mut empty = Set::new();
    empty.insert(&[]);
    assert!(empty.is_empty() && !empty.has(&[]));
    assert_eq!(empty.to_json(), "{}");
    assert_eq!(set(r#"{".":{}}"#), empty);
}

#[test]
fn member_path_does_not_include_its_parents() {
    let mut owned = Set::new();
    owned.insert(&path(&["f:a", "f:b"]));
    assert!(!owned.has(&path(&["f:a"])));
    assert!(!owned.has(&path(&["f:a", "f:b", "f:c"])));
    assert!(!owned.has(&path(&["f:b", "f:b"])));
    assert_eq!(owned.to_json(), r#"{"f:a":{"f:b":{}}}"#);
    owned.insert(&path(&["f:a"]));
    assert_eq!(owned.to_json(), r#"{"f:a":{".":{},"f:b":{}}}"#);
    assert_eq!(owned.len(), 2);
}

#[test]
fn elements_are_found_by_borrowed_keys() {
    let owned = set(r#"{"f:ports":{"k:{\"port\":80}":{".":{},"f:name":{}}}}"#);
    let ports = owned.child("ports").unwrap();
    let key = [("port".into(), 80.into())];
    assert!(ports.has_member(ElementRef::Keyed(&key)));
    let entry = ports.entry(ElementRef::Keyed(&key)).unwrap();
    assert!(entry.is_member && entry.children.is_some_and(|set| set.has_member("name")));
    assert!(!owned.has_member("ports"));
    assert!(owned.child("name").is_none() && owned.entry("name").is_none());
    assert_eq!(owned.entries().map(|entry| entry.element.text()).collect::<Vec<_>>(), ["f:ports"]);
}

#[test]
fn a_changed_clone_leaves_the_original_alone() {
    let original = set(r#"{"f:a":{"f:b":{}},"f:c":{"f:d":{}}}"#);
    let mut changed = original.clone();
    changed.insert(&path(&["f:a", "f:x"]));
    assert_eq!(original.to_json(), r#"{"f:a":{"f:b":{}},"f:c":{"f:d":{}}}"#);
    assert_eq!(changed.to_json(), r#"{"f:a":{"f:b":{},"f:x":{}},"f:c":{"f:d":{}}}"#);
    let untouched = |set: &Set| std::ptr::from_ref(set.child("c").unwrap());
    assert_eq!(untouched(&original), untouched(&changed));
}

#[test]
fn operations_share_what_they_do_not_change() {
    let a = set(r#"{"f:a":{"f:b":{}}}"#);
    let b = set(r#"{"f:c":{"f:d":{}}}"#);
    let both = a.union(&b);
    assert!(std::ptr::eq(both.child("a").unwrap(), a.child("a").unwrap()));
    assert!(std::ptr::eq(both.difference(&a).child("c").unwrap(), b.child("c").unwrap()));
    assert!(both.difference(&a) == b && both.recursive_difference(&b) == a);
    assert!(a.intersection(&b).is_empty());
}

#[test]
fn builder_merges_repeated_elements() {
    let mut builder = Builder::new();
    builder.children(Element::field("b"), set(r#"{"f:x":{}}"#));
    builder.member(Element::field("a"));
    builder.children(Element::field("a"), Set::new());
    builder.children(Element::field("b"), set(r#"{"f:y":{}}"#));
    builder.member(Element::field("b"));
    assert_eq!(builder.finish().to_json(), r#"{"f:a":{},"f:b":{".":{},"f:x":{},"f:y":{}}}"#);
    assert!(Builder::new().finish().is_empty());
}

#[test]
fn numbers_without_a_total_order_are_sorted_all_the_same() {
    let mut builder = Builder::new();
    for offset in (0..200_i64).rev() {
        let number = 9_007_199_254_740_900 + offset;
        builder.member(Element::Value(number.into()));
        builder.member(Element::Value((number as f64 + 0.5).into()));
    }
    let built = builder.finish();
    assert!(built.len() >= 200);
    assert!(built.has(&[Element::Value(9_007_199_254_740_901_i64.into())]));
}

#[test]
fn elements_in_the_wrong_order_take_no_longer() {
    let keys: Vec<_> = (0..200_000).rev().map(|number| format!(r#""f:{number:06}":{{}}"#)).collect();
    let start = Instant::now();
    let owned = set(&format!("{{{}}}", keys.join(",")));
    let mut builder = Builder::new();
    for entry in owned.entries().rev() {
        builder.member(entry.element.clone());
    }
    assert_eq!(builder.finish(), owned);
    assert_eq!(owned.len(), 200_000);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn text_that_nests_too_deep_is_refused() {
    let nested =
        |depth: usize| Set::from_json(&format!("{}{{}}{}", r#"{"f:a":"#.repeat(depth), "}".repeat(depth)));
    let deep = nested(512).unwrap();
    assert_eq!(deep.iter().next().unwrap().len(), 512);
    assert_eq!(deep.union(&deep.leaves()), deep);
    for depth in [513, 100_000] {
        assert!(nested(depth).unwrap_err().to_string().starts_with("incrementDepth: exceeded max depth"));
    }
}

#[test]
fn a_node_takes_five_words() {
    assert_eq!(size_of::<Node>(), 40);
}

#[test]
fn paths_are_taken_from_a_text_as_from_its_set() {
    let mut seed = 7_u64;
    let mut random = |bound: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % bound
    };
    let elements = ["f:a", "f:b\"q", "f:.", "k:{\"name\":\"x}{\"}", "v:\"\\\\\"", "v:1", "f:é"];
    let mut pick = |most: u64| {
        let mut set = Set::new();
        for _ in 0..random(most) {
            let depth = 1 + random(3);
            let texts: Vec<_> =
                (0..depth).map(|_| elements[random(elements.len() as u64) as usize]).collect();
            set.insert(&path(&texts));
        }
        set
    };
    let (mut changed, mut whole) = (0, 0);
    for _ in 0..6000 {
        let (all, some) = (pick(14), pick(6));
        let (text, texts) = (all.to_json(), Texts::of(&some));
        let left = all.difference(&some);
        let expected = if left == all { Err(Untaken::Same) } else { Ok(left.to_json()) };
        changed += usize::from(expected.is_ok());
        assert_eq!(texts.taken_from(&text), expected, "{text} without {}", some.to_json());
        let is_whole = some.difference(&all).is_empty();
        whole += usize::from(is_whole && !some.is_empty());
        assert_eq!(texts.are_in(&text), is_whole, "{} in {text}", some.to_json());
    }
    assert!(changed > 500 && whole > 50, "{changed} {whole}");
}

#[test]
fn non_canonical_text_is_foreign() {
    let texts = Texts::of(&set(r#"{"f:a":{"f:b":{}}}"#));
    for text in [
        "",
        "{",
        "[]",
        r#"{ "f:a":{}}"#,
        r#"{"f:a":1}"#,
        r#"{"f:c":{"x":1}}"#,
        r#"{"f:a":{}}x"#,
        r#"{"f:a"#,
        r#"{"f:a\"#,
    ] {
        assert_eq!(texts.taken_from(text), Err(Untaken::Foreign), "{text}");
        assert!(!texts.are_in(text), "{text}");
    }
}
