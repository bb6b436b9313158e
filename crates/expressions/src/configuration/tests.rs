use super::*;

fn fault(outcome: Result<Expression, Fault>) -> String {
    outcome.unwrap_err().to_string()
}

#[test]
fn conditions_are_boolean_and_the_reference_names_the_other_type_for_requests_only() {
    assert_eq!(fault(Scope::Claims.condition("claims.a")), "must evaluate to bool");
    assert_eq!(fault(Scope::User.condition("user.groups")), "must evaluate to bool");
    assert_eq!(
        fault(Scope::Request.condition("request.groups")),
        "must evaluate to bool but got list(string)"
    );
    assert_eq!(
        fault(Scope::Request.condition("duration('1s')")),
        "must evaluate to bool but got google.protobuf.Duration"
    );
    assert!(Scope::Claims.condition("claims.a == 'b'").is_ok());
    assert!(Scope::Claims.value("claims.a").is_ok());
}

#[test]
fn each_scope_has_its_own_variable_and_types() {
    for (scope, good) in [
        (Scope::Claims, "claims.anything.at.all == 1"),
        (Scope::User, "'a' in user.extra && user.extra['a'][0] == user.username"),
        (
            Scope::Request,
            "request.resourceAttributes.labelSelector.requirements.exists(r, r.operator == 'In')",
        ),
    ] {
        assert!(scope.condition(good).is_ok(), "{good}");
        for other in [Scope::Claims, Scope::User, Scope::Request] {
            assert_eq!(other.condition(good).is_ok(), other == scope, "{other:?} {good}");
        }
    }
    let fault = fault(Scope::User.condition("user.name == 'a'"));
    assert!(fault.contains("undefined field 'name'"), "{fault}");
}

#[test]
fn selections_are_found_wherever_they_are() {
    for text in [
        "claims.email",
        "claims.?email.orValue('a')",
        "has(claims.email) ? 'a' : 'b'",
        "[1].map(x, {'a': [claims.email]})",
        "claims.?a.optMap(a, claims.email).orValue('a')",
    ] {
        let expression = Scope::Claims.value(text).unwrap();
        assert!(expression.selects_of("claims", "email"), "{text}");
        assert!(expression.selects("email"), "{text}");
    }
    for text in ["claims['email']", "claims[?'email'].orValue('a')", "'claims.email'"] {
        assert!(!Scope::Claims.value(text).unwrap().selects("email"), "{text}");
    }
    let nested = Scope::Claims.value("claims.a.email").unwrap();
    assert!(nested.selects("email") && !nested.selects_of("claims", "email"));
}

#[test]
fn expressions_with_the_same_text_are_equal() {
    let [one, same, other] =
        ["claims.a", "claims.a", "claims.b"].map(|text| Scope::Claims.value(text).unwrap());
    assert_eq!(one, same);
    assert_ne!(one, other);
}
