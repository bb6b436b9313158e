//! Query parameters, read as the reference reads them: `+` is a space, a pair with a `;` or a broken escape
//! is left out.

use std::borrow::Cow;

/// The parameters of a URI's query.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    raw: &'a str,
}

/// One parameter, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The text before the first `=`.
    pub name: Cow<'a, str>,
    /// The text after it; empty if there is none.
    pub value: Cow<'a, str>,
    /// Whether the parameter has no `=`.
    pub is_bare: bool,
}

impl<'a> Query<'a> {
    /// The parameters in `raw`, the text after the `?`.
    pub fn new(raw: &'a str) -> Self {
        Self { raw }
    }

    /// Every parameter in order.
    pub fn pairs(self) -> impl Iterator<Item = Pair<'a>> {
        self.raw.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')).filter_map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let is_bare = name.len() == pair.len();
            Some(Pair { name: decode(name)?, value: decode(value)?, is_bare })
        })
    }

    /// Every value of the parameter `name`, in order.
    pub fn values(self, name: &str) -> impl Iterator<Item = Cow<'a, str>> {
        self.pairs().filter(move |pair| pair.name == name).map(|pair| pair.value)
    }

    /// Whether the query has the parameter `name`, with or without a value.
    pub fn has(self, name: &str) -> bool {
        self.pairs().any(|pair| pair.name == name)
    }
}

/// Decodes `raw`; `None` if an escape is invalid or the result is not UTF-8.
fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.bytes().any(|b| matches!(b, b'%' | b'+')) {
        return Some(Cow::Borrowed(raw));
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

/// The value of a hexadecimal digit.
pub(crate) fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(raw: &str) -> Vec<(String, String)> {
        Query::new(raw).pairs().map(|p| (p.name.into_owned(), p.value.into_owned())).collect()
    }

    #[test]
    fn parameter_without_a_value_is_present() {
        assert!(Query::new("verbose&exclude=x").has("verbose"));
        assert!(Query::new("verbose=").has("verbose"));
        assert!(!Query::new("verboseness").has("verbose"));
    }

    #[test]
    fn values_are_decoded_in_order() {
        assert_eq!(
            pairs("a=1%2C2&a=x+y&b=%F0%9F%90%A2&=z"),
            [("a", "1,2"), ("a", "x y"), ("b", "🐢"), ("", "z")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn invalid_pairs_are_skipped() {
        assert_eq!(pairs("a=%4&b=%zz&c=1;d=2&e=%ff&%&f=1&&"), [("f".to_owned(), "1".to_owned())]);
    }
}
