//! The shortest decimal text that gives a number back. Where two texts of that length are equally near, Go takes
//! the one that ends in an even digit and Rust's own formatting may take the other; this takes Go's.

/// Digits with an exponent: `1.5` and `-7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scientific {
    /// Sign and digits, a point after the first.
    pub mantissa: String,
    /// The power of ten.
    pub exponent: i32,
}

/// The number with an exponent.
///
/// ```
/// let number = object::float::scientific(1.5e-7);
/// assert_eq!((number.mantissa.as_str(), number.exponent), ("1.5", -7));
/// ```
pub fn scientific(value: f64) -> Scientific {
    let short = format!("{value:e}");
    let fraction =
        short.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count().saturating_sub(1);
    let text = even(value, format!("{value:.fraction$e}"), short);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    Scientific { mantissa: mantissa.into(), exponent: exponent.parse().unwrap_or(0) }
}

/// The number without an exponent.
///
/// ```
/// assert_eq!(object::float::decimal(1e20), "100000000000000000000");
/// ```
pub fn decimal(value: f64) -> String {
    let short = value.to_string();
    match short.split_once('.') {
        Some((_, fraction)) => even(value, format!("{value:.places$}", places = fraction.len()), short),
        None if value.abs() < EXACT => short,
        None => {
            // Past the precision of a float, zeros stand for the digits that do not count.
            let Scientific { mantissa, exponent } = scientific(value);
            let mut digits = mantissa.replace('.', "");
            let sign = usize::from(digits.starts_with('-'));
            let length = usize::try_from(exponent).unwrap_or(0) + 1 + sign;
            digits.extend(std::iter::repeat_n('0', length.saturating_sub(digits.len())));
            digits
        }
    }
}

/// Whole numbers below have no shorter text.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The correctly rounded text ends in an even digit where there is a choice; it counts if it gives the number back.
fn even(value: f64, rounded: String, shortest: String) -> String {
    if rounded.parse() == Ok(value) { rounded } else { shortest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_the_even_digit() {
        assert_eq!(decimal(1_304_972_842_088_142.3), "1304972842088142.2");
        assert_eq!(scientific(1_304_972_842_088_142.3).mantissa, "1.3049728420881422");
        assert_eq!(decimal(0.1), "0.1");
        assert_eq!(decimal(-0.0), "-0");
        assert_eq!(decimal(5e-324), format!("{}5", "0.".to_owned() + &"0".repeat(323)));
    }

    #[test]
    fn digits_past_the_precision_are_zeros() {
        assert_eq!(decimal(4_611_686_018_427_387_904.0), "4611686018427388000");
        assert_eq!(decimal(-4_611_686_018_427_387_904.0), "-4611686018427388000");
        assert_eq!(decimal(9_007_199_254_740_991.0), "9007199254740991");
        assert_eq!(decimal(9_007_199_254_740_994.0), "9007199254740994");
        assert_eq!(decimal(100.0), "100");
    }
}
