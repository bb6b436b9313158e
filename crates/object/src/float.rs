//! The shortest decimal text that gives a number back. Where two texts of that length are equally near, Go
//! takes the one that ends in an even digit and Rust's own formatting may take the other; this takes Go's.

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
    let Scientific { mantissa, exponent } = scientific(value);
    let (sign, digits) = mantissa.strip_prefix('-').map_or(("", mantissa.as_str()), |digits| ("-", digits));
    let digits = digits.replace('.', "");
    let Ok(exponent) = usize::try_from(exponent) else {
        return format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    };
    match digits.split_at_checked(exponent + 1) {
        Some((whole, "")) => format!("{sign}{whole}"),
        Some((whole, fraction)) => format!("{sign}{whole}.{fraction}"),
        None => format!("{sign}{digits}{}", "0".repeat(exponent + 1 - digits.len())),
    }
}

/// The number as Go's `%v` shows it: with an exponent below 1e-4 and from 1e6 on.
///
/// ```
/// assert_eq!(object::float::short(123_456.5), "123456.5");
/// assert_eq!(object::float::short(1e6), "1e+06");
/// ```
pub fn short(value: f64) -> String {
    let Scientific { mantissa, exponent } = scientific(value);
    if value == 0.0 || (-4..6).contains(&exponent) {
        return decimal(value);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// The correctly rounded text ends in an even digit where there is a choice; it counts if it gives the number
/// back.
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
    }

    #[test]
    fn only_the_digits_that_count_are_written() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (-120.0, "-120"),
            (1234.5, "1234.5"),
            (0.00123, "0.00123"),
            (18446744073709551616.0, "18446744073709552000"),
            (-9223372036854775808.0, "-9223372036854776000"),
            (123456789012345678901.0, "123456789012345680000"),
        ] {
            assert_eq!(decimal(value), text);
        }
    }

    #[test]
    fn large_and_small_numbers_have_exponents() {
        for (number, text) in [
            (1e20, "1e+20"),
            (123_456.5, "123456.5"),
            (1e6, "1e+06"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.0, "0"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
