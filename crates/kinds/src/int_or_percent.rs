//! Amounts that are a number of pods or a percentage of them.

use object::Value;
use object::field::{BadValue, Error, List, Path};
use object::int_or_string::IntOrString;
use object::name::percent;

/// The amount in a field; zero if the field is absent.
pub fn of(value: Option<&Value>) -> IntOrString {
    match value {
        Some(Value::String(text)) => IntOrString::String(text.clone()),
        other => {
            let number = other.and_then(Value::as_i64).unwrap_or_default();
            IntOrString::Int(i32::try_from(number).unwrap_or_default())
        }
    }
}

/// The errors of an amount: a number from zero on, or a percentage.
pub(crate) fn validate(value: Option<&Value>, path: &Path<'_>) -> List {
    match of(value) {
        IntOrString::Int(number) => crate::checks::non_negative(number.into(), path).into_iter().collect(),
        IntOrString::String(text) => {
            percent(&text).into_iter().map(|why| Error::invalid(path, shown(value), why)).collect()
        }
    }
}

/// The error of a percentage above a hundred.
pub(crate) fn at_most_all(value: Option<&Value>, path: &Path<'_>) -> Option<Error> {
    let percentage = share(&of(value))?;
    (percentage > 100).then(|| Error::invalid(path, shown(value), "must not be greater than 100%"))
}

/// The number, or the number of percent; zero if it is neither.
pub(crate) fn number(value: Option<&Value>) -> i64 {
    let amount = of(value);
    share(&amount).unwrap_or_else(|| amount.int_value())
}

/// The number of percent.
fn share(amount: &IntOrString) -> Option<i64> {
    let IntOrString::String(text) = amount else { return None };
    if !percent(text).is_empty() {
        return None;
    }
    Some(IntOrString::from(text.strip_suffix('%').unwrap_or(text)).int_value())
}

/// The amount as an error shows it.
pub(crate) fn shown(value: Option<&Value>) -> BadValue {
    BadValue::from(&of(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_compared_with_a_hundred() {
        let path = Path::new("a");
        let of = |text: &str| Value::from(text);
        for (text, wanted) in
            [("100%", 100), ("250%", 250), ("99999999999999999999%", i64::MAX), ("7", 7), ("x", 0)]
        {
            assert_eq!(number(Some(&of(text))), wanted);
            assert_eq!(at_most_all(Some(&of(text)), &path).is_some(), wanted > 100, "{text}");
        }
        assert_eq!(number(None), 0);
        assert!(validate(Some(&of("7")), &path).len() == 1 && validate(Some(&of("7%")), &path).is_empty());
    }
}
