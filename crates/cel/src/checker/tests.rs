use super::substitution::Substitution;
use crate::Type;

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
