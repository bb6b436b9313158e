use crate::each_fact;
use object::path::Element;
use object::path_set::{Matcher, Pattern, Set};

#[test]
fn every_text_is_the_element_it_is_in_the_reference() {
    each_fact(include_str!("path_element.tsv"), |columns, line| match columns {
        [text, written, shown] => {
            let element: Element = text.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(element.text(), *written, "{line}");
            // A map is shown in no certain order there.
            if shown != "-" {
                assert_eq!(element.to_string(), *shown, "{line}");
            }
            assert_eq!(written.parse::<Element>().unwrap(), element, "{line}");
        }
        [text, error] => {
            assert_eq!(format!("!{}", text.parse::<Element>().unwrap_err()), *error, "{line}");
        }
        _ => panic!("short line: {line}"),
    });
}

#[test]
fn elements_are_in_the_order_of_the_reference() {
    each_fact(include_str!("path_element_order.tsv"), |columns, line| {
        let [a, b, order, equal] = columns else { panic!("short line: {line}") };
        let [a, b]: [Element; 2] = [a, b].map(|text| text.parse().unwrap());
        assert_eq!((a.cmp(&b) as i8).to_string(), *order, "{line}");
        assert_eq!(
            (b.cmp(&a) as i8).to_string(),
            order.parse::<i8>().map(|o| -o).unwrap().to_string(),
            "{line}"
        );
        assert_eq!((a == b).to_string(), *equal, "{line}");
    });
}

#[test]
fn every_text_is_the_set_it_is_in_the_reference() {
    each_fact(include_str!("field_set.tsv"), |columns, line| match columns {
        [text, written, paths, leaves, size] => {
            let set = Set::from_json(text).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(set.to_json(), *written, "{line}");
            let shown: Vec<_> = set.iter().map(|path| path.to_string()).collect();
            assert_eq!(shown.join("\n"), *paths, "{line}");
            assert_eq!(set.leaves().to_json(), *leaves, "{line}");
            assert_eq!(set.len().to_string(), *size, "{line}");
            assert_eq!(set.is_empty(), size == "0", "{line}");
            assert_eq!(Set::from_json(written).unwrap(), set, "{line}");

            let mut paths: Vec<_> = set.iter().collect();
            assert!(paths.iter().all(|path| set.has(path)), "{line}");
            paths.reverse();
            assert_eq!(paths.iter().map(|path| &path[..]).collect::<Set>(), set, "{line}");
        }
        [text, error] => assert_eq!(format!("!{}", Set::from_json(text).unwrap_err()), *error, "{line}"),
        _ => panic!("short line: {line}"),
    });
}

#[test]
fn operations_on_sets_agree_with_the_reference() {
    let any = || Pattern::Any;
    let merged = |matchers: Vec<Vec<Pattern>>| {
        matchers.into_iter().map(Matcher::prefix).reduce(Matcher::merge).expect("one at least")
    };
    let matchers = [
        merged(vec![vec!["a".into()]]),
        merged(vec![vec!["a".into(), "b".into()], vec!["c".into()]]),
        merged(vec![vec![any(), "b".into()], vec![any(), "c".into()], vec!["a".into(), "d".into()]]),
        merged(
            [("a", "b"), ("a", "c"), ("b", "b"), ("b", "c")]
                .map(|(first, last)| vec![first.into(), any(), last.into()])
                .into(),
        ),
        merged(vec![
            vec!["b".into()],
            vec!["c".into(), "a".into()],
            vec!["a".into(), "b".into()],
            vec!["a".into(), "c".into()],
            vec!["c".into(), "b".into()],
            vec!["spec".into(), "a".into()],
            vec!["spec".into(), "b".into()],
        ]),
    ];
    each_fact(include_str!("field_set_algebra.tsv"), |columns, line| {
        let [a, b, union, intersection, difference, recursive, equal, picked @ ..] = columns else {
            panic!("short line: {line}")
        };
        let [a, b] = [a, b].map(|text| Set::from_json(text).unwrap());
        assert_eq!(a.union(&b).to_json(), *union, "{line}");
        assert_eq!(a.intersection(&b).to_json(), *intersection, "{line}");
        assert_eq!(a.difference(&b).to_json(), *difference, "{line}");
        assert_eq!(a.recursive_difference(&b).to_json(), *recursive, "{line}");
        assert_eq!((a == b).to_string(), *equal, "{line}");
        assert_eq!(picked.len(), matchers.len(), "{line}");
        for (matcher, picked) in matchers.iter().zip(picked) {
            assert_eq!(a.matching(matcher).to_json(), *picked, "{line}");
        }
    });
}
