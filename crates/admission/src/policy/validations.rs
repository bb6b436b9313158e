//! The expressions of a validating policy, and what they say about a write.

use super::definition::{Common, Evaluator};
use crate::Attributes;
use crate::conditions::{Conditions, FailurePolicy};
use crate::evaluation::{Checks, Input, OutOfBudget, evaluate};
use crate::families;
use cel::Value as CelValue;
use cel::kubernetes::{COST_OF_A_CALL, COST_OF_AN_OBJECT, MOST_MESSAGE_BYTES};
use expressions::admission::evaluation::OUT_OF_BUDGET;
use expressions::admission::{Batch, Expression, Purpose, Variables};
use object::{Map, Value};
use schema::view::View as _;
use schema::views::admissionregistration::v1::ValidatingAdmissionPolicySpec;
use std::sync::Arc;
use std::time::Instant;

/// The expressions of a policy.
pub(super) struct Validations {
    conditions: Conditions,
    variables: Variables,
    validations: Box<[Option<Expression>]>,
    messages: Box<[Option<Expression>]>,
    details: Box<[Detail]>,
    annotations: Box<[Option<Expression>]>,
    keys: Box<[Box<str>]>,
}

/// What a validation says when it does not hold.
struct Detail {
    message: Box<str>,
    reason: Option<Box<str>>,
}

/// What a policy says about a write, with one object of parameters.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The validations that do not hold.
    pub(super) failures: Vec<Failure>,
    /// Texts for the audit log.
    pub(super) annotations: Vec<Annotation>,
}

/// A validation that does not hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The place of the validation.
    pub(super) place: usize,
    pub(super) message: String,
    pub(super) reason: Option<Box<str>>,
}

/// A text for the audit log, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Annotation {
    pub(super) key: Box<str>,
    pub(super) value: Result<String, String>,
}

impl Evaluator for Validations {
    fn compile(spec: &Map) -> Self {
        let Common { scope, variables, conditions } = Common::compile(spec);
        let spec = ValidatingAdmissionPolicySpec::of(spec);
        let validations = || spec.validations().iter();
        let compile = |text: &str, purpose| Some(scope.compile_stored(text, purpose));
        let message = |text: Option<&str>| {
            text.filter(|text| !text.is_empty()).and_then(|text| compile(text, Purpose::Message))
        };
        let annotations = || spec.audit_annotations().iter();
        Self {
            conditions,
            variables,
            validations: validations().map(|of| compile(of.expression(), Purpose::Condition)).collect(),
            messages: validations().map(|of| message(Some(of.message_expression()))).collect(),
            details: validations()
                .map(|of| Detail { message: of.message().trim().into(), reason: of.reason().map(Box::from) })
                .collect(),
            annotations: annotations()
                .map(|of| compile(of.value_expression(), Purpose::Annotation))
                .collect(),
            keys: annotations().map(|of| of.key().into()).collect(),
        }
    }
}

/// What a policy is evaluated with.
pub(super) struct Evaluation<'a> {
    /// The name of the policy.
    pub(super) name: &'a str,
    pub(super) attributes: &'a Attributes<'a>,
    pub(super) input: &'a Input,
    pub(super) params: &'a Value,
    pub(super) checks: &'a Arc<Checks>,
    pub(super) policy: FailurePolicy,
}

impl Validations {
    /// Evaluates all expressions.
    pub(super) async fn validate(&self, with: &Evaluation<'_>) -> Findings {
        match self.findings(with).await {
            Ok(findings) => findings,
            Err(_) if with.policy == FailurePolicy::Ignore => Findings::default(),
            Err(message) => Findings {
                failures: vec![Failure { place: 0, message, reason: None }],
                annotations: Vec::new(),
            },
        }
    }

    /// What the expressions say, or why none of that counts.
    async fn findings(&self, with: &Evaluation<'_>) -> Result<Findings, String> {
        let Evaluation { name, attributes, input, params, checks, policy } = *with;
        let conditions = &self.conditions;
        let begin = Instant::now();
        let held = conditions.hold(attributes, input, params, &self.variables, checks, policy).await;
        families::policy_conditions(name, attributes.operation, &held, begin.elapsed());
        if !held? {
            return Ok(Findings::default());
        }
        let failures = self.failures(with).await.map_err(|OutOfBudget| OUT_OF_BUDGET.to_owned())?;
        let annotations = self.annotations(with).await.map_err(|OutOfBudget| OUT_OF_BUDGET.to_owned())?;
        Ok(Findings { failures, annotations })
    }

