//! Reading the values of flags.

use std::net::IpAddr;

use object::duration::not_negative;

use super::ValueType;

/// Checks that `value` is of the type `kind`; the error says what is expected.
pub(super) fn check(kind: ValueType, value: &str) -> Result<(), String> {
    match kind {
        ValueType::Switch => switch(value).map(drop),
        ValueType::Integer => integer(value).map(drop),
        ValueType::Float => value.parse::<f64>().map(drop).map_err(|_| "not a number".into()),
        ValueType::Duration => not_negative(value).map(drop),
        ValueType::Address => address(value).map(drop),
        ValueType::Text | ValueType::List | ValueType::Version => Ok(()),
    }
}

/// Parses true and false in the spellings that the reference accepts.
pub(super) fn switch(value: &str) -> Result<bool, String> {
    object::boolean::parse(value).ok_or_else(|| "neither true nor false".into())
}

/// A whole number.
pub(super) fn integer(value: &str) -> Result<i64, String> {
    value.parse().map_err(|_| "not a whole number".into())
}

/// An IP address.
pub(super) fn address(value: &str) -> Result<IpAddr, String> {
    value.trim().parse().map_err(|_| "not an IP address".into())
}

/// True or false inside of a value, with the error of the reference.
pub(super) fn parse_bool(value: &str) -> Result<bool, String> {
    let invalid = |_| format!("strconv.ParseBool: parsing {}: invalid syntax", object::quote::quote(value));
    switch(value).map_err(invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_wrong_type_are_refused() {
        assert!(check(ValueType::Integer, "12").is_ok());
        assert_eq!(check(ValueType::Integer, "twelve"), Err("not a whole number".into()));
        assert_eq!(check(ValueType::Switch, "yes"), Err("neither true nor false".into()));
        assert_eq!(check(ValueType::Float, "x"), Err("not a number".into()));
        assert_eq!(check(ValueType::Address, "host"), Err("not an IP address".into()));
        assert!(check(ValueType::Text, "").is_ok());
    }
}
