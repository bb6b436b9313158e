//! The expressions of a schema: whether they compile, and what they may cost.

use super::go_syntax;
use super::requirements::Requirements;
use ::schema::structural::{Expression, Node};
use ::schema::views::apiextensions::v1::{JSONSchemaProps, ValidationRule};
use cel::declared::Declared;
use cel::escape::escape;
use expressions::declared::{self, Declaration};
use expressions::{CompiledRule, RuleScope};
use object::field::{BadValue, Error, List, Path};
use std::cell::OnceCell;
use std::sync::Arc;

/// The most that one expression may cost for an object, by its estimate.
const MOST_COST: u64 = cel::kubernetes::ESTIMATE_OF_A_RULE;
/// The most that all rules of a schema may cost for an object, by their estimates.
const MOST_TOTAL: u64 = cel::kubernetes::ESTIMATE_OF_A_DEFINITION;
/// The number of rules that are named if all together cost too much.
const MOST_NAMED: usize = 4;

/// A schema that expressions can see, and how often its value can be in an object.
pub(super) struct Scope<'a> {
    schema: JSONSchemaProps<'a>,
    node: &'a Node,
    declaration: Declaration,
    above: Option<(&'a Scope<'a>, Step<'a>)>,
    /// Whether the schema or one above has rules.
    is_seen: bool,
    declared: OnceCell<Option<Arc<Declared>>>,
    /// The most values in an object; `None` if only the size of a request bounds it.
    cardinality: Option<u64>,
}

/// The way from a schema to one right below.
#[derive(Clone, Copy)]
pub(super) enum Step<'a> {
    Property(&'a str),
    Items,
    AdditionalProperties,
}

impl<'a> Scope<'a> {
    /// Of the schema of a version.
    pub(super) fn root(schema: JSONSchemaProps<'a>, node: &'a Node) -> Self {
        Self {
            schema,
            node,
            declaration: Declaration::Resource,
            above: None,
            is_seen: has_rules(schema),
            declared: OnceCell::new(),
            cardinality: Some(1),
        }
    }

    /// Of a schema below; `None` if its part of the structural schema is missing.
    pub(super) fn below<'b>(&'b self, step: Step<'b>, schema: JSONSchemaProps<'b>) -> Option<Scope<'b>>
    where
        'a: 'b,
    {
        let node = match step {
            Step::Property(name) => self.node.property(name),
            Step::Items => self.node.items.as_ref(),
            Step::AdditionalProperties => self.node.additional.node(),
        }?;
        Some(Scope {
            schema,
            node,
            declaration: Declaration::below_root(node),
            above: Some((self, step)),
            is_seen: self.is_seen || has_rules(schema),
            declared: OnceCell::new(),
            cardinality: self
                .cardinality
                .zip(most_below(self.schema))
                .map(|(own, most)| own.saturating_mul(most)),
        })
    }

    /// What the schema declares: as a part of what the schema above declares, if expressions see that.
    fn declared(&self) -> Option<&Arc<Declared>> {
        let find = || {
            let above = self.above.filter(|(above, _)| above.is_seen).and_then(|(above, step)| {
                let above = above.declared()?;
                match step {
                    Step::Property(name) => above.field(&escape(name)?).cloned(),
                    Step::Items | Step::AdditionalProperties => above.element().cloned(),
                }
            });
            above.or_else(|| declared::of(self.node, self.declaration))
        };
        self.declared.get_or_init(find).as_ref()
    }
}

/// Whether a schema has rules itself.
pub(super) fn has_rules(schema: JSONSchemaProps<'_>) -> bool {
    !schema.x_kubernetes_validations().is_empty()
}

/// How many values of a schema right below there can be for each value of a schema.
fn most_below(schema: JSONSchemaProps<'_>) -> Option<u64> {
    let most = |most: Option<i64>| most.map(|most| u64::try_from(most).unwrap_or(0));
    match schema.r#type() {
        "object" if schema.additional_properties().is_some() => most(schema.max_properties()),
        "array" => most(schema.max_items()),
        _ => Some(1),
    }
}

/// What is found in the expressions of a whole schema.
pub(super) struct Findings {
    /// The errors, which follow all others of the schema.
    pub errors: List,
    /// Whether single expressions that may cost too much are refused.
    bounds_cost: bool,
    total: u64,
    /// The rules that cost most, the costliest first.
    costliest: Vec<(u64, String)>,
}

