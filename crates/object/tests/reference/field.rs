use crate::each_fact;
use object::field::{Error, Path};

#[test]
fn text_is_quoted_as_in_the_reference() {
    each_fact(include_str!("quote.tsv"), |columns, line| {
        let [text, quoted] = columns else { panic!("short line: {line}") };
        assert_eq!(object::quote::quote(text), *quoted);
    });
}

#[test]
fn numbers_read_in_messages_as_in_the_reference() {
    each_fact(include_str!("bad_value.tsv"), |columns, line| {
        let [bits, body] = columns else { panic!("short line: {line}") };
        let value = f64::from_bits(u64::from_str_radix(bits, 16).unwrap());
        assert_eq!(Error::invalid(&Path::new("f"), value, "").body(), *body);
    });
}
