use crate::each_fact;
use object::path::Element;

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
