use super::*;
use std::borrow::Cow;
use std::time::{Duration, Instant};

fn quantity(text: &str) -> Quantity {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn common_quantities_are_borrowed() {
    for text in ["0", "1", "100m", "250m", "128Mi", "2Gi", "999", "1k", "5G", "1023Ki", "20n"] {
        assert!(matches!(canonicalize(text), Ok(Cow::Borrowed(same)) if same == text), "{text}");
    }
}

#[test]
fn space_around_a_documents_quantity_is_dropped() {
    assert_eq!(canonicalize(" 1Gi ").unwrap(), "1Gi");
    assert_eq!(canonicalize("1 Gi"), Err(Error::Format));
    assert_eq!(" 1Gi".parse::<Quantity>(), Err(Error::Format));
}

#[test]
fn canonical_text_is_its_own_canonical_text() {
    for text in ["1.5", "1500m", "0.1Ki", "1024Mi", "1e4", "12345678901234567890", "9Ei", "100u", "-7.25Gi"] {
        let once = canonicalize(text).unwrap().into_owned();
        assert_eq!(canonicalize(&once).unwrap(), once, "{text}");
    }
}

#[test]
fn errors_carry_the_words_of_the_reference() {
    assert_eq!(
        Error::Format.to_string(),
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    );
    assert_eq!(Error::Numeric.to_string(), "unable to parse numeric part of quantity");
    assert_eq!(Error::Suffix.to_string(), "unable to parse quantity's suffix");
}

#[test]
fn equality_is_by_amount() {
    assert_eq!(quantity("1000m"), quantity("1e0"));
    assert_eq!(quantity("1Gi"), quantity("1073741824"));
    assert_ne!(quantity("1000000000000000000001n"), quantity("1000000000000000000000n"));
}

#[test]
fn a_sum_from_zero_takes_the_other_format() {
    let mut total = Quantity::default();
    total += &quantity("512Mi");
    total += &quantity("512Mi");
    assert_eq!(total.to_string(), "1Gi");
    assert_eq!(total.format(), Format::BinarySi);
}

#[test]
fn sums_past_64_bits_stay_exact() {
    let mut total = quantity("9223372036854775807");
    total += &quantity("1n");
    total += &quantity("9223372036854775807");
    assert_eq!(total.to_string(), "18446744073709551614000000001n");
    total -= &quantity("18446744073709551614");
    assert_eq!(total.to_string(), "1n");
}

#[test]
fn negating_the_smallest_integer_is_exact() {
    let negated = -Quantity::new(i64::MIN, Format::DecimalSi);
    assert_eq!(negated.to_string(), "9223372036854775808");
    assert_eq!(negated.signum(), 1);
}

#[test]
fn far_exponents_cost_no_more_than_near_ones() {
    let started = Instant::now();
    let vast = quantity("1234567890123456789e999999999");
    let tiny = quantity("1234567890123456789e-999999999");
    assert_eq!(tiny.to_string(), "1e-9");
    assert_eq!(vast.to_string(), "1234567890123456789e999999999");
    assert!(vast > tiny);
    assert!(-vast.clone() < -tiny.clone());
    assert_eq!(vast.value(), 0);
    assert_eq!(vast.milli_value(), 0);
    assert_eq!(vast.approximate_f64(), f64::INFINITY);
    let mut sum = tiny.clone();
    sum += &vast;
    assert_eq!(sum, vast);
    sum *= 3;
    assert!(sum > vast);
    sum.round_up(Scale::Exa);
    let mut binary = quantity("1Ki");
    binary += &vast;
    assert!(!binary.to_string().is_empty());
    assert!(started.elapsed() < Duration::from_millis(100), "{:?}", started.elapsed());
}

#[test]
fn a_megabyte_of_digits_is_read_in_linear_time() {
    let started = Instant::now();
    let digits = "7".repeat(1_000_000);
    for suffix in ["", "Ei", "e-999999", "m"] {
        let read = quantity(&format!("{digits}{suffix}"));
        let mut sum = read.clone();
        sum += &quantity("1Ki");
        sum *= i64::MAX;
        assert!(sum > read);
        assert!(!sum.to_string().is_empty());
    }
    let mut binary = quantity("1Ki");
    binary += &quantity(&digits);
    assert!(binary.to_string().len() > 999_000);
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
}
