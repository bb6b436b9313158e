use crate::each_fact;
use object::quantity::{Error, Quantity, Scale, canonicalize, canonicalize_milli};

#[test]
fn every_text_reads_as_in_the_reference() {
    each_fact(include_str!("quantity.tsv"), |columns, line| {
        let [text, canonical, rest @ ..] = columns else { panic!("short line: {line}") };
        let parsed = text.parse::<Quantity>();
        let [value, milli, mega, integer, at_milli, float] = rest else {
            let error = match canonical.as_str() {
                "!format" => Error::Format,
                "!numeric" => Error::Numeric,
                "!suffix" => Error::Suffix,
                other => panic!("no such error: {other}"),
            };
            assert_eq!(parsed, Err(error), "{line}");
            return;
        };
        let quantity = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(quantity.to_string(), *canonical, "{line}");
        assert_eq!(quantity.value().to_string(), *value, "{line}");
        assert_eq!(quantity.milli_value().to_string(), *milli, "{line}");
        assert_eq!(quantity.scaled_value(Scale::Mega).to_string(), *mega, "{line}");
        let as_integer = quantity.as_i64().map_or_else(|| "-".to_owned(), |integer| integer.to_string());
        assert_eq!(as_integer, *integer, "{line}");
        let expected = f64::from_bits(u64::from_str_radix(float, 16).unwrap());
        let approximate = quantity.approximate_f64();
        assert!(
            approximate == expected || (approximate.is_nan() && expected.is_nan()),
            "{line}: {approximate:e}"
        );

        assert_eq!(canonicalize(text).unwrap(), *canonical, "{line}");
        assert_eq!(canonicalize_milli(text).unwrap(), *at_milli, "{line}");
        let mut rounded = quantity.clone();
        rounded.round_up(Scale::Milli);
        assert_eq!(rounded.to_string(), *at_milli, "{line}");
    });
}

#[test]
fn arithmetic_agrees_with_the_reference() {
    each_fact(include_str!("quantity_arithmetic.tsv"), |columns, line| {
        let [
            a,
            b,
            sum,
            sum_value,
            difference,
            difference_milli,
            factor,
            product,
            product_value,
            negated,
            order,
        ] = columns
        else {
            panic!("short line: {line}")
        };
        let a: Quantity = a.parse().unwrap();
        let b: Quantity = b.parse().unwrap();

        let mut total = a.clone();
        total += &b;
        assert_eq!(total.to_string(), *sum, "{line}");
        assert_eq!(total.value().to_string(), *sum_value, "{line}");

        let mut rest = a.clone();
        rest -= &b;
        assert_eq!(rest.to_string(), *difference, "{line}");
        assert_eq!(rest.milli_value().to_string(), *difference_milli, "{line}");

        let mut times = a.clone();
        times *= factor.parse::<i64>().unwrap();
        assert_eq!(times.to_string(), *product, "{line}");
        assert_eq!(times.value().to_string(), *product_value, "{line}");

        assert_eq!((-a.clone()).to_string(), *negated, "{line}");
        assert_eq!((a.cmp(&b) as i32).to_string(), *order, "{line}");
    });
}
