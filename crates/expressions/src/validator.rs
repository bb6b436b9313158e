//! The rules of a whole schema, and their evaluation on an object.

use crate::counted::{COMPILATIONS, EVALUATIONS};
use crate::declared::{self, Declaration};
use crate::message;
use crate::ratchet::Correlation;
use crate::rule::{RuleFault, RuleScope};
use crate::stage::Stage;
use cel::declared::Declared;
use cel::escape::escape;
use cel::{Budget, Failure, Halt, Program, Value as CelValue};
use object::field::{Error, List, Path};
use object::quote::Quoted;
use object::shape::{Form, Shape};
use object::{Key, Value};
use schema::structural::{Expression, Interned, Keyed, ListType, Nested, Node, NodeType, Rules};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Instant;

/// The most that all rules of an object may cost.
pub const OBJECT_BUDGET: u64 = cel::kubernetes::COST_OF_AN_OBJECT;
/// The most that one evaluation may cost.
const PER_CALL: u64 = cel::kubernetes::COST_OF_A_CALL;
/// What the rules of an object may cost before they are evaluated in a section that may block: some
/// milliseconds.
const INLINE: u64 = 50_000;

/// The rules of a node and of the nodes below it. Nodes without rules in them have no validator.
pub struct Validator {
    rules: Option<Arc<RuleSet>>,
    node: Interned<Node>,
    all_of: Box<[Validator]>,
    items: Option<Box<Validator>>,
    /// Sorted by name.
    properties: Box<[(Key, Validator)]>,
    additional: Option<Box<Validator>>,
}

/// The compiled rules of one node; equal nodes share them.
struct RuleSet {
    node: Resource,
    is_resource: bool,
    source: Source,
    /// One for each expression of the source; a fault if expressions cannot see the node at all.
    rules: Result<Box<[Rule]>, RuleFault>,
    use_old_self: bool,
}

struct Rule {
    program: Result<Option<Program>, RuleFault>,
    message: Option<Program>,
    uses_old_self: bool,
    field_path: Option<Box<str>>,
}

/// Where the texts of rules are.
#[derive(Clone, PartialEq)]
enum Source {
    Node(Interned<Rules>),
    Nested(Interned<Nested>),
}

impl Source {
    fn expressions(&self) -> &[Expression] {
        match self {
            Self::Node(rules) => &rules.expressions,
            Self::Nested(nested) => &nested.rules.expressions,
        }
    }

    fn address(&self) -> usize {
        match self {
            Self::Node(rules) => std::ptr::from_ref::<Rules>(rules).addr(),
            Self::Nested(nested) => std::ptr::from_ref::<Nested>(nested).addr(),
        }
    }
}

/// A node as the shape of an object with `kind`, `apiVersion` and `metadata`.
struct Resource(Interned<Node>);

impl Shape for Resource {
    fn form(&self) -> Form<'_> {
        Form::Object
    }

    fn is_nullable(&self) -> bool {
        self.0.nullable
    }

    fn field(&self, key: &str) -> Option<&dyn Shape> {
        self.0.resource_property(key)
    }

    fn items(&self) -> Option<&dyn Shape> {
        None
    }
}

/// What is compared: an object, and the object before if it is an update.
#[derive(Clone, Copy)]
pub struct Change<'o> {
    /// The object.
    pub new: &'o Value,
    /// The object before.
    pub old: Option<&'o Value>,
    /// Whether faults of values that did not change are warnings only.
    pub ratchets: bool,
}

/// What the rules say of an object.
#[derive(Default)]
pub struct Outcome {
    /// The errors.
    pub errors: List,
    /// The errors of values that did not change.
    pub warnings: Vec<String>,
    /// What is left of the budget; nothing if rules were left out.
    pub left: u64,
}

