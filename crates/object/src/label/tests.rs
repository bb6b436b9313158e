use super::*;

fn parse(text: &str) -> Selector {
    Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn everything_and_nothing_selectors_differ() {
    let none = Set::default();
    assert!(Selector::everything().matches(&none));
    assert!(Selector::everything().is_everything());
    assert!(!Selector::nothing().matches(&none));
    assert!(!Selector::nothing().is_everything());
    assert!(Selector::nothing().is_nothing());
    assert_eq!(Selector::nothing().to_string(), "");
    assert_eq!(Selector::nothing().requirements(), None);
    assert_eq!(parse(""), Selector::everything());
}

#[test]
fn adding_keeps_the_order_of_keys() {
    let mut selector = parse("c,a");
    selector.add(Requirement::new("b", Operator::Exists, &[]).unwrap());
    assert_eq!(selector.to_string(), "a,b,c");
    let mut nothing = Selector::nothing();
    nothing.add(Requirement::new("b", Operator::Exists, &[]).unwrap());
    assert!(nothing.is_nothing());
}

#[test]
fn text_and_structured_forms_give_the_same_selector() {
    let expressions = [
        Expression { key: "b", operator: "In", values: vec!["2", "1"] },
        Expression { key: "c", operator: "DoesNotExist", values: vec![] },
    ];
    let structured = Selector::from_structured([("a", "x")], expressions).unwrap();
    assert_eq!(structured, parse("!c,b in (1,2),a=x"));
}

#[test]
fn a_selector_of_labels_is_not_checked() {
    let selector = Selector::from_labels([("b", "not a value!"), ("a", "1")]);
    assert_eq!(selector.to_string(), "a=1,b=not a value!");
    assert!(selector.matches_with(|key| Some(if key == "a" { "1" } else { "not a value!" })));
}

#[test]
fn exact_values_serve_an_index() {
    let selector = parse("a=1,b in (2),c in (3,4),d!=5,e,f==6");
    assert_eq!(selector.exact_value("a"), Some("1"));
    assert_eq!(selector.exact_value("b"), Some("2"));
    assert_eq!(selector.exact_value("c"), None);
    assert_eq!(selector.exact_value("d"), None);
    assert_eq!(selector.exact_value("e"), None);
    assert_eq!(selector.exact_value("f"), Some("6"));
    assert_eq!(selector.demanded_values("c").unwrap(), ["3", "4"]);
    assert_eq!(parse("a in (1,2,3),a in (2,3)").demanded_values("a").unwrap(), ["2", "3"]);
    assert_eq!(parse("a,a=1").exact_value("a"), Some("1"));
    assert_eq!(Selector::nothing().exact_value("a"), None);
}

#[test]
fn many_values_match_like_few() {
    let values: Vec<String> = (0..100).map(|number| format!("v{number}")).collect();
    let selector = parse(&format!("a in ({}),b notin ({})", values.join(","), values.join(",")));
    let with =
        |a: &'static str, b: &'static str| selector.matches_with(|key| Some(if key == "a" { a } else { b }));
    assert!(with("v57", "w"));
    assert!(!with("v57", "v99"));
    assert!(!with("v100", "w"));
}

#[test]
fn a_field_that_holds_a_selector_is_named_in_errors() {
    let path = field::Path::new("selector");
    let error = Selector::parse_at(&path, "a=b c").unwrap_err();
    assert_eq!(error.to_string(), "found 'c', expected: ',' or 'end of string'");
    let error = Selector::parse_at(&path, "-=b").unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(r#"unable to parse requirement: selector: Invalid value: "-": name part"#)
    );
    let error = Selector::parse_at(&path, "a=-").unwrap_err();
    assert!(error.to_string().contains(r#"selector.values[0][a]: Invalid value: "-": a valid label"#));
}

#[test]
fn the_wrong_number_of_values_is_refused() {
    let refused =
        |operator, values: &[&str]| Requirement::new("a", operator, values).unwrap_err().to_string();
    assert_eq!(
        refused(Operator::Equals, &["1", "2"]),
        r#"values: Invalid value: []string{"1", "2"}: exact-match compatibility requires one single value"#
    );
    assert_eq!(
        refused(Operator::GreaterThan, &[]),
        "values: Invalid value: []string(nil): for 'Gt', 'Lt' operators, exactly one value is required"
    );
}

#[test]
fn a_set_keeps_the_last_of_equal_keys() {
    let mut labels: Set = [("b", "1"), ("a", "1"), ("b", "2"), ("b", "3")].into_iter().collect();
    assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "3")]);
    labels.insert("a", "9");
    labels.insert("c", "4");
    assert_eq!(labels.to_string(), "a=9,b=3,c=4");
    assert_eq!(labels.len(), 3);
    assert!(!labels.is_empty());
}

#[test]
fn the_text_of_a_set_is_sorted_by_whole_parts() {
    let labels: Set = [("a", "1"), ("a-b", "1")].into_iter().collect();
    assert_eq!(labels.to_string(), "a-b=1,a=1");
}

/// Every sort of requirement, in selectors on both sides of the length from which they are compiled.
#[test]
fn long_selectors_match_as_their_requirements_do() {
    let terms = [
        "a",
        "!a",
        "a=1",
        "a!=1",
        "a in (1,2,3)",
        "a notin (2,3)",
        "a>1",
        "a<3",
        "b",
        "!b",
        "b==x",
        "b notin (x)",
        "c in (7,x)",
        "c>0",
        "c<5",
        "d!=q",
    ];
    let values = [None, Some("1"), Some("2"), Some("3"), Some("x"), Some("")];
    let mut random = 7_u64;
    let mut next = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let mut matched = 0;
    for _ in 0..2000 {
        let first = next(terms.len());
        let count = 1 + next(4);
        let chosen: Vec<&str> = (0..count).map(|at| terms[(first + at * 5) % terms.len()]).collect();
        // The same requirements again change nothing but the length.
        let short = Selector::parse(&chosen.join(",")).unwrap();
        let long = Selector::parse(&vec![chosen.join(","); 9].join(",")).unwrap();
        assert!(short.compiled.is_none() && long.compiled.is_some());
        let labels: Set = ["a", "b", "c", "d"]
            .into_iter()
            .filter_map(|key| values[next(values.len())].map(|value| (key, value)))
            .collect();
        assert_eq!(short.matches(&labels), long.matches(&labels), "{short} {labels}");
        assert_eq!(short.matches(&labels), long.matches_with(|key| labels.get(key)), "{short} {labels}");
        matched += usize::from(short.matches(&labels));
    }
    assert!((200..1800).contains(&matched), "{matched}");
}
