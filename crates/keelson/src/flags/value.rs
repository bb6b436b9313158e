//! Reading the values of flags.

use std::net::IpAddr;
use std::time::Duration;

use super::Kind;

/// Whether `value` is one of its kind; the error says what would be.
pub(super) fn check(kind: Kind, value: &str) -> Result<(), String> {
    match kind {
        Kind::Switch => switch(value).map(drop),
        Kind::Integer => value.parse::<i64>().map(drop).map_err(|_| "not a whole number".into()),
        Kind::Float => value.parse::<f64>().map(drop).map_err(|_| "not a number".into()),
        Kind::Duration => duration(value).map(drop),
        Kind::Address => address(value).map(drop),
        Kind::Text | Kind::List => Ok(()),
    }
}

/// The spellings of true and false that the reference takes.
pub(super) fn switch(value: &str) -> Result<bool, String> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("neither true nor false".into()),
    }
}

/// An IP address.
pub(super) fn address(value: &str) -> Result<IpAddr, String> {
    value.trim().parse().map_err(|_| "not an IP address".into())
}

/// A length of time such as `1h30m`, `1.5s`, `250ms` or `0`; not negative.
pub(super) fn duration(value: &str) -> Result<Duration, String> {
    let wrong = || "not a duration such as 30s, 1m30s or 250ms".to_owned();
    if value == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = value;
    let mut total = 0.0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (digits, tail) = rest.split_at_checked(number).ok_or_else(wrong)?;
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit_end).ok_or_else(wrong)?;
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        total += digits.parse::<f64>().map_err(|_| wrong())? * seconds;
        rest = tail;
    }
    if value.is_empty() {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(total).map_err(|_| "too long a time".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        for (text, milliseconds) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            (".5s", 500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "-1s", "s", "1x", "1s5", "1..5s", "1e3s", "ten"] {
            assert!(duration(text).is_err(), "{text}");
        }
        assert_eq!(duration("99999999999999999999h"), Err("too long a time".into()));
    }

    #[test]
    fn kinds_refuse_what_is_not_theirs() {
        assert!(check(Kind::Integer, "12").is_ok());
        assert_eq!(check(Kind::Integer, "twelve"), Err("not a whole number".into()));
        assert_eq!(check(Kind::Switch, "yes"), Err("neither true nor false".into()));
        assert_eq!(check(Kind::Float, "x"), Err("not a number".into()));
        assert_eq!(check(Kind::Address, "host"), Err("not an IP address".into()));
        assert!(check(Kind::Text, "").is_ok());
    }
}
