//! All flags with their values, as `/flagz` shows them.

use std::collections::BTreeMap;

use super::table;
use super::{Effect, ValueType};

/// All flags by name, with the values that were given, or their defaults. Flags name files where something is
/// secret, so no value is a secret itself.
pub(super) fn all(given: &BTreeMap<&'static str, String>) -> Vec<(&'static str, String)> {
    let mut all: Vec<_> = table::flags()
        .filter(|flag| !matches!(flag.kind, ValueType::Version) || given.contains_key(flag.name))
        .map(|flag| {
            let value = given.get(flag.name).map_or(flag.default, String::as_str);
            let value = match flag.kind {
                ValueType::List => format!("[{value}]"),
                ValueType::Switch if value.is_empty() => "false".to_owned(),
                _ => value.to_owned(),
            };
            let is_without_effect = given.contains_key(flag.name) && !matches!(flag.effect, Effect::Set(_));
            (flag.name, if is_without_effect { format!("{value} (without an effect)") } else { value })
        })
        .collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn flags_are_shown_with_given_values_and_defaults() {
        let words = ["--secure-port=7443", "--profiling=false", "--v=3", "--contention-profiling"];
        let parsed = parse(words.map(str::to_owned)).unwrap();
        let shown = |name| {
            let flags = &parsed.options.debugging.flags;
            flags.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
        };
        assert_eq!(shown("secure-port"), Some("7443"));
        assert_eq!(shown("profiling"), Some("false"));
        assert_eq!(shown("v"), Some("3"));
        assert_eq!(shown("debug-socket-path"), Some(""));
        assert_eq!(shown("contention-profiling"), Some("true (without an effect)"));
        assert_eq!(shown("cors-allowed-origins"), Some("[]"));
        assert!(parsed.options.debugging.flags.is_sorted());
    }
}
