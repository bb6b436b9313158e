//! The deepest expressions and values that are accepted fit in the stack of a worker of the server, also
//! without optimisation; what is nested deeper is refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use cel::cost::UnknownSizes;
use cel::{Budget, Checked, Env, EnvSet, Failure, Halt, Release, Type, Value};
use object::shape::{Form, ListForm, Shape};
use object::{Map, RawJson, Value as Tree};

/// Three quarters of the stack of a worker; the rest is for what calls.
const STACK: usize = 3 << 19;

/// How deep a body may be nested that the server reads.
const DEEPEST_BODY: usize = 512;

/// Expressions that nest: what comes before the middle and after it, as often as it is accepted.
const SHAPES: &[(&str, &str, &str)] = &[
    ("(", "1", ")"),
    ("[", "1", "]"),
    ("{'a': ", "1", "}"),
    ("[", "1", "] == x"),
    ("x == [", "1", "]"),
    ("!(", "true", ")"),
    ("1 + (", "1", ")"),
    ("1 + 2 * -(", "1", ")"),
    ("", "1", " + 1"),
    ("", "1", " == 1 ? 1 : 2"),
    ("true ? x : ", "x", ""),
    ("(", "true", " ? true : false)"),
    ("(true && (x == 1 || ", "true", "))"),
    ("true || (false && ", "true", ")"),
    ("x[", "x", "]"),
    ("x[?", "x", "]"),
    ("x.?a[", "x", "]"),
    ("has(x[", "1", "].a)"),
    ("", "x", ".b"),
    ("", "x", "[0]"),
    ("", "x", ".?b"),
    ("dyn(", "1", ")"),
    ("type(", "1", ")"),
    ("size([", "1", "])"),
    ("dyn(1 + 2 * -size(x == x || ", "x", " ? 'a' : 'b'))"),
    ("'a'.startsWith(string(", "'a'", "))"),
    ("'%s'.format([", "1", "])"),
    ("sets.contains([dyn(1)], [", "1", "])"),
    ("[", "1", "].indexOf(1)"),
    ("", "'a'", ".replace('a', 'b')"),
    ("", "'a'", ".find('a')"),
    ("google.protobuf.Int64Value{value: ", "1", "}"),
    ("JSONPatch{value: ", "1", "}"),
    ("optional.of(", "1", ")"),
    ("optional.none().orValue(", "1", ")"),
    ("optional.none().or(", "optional.of(1)", ")"),
    ("optional.of(1).optMap(y, dyn(", "1", "))"),
    ("optional.of(1).optFlatMap(y, ", "optional.of(1)", ")"),
    ("cel.bind(y, 1, ", "1", ")"),
    ("cel.bind(y, ", "1", ", y)"),
    ("l.all(i, ", "true", ")"),
    ("l.all(i, i >= 0 && ", "true", ")"),
    ("l.all(i, true || true || true || true || (true && true && true && true && ", "true", "))"),
    ("l.exists_one(i, ", "true", ")"),
    ("l.map(i, ", "1", ")"),
    ("l.map(i, dyn(", "1", "))"),
    ("l.map(i, i >= 0, dyn(", "1", "))"),
    ("l.filter(i, ", "[0]", " != [1])"),
    ("", "l", ".map(q, q)"),
    ("", "l", ".filter(q, true)"),
    ("m.all(k, v, ", "true", ")"),
    ("m.transformMap(k, v, dyn(", "1", "))"),
    ("m.transformList(k, v, dyn(", "1", "))"),
    ("m.transformMapEntry(k, v, {k: dyn(", "1", ")})"),
];

fn env() -> Env {
    let base = EnvSet::base(Release(33), true).with_patches().with_device_libraries().stored;
    let list = Type::list(Type::Int);
    let map = Type::map(Type::String, Type::Int);
    base.extend().variable("x", Type::Dyn).variable("l", list).variable("m", map).build()
}