    async fn failures(&self, with: &Evaluation<'_>) -> Result<Vec<Failure>, OutOfBudget> {
        let Evaluation { attributes, input, params, checks, policy, .. } = *with;
        let deadline = attributes.request.deadline();
        let mut left = COST_OF_AN_OBJECT;
        let seen = input.seen(params, Some(checks.values(attributes)));
        let batch = Batch { expressions: &self.validations, variables: &self.variables, seen: &seen };
        let holds = |outcome: Result<CelValue<'_>, String>| {
            outcome.map(|value| matches!(value, CelValue::Bool(true)))
        };
        let held = evaluate(&batch, checks, &mut left, deadline, holds).await?;
        let fails = held.iter().flatten().any(|outcome| *outcome != Ok(true));
        // Messages that nobody reads are not made, unless the budget could end among them: all validations
        // have failed then.
        let messages = match fails || self.messages_can_cost() > left {
            true => self.messages(with, left).await,
            false => Ok(Vec::new()),
        };
        let mut messages = match messages {
            Ok(messages) => Ok(messages.into_iter()),
            Err(OutOfBudget) => Err(format!("failed messageExpression: {OUT_OF_BUDGET}")),
        };
        let mut failures = Vec::new();
        for (place, (outcome, detail)) in held.into_iter().flatten().zip(&self.details).enumerate() {
            let made = messages.as_mut().map(|messages| messages.next().flatten().flatten());
            let error = match (outcome, made) {
                (Err(why), _) => why,
                (Ok(_), Err(why)) => why.clone(),
                (Ok(true), Ok(_)) => continue,
                (Ok(false), Ok(made)) => {
                    let message = made.unwrap_or_else(|| self.message(place, detail));
                    failures.push(Failure { place, message, reason: detail.reason.clone() });
                    continue;
                }
            };
            if policy == FailurePolicy::Fail {
                failures.push(Failure { place, message: error, reason: None });
            }
        }
        Ok(failures)
    }

    /// The most that all messages can cost.
    fn messages_can_cost(&self) -> u64 {
        let messages = self.messages.iter().flatten().count();
        let expressions = if messages == 0 { 0 } else { messages + self.variables.len() };
        COST_OF_A_CALL.saturating_add(1).saturating_mul(expressions as u64)
    }

    /// The messages that expressions make, where they make one.
    async fn messages(
        &self,
        with: &Evaluation<'_>,
        mut left: u64,
    ) -> Result<Vec<Option<Option<String>>>, OutOfBudget> {
        let seen = with.input.seen(with.params, None);
        let batch = Batch { expressions: &self.messages, variables: &self.variables, seen: &seen };
        let deadline = with.attributes.request.deadline();
        evaluate(&batch, with.checks, &mut left, deadline, |outcome| match outcome {
            Ok(CelValue::String(text)) => {
                let text = text.as_str().trim();
                let is_fit = !text.is_empty() && text.len() <= MOST_MESSAGE_BYTES && !text.contains('\n');
                is_fit.then(|| text.to_owned())
            }
            _ => None,
        })
        .await
    }

    /// The message of a validation that no expression makes one for.
    fn message(&self, place: usize, detail: &Detail) -> String {
        if !detail.message.is_empty() {
            return detail.message.to_string();
        }
        let expression = self.validations.get(place).and_then(Option::as_ref);
        format!("failed expression: {}", expression.map_or("", |expression| expression.text.trim()))
    }

    async fn annotations(&self, with: &Evaluation<'_>) -> Result<Vec<Annotation>, OutOfBudget> {
        let seen = with.input.seen(with.params, None);
        let batch = Batch { expressions: &self.annotations, variables: &self.variables, seen: &seen };
        let mut left = COST_OF_AN_OBJECT;
        let deadline = with.attributes.request.deadline();
        let results = evaluate(&batch, with.checks, &mut left, deadline, |outcome| match outcome {
            Ok(CelValue::String(text)) => Ok(Some(text.as_str().trim().to_owned())),
            Ok(_) => Ok(None),
            Err(why) => Err(why),
        });
        let results = results.await?.into_iter().flatten().zip(&self.keys);
        let annotations = results.filter_map(|(value, key)| {
            let value = match value {
                Err(_) if with.policy == FailurePolicy::Ignore => return None,
                Err(why) => Err(why),
                Ok(text) => Ok(text.filter(|text| !text.is_empty())?),
            };
            Some(Annotation { key: key.clone(), value })
        });
        Ok(annotations.collect())
    }
}
