//! The evaluation of a batch of expressions within a budget.

use super::Expression;
use super::scope::slot;
use super::variables::{Evaluated, Variables};
use cel::value::Value;
use cel::{Budget, Failure, Halt};

/// The most that one evaluation may cost.
const PER_CALL: u64 = cel::kubernetes::COST_OF_A_CALL;

/// What expressions see.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The object after the change; null if it is deleted.
    pub object: Value<'a>,
    /// The object before the change; null if it is new.
    pub old_object: Value<'a>,
    /// The namespace of the object; null if it has none.
    pub namespace: Value<'a>,
    /// The request.
    pub request: Value<'a>,
    /// The parameters; null if there are none.
    pub params: Value<'a>,
    /// `authorizer` and `authorizer.requestResource`, for expressions that have them.
    pub authorizer: Option<[Value<'a>; 2]>,
}

/// Expressions that share a budget and the values of variables.
pub struct Batch<'a> {
    /// The expressions; `None` takes the place of one that is not there.
    pub expressions: &'a [Option<Expression>],
    /// The variables that they name.
    pub variables: &'a Variables,
    /// What they see.
    pub seen: &'a Seen<'a>,
}

/// What the evaluation of a batch may cost.
pub struct Limits<'a> {
    /// What is left of the budget.
    pub left: u64,
    /// Where the evaluation stops, to go on in a section that may take long.
    pub inline: u64,
    /// Asked now and then whether to end.
    pub interrupted: Option<&'a (dyn Fn() -> bool + Sync)>,
}

/// Why the evaluation of a batch ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The budget is spent.
    OutOfBudget,
    /// It would cost more than can be spent inline.
    Long,
    /// An authorization check has no answer yet.
    Waiting,
}

/// The text for a spent budget.
pub const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl<'a> Batch<'a> {
    /// Evaluates the expressions in their order. `each` makes something of a value, or of the text that says
    /// why there is none. `limits.left` is what is left afterwards.
    pub fn evaluate<T>(
        &self,
        limits: &mut Limits<'_>,
        mut each: impl FnMut(Result<Value<'_>, String>) -> T,
    ) -> Result<Vec<Option<T>>, Stopped> {
        let variables = Evaluated::new(self.variables, limits.interrupted);
        let slots = self.slots(&variables);
        let slots = slots.get(..self.slot_count()).unwrap_or_default();
        variables.see(slots);
        let mut results = Vec::with_capacity(self.expressions.len());
        let mut spent: u64 = 0;
        for expression in self.expressions {
            let Some(expression) = expression else {
                results.push(None);
                continue;
            };
            let compiled = match &expression.compiled {
                Ok(compiled) => compiled,
                Err(fault) => {
                    results.push(Some(each(Err(format!("compilation error: {fault}")))));
                    continue;
                }
            };
            let limit = PER_CALL.min(limits.inline.saturating_sub(spent));
            let interrupted = limits.interrupted.map(|interrupted| interrupted as &dyn Fn() -> bool);
            let mut budget = Budget { limit, spent: 0, interrupted };
            let outcome = compiled.evaluate(slots, &mut budget);
            let of_variables = variables.take_spent();
            spent = spent.saturating_add(of_variables).saturating_add(budget.spent);
            match &outcome {
                Err(Failure::Halt(Halt::Waiting)) => return Err(Stopped::Waiting),
                Err(Failure::Halt(Halt::CostLimit)) if limit < PER_CALL => return Err(Stopped::Long),
                _ if spent > limits.inline => return Err(Stopped::Long),
                _ => {}
            }
            for cost in [of_variables, budget.spent] {
                limits.left = limits.left.checked_sub(cost).ok_or(Stopped::OutOfBudget)?;
            }
            let text = |why: Failure| format!("expression '{}' resulted in error: {why}", expression.text);
            results.push(Some(each(outcome.map_err(text))));
        }
        Ok(results)
    }

    fn slot_count(&self) -> usize {
        if self.seen.authorizer.is_some() { slot::COUNT } else { slot::WITHOUT_AUTHORIZER }
    }

    fn slots<'v>(&self, variables: &'v Evaluated<'v>) -> [Value<'v>; slot::COUNT]
    where
        'a: 'v,
    {
        let Seen { object, old_object, namespace, request, params, authorizer } = self.seen;
        let [authorizer, resource] = authorizer.clone().unwrap_or([Value::Null, Value::Null]);
        let slots = [
            object.clone(),
            old_object.clone(),
            namespace.clone(),
            request.clone(),
            params.clone(),
            variables.value(),
            authorizer,
            resource,
        ];
        debug_assert!(matches!(slots.get(slot::VARIABLES), Some(Value::Fields(_))));
        slots
    }
}
