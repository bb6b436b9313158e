//! The rules of one node of a schema, compiled.

use crate::declared::{self, Declaration};
use crate::field_path::{self, Arrays};
use crate::stage::{self, Stage};
use cel::declared::{Declared, DeclaredSizes, DeclaredTypes, MAX_REQUEST_BYTES};
use cel::{Checked, Env, EnvSet, Program, Type};
use schema::structural::{Expression, Node};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The name of the value of the node.
pub const SELF: &str = "self";
/// The name of the value before a change.
pub const OLD_SELF: &str = "oldSelf";

/// The types of a node, and the environments of its rules.
pub struct RuleScope<'n> {
    node: &'n Node,
    declared: Arc<Declared>,
    /// With `oldSelf` of the type of `self`.
    plain: EnvSet,
    /// With `oldSelf` as an optional value of that type.
    optional: EnvSet,
}

/// A rule that was compiled, with what it may cost.
pub struct CompiledRule {
    /// The plan of the rule; `None` if its text is empty.
    pub program: Result<Option<Program>, RuleFault>,
    /// Whether the rule uses `oldSelf`.
    pub uses_old_self: bool,
    /// The plan of the expression for the message, if there is one.
    pub message: Option<Result<Program, RuleFault>>,
    /// The rule with its types, if it was compiled.
    checked: Option<Checked>,
    /// The expression for the message with its types, if it was compiled.
    checked_message: Option<Checked>,
    /// The field that errors name, as they show it.
    pub field_path: Option<Box<str>>,
}

/// Why an expression could not be compiled, in the words of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFault(pub String);

impl<'n> RuleScope<'n> {
    /// The scope of the rules of a node; `None` if expressions cannot see values of the node.
    pub fn new(node: &'n Node, declaration: Declaration) -> Option<Self> {
        declared::of(node, declaration).map(|declared| Self::with(node, declared))
    }

    /// The scope of the rules of a node whose declaration is known.
    pub fn with(node: &'n Node, declared: Arc<Declared>) -> Self {
        let types = Arc::new(DeclaredTypes::new(&type_name("selfType"), declared.clone()));
        let ty = types.root();
        let set = |old: Type| {
            stage::base().extend(|env| {
                env.types(types.clone()).variable(SELF, ty.clone()).variable(OLD_SELF, old.clone())
            })
        };
        Self { node, plain: set(ty.clone()), optional: set(Type::optional(ty.clone())), declared }
    }

    /// Compiles a rule. `stage` says for each of its two texts what it may use.
    pub fn compile(&self, expression: &Expression, rule_stage: Stage, message_stage: Stage) -> CompiledRule {
        let mut compiled = CompiledRule {
            program: Ok(None),
            uses_old_self: false,
            message: None,
            checked: None,
            checked_message: None,
            field_path: None,
        };
        if expression.rule.trim().is_empty() {
            return compiled;
        }
        let envs = match expression.optional_old_self {
            Some(true) => &self.optional,
            Some(false) | None => &self.plain,
        };
        let env = rule_stage.of(envs);
        let checked = match checked(env, &expression.rule, &Type::Bool, "") {
            Ok(checked) => checked,
            Err(fault) => {
                compiled.program = Err(fault);
                return compiled;
            }
        };
        compiled.uses_old_self = checked.refers_to(OLD_SELF);
        match env.program(&checked) {
            Ok(program) => compiled.program = Ok(Some(program)),
            Err(why) => {
                compiled.program = Err(RuleFault(format!("program instantiation failed: {why}")));
                return compiled;
            }
        }
        compiled.checked = Some(checked);
        if !expression.message_expression.is_empty() {
            let env = message_stage.of(envs);
            let message = self.message(env, &expression.message_expression);
            match message {
                Ok((program, checked)) => {
                    compiled.message = Some(Ok(program));
                    compiled.checked_message = Some(checked);
                }
                Err(fault) => {
                    compiled.message = Some(Err(fault));
                    return compiled;
                }
            }
        }
        if !expression.field_path.is_empty()
            && let Ok(found) = field_path::find(&expression.field_path, self.node, Arrays::Allowed)
        {
            compiled.field_path = Some(found.path.into());
        }
        compiled
    }

    /// What one evaluation of a rule costs at most.
    pub fn max_cost(&self, rule: &CompiledRule) -> u64 {
        rule.checked.as_ref().map_or(0, |checked| self.cost(checked))
    }

    /// What one message of a rule costs at most.
    pub fn message_max_cost(&self, rule: &CompiledRule) -> u64 {
        rule.checked_message.as_ref().map_or(0, |checked| self.cost(checked))
    }

    /// How often there can be a value of the node in one object, if nothing but the size of a request bounds
    /// it.
    pub fn max_cardinality(&self) -> u64 {
        // Data is followed by a comma at least.
        let bytes = self.declared.min_serialized.saturating_add(1);
        u64::try_from(MAX_REQUEST_BYTES / bytes.max(1)).unwrap_or(0)
    }

    fn message(&self, env: &Env, text: &str) -> Result<(Program, Checked), RuleFault> {
        let checked = checked(env, text, &Type::String, "messageExpression ")?;
        let program = env.program(&checked);
        let program =
            program.map_err(|why| RuleFault(format!("messageExpression instantiation failed: {why}")))?;
        Ok((program, checked))
    }

    fn cost(&self, checked: &Checked) -> u64 {
        checked.estimate(&DeclaredSizes(&self.declared)).max
    }
}

/// The expression with its types, if its value has the right one.
fn checked(env: &Env, text: &str, wanted: &Type, what: &str) -> Result<Checked, RuleFault> {
    let checked =
        env.compile(text).map_err(|issues| RuleFault(format!("{what}compilation failed: {issues}")))?;
    if checked.result_type() != wanted {
        let what = if what.is_empty() { "cel expression " } else { what };
        let article = if *wanted == Type::Bool { "a bool" } else { "a string" };
        return Err(RuleFault(format!("{what}must evaluate to {article}")));
    }
    Ok(checked)
}

/// A name for a declared type: another one each time, as in the reference, so that no expression depends on
/// it.
pub(crate) fn type_name(prefix: &str) -> String {
    let now = clock::system().duration_since(UNIX_EPOCH);
    format!("{prefix}{}", now.map_or(0, |now| now.subsec_nanos()))
}
