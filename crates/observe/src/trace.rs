//! The place of a request in a distributed trace: W3C Trace Context and Baggage.

use std::fmt;

/// A field of a span.
pub type Field = (&'static str, FieldValue);

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A text.
    Text(Box<str>),
    /// A number.
    Number(u64),
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for FieldValue {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for FieldValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// A span of a trace, as others refer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The id of the trace; not zero.
    pub trace: [u8; 16],
    /// The id of the span; not zero.
    pub span: [u8; 8],
    /// Whether the span is recorded.
    pub is_sampled: bool,
}

impl SpanContext {
    /// Parses the header `traceparent`. `None` if it is not valid, as for the reference.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes(version)?;
        let [flags] = bytes(flags)?;
        // Later versions may have more parts, and flags that are not known.
        if version == 0xff || version == 0 && (parts.next().is_some() || flags > 2) {
            return None;
        }
        let context = Self { trace: bytes(trace)?, span: bytes(span)?, is_sampled: flags & 1 == 1 };
        (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
    }
}

/// The header `traceparent`.
impl fmt::Display for SpanContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        write!(
            f,
            "00-{:032x}-{:016x}-{flags:02x}",
            u128::from_be_bytes(self.trace),
            u64::from_be_bytes(self.span)
        )
    }
}

/// The bytes that lower-case hexadecimal digits write.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut all = [0; N];
    for (byte, pair) in all.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(all)
}

/// What a request says, and what is decided, about its trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The span of the request, if it is recorded; else the span of the client, which is handed on.
    pub context: Option<SpanContext>,
    /// The span of the client that the span of the request is a part of.
    pub parent: Option<SpanContext>,
    /// The span of a client that is not trusted to be the parent.
    pub link: Option<SpanContext>,
    /// The header `tracestate` of the client.
    pub state: Option<Box<str>>,
    /// The header `baggage` of the client.
    pub baggage: Option<Box<str>>,
}

impl Trace {
    /// Whether spans of the request are recorded.
    pub fn is_recorded(&self) -> bool {
        self.context.is_some_and(|context| context.is_sampled)
    }

    /// The span of a number within the request, when the request is recorded.
    ///
    /// The ids of spans are made from that of the request, so that nothing is kept for a span that begins.
    pub fn span(&self, number: u16) -> Option<SpanContext> {
        let context = self.context.filter(|context| context.is_sampled)?;
        let own = u64::from_be_bytes(context.span);
        let id = own ^ (u64::from(number) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Some(SpanContext { span: if id == 0 { own } else { id }.to_be_bytes(), ..context })
    }

    /// The headers by which a request to another server says that it is made within a span.
    pub fn headers(&self, span: Option<u16>) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if let Some(context) = span.and_then(|number| self.span(number)).or(self.context) {
            headers.push(("traceparent", context.to_string()));
            headers.extend(self.state.as_deref().map(|state| ("tracestate", state.to_owned())));
        }
        headers.extend(self.baggage.as_deref().map(|baggage| ("baggage", baggage.to_owned())));
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn parent_is_read_and_written() {
        let context = SpanContext::parse(PARENT).unwrap();
        assert!(context.is_sampled);
        assert_eq!(context.to_string(), PARENT);
        let unsampled = SpanContext { is_sampled: false, ..context };
        assert!(unsampled.to_string().ends_with("-00"));
    }

    #[test]
    fn malformed_parents_are_no_parents() {
        for header in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff",
        ] {
            assert_eq!(SpanContext::parse(header), None, "{header}");
        }
        assert!(SpanContext::parse("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x").is_some());
    }

    #[test]
    fn what_is_not_recorded_is_handed_on_as_it_came() {
        let context = SpanContext { is_sampled: false, ..SpanContext::parse(PARENT).unwrap() };
        let trace = Trace {
            context: Some(context),
            state: Some("a=1".into()),
            baggage: Some("k=v".into()),
            ..Trace::default()
        };
        let expected =
            [("traceparent", context.to_string()), ("tracestate", "a=1".into()), ("baggage", "k=v".into())];
        assert_eq!(trace.headers(Some(3)), expected);
        assert_eq!(Trace::default().headers(None), []);
    }

    #[test]
    fn spans_of_a_request_have_ids_of_their_own() {
        let trace = Trace { context: SpanContext::parse(PARENT), ..Trace::default() };
        let ids: std::collections::HashSet<_> =
            (0..100).map(|number| trace.span(number).unwrap().span).collect();
        assert_eq!(ids.len(), 100);
        assert!(!ids.contains(&trace.context.unwrap().span));
    }
}