/// Runs on a stack of this size.
fn on_stack<T: Send>(bytes: usize, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

fn text(shape: (&str, &str, &str), levels: usize) -> String {
    let (open, middle, close) = shape;
    format!("{}{middle}{}", open.repeat(levels), close.repeat(levels))
}

/// Everything that is done with an expression, once it compiles.
fn use_all(env: &Env, checked: &Checked) {
    let estimate = checked.estimate(&UnknownSizes);
    assert!(estimate.min <= estimate.max);
    let Ok(program) = env.program(checked) else { return };
    let list = Tree::from_iter(0..2_i64);
    let map = Tree::Map(Map::from_iter([("a", Tree::from(1_i64)), ("b", Tree::Null)]));
    for x in [&list, &map] {
        let slots = [Value::plain(x), Value::plain(&list), Value::plain(&map)];
        let mut budget = Budget { limit: 100_000, spent: 0, interrupted: None };
        if let Ok(value) = program.evaluate(&slots, &mut budget) {
            assert!(!value.to_string().is_empty());
        }
    }
}

#[test]
fn deepest_expressions_fit_in_the_stack_of_a_worker() {
    let env = env();
    for shape in SHAPES {
        let compiles = |levels| on_stack(16 << 20, || env.compile(&text(*shape, levels)).is_ok());
        assert!(compiles(1), "{shape:?}");
        // Past its limits the parser refuses every text.
        let (mut deepest, mut refused) = (1, 300);
        while refused - deepest > 1 {
            let levels = usize::midpoint(deepest, refused);
            *(if compiles(levels) { &mut deepest } else { &mut refused }) = levels;
        }
        on_stack(STACK, || {
            use_all(&env, &env.compile(&text(*shape, deepest)).expect("it compiled"));
            for levels in [deepest + 1, 300, 5_000] {
                assert!(env.compile(&text(*shape, levels)).is_err(), "{levels} {shape:?}");
            }
        });
    }
}

/// A schema of values within each other without end.
struct Endless(Form<'static>);

impl Shape for Endless {
    fn form(&self) -> Form<'_> {
        self.0
    }

    fn is_nullable(&self) -> bool {
        false
    }

    fn field(&self, _: &str) -> Option<&dyn Shape> {
        Some(self)
    }

    fn items(&self) -> Option<&dyn Shape> {
        Some(self)
    }
}

/// What is nested as deep as the server reads it.
fn nested(around: impl Fn(Tree) -> Tree) -> Tree {
    (1..DEEPEST_BODY).fold(Tree::from_iter([Tree::from("a")]), |tree, _| around(tree))
}

/// Expressions that look at all of two values.
const LOOKS: &[&str] = &[
    "x == y",
    "x != y",
    "y in [x]",
    "[[[x]]] == [[[y]]]",
    "{'a': {'b': x}} == {'a': {'b': y}}",
    "optional.of(x) == optional.of(y)",
    "sets.equivalent([x], [y])",
    "[y].indexOf(x) == 0",
    "'%s'.format([x]) == ''",
    "'%s'.format([[x]]).size() > 1",
    "string(x) == ''",
    "[x].isSorted()",
    "[x].map(i, [i]) == [[y]]",
    "dyn([x]) + [y] == dyn([x, y])",
    "type(x) == type(y)",
    "JSONPatch{value: x} == JSONPatch{value: y}",
    "google.protobuf.Value{list_value: [x]} == google.protobuf.Value{list_value: [y]}",
    "duration(x) == duration('1s')",
];

#[test]
fn values_as_deep_as_a_body_are_compared_shown_and_dropped_on_the_stack_of_a_worker() {
    let base = EnvSet::base(Release(33), true).with_patches().stored;
    let env = base.extend().variable("x", Type::Dyn).variable("y", Type::Dyn).build();
    let raw = |open: &str, close: &str| {
        let text = format!("{}1{}", open.repeat(DEEPEST_BODY), close.repeat(DEEPEST_BODY));
        Tree::Raw(RawJson::from_checked(text))
    };
    let list = || nested(|tree| Tree::from_iter([tree]));
    let map = || nested(|tree| Tree::Map(Map::from_iter([("a", tree)])));
    let large = || {
        let keys = || (0..20).map(|key| (format!("k{key}"), Tree::Null));
        nested(|tree| Tree::Map(keys().chain([("a".to_owned(), tree)]).collect()))
    };
    let set = Endless(Form::List(ListForm::Atomic));
    let object = Endless(Form::Object);
    let preserved = Endless(Form::Preserved);
    let cases: [(Tree, Tree, Option<&dyn Shape>); 8] = [
        (list(), list(), None),
        (map(), map(), None),
        (large(), large(), None),
        (raw("[", "]"), raw("[", "]"), None),
        (raw("{\"a\":", "}"), raw("{\"a\":", "}"), None),
        (list(), list(), Some(&set)),
        (map(), map(), Some(&object)),
        (map(), map(), Some(&preserved)),
    ];
    for look in LOOKS {
        let checked = env.compile(look).unwrap_or_else(|issues| panic!("{look}: {issues}"));
        let program = env.program(&checked).unwrap();
        for (x, y, shape) in &cases {
            on_stack(STACK, || {
                let slots = [x, y].map(|tree| Value::of(tree, *shape).unwrap());
                let mut budget = Budget { limit: u64::MAX, spent: 0, interrupted: None };
                match program.evaluate(&slots, &mut budget) {
                    Ok(value) => assert!(!value.to_string().is_empty()),
                    Err(failure) => assert!(!matches!(failure, Failure::Halt(_)), "{look}: {failure}"),
                }
            });
        }
    }
}

#[test]
fn values_nested_deeper_than_expressions_can_compare_end_the_evaluation() {
    let env = env();
    let text = format!("{}x{} == x", "[".repeat(240), "]".repeat(240));
    let program = env.program(&env.compile(&text).unwrap()).unwrap();
    let tree = (0..DEEPEST_BODY + 300).fold(Tree::from(1_i64), |tree, _| Tree::from_iter([tree]));
    on_stack(STACK, || {
        let slots = [Value::plain(&tree), Value::Null, Value::Null];
        let mut budget = Budget { limit: u64::MAX, spent: 0, interrupted: None };
        let outcome = program.evaluate(&slots, &mut budget);
        assert!(matches!(outcome, Err(Failure::Halt(Halt::Interrupted))), "{outcome:?}");
    });
}

/// What the checker does not know of a type refers to what it does not know of others; long chains of them
/// take no stack either.
#[test]
fn wide_expressions_of_unknown_types_fit_in_the_stack_of_a_worker() {
    let env = env();
    for element in ["[]", "{}", "[[]]", "optional.none()", "(true ? [] : [])", "[].map(i, i)"] {
        let count = 40_000 / element.len();
        let list = vec![element; count].join(",");
        for text in [format!("[{list}]"), format!("[{list},1]"), vec![element; count].join("||")] {
            on_stack(STACK, || match env.compile(&text) {
                Ok(checked) => use_all(&env, &checked),
                Err(issues) => assert!(!issues.to_string().is_empty()),
            });
        }
    }
}