impl Findings {
    /// Of a schema, whose single expressions may cost too much if it did not change.
    pub(super) fn new(bounds_cost: bool) -> Self {
        Self { errors: List::new(), bounds_cost, total: 0, costliest: Vec::new() }
    }

    /// Compiles the rules of a schema. `uncorrelated` is the path to the outermost schema above whose values
    /// have no known old value.
    pub(super) fn check(
        &mut self,
        scope: &Scope<'_>,
        requirements: &Requirements<'_>,
        uncorrelated: Option<&str>,
        path: &Path<'_>,
    ) {
        let path = path.child("x-kubernetes-validations");
        let Some(declared) = scope.declared() else {
            let why = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(Error::internal(&path, why));
            return;
        };
        let of_rules = RuleScope::with(scope.node, declared.clone());
        for (at, rule) in scope.schema.x_kubernetes_validations().iter().enumerate() {
            let compiled = of_rules.compile(
                &Expression::from(rule),
                requirements.stage_of_rule(rule.rule()),
                requirements.stage_of_message(rule.message_expression()),
            );
            let cardinality = scope.cardinality.unwrap_or_else(|| of_rules.max_cardinality());
            let cost = of_rules.max_cost(&compiled).saturating_mul(cardinality);
            let of_message = of_rules.message_max_cost(&compiled);
            let rule = Rule { rule, compiled, cost, of_message };
            self.rule(rule, uncorrelated, &path.index(at));
        }
    }

    fn rule(
        &mut self,
        Rule { rule, compiled, cost, of_message }: Rule<'_>,
        uncorrelated: Option<&str>,
        path: &Path<'_>,
    ) {
        let (at_rule, at_message) = (path.child("rule"), path.child("messageExpression"));
        let shown = || BadValue::Raw(go_syntax::rule(rule));
        if self.bounds_cost && cost > MOST_COST {
            let why = too_costly("estimated rule cost", cost, MOST_COST);
            self.errors.push_with(|| Error::forbidden(&at_rule, why));
        }
        self.observe(cost, &at_rule);
        if let Err(fault) = compiled.program {
            self.errors.push_with(|| Error::invalid(&at_rule, shown(), fault.0));
        }
        match compiled.message {
            Some(Err(fault)) => self.errors.push_with(|| Error::invalid(&at_message, shown(), fault.0)),
            Some(Ok(_)) => {
                if self.bounds_cost && of_message > MOST_COST {
                    let why = too_costly("estimated messageExpression cost", of_message, MOST_COST);
                    self.errors.push_with(|| Error::forbidden(&at_message, why));
                }
                self.observe(of_message, &at_message);
            }
            None => {}
        }
        match (compiled.uses_old_self, uncorrelated, rule.optional_old_self()) {
            (true, Some(within), _) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                );
                self.errors.push_with(|| Error::invalid(&at_rule, rule.rule(), why));
            }
            (false, _, Some(optional)) => {
                let why = "may not be set if oldSelf is not used in rule";
                self.errors.push_with(|| Error::invalid(&path.child("optionalOldSelf"), optional, why));
            }
            (true, None, _) | (false, _, None) => {}
        }
    }

    /// Counts the cost of an expression. Those of at least a hundredth of what is allowed may be named.
    fn observe(&mut self, cost: u64, path: &Path<'_>) {
        self.total = self.total.saturating_add(cost);
        if cost >= MOST_TOTAL / 100 {
            let place = self.costliest.partition_point(|(other, _)| *other >= cost);
            self.costliest.insert(place, (cost, path.to_string()));
            self.costliest.truncate(MOST_NAMED);
        }
    }

    /// The errors of a schema whose rules all together cost too much.
    pub(super) fn too_costly_in_total(&self, path: &Path<'_>) -> List {
        let mut errors = List::new();
        if self.total > MOST_TOTAL {
            for (_, path) in &self.costliest {
                let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
                errors.push(Error::forbidden(&Path::new(path), why));
            }
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
            errors.push(Error::forbidden(path, too_costly(what, self.total, MOST_TOTAL)));
        }
        errors
    }
}

/// A rule that was compiled, with the estimates of its cost and of the cost of its message.
struct Rule<'a> {
    rule: ValidationRule<'a>,
    compiled: CompiledRule,
    cost: u64,
    of_message: u64,
}

fn too_costly(what: &str, cost: u64, most: u64) -> String {
    let factor = cost as f64 / most as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
