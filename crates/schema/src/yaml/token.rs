//! The tokens that the scanner produces and the parser reads.

/// The type of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenType {
    StreamStart,
    StreamEnd,
    /// `%YAML`, with the version.
    Version(u8, u8),
    /// `%TAG`: handle in [`Token::text`], prefix in [`Token::suffix`].
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    /// Handle in [`Token::text`], the rest in [`Token::suffix`].
    Tag,
    /// A scalar without quotes.
    Plain,
    /// A scalar in any other style.
    Styled,
}

/// A token, where it begins and ends.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) kind: TokenType,
    /// The line that it begins on, from zero.
    pub(super) start: usize,
    /// The line that it ends on, from zero.
    pub(super) end: usize,
    pub(super) text: String,
    pub(super) suffix: String,
}

impl Token {
    pub(super) fn new(kind: TokenType, start: usize, end: usize) -> Self {
        Self { kind, start, end, text: String::new(), suffix: String::new() }
    }

    pub(super) fn with_text(mut self, text: Vec<u8>) -> Self {
        self.text = into_text(text);
        self
    }

    pub(super) fn with_suffix(mut self, suffix: Vec<u8>) -> Self {
        self.suffix = into_text(suffix);
        self
    }
}

/// The reader gives only whole characters, but the escapes in a tag can produce any bytes.
fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