/// The validation rules that a place of a schema adds to a node: its own ones, or those below an `allOf`.
#[derive(Clone, Copy)]
enum Part<'s> {
    Node(&'s Interned<Node>),
    Nested(&'s Interned<Nested>),
}

impl<'s> Part<'s> {
    fn source(self) -> Option<Source> {
        match self {
            Self::Node(node) => node.rules.clone().map(Source::Node),
            Self::Nested(nested) => Some(Source::Nested(nested.clone())),
        }
        .filter(|source| !source.expressions().is_empty())
    }

    fn all_of(self) -> &'s [Interned<Nested>] {
        match self {
            Self::Node(node) => node.rules.as_ref().map_or(&[], |rules| &rules.all_of),
            Self::Nested(nested) => &nested.rules.all_of,
        }
    }

    fn items(self) -> Option<Self> {
        match self {
            Self::Node(node) => node.items.as_ref().map(Self::Node),
            Self::Nested(nested) => nested.items.as_ref().map(Self::Nested),
        }
    }

    fn additional(self) -> Option<Self> {
        match self {
            Self::Node(node) => node.additional.node().map(Self::Node),
            Self::Nested(nested) => nested.additional.as_ref().map(Self::Nested),
        }
    }

    fn properties(self) -> Vec<(&'s Key, Self)> {
        match self {
            Self::Node(node) => node.properties.iter().map(|(key, node)| (key, Self::Node(node))).collect(),
            Self::Nested(nested) => {
                nested.properties.iter().map(|(key, nested)| (key, Self::Nested(nested))).collect()
            }
        }
    }
}

impl Validator {
    /// Compiles the rules of a schema; `None` if it has none. Rules count that stand outside of `allOf`; if
    /// there are any, those below `allOf` are evaluated too, as in the reference.
    pub fn compile(node: &Interned<Node>, declaration: Declaration) -> Option<Self> {
        if !node.has_expressions() {
            return None;
        }
        let begin = Instant::now();
        let compiled = Self::of(Part::Node(node), node, declaration, declared::of(node, declaration));
        COMPILATIONS.with([]).observe_time(begin.elapsed());
        compiled
    }

    fn of(
        part: Part<'_>,
        node: &Interned<Node>,
        declaration: Declaration,
        declared: Option<Arc<Declared>>,
    ) -> Option<Self> {
        let source = part.source();
        let rules = source.map(|source| RuleSet::shared(source, node, declaration, declared.as_ref()));
        let element = || declared.as_ref().and_then(|declared| declared.element().cloned());
        let below = |part: Option<Part<'_>>, node: Option<&Interned<Node>>| {
            let (part, node) = part.zip(node)?;
            Self::of(part, node, Declaration::below_root(node), element()).map(Box::new)
        };
        let mut properties = Vec::new();
        for (name, part) in part.properties() {
            let Some(node) = node.property(name.as_str()) else { continue };
            let below = Declaration::below_root(node);
            // Of a name that expressions cannot write, only the parent's declaration is silent.
            let declared = match escape(name.as_str()) {
                Some(escaped) => declared.as_ref().and_then(|of| of.field(&escaped).cloned()),
                None => declared::of(node, below),
            };
            let Some(declared) = declared else { continue };
            if let Some(validator) = Self::of(part, node, below, Some(declared)) {
                properties.push((name.clone(), validator));
            }
        }
        let items = below(part.items(), node.items.as_ref());
        let additional = below(part.additional(), node.additional.node());
        let all_of: Box<[_]> = part
            .all_of()
            .iter()
            .filter_map(|nested| Self::of(Part::Nested(nested), node, declaration, declared.clone()))
            .collect();
        let is_empty = rules.is_none()
            && items.is_none()
            && additional.is_none()
            && properties.is_empty()
            && all_of.is_empty();
        (!is_empty).then(|| Self {
            rules,
            node: node.clone(),
            all_of,
            items,
            properties: properties.into(),
            additional,
        })
    }

    /// Evaluates the rules on an object, which may cost as much as `budget` ([`OBJECT_BUDGET`]). What takes
    /// more than some milliseconds is done by `beside`, which may block the thread.
    pub fn validate(
        &self,
        change: Change<'_>,
        budget: u64,
        path: &Path<'_>,
        beside: &dyn Fn(&mut dyn FnMut()),
    ) -> Outcome {
        let begin = Instant::now();
        let correlation = match change.old.filter(|_| change.ratchets) {
            Some(old) => Correlation::root(&self.node, change.new, old),
            None => Correlation::default(),
        };
        let mut walk =
            Walk { outcome: Outcome::default(), left: budget, inline: INLINE, is_over: false, beside };
        walk.visit(self, change.new, change.old, correlation, path);
        walk.outcome.left = if walk.is_over { 0 } else { walk.left };
        EVALUATIONS.with([]).observe_time(begin.elapsed());
        walk.outcome
    }

    #[cfg(test)]
    pub(crate) fn shares_rules_with(&self, other: &Self) -> bool {
        let same_rules = match (&self.rules, &other.rules) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        let below = self.properties.iter().zip(&other.properties);
        same_rules && below.into_iter().all(|((_, own), (_, other))| own.shares_rules_with(other))
    }

    fn property(&self, name: &str) -> Option<&Validator> {
        let place = self.properties.binary_search_by(|(key, _)| key.as_str().cmp(name)).ok()?;
        self.properties.get(place).map(|(_, validator)| validator)
    }
}

