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
fn programs_are_shared_between_threads() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Program>();
}

#[test]
fn patterns_that_could_hold_a_thread_end_the_evaluation() {
    let digits = Tree::from("01".repeat(1 << 19).as_str());
    for (expression, interrupted) in [
        ("x.matches('[01]*1[01]{500}y')", true),
        ("x.matches('[01]*1[01]{' + string(500) + '}y')", true),
        ("x.find('[01]*1[01]{500}y') == ''", true),
        ("x.find('[01]*1[01]{' + string(500) + '}y') == ''", true),
        ("x.findAll('[01]*1[01]{500}y').size() == 0", true),
        ("x.findAll('[01]*1[01]{' + string(500) + '}y', 1).size() == 0", true),
        ("x.matches('^[01]+$')", false),
        ("x.find('[01]{3}') == '010'", false),
        ("x.findAll('1', 3).size() == 3", false),
    ] {
        let program = program(expression);
        let mut budget = Budget { limit: u64::MAX, spent: 0, interrupted: None };
        let outcome = program.evaluate(&[Value::plain(&digits), Value::Null], &mut budget);
        match interrupted {
            true => assert!(matches!(outcome, Err(Failure::Halt(Halt::Interrupted))), "{expression}"),
            false => assert!(matches!(outcome, Ok(Value::Bool(true))), "{expression}: {outcome:?}"),
        }
    }
}

#[test]
fn work_without_a_cost_ends_the_evaluation() {
    let deep = || {
        (0..30).fold(Tree::from("a".repeat(4_000_000).as_str()), |tree, _| {
            Tree::Map(object::Map::from_iter([("a", tree)]))
        })
    };
    let x = [("text", Tree::from("b".repeat(50_000).as_str())), ("deep", deep()), ("same", deep())];
    let x = Tree::Map(object::Map::from_iter(x));
    let many = numbers(20_000);
    for expression in [
        // Results that are much larger than what they are made of.
        "l.all(i, 'aaaaaaaaaa'.replace('a', x.text).size() > 0)",
        "l.all(i, '%s'.format([x.deep]).size() > 0)",
        // Comparisons of large values.
        "l.all(i, x.deep == x.same)",
        "l.all(i, sets.contains([x.deep], [x.same]))",
        "l.all(i, [x.deep].indexOf(x.same) == 0)",
    ] {
        let program = program(expression);
        let mut budget = Budget { limit: u64::MAX, spent: 0, interrupted: None };
        let outcome = program.evaluate(&[Value::plain(&x), Value::plain(&many)], &mut budget);
        assert!(matches!(outcome, Err(Failure::Halt(Halt::Interrupted))), "{expression}: {outcome:?}");
    }
}
