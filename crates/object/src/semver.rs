//! Semantic versions: `1.33.0-beta.1+build`, with the error texts that clients of the reference see.

use crate::quote::Quoted;
use std::cmp::Ordering;
use std::fmt;

/// A semantic version. Metadata of the build does not count when versions are compared.
///
/// ```
/// use object::semver::Version;
/// assert!(Version::parse("1.2.0-beta.2").unwrap() < Version::parse("1.2.0").unwrap());
/// let error = Version::parse("1.02.0").unwrap_err();
/// assert_eq!(error.to_string(), r#"Minor number must not contain leading zeroes "02""#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Version {
    /// The number of incompatible changes.
    pub major: u64,
    /// The number of compatible changes.
    pub minor: u64,
    /// The number of corrections.
    pub patch: u64,
    pre_release: Vec<Identifier>,
    build: Vec<Box<str>>,
}

/// Why a text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Numbers are below texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(Box<str>),
}

impl Version {
    /// Reads a version.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error("Version string empty".to_owned()));
        }
        let mut parts = text.splitn(3, '.');
        let (Some(major), Some(minor), Some(rest)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(Error("No Major.Minor.Patch elements found".to_owned()));
        };
        let (major, minor) = (number(major, "Major")?, number(minor, "Minor")?);
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let patch = number(patch, "Patch")?;
        let pre_release = pre.into_iter().flat_map(|pre| pre.split('.')).map(identifier);
        let pre_release = pre_release.collect::<Result<_, _>>()?;
        let build = build.into_iter().flat_map(|build| build.split('.')).map(metadata);
        Ok(Self { major, minor, patch, pre_release, build: build.collect::<Result<_, _>>()? })
    }

    /// Reads a version that may have a `v` before it, fewer than three numbers, and zeros before numbers.
    ///
    /// ```
    /// use object::semver::Version;
    /// assert_eq!(Version::parse_normalized("v01.2").unwrap().to_string(), "1.2.0");
    /// ```
    pub fn parse_normalized(text: &str) -> Result<Self, Error> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err(Error("short version cannot contain PreRelease/Build meta data".to_owned()));
        }
        parts.resize(3, "0".to_owned());
        Self::parse(&parts.join("."))
    }
}

/// A number without the zeros before it, whatever follows it.
fn without_zeros(part: &str) -> String {
    if part.len() < 2 {
        return part.to_owned();
    }
    let bare = part.trim_start_matches('0');
    let zero = if bare.starts_with(|first: char| first.is_ascii_digit()) { "" } else { "0" };
    format!("{zero}{bare}")
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_identifier(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn number(text: &str, which: &str) -> Result<u64, Error> {
    let shown = Quoted(text);
    if !is_digits(text) {
        let which = which.to_ascii_lowercase();
        return Err(Error(format!("Invalid character(s) found in {which} number {shown}")));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(Error(format!("{which} number must not contain leading zeroes {shown}")));
    }
    unsigned(text)
}

fn unsigned(text: &str) -> Result<u64, Error> {
    text.parse().map_err(|_| {
        let why = if text.is_empty() { "invalid syntax" } else { "value out of range" };
        Error(format!("strconv.ParseUint: parsing {}: {why}", Quoted(text)))
    })
}

fn identifier(text: &str) -> Result<Identifier, Error> {
    let shown = Quoted(text);
    if text.is_empty() {
        return Err(Error("Prerelease is empty".to_owned()));
    }
    if !is_digits(text) {
        if !is_identifier(text) {
            return Err(Error(format!("Invalid character(s) found in prerelease {shown}")));
        }
        return Ok(Identifier::Text(text.into()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(Error(format!("Numeric PreRelease version must not contain leading zeroes {shown}")));
    }
    unsigned(text).map(Identifier::Number)
}

fn metadata(text: &str) -> Result<Box<str>, Error> {
    if text.is_empty() {
        return Err(Error("Build meta data is empty".to_owned()));
    }
    if !is_identifier(text) {
        let shown = Quoted(text);
        return Err(Error(format!("Invalid character(s) found in build meta data {shown}")));
    }
    Ok(text.into())
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        for (at, identifier) in self.pre_release.iter().enumerate() {
            f.write_str(if at == 0 { "-" } else { "." })?;
            match identifier {
                Identifier::Number(number) => write!(f, "{number}")?,
                Identifier::Text(text) => f.write_str(text)?,
            }
        }
        for (at, text) in self.build.iter().enumerate() {
            write!(f, "{}{text}", if at == 0 { "+" } else { "." })?;
        }
        Ok(())
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| [version.major, version.minor, version.patch];
        let is_release = |version: &Self| version.pre_release.is_empty();
        numbers(self)
            .cmp(&numbers(other))
            .then(is_release(self).cmp(&is_release(other)))
            .then_with(|| self.pre_release.cmp(&other.pre_release))
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}
