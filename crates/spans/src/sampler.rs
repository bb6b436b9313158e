//! Which requests are recorded, and what of a client's trace is believed.

use observe::{SpanContext, Trace};

/// What a request says of the trace that it belongs to.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    /// The header `traceparent`, if it is valid.
    pub parent: Option<SpanContext>,
    /// The header `tracestate`, with a parent.
    pub state: Option<Box<str>>,
    /// The header `baggage`.
    pub baggage: Option<Box<str>>,
}

/// Whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A user of the groups `system:masters` or `system:monitoring`, who decides whether a request is
    /// recorded.
    Trusted,
    /// Any other user: the trace of its client is linked, and its decision does not count.
    Public,
}

/// Decides which requests are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sampler {
    /// Tracing is off: what a client says is handed on.
    #[default]
    Off,
    /// So many of a million requests without a parent, and those whose trusted parent is recorded.
    PerMillion(u32),
}

impl Sampler {
    /// The trace of a request.
    pub fn trace(self, incoming: Incoming, caller: Caller) -> Trace {
        let Incoming { parent, state, baggage } = incoming;
        let Self::PerMillion(rate) = self else {
            return Trace { context: parent, state, baggage, ..Trace::default() };
        };
        let span = random();
        match (parent, caller) {
            (Some(parent), Caller::Trusted) => {
                let context = SpanContext { span, ..parent };
                Trace { context: Some(context), parent: Some(parent), link: None, state, baggage }
            }
            (link, _) => {
                let trace: [u8; 16] = random();
                let context = SpanContext { trace, span, is_sampled: is_chosen(&trace, rate) };
                Trace { context: Some(context), parent: None, link, state: None, baggage }
            }
        }
    }
}

/// Whether a trace is among so many of a million. Every server with this rate decides the same.
fn is_chosen(trace: &[u8; 16], rate: u32) -> bool {
    let [_, _, _, _, _, _, _, _, low @ ..] = *trace;
    let bound = u64::try_from((u128::from(rate) << 63) / 1_000_000).unwrap_or(u64::MAX);
    u64::from_be_bytes(low) >> 1 < bound
}

/// Random bytes that are not all zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() || bytes == [0; N] {
        bytes = [1; N];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(is_sampled: bool) -> Incoming {
        let parent = SpanContext { trace: [7; 16], span: [8; 8], is_sampled };
        Incoming { parent: Some(parent), state: Some("a=1".into()), baggage: Some("b=2".into()) }
    }

    #[test]
    fn a_trusted_parent_decides() {
        for (rate, is_sampled) in [(0, true), (1_000_000, false)] {
            let trace = Sampler::PerMillion(rate).trace(parent(is_sampled), Caller::Trusted);
            let context = trace.context.unwrap();
            assert_eq!((context.trace, context.is_sampled), ([7; 16], is_sampled));
            assert_ne!(context.span, [8; 8]);
            assert_eq!(trace.parent.unwrap().span, [8; 8]);
            assert_eq!(trace.state.as_deref(), Some("a=1"));
        }
    }

    #[test]
    fn the_parent_of_any_other_user_is_linked_and_does_not_decide() {
        let trace = Sampler::PerMillion(0).trace(parent(true), Caller::Public);
        assert!(!trace.is_recorded());
        let trace = Sampler::PerMillion(1_000_000).trace(parent(false), Caller::Public);
        assert!(trace.is_recorded());
        assert_ne!(trace.context.unwrap().trace, [7; 16]);
        assert_eq!((trace.parent, trace.link.unwrap().span), (None, [8; 8]));
    }

    #[test]
    fn without_tracing_a_trace_is_handed_on() {
        let trace = Sampler::Off.trace(parent(true), Caller::Public);
        assert_eq!(trace.context.unwrap().span, [8; 8]);
        assert_eq!(trace.baggage.as_deref(), Some("b=2"));
        assert_eq!(Sampler::Off.trace(Incoming::default(), Caller::Trusted), Trace::default());
    }

    #[test]
    fn about_as_many_are_chosen_as_the_rate_says() {
        let chosen = |rate| (0..20_000).filter(|_| is_chosen(&random(), rate)).count();
        assert_eq!((chosen(0), chosen(1_000_000)), (0, 20_000));
        assert!((9_000..11_000).contains(&chosen(500_000)));
    }
}