/// Rule sets in use, by the addresses of what they are of.
type Shared = HashMap<(usize, usize, bool), Weak<RuleSet>>;

static SHARED: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);

impl RuleSet {
    /// The rules of a node, compiled or in use already. A rule set keeps what it was compiled from, so an
    /// address in the table is that of the same node for as long as the rule set lives.
    fn shared(
        source: Source,
        node: &Interned<Node>,
        declaration: Declaration,
        declared: Option<&Arc<Declared>>,
    ) -> Arc<Self> {
        // What a parent declares of `metadata` can differ from what the node declares itself.
        let is_own = declared == declared::of(node, declaration).as_ref();
        let is_resource = declaration == Declaration::Resource;
        let key = (source.address(), std::ptr::from_ref::<Node>(node).addr(), is_resource);
        let table = || SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if is_own && let Some(known) = table().get(&key).and_then(Weak::upgrade) {
            return known;
        }
        let set = Arc::new(Self::compile(source, node, is_resource, declared));
        if is_own {
            let mut table = table();
            if table.len() == table.capacity() {
                table.retain(|_, set| set.strong_count() > 0);
            }
            table.insert(key, Arc::downgrade(&set));
        }
        set
    }

    fn compile(
        source: Source,
        node: &Interned<Node>,
        is_resource: bool,
        declared: Option<&Arc<Declared>>,
    ) -> Self {
        let rules = match declared {
            None => Err(RuleFault("failed to convert to declType for CEL validation rules".to_owned())),
            Some(declared) => {
                let scope = RuleScope::with(node, declared.clone());
                let compile = |of: &Expression| scope.compile(of, Stage::Stored, Stage::Stored);
                Ok(source
                    .expressions()
                    .iter()
                    .map(compile)
                    .map(|compiled| Rule {
                        program: compiled.program,
                        message: compiled.message.and_then(Result::ok),
                        uses_old_self: compiled.uses_old_self,
                        field_path: compiled.field_path,
                    })
                    .collect::<Box<[_]>>())
            }
        };
        let use_old_self = rules.iter().flatten().any(|rule| rule.uses_old_self);
        Self { node: Resource(node.clone()), is_resource, source, rules, use_old_self }
    }

    fn shape(&self) -> &dyn Shape {
        if self.is_resource { &self.node } else { &*self.node.0 }
    }

    /// The type of the node, which is what errors show in the place of its value.
    fn ty(&self) -> &'static str {
        match self.node.0.ty {
            None => "",
            Some(NodeType::Array) => "array",
            Some(NodeType::Boolean) => "boolean",
            Some(NodeType::Integer) => "integer",
            Some(NodeType::Number) => "number",
            Some(NodeType::Object) => "object",
            Some(NodeType::String) => "string",
        }
    }
}

struct Walk<'w> {
    outcome: Outcome,
    /// What is left of the budget.
    left: u64,
    /// What may still be spent on the thread of the caller.
    inline: u64,
    /// Whether no more rules are evaluated.
    is_over: bool,
    beside: &'w dyn Fn(&mut dyn FnMut()),
}

