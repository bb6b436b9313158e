use super::DEEPEST;
use super::substitution::Substitution;
use crate::ast::{Ast, ExprId};
use crate::{EnvSet, Release, Type};

fn substitution() -> Substitution {
    Substitution::new(100_000)
}

#[test]
fn an_unknown_becomes_the_more_general_of_the_types_that_are_assigned() {
    let mut of = substitution();
    let var = of.fresh();
    assert!(of.is_assignable(&Type::list(Type::Int), &var));
    assert!(of.is_assignable(&Type::list(Type::Dyn), &var));
    assert_eq!(of.resolve(&var), Type::list(Type::Dyn));
    assert!(of.is_assignable(&Type::list(Type::String), &var));
    assert_eq!(of.resolve(&var), Type::list(Type::Dyn));
}

#[test]
fn an_assignment_that_fails_changes_nothing() {
    let mut of = substitution();
    let var = of.fresh();
    let from = Type::map(Type::Int, Type::Int);
    assert!(!of.is_assignable(&from, &Type::map(var.clone(), Type::String)));
    assert_eq!(of.resolve(&var), var);
    assert!(of.is_assignable(&Type::String, &var));
}

#[test]
fn an_unknown_never_stands_for_what_it_occurs_in() {
    let mut of = substitution();
    let (a, b) = (of.fresh(), of.fresh());
    assert!(!of.is_assignable(&Type::list(a.clone()), &a));
    assert!(of.is_assignable(&Type::list(a.clone()), &b));
    assert!(!of.is_assignable(&b, &a));
    assert_eq!(of.close(&b), Type::list(Type::Dyn));
}

#[test]
fn null_can_be_used_for_objects_wrappers_and_points_in_time() {
    let mut of = substitution();
    let wrapper = Type::object("google.protobuf.Int64Value");
    for ty in [Type::object("a"), wrapper.clone(), Type::Timestamp, Type::Duration, Type::optional(Type::Int)]
    {
        assert!(of.is_assignable(&Type::Null, &ty), "{ty}");
        assert!(of.is_assignable(&ty, &Type::Null), "{ty}");
    }
    for ty in [Type::Int, Type::list(Type::Int), Type::map(Type::Int, Type::Int), Type::Type(None)] {
        assert!(!of.is_assignable(&Type::Null, &ty), "{ty}");
    }
    assert!(of.is_assignable(&wrapper, &Type::Int) && of.is_assignable(&Type::Int, &wrapper));
}

#[test]
fn a_type_with_too_many_parts_spends_all_steps() {
    let mut of = substitution();
    let mut ty = Type::Int;
    // Each step doubles the parts and adds one: 511 after eight of them.
    for _ in 0..8 {
        ty = Type::map(ty.clone(), ty);
    }
    of.measure(&ty);
    assert!(!of.is_spent());
    of.measure(&Type::map(ty.clone(), ty));
    assert!(of.is_spent());
}

/// The depth of a tree by walking it from its root.
fn walked(ast: &Ast, id: ExprId) -> usize {
    let mut operands = Vec::new();
    ast.expr(id).operands(&mut operands);
    1 + operands.into_iter().map(|operand| walked(ast, operand)).max().unwrap_or(0)
}

#[test]
fn depth_is_that_of_the_deepest_path_from_the_root() {
    let env = EnvSet::base(Release(33), true).with_device_libraries().stored;
    for text in [
        "a",
        "a.b[c ? d : e] + {f: [g, -h]}.i",
        "a && b && c && d && (e || f || g)",
        "a.all(b, c.exists_one(d, d == b && has(d.e)))",
        "a.map(b, c, d).filter(e, e.transformMap(f, g, h))",
        "a.optMap(b, c.optFlatMap(d, e)).orValue(f)",
        "cel.bind(a, b, a.transformMapEntry(c, d, {e: f}))",
        "!!!a || -(-b) == M{f: g.?h[?i]}",
    ] {
        let ast = env.parse(text).unwrap();
        assert_eq!(ast.depth(), walked(&ast, ast.root()), "{text}");
    }
}

#[test]
fn an_expression_that_is_too_deep_is_refused() {
    let env = EnvSet::base(Release(33), true).stored;
    let nested = |levels| format!("{}true{}", "[1].all(i, i > 0 && ".repeat(levels), ")".repeat(levels));
    assert!(env.compile(&nested(100)).is_ok());
    let issues = env.compile(&nested(240)).unwrap_err();
    let refused = format!("ERROR: <input>:-1:0: expression is nested deeper than {DEEPEST} levels");
    assert_eq!(issues.to_string(), refused);
}
