//! The evaluation of the expressions of configuration files.

use crate::User;
use cel::value::{Entries, List, Map, Str, Value};
use cel::{Budget, Failure, Halt, Outcome};
use expressions::configuration::Expression;
use std::sync::Arc;
use tasks::off_worker;

/// The most that one evaluation may cost.
const PER_CALL: u64 = cel::kubernetes::COST_OF_A_CALL;
/// What the expressions for a request may cost before they are evaluated in a section that may block: some
/// milliseconds.
const INLINE: u64 = 50_000;

/// The evaluations for one request.
pub(crate) struct Evaluations {
    /// What is left of [`INLINE`].
    inline: u64,
}

impl Default for Evaluations {
    fn default() -> Self {
        Self { inline: INLINE }
    }
}

impl Evaluations {
    /// The value of an expression for the value of its variable.
    pub(crate) fn evaluate<'a>(&mut self, expression: &'a Expression, variable: Value<'a>) -> Outcome<'a> {
        let evaluate = |limit, variable| {
            let mut budget = Budget { limit, spent: 0, interrupted: None };
            let outcome = expression.evaluate(variable, &mut budget);
            (budget.spent, outcome)
        };
        let (spent, outcome) = evaluate(self.inline, variable.clone());
        self.inline = self.inline.saturating_sub(spent);
        match outcome {
            Err(Failure::Halt(Halt::CostLimit)) => {
                self.inline = 0;
                off_worker(|| evaluate(PER_CALL, variable).1)
            }
            outcome => outcome,
        }
    }
}

/// A user as a `kubernetes.UserInfo`, in which every field is there.
pub(crate) fn user(user: &User) -> Value<'_> {
    map([
        ("username", user.name.as_str().into()),
        ("uid", user.uid.as_str().into()),
        ("groups", texts(user.groups.iter().map(String::as_str))),
        ("extra", extra(user)),
    ])
}

/// The further attributes of a user.
pub(crate) fn extra(user: &User) -> Value<'_> {
    let extra = user.extra.iter();
    map(extra.map(|(key, values)| (key.as_str(), texts(values.iter().map(String::as_str)))))
}

/// A list of texts.
pub(crate) fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Value<'a> {
    Value::List(List::Texts(Arc::new(texts.into_iter().map(Str::Borrowed).collect())))
}

/// A map with these entries.
pub(crate) fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Value<'a> {
    let entries = entries.into_iter().map(|(key, value)| (Value::from(key), value));
    Value::Map(Map::of(entries.collect::<Entries<'a>>()))
}
