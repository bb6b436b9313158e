//! The match conditions of a webhook: expressions over the request, all of which have to hold for it to be
//! asked.
//!
//! Expressions cannot be evaluated yet, which counts as an error of each of them: it refuses the request if
//! the webhook's failure policy is `Fail`, and skips the webhook if it is `Ignore`.

use super::configuration::FailurePolicy;
use schema::view::Items;
use schema::views::admissionregistration::v1::MatchCondition;

/// The conditions of a webhook.
#[derive(Debug)]
pub(crate) struct Conditions {
    count: usize,
}

impl Conditions {
    pub(crate) fn new(conditions: Items<'_, MatchCondition<'_>>) -> Self {
        Self { count: conditions.len() }
    }

    /// Whether a request meets all conditions, or why it is refused.
    pub(crate) fn hold(&self, policy: FailurePolicy) -> Result<bool, String> {
        match (self.count, policy) {
            (0, _) => Ok(true),
            (_, FailurePolicy::Ignore) => Ok(false),
            (_, FailurePolicy::Fail) => {
                Err("match conditions cannot be evaluated: expressions are not supported yet".to_owned())
            }
        }
    }
}
