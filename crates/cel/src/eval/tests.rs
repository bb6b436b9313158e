use super::*;
use crate::kubernetes::{EnvSet, Release};
use crate::{Halt, Type};
use object::Value as Tree;

fn env() -> Env {
    let base = EnvSet::base(Release(33), true).stored;
    base.extend().variable("x", Type::Dyn).variable("l", Type::list(Type::Int)).build()
}

fn program(expression: &str) -> Program {
    let env = env();
    let checked = env.compile(expression).unwrap_or_else(|issues| panic!("{expression}: {issues}"));
    env.program(&checked).unwrap_or_else(|error| panic!("{expression}: {error}"))
}

/// The value or the error of an expression, and its cost.
fn run(expression: &str, x: &Tree, l: &Tree) -> (String, u64) {
    let program = program(expression);
    let mut budget = Budget { limit: 1_000_000, spent: 0, interrupted: None };
    let outcome = program.evaluate(&[Value::plain(x), Value::plain(l)], &mut budget);
    let text = match outcome {
        Ok(value) => value.to_string(),
        Err(failure) => format!("error: {failure}"),
    };
    (text, budget.spent)
}

fn numbers(count: i64) -> Tree {
    Tree::from_iter(0..count)
}

#[test]
fn values_errors_and_costs_are_those_of_the_reference() {
    let x = Tree::Map(object::Map::from_iter([("a", Tree::from("text")), ("n", Tree::Null)]));
    for (expression, value, cost) in [
        ("1 + 2", "3", 1),
        ("x.a", "text", 2),
        ("x.b", "error: no such key: b", 2),
        ("has(x.a)", "true", 1),
        ("has(x.b)", "false", 1),
        ("has((true ? x : x).a)", "true", 0),
        ("x.a == 'text'", "true", 3),
        ("true ? x.a : x.b", "text", 1),
        ("l[0]", "0", 2),
        ("l[5]", "error: index out of bounds: 5", 2),
        ("l.all(i, i >= 0)", "true", 17),
        ("l.exists(i, 1 / i == 1)", "true", 19),
        ("l.map(i, i + 1)", "[1, 2, 3]", 44),
        ("1 in [1, 2]", "true", 0),
        ("x.a in ['a', 'text']", "true", 2),
        ("[1, 2] + [3]", "[1, 2, 3]", 1),
        ("x.?b.orValue('none')", "none", 1),
        ("optional.of(1).optMap(v, v + 1).value()", "2", 8),
        ("1 / 0", "error: division by zero", 1),
        ("9223372036854775807 + 1", "error: integer overflow", 1),
        ("dyn(1) + 'a'", "error: no such overload", 1),
        ("x.n + 1", "error: no such overload: _+_", 3),
        ("x.a.matches('t.x')", "true", 3),
        ("string(1.5e300)", "1.5e+300", 0),
        ("string(duration('1h'))", "3600s", 0),
        ("timestamp('2020-02-29T01:02:03Z').getHours('+02:00')", "3", 1),
    ] {
        assert_eq!(run(expression, &x, &numbers(3)), (value.into(), cost), "{expression}");
    }
}

#[test]
fn constants_are_made_with_the_program_and_what_is_wrong_with_them_is_said_then() {
    let env = env();
    for (expression, error) in [
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("x[null] == 1", "invalid qualifier type: types.Null"),
    ] {
        let checked = env.compile(expression).unwrap_or_else(|issues| panic!("{expression}: {issues}"));
        assert_eq!(env.program(&checked).map(|_| ()), Err(error.into()), "{expression}");
    }
}

#[test]
fn an_evaluation_ends_when_its_cost_passes_the_limit() {
    let program = program("l.all(i, i >= 0)");
    let tree = numbers(100);
    let slots = [Value::Null, Value::plain(&tree)];
    for limit in [0, 1, 7, 100] {
        let mut budget = Budget { limit, spent: 0, interrupted: None };
        let outcome = program.evaluate(&slots, &mut budget);
        assert!(matches!(outcome, Err(Failure::Halt(Halt::CostLimit))));
        assert_eq!(budget.spent, limit + 1);
    }
}

#[test]
fn a_limit_holds_for_what_was_spent_before() {
    let program = program("l.all(i, i >= 0)");
    let tree = numbers(3);
    let slots = [Value::Null, Value::plain(&tree)];
    let mut budget = Budget { limit: 38, spent: 20, interrupted: None };
    assert!(program.evaluate(&slots, &mut budget).is_ok());
    assert!(program.evaluate(&slots, &mut budget).is_err());
}

#[test]
fn loops_ask_whether_to_end() {
    let asked = std::cell::Cell::new(0);
    let interrupted = || {
        asked.set(asked.get() + 1);
        asked.get() == 3
    };
    let program = program("l.all(i, i >= 0)");
    let tree = numbers(1_000);
    let mut budget = Budget { limit: 1_000_000, spent: 0, interrupted: Some(&interrupted) };
    let outcome = program.evaluate(&[Value::Null, Value::plain(&tree)], &mut budget);
    assert!(matches!(outcome, Err(Failure::Halt(Halt::Interrupted))));
    assert_eq!(asked.get(), 3);
    // Six units for each turn.
    assert!(budget.spent < 3_000);
}

#[test]
fn lists_of_loops_are_not_copied_in_every_turn() {
    let tree = numbers(60_000);
    let (value, cost) = run("size(l.map(i, i))", &Tree::Null, &tree);
    assert_eq!((value.as_str(), cost), ("60000", 780_003));
    let (value, _) = run("size(l.transformMap(i, v, v))", &Tree::Null, &tree);
    assert_eq!(value, "60000");
}

#[test]
fn deeply_nested_expressions_fit_a_small_stack() {
    let nested = |open: &str, core: &str, close: &str, count: usize| {
        format!("{}{core}{}", open.repeat(count), close.repeat(count))
    };
    let expressions = [
        nested("[", "1", "]", 50),
        nested("(l.all(i, ", "true", "))", 20),
        nested("(true ? x : ", "x", ")", 30),
        nested("dyn(1 + 2 * -size(x == x || ", "x", " ? 'a' : 'b'))", 15),
    ];
    let tree = numbers(1);
    std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || {
            for expression in &expressions {
                let env = env();
                let Ok(checked) = env.compile(expression) else { continue };
                let Ok(program) = env.program(&checked) else { continue };
                let mut budget = Budget { limit: 1_000_000, spent: 0, interrupted: None };
                let _ = program.evaluate(&[Value::plain(&tree), Value::plain(&tree)], &mut budget);
            }
        })
        .expect("a thread")
        .join()
        .expect("no overflow");
}

#[test]
fn programs_are_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Program>();
}
