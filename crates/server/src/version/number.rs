//! Version numbers on the command line: `--version=v1.33.7-custom` and `--emulated-version`. What is accepted
//! and what the errors say is as in the reference.

use object::quote::quote;

use super::API;

/// The oldest version that the reference emulates; the newest is its own.
const OLDEST_EMULATED: u64 = 31;
const OWN_MINOR: u64 = 33;

/// How strictly a version is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Grammar {
    /// Three numbers, a pre-release and metadata, by the rules of semantic versions.
    Semantic,
    /// Two or more numbers, and anything after them.
    Generic,
}

/// Checks a version that the server is to report: it may differ from the own one behind its three numbers.
pub fn check_reported(version: &str) -> Result<(), String> {
    if version == API || numbers(version, Grammar::Semantic)? == numbers(API, Grammar::Semantic)? {
        return Ok(());
    }
    Err(format!("version {} must match major/minor/patch of default version {}", quote(version), quote(API)))
}

/// Checks the values of `--emulated-version`, `component=version` or a version: only the own one is served.
pub fn check_emulated(values: &[String]) -> Result<(), String> {
    let mut own: Option<Vec<u64>> = None;
    let mut unknown = None;
    for value in values {
        let (component, text) = value
            .split_once('=')
            .map_or(("kube", value.as_str()), |(component, text)| (component.trim(), text.trim()));
        let version = numbers(text, Grammar::Semantic).or_else(|_| numbers(text, Grammar::Generic))?;
        if version.get(2).is_some_and(|patch| *patch != 0) {
            return Err(format!("patch version not allowed, got: {component}={}", shown(&version)));
        }
        if component != "kube" {
            unknown = Some(component);
        } else if let Some(before) = own.replace(version.clone()) {
            let (before, version) = (shown(&before), shown(&version));
            return Err(format!("duplicate version flag, kube={before} and kube={version}"));
        }
    }
    if let Some(component) = unknown {
        return Err(format!("component not registered: {component}"));
    }
    let Some([major, minor]) = own.as_ref().and_then(|version| version.first_chunk()) else { return Ok(()) };
    let range = |what: &str, from: &str, to: &str| format!("{what} is not between [{from}, {to}]");
    let emulated = || range(&format!("emulation version {major}.{minor}"), "1.31", "1.33.0");
    match (*major, *minor) {
        (1, OWN_MINOR) => Ok(()),
        (1, OLDEST_EMULATED..OWN_MINOR) => {
            Err(format!("Keelson serves 1.{OWN_MINOR} only: version {major}.{minor} cannot be emulated"))
        }
        (major, minor) if (major, minor) > (1, OWN_MINOR) => Err(emulated()),
        _ => {
            let compatible =
                range("minCompatibilityVersion version 1.31", "1.31", &format!("{major}.{minor}"));
            Err(format!("[{}, {compatible}]", emulated()))
        }
    }
}

fn shown(version: &[u64]) -> String {
    version.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// The numbers of a version.
fn numbers(text: &str, grammar: Grammar) -> Result<Vec<u64>, String> {
    let is_semantic = grammar == Grammar::Semantic;
    let trimmed = text.trim_start();
    let trimmed = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut end = digits(trimmed);
    if end == 0 {
        return Err(format!("could not parse {} as version", quote(text)));
    }
    while let Some(more) = trimmed.get(end..).and_then(|rest| rest.strip_prefix('.'))
        && digits(more) > 0
    {
        end += 1 + digits(more);
    }
    let (listed, extra) = trimmed.split_at(end);
    let parts: Vec<&str> = listed.split('.').collect();
    if (is_semantic && parts.len() != 3) || parts.len() < 2 {
        return Err(format!("illegal version string {}", quote(text)));
    }
    let zero_prefixed =
        |part: &str| format!("illegal zero-prefixed version component {} in {}", quote(part), quote(text));
    let is_padded = |part: &str| part.starts_with('0') && part != "0";
    let number = |(index, part): (usize, &&str)| {
        if (index == 0 || is_semantic) && is_padded(part) {
            return Err(zero_prefixed(part));
        }
        part.parse().map_err(|_| {
            let why = format!("strconv.ParseUint: parsing {}: value out of range", quote(part));
            format!("illegal non-numeric version component {} in {}: {why}", quote(part), quote(text))
        })
    };
    let numbers = parts.iter().enumerate().map(number).collect::<Result<Vec<u64>, _>>()?;
    if is_semantic && !extra.is_empty() {
        let pre_release = pre_release(extra.trim_end()).ok_or_else(|| {
            format!("could not parse pre-release/metadata ({extra}) in version {}", quote(text))
        })?;
        if let Some(part) = pre_release.split('.').find(|part| part.parse::<u64>().is_ok() && is_padded(part))
        {
            return Err(zero_prefixed(part));
        }
    }
    Ok(numbers)
}

/// The pre-release of `-pre.release+meta.data`, both parts optional.
fn pre_release(extra: &str) -> Option<&str> {
    let is_list = |text: &str| {
        let is_part =
            |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        text.split('.').all(is_part)
    };
    let (before, metadata) = match extra.split_once('+') {
        Some((before, metadata)) => (before, Some(metadata)),
        None => (extra, None),
    };
    let pre_release = match before {
        "" => "",
        before => before.strip_prefix('-').filter(|text| is_list(text))?,
    };
    metadata.is_none_or(is_list).then_some(pre_release)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_version_has_the_numbers_of_the_own_one() {
        for version in ["v1.33.7", "v1.33.7-custom", "v1.33.7-a.b+c.d", "v1.33.7+build", "v1.33.7 "] {
            assert_eq!(check_reported(version), Ok(()), "{version}");
        }
        for (version, error) in [
            ("v1.34.0", r#"version "v1.34.0" must match major/minor/patch of default version "v1.33.7""#),
            ("v1.33", r#"illegal version string "v1.33""#),
            ("vx", r#"could not parse "vx" as version"#),
            ("v1.33.7junk", r#"could not parse pre-release/metadata (junk) in version "v1.33.7junk""#),
            ("v1.33.7-01", r#"illegal zero-prefixed version component "01" in "v1.33.7-01""#),
            ("v1.033.7", r#"illegal zero-prefixed version component "033" in "v1.033.7""#),
            ("v1.33.7-a..b", r#"could not parse pre-release/metadata (-a..b) in version "v1.33.7-a..b""#),
        ] {
            assert_eq!(check_reported(version), Err(error.to_owned()), "{version}");
        }
    }

    #[test]
    fn only_the_own_version_is_emulated() {
        let check = |values: &str| check_emulated(&values.split(',').map(str::to_owned).collect::<Vec<_>>());
        for values in ["1.33", "kube=1.33", "v1.33.0"] {
            assert_eq!(check(values), Ok(()), "{values}");
        }
        for (values, error) in [
            ("1.34", "emulation version 1.34 is not between [1.31, 1.33.0]"),
            (
                "1.29",
                "[emulation version 1.29 is not between [1.31, 1.33.0], minCompatibilityVersion version 1.31 is not \
                 between [1.31, 1.29]]",
            ),
            ("1.32", "Keelson serves 1.33 only: version 1.32 cannot be emulated"),
            ("foo=1.33", "component not registered: foo"),
            ("1.33.1", "patch version not allowed, got: kube=1.33.1"),
            ("kube=1.33,kube=1.32", "duplicate version flag, kube=1.33 and kube=1.32"),
            ("x", r#"could not parse "x" as version"#),
        ] {
            assert_eq!(check(values), Err(error.to_owned()), "{values}");
        }
    }
}
