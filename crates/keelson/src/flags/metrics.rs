//! The flags of metrics: `--allow-metric-labels`, `--allow-metric-labels-manifest`, `--disabled-metrics`,
//! `--show-hidden-metrics-for-version`. Errors have the reference's texts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use metrics::AllowedValues;
use schema::{Limits, Shape};

/// The release before the one that is served: the only one whose hidden metrics can be shown.
const RELEASE_BEFORE: &str = "1.32";

/// The flags of metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MetricsOptions {
    /// `--show-hidden-metrics-for-version`.
    pub(crate) show_hidden_for: String,
    /// `--disabled-metrics`.
    pub(crate) disabled: Vec<String>,
    /// `--allow-metric-labels`: values, by the name of a family, a comma, and the name of a label.
    pub(crate) allowed: Option<BTreeMap<String, String>>,
    /// `--allow-metric-labels-manifest`: a file with such a mapping, for which the flag before wins.
    pub(crate) allowed_manifest: Option<PathBuf>,
}

impl MetricsOptions {
    /// Which families are served, and how. A manifest that cannot be read is passed over with a warning, as
    /// in the reference.
    pub(crate) fn resolve(&self) -> metrics::Options {
        let mapping = match (&self.allowed, &self.allowed_manifest) {
            (Some(allowed), _) => allowed.clone(),
            (None, Some(path)) => manifest(path).unwrap_or_else(|error| {
                log::error!(error = error.as_str(); "the allow-list of metric labels could not be read");
                BTreeMap::new()
            }),
            (None, None) => BTreeMap::new(),
        };
        let allowed = mapping.iter().filter_map(|(key, values)| {
            let (family, label) = key.split_once(',')?;
            let values = values.split(',').map(str::to_owned).collect();
            Some(AllowedValues { family: family.to_owned(), label: label.to_owned(), values })
        });
        metrics::Options {
            show_hidden: !self.show_hidden_for.is_empty(),
            disabled: self.disabled.iter().cloned().collect(),
            allowed: allowed.collect(),
        }
    }
}

/// Checks the values after all flags were read.
pub(super) fn check(options: &MetricsOptions) -> Result<(), String> {
    if !options.show_hidden_for.is_empty() && options.show_hidden_for != RELEASE_BEFORE {
        return Err(format!(
            "--show-hidden-metrics-for-version must be omitted or have the value '{RELEASE_BEFORE}'. Only the previous minor version is allowed"
        ));
    }
    if options.allowed.iter().flatten().any(|(key, _)| !is_key(key)) {
        return Err("--allow-metric-labels must have a list of kv pair with format `metricName,labelName=labelValue, labelValue,...`".into());
    }
    Ok(())
}

/// Adds the value of one `--allow-metric-labels`: a pair, or several in quotes with commas between them.
pub(super) fn add_allowed(options: &mut MetricsOptions, value: &str) -> Result<(), String> {
    let pairs = match value.matches('=').count() {
        0 => return Err(format!("{value} must be formatted as key=value")),
        1 => vec![value.trim_matches('"').to_owned()],
        _ => records(value),
    };
    for pair in pairs {
        let (key, values) = pair.split_once('=').ok_or(format!("{pair} must be formatted as key=value"))?;
        options.allowed.get_or_insert_default().insert(key.to_owned(), values.to_owned());
    }
    Ok(())
}

/// The fields of a line of comma-separated values, which may be in quotes.
fn records(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut in_quotes = false;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if in_quotes && characters.peek() == Some(&'"') => {
                characters.next();
                fields.last_mut().into_iter().for_each(|field| field.push('"'));
            }
            '"' => in_quotes = !in_quotes,
            ',' if !in_quotes => fields.push(String::new()),
            other => fields.last_mut().into_iter().for_each(|field| field.push(other)),
        }
    }
    fields
}

/// Whether a key is the name of a family, a comma, and the name of a label.
fn is_key(key: &str) -> bool {
    let is_name = |name: &str, colons: bool| {
        let may_be = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':');
        !name.is_empty() && name.chars().all(may_be) && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    key.split_once(',').is_some_and(|(family, label)| is_name(family, true) && is_name(label, false))
}

/// The mapping in a file.
fn manifest(path: &std::path::Path) -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    let decoded = schema::yaml::decode_shape(&Shape::Any, &text, &Limits::REQUEST);
    let tree = decoded.map_err(|error| error.to_string())?.value;
    let mapping = tree.as_map().ok_or("the manifest is not a mapping")?;
    let pair = |(key, value): (&str, &object::Value)| Some((key.to_owned(), value.as_str()?.to_owned()));
    Ok(mapping.iter().filter_map(|(key, value)| pair((key, value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(values: &[&str]) -> Result<Vec<(String, String)>, String> {
        let mut options = MetricsOptions::default();
        values.iter().try_for_each(|value| add_allowed(&mut options, value))?;
        check(&options)?;
        Ok(options.allowed.unwrap_or_default().into_iter().collect())
    }

    #[test]
    fn values_of_labels_are_pairs_in_quotes() {
        let pair = |key: &str, values: &str| (key.to_owned(), values.to_owned());
        assert_eq!(allowed(&["m,l=a,b"]).unwrap(), [pair("m,l", "a,b")]);
        let two = [pair("m,l", "a,b"), pair("n,k", "c")];
        assert_eq!(allowed(&["\"m,l=a,b\",\"n,k=c\""]).unwrap(), two);
        assert_eq!(allowed(&["m,l=a,b", "n,k=c"]).unwrap(), two);
        assert_eq!(allowed(&["m,l"]).unwrap_err(), "m,l must be formatted as key=value");
        assert!(allowed(&["m=a"]).unwrap_err().starts_with("--allow-metric-labels must have"));
        assert!(allowed(&["m,1l=a"]).is_err());
    }

    #[test]
    fn hidden_metrics_of_the_release_before_alone_can_be_shown() {
        let shown = |release: &str| {
            let options = MetricsOptions { show_hidden_for: release.into(), ..Default::default() };
            check(&options)
        };
        assert!(shown("").is_ok() && shown("1.32").is_ok());
        for release in ["1.31", "1.33", "x"] {
            assert!(shown(release).unwrap_err().contains("must be omitted or have the value '1.32'"));
        }
    }
}
