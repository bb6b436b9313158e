use crate::each_fact;
use object::label::{Expression, Selector, Set};
use object::{field_selector, label};

/// One character per set of labels or fields: whether the selector picks it.
fn picks(count: usize, matches: impl Fn(usize) -> bool) -> String {
    (0..count).map(|index| if matches(index) { '1' } else { '0' }).collect()
}

#[test]
fn every_text_is_the_label_selector_it_is_in_the_reference() {
    let sets: [&[(&str, &str)]; 6] = [
        &[],
        &[("a", "b")],
        &[("a", "1"), ("b", "b")],
        &[("a", ""), ("app", "1"), ("x/y", "b")],
        &[("a", "x"), ("b", "2"), ("app", "b"), ("x/y", "1")],
        &[("a", "-1"), ("b", "9223372036854775808")],
    ];
    let sets = sets.map(|set| set.iter().copied().collect::<Set>());
    each_fact(include_str!("label_selector.tsv"), |columns, line| match columns {
        [text, canonical, picked] => {
            let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(selector.to_string(), *canonical, "{line}");
            assert_eq!(picks(sets.len(), |index| selector.matches(&sets[index])), *picked, "{line}");
            assert_eq!(Selector::parse(canonical).unwrap(), selector, "{line}");
        }
        [text, error] => assert_eq!(format!("!{}", Selector::parse(text).unwrap_err()), *error, "{line}"),
        _ => panic!("short line: {line}"),
    });
}

#[test]
fn every_structured_selector_is_what_it_is_in_the_reference() {
    each_fact(include_str!("label_structured.tsv"), |columns, line| {
        let [labels, expressions, expected] = columns else { panic!("short line: {line}") };
        let expressions = expressions.split('|').filter(|each| !each.is_empty()).map(|each| {
            let mut parts = each.split(';');
            let [key, operator, values] = std::array::from_fn(|_| parts.next().unwrap());
            let values =
                values.strip_suffix('.').map(|values| values.split(',').collect()).unwrap_or_default();
            Expression { key, operator, values }
        });
        let result = Selector::from_structured(labels.split_once('='), expressions);
        let shown = match &result {
            Ok(selector) => selector.to_string(),
            Err(error) => format!("!{error}"),
        };
        assert_eq!(shown, *expected, "{line}");
        if let Err(error) = result {
            assert!(matches!(error, label::Error::Requirement(_) | label::Error::Operator(_)), "{line}");
        }
    });
}

#[test]
fn every_text_is_the_field_selector_it_is_in_the_reference() {
    let sets: [&[(&str, &str)]; 5] = [
        &[],
        &[("a", "x")],
        &[("a", "y"), ("b", "x")],
        &[("a", ""), ("b", "a,b"), ("metadata.name", "=")],
        &[("metadata.name", "x"), ("b", "y")],
    ];
    let lookup =
        |set: usize, field: &str| sets[set].iter().find(|(own, _)| *own == field).map(|(_, value)| *value);
    each_fact(include_str!("field_selector.tsv"), |columns, line| match columns {
        [text, canonical, picked, exact, everything] => {
            let selector =
                field_selector::Selector::parse(text).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(selector.to_string(), *canonical, "{line}");
            let matches = |index| selector.matches_with(|field| lookup(index, field));
            assert_eq!(picks(sets.len(), matches), *picked, "{line}");
            assert_eq!(selector.exact_value("a"), exact.strip_prefix('+'), "{line}");
            assert_eq!(selector.is_everything(), everything == "1", "{line}");
        }
        [text, error] => {
            let refused = field_selector::Selector::parse(text).unwrap_err();
            assert_eq!(format!("!{refused}"), *error, "{line}");
        }
        _ => panic!("short line: {line}"),
    });
}
