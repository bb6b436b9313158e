//! Version numbers on the command line, and `--version=v1.33.7-custom`. What is accepted and what the errors
//! say is as in the reference.

use object::quote::quote;

use super::API;

/// How strictly a version is read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Grammar {
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

pub(super) fn shown(version: &[u64]) -> String {
    version.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// The numbers of a version.
pub(super) fn numbers(text: &str, grammar: Grammar) -> Result<Vec<u64>, String> {
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
}
