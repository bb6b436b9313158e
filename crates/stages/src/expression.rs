//! CEL in stages: an expression over the object, which is `self`.

use cel::value::Value as Cel;
use cel::{Budget, Env, Type};
use expressions::Compiled;
use object::Value;
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The most that an expression may cost for one object.
const MOST: u64 = 1_000_000;

static ENV: LazyLock<Env> =
    LazyLock::new(|| expressions::stage::base().stored.extend().variable("self", Type::Any).build());

/// An expression that was compiled. Those with the same text are equal.
#[derive(Clone)]
pub(crate) struct Expression(Arc<Inner>);

struct Inner {
    text: String,
    compiled: Compiled,
}

impl Expression {
    /// Compiles an expression.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let compiled = Compiled::new(&ENV, text, &[Type::Any], |_| String::new());
        let compiled = compiled.map_err(|fault| fault.detail().to_owned())?;
        Ok(Self(Arc::new(Inner { text: text.to_owned(), compiled })))
    }

    /// The value for an object; `None` if there is none.
    fn evaluate<'a>(&'a self, object: &'a Value) -> Option<Cel<'a>> {
        let mut budget = Budget { limit: MOST, spent: 0, interrupted: None };
        self.0.compiled.evaluate(&[Cel::plain(object)], &mut budget).ok()
    }

    /// Whether the expression holds. One that fails, or is no condition, does not.
    pub(crate) fn holds(&self, object: &Value) -> bool {
        matches!(self.evaluate(object), Some(Cel::Bool(true)))
    }

    /// The whole number that the expression gives.
    pub(crate) fn number(&self, object: &Value) -> Option<u64> {
        match self.evaluate(object)? {
            Cel::Int(number) => u64::try_from(number).ok(),
            Cel::Uint(number) => Some(number),
            Cel::String(text) => text.as_str().parse().ok(),
            _ => None,
        }
    }

    /// The length of time that the expression gives; none counts if it has passed.
    pub(crate) fn duration(&self, object: &Value) -> Option<Duration> {
        match self.evaluate(object)? {
            Cel::Duration(nanos) => Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or_default())),
            Cel::String(text) => object::duration::not_negative(text.as_str()).ok(),
            _ => None,
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expression").field(&self.0.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::testing::value;

    #[test]
    fn expressions_see_the_object() {
        let pod = value(r#"{status: {phase: Running, n: 3}, metadata: {annotations: {delay: 5s}}}"#);
        let of = |text: &str| Expression::parse(text).unwrap();
        assert!(of("self.status.phase == 'Running' && self.status.n > 2").holds(&pod));
        assert!(!of("self.status.none == 'Running'").holds(&pod));
        assert!(!of("self.status.n").holds(&pod));
        assert_eq!(of("self.status.n").number(&pod), Some(3));
        assert_eq!(of("self.status.phase").number(&pod), None);
        assert_eq!(
            of("duration(self.metadata.annotations['delay'])").duration(&pod),
            Some(Duration::from_secs(5))
        );
        assert_eq!(of("self.metadata.annotations['delay']").duration(&pod), Some(Duration::from_secs(5)));
        assert!(Expression::parse("self.").unwrap_err().contains("Syntax error"));
        assert!(Expression::parse("other.x").unwrap_err().contains("undeclared reference"));
    }
}
