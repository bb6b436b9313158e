//! Match conditions of webhooks and policies: expressions over the request, all of which have to hold for it
//! to be matched.

use crate::Attributes;
use crate::evaluation::{Checks, Input, OutOfBudget, evaluate};
use cel::Value as CelValue;
use cel::kubernetes::COST_OF_MATCH_CONDITIONS;
use expressions::admission::evaluation::OUT_OF_BUDGET;
use expressions::admission::{Batch, Expression, Purpose, Scope, Variables};
use object::Value;
use schema::view::Items;
use schema::views::admissionregistration::v1::MatchCondition;
use std::sync::Arc;

/// What becomes of a request if something about a webhook or policy fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    pub(crate) fn of(name: Option<&str>) -> Self {
        if name == Some("Ignore") { Self::Ignore } else { Self::Fail }
    }
}

/// Match conditions, compiled.
#[derive(Debug)]
pub(crate) struct Conditions {
    expressions: Box<[Option<Expression>]>,
}

impl Conditions {
    /// Compiles conditions.
    pub(crate) fn compile<'t>(texts: impl IntoIterator<Item = &'t str>, scope: &Scope) -> Self {
        let compiled = texts.into_iter().map(|text| Some(scope.compile_stored(text, Purpose::Condition)));
        Self { expressions: compiled.collect() }
    }

    /// The texts of conditions.
    pub(crate) fn texts(conditions: Items<'_, MatchCondition<'_>>) -> Box<[Box<str>]> {
        conditions.iter().map(|condition| condition.expression().into()).collect()
    }

    /// Whether all conditions hold. If that cannot be found out, the failure policy decides: they count as
    /// not met, or the error says why.
    pub(crate) async fn hold(
        &self,
        attributes: &Attributes<'_>,
        input: &Input,
        params: &Value,
        variables: &Variables,
        checks: &Arc<Checks>,
        policy: FailurePolicy,
    ) -> Result<bool, String> {
        if self.expressions.is_empty() {
            return Ok(true);
        }
        let seen = input.seen_by_conditions(params, Some(checks.values(attributes)));
        let batch = Batch { expressions: &self.expressions, variables, seen: &seen };
        let mut left = COST_OF_MATCH_CONDITIONS;
        let deadline = attributes.request.deadline();
        let results = evaluate(&batch, checks, &mut left, deadline, |outcome| {
            outcome.map(|value| matches!(value, CelValue::Bool(true)))
        });
        let mut errors = Vec::new();
        match results.await {
            Err(OutOfBudget) => errors.push(OUT_OF_BUDGET.to_owned()),
            Ok(results) => {
                for result in results.into_iter().flatten() {
                    match result {
                        Ok(true) => {}
                        Ok(false) => return Ok(false),
                        Err(why) => errors.push(why),
                    }
                }
            }
        }
        match (auth::aggregate(&errors), policy) {
            (None, _) => Ok(true),
            (Some(_), FailurePolicy::Ignore) => Ok(false),
            (Some(why), FailurePolicy::Fail) => Err(why),
        }
    }
}
