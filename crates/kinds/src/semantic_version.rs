//! Semantic versions: `1.33.0-beta.1+build`.

/// Whether the text is a version.
pub(crate) fn is_valid(text: &str) -> bool {
    Semantic::parse(text).is_some()
}

/// A semantic version: three numbers, then the identifiers of a pre-release. Metadata of the build does not
/// count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Semantic {
    numbers: [u64; 3],
    pre_release: Vec<Identifier>,
}

/// Numbers are below texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Number(u64),
    Text(String),
}

impl Semantic {
    /// Reads a version.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
        let (text, pre) = text.split_once('-').map_or((text, None), |(text, pre)| (text, Some(pre)));
        if build.is_some_and(|build| !build.split('.').all(is_identifier)) {
            return None;
        }
        let mut parts = text.split('.');
        let mut next = || parts.next().and_then(number);
        let numbers = [next()?, next()?, next()?];
        let pre_release =
            pre.map(|pre| pre.split('.').map(identifier).collect()).unwrap_or(Some(Vec::new()))?;
        parts.next().is_none().then_some(Self { numbers, pre_release })
    }
}

impl PartialOrd for Semantic {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        let released = |version: &Self| version.pre_release.is_empty();
        Some(
            self.numbers
                .cmp(&other.numbers)
                .then(released(self).cmp(&released(other)))
                .then_with(|| self.pre_release.cmp(&other.pre_release)),
        )
    }
}

/// A number without leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn identifier(text: &str) -> Option<Identifier> {
    if !is_identifier(text) {
        return None;
    }
    match text.bytes().all(|byte| byte.is_ascii_digit()) {
        true => number(text).map(Identifier::Number),
        false => Some(Identifier::Text(text.to_owned())),
    }
}
