use super::{Converter, Operation};
use crate::kubernetes::{COST_OF_AN_OBJECT, EnvSet, Release};
use crate::{Budget, Type, Value};
use object::foreign::Foreign;
use object::{Map, Value as Tree};

/// What `look` makes of the value of an expression, which has the variable `x`.
fn with<T>(expression: &str, x: &Tree, look: impl FnOnce(Result<Value<'_>, String>) -> T) -> T {
    let set = EnvSet::base(Release(33), true).with_patches();
    let env = set.extend(|builder| builder.variable("x", Type::Dyn)).stored;
    let checked = env.compile(expression).unwrap_or_else(|issues| panic!("{expression}: {issues}"));
    let program = env.program(&checked).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let mut budget = Budget { limit: COST_OF_AN_OBJECT, spent: 0, interrupted: None };
    look(program.evaluate(&[Value::plain(x)], &mut budget).map_err(|why| why.to_string()))
}

fn configuration(expression: &str) -> Result<Tree, String> {
    with(expression, &Tree::Null, |value| Converter::new().configuration(&value?))
}

fn json(expression: &str) -> Result<Tree, String> {
    with(expression, &Tree::Null, |value| Converter::new().json(&value?))
}

fn tree<const N: usize>(entries: [(&'static str, Tree); N]) -> Tree {
    Map::from_iter(entries).into()
}

#[test]
fn an_apply_configuration_is_plain_json_with_its_keys_in_order() {
    let made = configuration(
        r#"Object{spec: Object.spec{b: [dyn(1), dyn(2.5)], a: {"k": true}, ?c: optional.none()}}"#,
    );
    let numbers: Tree = [Tree::Int(1), Tree::Float(2.5)].into_iter().collect();
    let spec = tree([("a", tree([("k", true.into())])), ("b", numbers)]);
    assert_eq!(made, Ok(tree([("spec", spec)])));
}

#[test]
fn what_is_no_json_in_an_apply_configuration_is_kept_as_go_shows_it() {
    for (value, type_name, text, source) in [
        ("null", "structpb.NullValue", "NULL_VALUE", "0"),
        ("3u", "uint64", "3", "0x3"),
        ("b'ab'", "[]uint8", "[97 98]", "[]uint8{0x61, 0x62}"),
        ("duration('90s')", "time.Duration", "1m30s", "90000000000"),
        ("quantity('1Gi')", "*resource.Quantity", "1Gi", "(*resource.Quantity)(1Gi)"),
        ("{'a': {'b': 'c'}}.a", "map[ref.Val]ref.Val", "map[b:c]", r#"map[ref.Val]ref.Val{"b":"c"}"#),
        ("'a b'.split(' ')", "[]string", "[a b]", r#"[]string{"a", "b"}"#),
    ] {
        let made = configuration(&format!("Object{{a: [dyn({value})]}}")).unwrap();
        let item = made.get("a").and_then(|list| list.as_list()?.first().cloned()).unwrap();
        let foreign = Foreign::of(&item);
        let expected = Foreign { type_name: type_name.into(), text: text.into(), source: source.into() };
        assert_eq!(foreign, Some(expected), "{value}");
    }
}

#[test]
fn numbers_of_a_patch_are_floating_point_numbers_and_large_ones_are_texts() {
    assert_eq!(json("9007199254740991"), Ok(Tree::Int(9_007_199_254_740_991)));
    assert_eq!(json("9007199254740993"), Ok("9007199254740993".into()));
    assert_eq!(json("Object{a: 9007199254740993}"), Ok(tree([("a", Tree::Int(9_007_199_254_740_992))])));
    assert_eq!(json("2.0"), Ok(Tree::Int(2)));
    assert!(json("0.0 / 0.0").unwrap_err().ends_with("invalid NaN value"));
}

#[test]
fn objects_within_lists_and_maps_are_values_of_a_patch() {
    let list: Tree = [tree([("name", "x".into())])].into_iter().collect();
    assert_eq!(json(r#"[Object.c{name: "x"}]"#), Ok(list));
    assert_eq!(json(r#"{"k": Object.c{n: 1}}"#), Ok(tree([("k", tree([("n", 1.into())]))])));
}

#[test]
fn fields_of_objects_are_those_of_their_plain_json() {
    for (expression, expected) in [
        ("Object{a: 1}.a", "1"),
        ("Object{}.a", "0"),
        ("has(Object{}.a)", "false"),
        ("type(Object{a: Object.a{b: 1}}.a) == map", "true"),
        ("Object{a: {1: 2}}.a", "cannot get field \"a\""),
        ("Object{a: quantity('5')}.a", "unsupported conversion to ref.Val: (*resource.Quantity)5"),
        ("dyn(Object{a: 1}).a", "no such key: a"),
        ("Object{a: 1}.?a.hasValue()", "false"),
        ("JSONPatch{op: 'add'}.op", "add"),
        ("JSONPatch{op: 'add'}.path", ""),
        ("has(JSONPatch{op: 'add'}.path)", "false"),
    ] {
        let found =
            with(expression, &Tree::Null, |value| value.map_or_else(|why| why, |value| value.to_string()));
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn objects_are_equal_if_they_are_made_of_the_same() {
    for (expression, expected) in [
        ("Object{a: 1, b: 'x'} == Object{b: 'x', a: 1}", true),
        ("Object{a: 1} == Object{a: 1.0}", false),
        ("Object{a: {'k': 1}} == Object{a: {'k': 1}}", true),
        ("Object{a: [1]} == Object{a: [1]}", false),
        ("[[1]].all(l, Object{a: l} == Object{a: l})", true),
        ("Object{a: x} == Object{a: x}", true),
        ("Object{a: Object.a{}} == Object{a: Object.b{}}", false),
        ("JSONPatch{value: 1} == JSONPatch{value: 1.0}", true),
    ] {
        let x = tree([("k", Tree::Null)]);
        let found = with(expression, &x, |value| matches!(value, Ok(Value::Bool(true))));
        assert_eq!(found, expected, "{expression}");
    }
}

#[test]
fn every_object_of_a_wrong_type_is_reported_until_there_are_too_many() {
    let check =
        |expression: &str| with(expression, &Tree::Null, |value| Converter::new().check_type_names(&value?));
    assert_eq!(check("Object{a: [Object.a{}], b: {'k': Object.b{c: Object.b.c{}}}}"), Ok(()));
    let found = check("Object{a: Object.x{}, b: [Object.y{}]}").unwrap_err();
    assert_eq!(
        found,
        "unexpected type name \"Object.x\", expected \"Object.a\", which matches field name path from root Object type\n\
         unexpected type name \"Object.y\", expected \"Object.b\", which matches field name path from root Object type"
    );
    let many = "[0,1,2,3,4,5,6,7,8,9]";
    let expression =
        format!("Object{{a: {many}.map(i, {many}.map(j, {many}.map(k, {many}.map(l, Object.x{{}}))))}}");
    let found = check(&expression).unwrap_err();
    assert!(found.lines().count() < 2_000, "{}", found.lines().count());
    assert!(found.lines().last().unwrap().starts_with("and "), "{found}");
}

#[test]
fn a_value_that_repeats_a_large_one_is_too_large() {
    let x = tree([("text", "x".repeat(1 << 20).into())]);
    for expression in [
        "Object{a: [1, 2, 3, 4].map(i, x)}",
        "Object{a: {'k': x, 'l': x, 'm': x, 'n': x}}",
        "Object{a: x, b: Object.b{a: x, b: Object.b.b{a: x, b: x}}}",
    ] {
        for convert in [Converter::configuration, Converter::json] {
            let found = with(expression, &x, |value| convert(&mut Converter::new(), &value?));
            let why = found.unwrap_err();
            assert!(why.starts_with("the value has more than 3145728 bytes"), "{expression}: {why}");
        }
    }
    let operations = "[1, 2, 3, 4].map(i, JSONPatch{op: 'add', path: x.text, value: i})";
    let refused = with(operations, &x, |value| {
        let Ok(Value::List(list)) = value else { panic!("no list") };
        let mut converter = Converter::new();
        list.iter().any(|element| {
            let element = element.unwrap();
            converter.text(Operation::of(&element).unwrap().path).is_err()
        })
    });
    assert!(refused);
}

#[test]
fn a_value_that_is_nested_too_deep_is_refused_on_a_small_stack() {
    fn nested(depth: usize, around: fn(Value<'static>) -> Value<'static>) -> Value<'static> {
        (0..depth).fold(Value::Null, |value, _| around(value))
    }
    fn object(value: Value<'static>) -> Value<'static> {
        let fields = vec![("a".into(), value)];
        Value::Struct(std::sync::Arc::new(crate::value::Struct { name: "Object".into(), fields }))
    }
    fn list(value: Value<'static>) -> Value<'static> {
        Value::List(crate::value::List::of(vec![value]))
    }
    let check = || {
        for around in [object, list] {
            let value = nested(2_000, around);
            let mut converter = Converter::new();
            let _ = converter.check_type_names(&value);
            assert!(converter.json(&value).unwrap_err().ends_with("nested too deep"));
        }
        let refused = Converter::new().configuration(&nested(2_000, object));
        assert!(refused.unwrap_err().ends_with("nested too deep"));
    };
    let small = std::thread::Builder::new().stack_size(1 << 20);
    small.spawn(check).unwrap().join().unwrap();
}