impl Walk<'_> {
    fn visit<'o>(
        &mut self,
        validator: &'o Validator,
        new: &'o Value,
        old: Option<&'o Value>,
        correlation: Correlation<'o>,
        path: &Path<'_>,
    ) {
        if new.is_null() || self.is_over {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        if let Some(set) = &validator.rules {
            self.rules(set, new, old, &correlation, path);
        }
        for nested in &validator.all_of {
            self.visit(nested, new, old, correlation.above(), path);
        }
        match new {
            Value::List(items) => {
                let Some(below) = &validator.items else { return };
                // Only the items of a list with keys have old values.
                let old = old.and_then(Value::as_list);
                let keyed = match &validator.node.list_type {
                    ListType::Map(keys) => old.map(|old| Keyed::new(keys, old)),
                    ListType::Atomic | ListType::Set => None,
                };
                for (index, item) in items.iter().enumerate() {
                    let old = keyed.as_ref().and_then(|keyed| keyed.get(item));
                    self.visit(below, item, old, correlation.item(item, old), &path.index(index));
                }
            }
            Value::Map(map) => {
                let old = old.and_then(Value::as_map).map(|old| old.lookup(map.len()));
                let old = |key: &str| old.as_ref().and_then(|old| old.get(key));
                if let Some(below) = &validator.additional {
                    for (key, value) in map.iter() {
                        let key = key.as_str();
                        self.visit(below, value, old(key), correlation.key(key), &path.key(key));
                    }
                }
                for (key, value) in map.iter() {
                    let key = key.as_str();
                    if let Some(below) = validator.property(key) {
                        self.visit(below, value, old(key), correlation.key(key), &path.child(key));
                    }
                }
            }
            _ => {}
        }
    }

    /// Evaluates the rules of one node on one value.
    fn rules(
        &mut self,
        set: &RuleSet,
        new: &Value,
        old: Option<&Value>,
        correlation: &Correlation<'_>,
        path: &Path<'_>,
    ) {
        let rules = match &set.rules {
            Ok(rules) => rules,
            Err(fault) => {
                let why = format!("rule compiler initialization error: {}", fault.0);
                self.outcome.errors.push_with(|| Error::invalid(path, set.ty(), why));
                return;
            }
        };
        if self.left == 0 {
            return self.out_of_budget(set, path);
        }
        let old_value = old.filter(|_| set.use_old_self).map(|old| CelValue::of(old, Some(set.shape())));
        let (value, old_value) = match (CelValue::of(new, Some(set.shape())), old_value.transpose()) {
            (Ok(value), Ok(old_value)) => (value, old_value),
            // A value that is not what its schema says, which the schema's own rules have refused before.
            (Err(failure), _) | (_, Err(failure)) => {
                self.outcome.errors.push_with(|| Error::invalid(path, set.ty(), failure.to_string()));
                return;
            }
        };
        // A value that a rule must not read stands in the slot of an absent old value.
        let plain = [value.clone(), old_value.clone().unwrap_or(CelValue::Null)];
        let optional = [value, CelValue::Optional(old_value.map(Arc::new))];
        for (rule, expression) in rules.iter().zip(set.source.expressions()) {
            let program = match &rule.program {
                Ok(Some(program)) => program,
                Ok(None) => continue,
                Err(fault) => {
                    let why = format!("rule compile error: {}", fault.0);
                    self.outcome.errors.push_with(|| Error::invalid(path, set.ty(), why));
                    continue;
                }
            };
            let has_optional_old = expression.optional_old_self == Some(true);
            if rule.uses_old_self && old.is_none() && !has_optional_old {
                continue;
            }
            let slots = if has_optional_old { &optional } else { &plain };
            let Some((spent, outcome)) = self.evaluate(program, slots) else {
                return self.out_of_budget(set, path);
            };
            self.left -= spent;
            match outcome {
                Ok(CelValue::Bool(true)) => {}
                Ok(_) => self.failed(set, rule, expression, slots, correlation, path),
                Err(Failure::Halt(Halt::CostLimit)) => {
                    let why = format!(
                        "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                        Failure::Halt(Halt::CostLimit),
                        message::name(expression)
                    );
                    self.outcome.errors.push_with(|| Error::invalid(path, set.ty(), why));
                    self.is_over = true;
                }
                Err(failure) => {
                    let (text, name) = (failure.to_string(), message::name(expression));
                    let why = match text.starts_with("no such overload") {
                        true => format!(
                            "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {name}"
                        ),
                        false => format!("{text} evaluating rule: {name}"),
                    };
                    self.outcome.errors.push_with(|| Error::invalid(path, set.ty(), why));
                }
            }
            if self.is_over {
                return;
            }
        }
    }

    /// What an evaluation has cost, and its outcome; `None` if it cost more than is left.
    fn evaluate<'v>(
        &mut self,
        program: &'v Program,
        slots: &[CelValue<'v>],
    ) -> Option<(u64, cel::Outcome<'v>)> {
        let run = |limit: u64| {
            let mut budget = Budget { limit, spent: 0, interrupted: None };
            let outcome = program.evaluate(slots, &mut budget);
            (budget.spent, outcome)
        };
        let (mut spent, mut outcome) = match self.inline {
            0 => (0, Err(Failure::Halt(Halt::CostLimit))),
            limit => run(limit),
        };
        if matches!(outcome, Err(Failure::Halt(Halt::CostLimit))) {
            self.inline = 0;
            (self.beside)(&mut || (spent, outcome) = run(PER_CALL));
        }
        self.inline = self.inline.saturating_sub(spent);
        (spent <= self.left).then_some((spent, outcome))
    }

    /// Adds the error of a rule that is not true.
    fn failed<'v>(
        &mut self,
        set: &RuleSet,
        rule: &'v Rule,
        expression: &Expression,
        slots: &[CelValue<'v>],
        correlation: &Correlation<'_>,
        path: &Path<'_>,
    ) {
        let message = match rule.message.as_ref().map(|program| self.message(program, expression, slots)) {
            Some(Ok(Some(message))) => message,
            Some(Ok(None)) | None => message::of_failed(expression),
            Some(Err(why)) => {
                self.is_over = true;
                let error = |path: &Path<'_>| Error::invalid(path, set.ty(), why);
                return self.add(rule, correlation, at(rule, path, error));
            }
        };
        let error = |path: &Path<'_>| message::error(&expression.reason, path, set.ty(), message);
        self.add(rule, correlation, at(rule, path, error));
    }

    /// The message that an expression makes; `None` if the expression fails or makes no fit one. The error
    /// ends the evaluation of all rules.
    fn message<'v>(
        &mut self,
        program: &'v Program,
        expression: &Expression,
        slots: &[CelValue<'v>],
    ) -> Result<Option<String>, String> {
        let Some((spent, outcome)) = self.evaluate(program, slots) else {
            let why = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(why.to_owned());
        };
        self.left -= spent;
        match outcome {
            Ok(value) => Ok(message::made(&value)),
            Err(Failure::Halt(Halt::CostLimit)) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                Quoted(&expression.message_expression)
            )),
            Err(_) => Ok(None),
        }
    }

    /// Adds an error, or a warning if the rule looks at a value alone that did not change.
    fn add(&mut self, rule: &Rule, correlation: &Correlation<'_>, error: Error) {
        if !rule.uses_old_self && correlation.is_unchanged() {
            self.outcome.warnings.push(error.to_string());
        } else {
            self.outcome.errors.push(error);
        }
    }

    fn out_of_budget(&mut self, set: &RuleSet, path: &Path<'_>) {
        let why =
            "validation failed due to running out of cost budget, no further validation rules will be run";
        self.outcome.errors.push_with(|| Error::invalid(path, set.ty(), why));
        self.is_over = true;
    }
}

/// The error at the field that a rule names.
fn at(rule: &Rule, path: &Path<'_>, error: impl FnOnce(&Path<'_>) -> Error) -> Error {
    match &rule.field_path {
        Some(field) => error(&path.child(field)),
        None => error(path),
    }
}
