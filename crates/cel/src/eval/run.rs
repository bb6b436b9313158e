//! Evaluates plans.

mod attribute;
mod call;
mod fold;
mod messages;
mod operator;

use super::node::{Node, NodeId, OPTIONAL, Span};
use super::{Budget, Program};
use crate::cost::actual::Rule;
use crate::value::{Entries, List, Map, Meter, Value};
use crate::{Failure, Halt, Outcome};
use attribute::Lookups;
pub(super) use call::invoke;
pub(super) use messages::PACKAGE;
pub(super) use operator::convert;
use std::sync::Arc;

/// The locals that need no memory of their own.
const INLINE: usize = 9;

/// A name of a loop.
enum Slot<'a> {
    /// The accumulator before it was asked for, by the node of its first value.
    Lazy(NodeId),
    Value(Value<'a>),
    /// An error takes the place of the value.
    Failed(Failure),
}

/// An evaluation.
struct Evaluation<'a, 'e> {
    program: &'a Program,
    slots: &'e [Value<'a>],
    locals: &'e mut [Slot<'a>],
    /// What this evaluation has cost.
    cost: u64,
    /// What it may cost.
    limit: u64,
    meter: Meter<'e>,
    /// The rounds of loops so far.
    rounds: u64,
    lookups: Lookups<'a>,
}

pub(super) fn evaluate<'a>(
    program: &'a Program,
    slots: &[Value<'a>],
    budget: &mut Budget<'_>,
) -> Outcome<'a> {
    let mut inline: [Slot<'a>; INLINE] = std::array::from_fn(|_| Slot::Value(Value::Null));
    let mut many;
    let locals = match inline.get_mut(..program.locals as usize) {
        Some(locals) => locals,
        None => {
            many = Vec::new();
            many.resize_with(program.locals as usize, || Slot::Value(Value::Null));
            many.as_mut_slice()
        }
    };
    let mut evaluation = Evaluation {
        program,
        slots,
        locals,
        cost: 0,
        limit: budget.limit.saturating_sub(budget.spent),
        meter: Meter::new(program.depth, budget.interrupted),
        rounds: 0,
        lookups: Lookups::default(),
    };
    let outcome = evaluation.eval(program.root);
    budget.spent = budget.spent.saturating_add(evaluation.cost);
    outcome
}

fn no_such_overload() -> Failure {
    Failure::error("no such overload")
}

impl<'a> Evaluation<'a, '_> {
    /// Adds to the cost; past the limit the evaluation ends.
    #[inline]
    fn charge(&mut self, cost: u64) -> Result<(), Failure> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Failure::Halt(Halt::CostLimit)) } else { Ok(()) }
    }

    /// The value of a node. The evaluator recurses here: a level takes little of the stack, because what does
    /// not recurse itself is in functions of its own.
    fn eval(&mut self, node: NodeId) -> Outcome<'a> {
        let Some(node) = self.program.nodes.get(node as usize) else { return Err(no_such_overload()) };
        match *node {
            Node::Constant(place) => self.constant(place),
            Node::Attribute(place) => self.attribute(place),
            Node::Has(place) => self.has(place),
            Node::And(terms) => self.logic(terms, false),
            Node::Or(terms) => self.logic(terms, true),
            Node::Equal(left, right) => self.equal(left, right, Rule::Equal),
            Node::NotEqual(left, right) => self.equal(left, right, Rule::NotEqual),
            Node::Unary { op, rule, operand } => self.unary(op, rule, operand),
            Node::Binary { op, rule, left, right } => self.binary(op, rule, left, right),
            Node::Grow { op, rule, local, right } => self.grow(op, rule, local, right),
            Node::Matches { pattern, rule, text, constant } => self.matches(pattern, rule, text, constant),
            Node::Member { set, element } => self.member(set, element),
            Node::Call(place) => self.call(place),
            Node::OrOptional(left, right) => self.or_optional(left, right),
            Node::OrValue(left, right) => self.or_value(left, right),
            Node::List(span) => self.list(span),
            Node::Map(span) => self.map(span),
            Node::Struct(place) => self.message(place),
            Node::Fold(place) => self.fold(place),
        }
    }

    /// `a.or(b)`.
    fn or_optional(&mut self, left: NodeId, right: NodeId) -> Outcome<'a> {
        match self.eval(left)? {
            Value::Optional(None) => self.eval(right),
            value => Ok(value),
        }
    }

    /// `a.orValue(b)`.
    fn or_value(&mut self, left: NodeId, right: NodeId) -> Outcome<'a> {
        match self.eval(left)? {
            Value::Optional(None) => self.eval(right),
            Value::Optional(Some(value)) => Ok(Value::clone(&value)),
            value => Ok(value),
        }
    }

    #[inline]
    fn constant(&self, place: u32) -> Outcome<'a> {
        match self.program.constants.get(place as usize) {
            Some(Ok(Value::String(text))) => Ok(Value::from(text.as_str())),
            Some(Ok(value)) => Ok(value.clone()),
            Some(Err(failure)) => Err(failure.clone()),
            None => Ok(Value::Null),
        }
    }

    fn numbers(&self, span: Span) -> &'a [NodeId] {
        let start = span.start as usize;
        self.program.numbers.get(start..start + span.len as usize).unwrap_or_default()
    }

    /// `&&` and `||`: the first term that decides makes up for errors before and after it.
    fn logic(&mut self, terms: Span, decides: bool) -> Outcome<'a> {
        let mut error = None;
        for term in self.numbers(terms) {
            match self.eval(*term) {
                Ok(Value::Bool(flag)) if flag == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => {
                    error.get_or_insert_with(no_such_overload);
                }
                Err(failure @ Failure::Halt(_)) => return Err(failure),
                Err(failure) => {
                    error.get_or_insert(failure);
                }
            }
        }
        error.map_or(Ok(Value::Bool(!decides)), Err)
    }

    /// `==` and `!=`.
    fn equal(&mut self, left: NodeId, right: NodeId, rule: Rule) -> Outcome<'a> {
        let [left, right] = self.both(left, right)?;
        self.equality(left, right, rule)
    }

    fn equality(&mut self, left: Outcome<'a>, right: Outcome<'a>, rule: Rule) -> Outcome<'a> {
        let (Ok(one), Ok(other)) = (&left, &right) else { return self.strict(rule, left, right) };
        let answer = match crate::value::equal(one, other, &mut self.meter) {
            Err(halt @ Failure::Halt(_)) => return Err(halt),
            answer => answer,
        };
        self.charge_two(rule, one, other)?;
        match (rule, answer) {
            (Rule::NotEqual, answer) => Ok(Value::Bool(!answer.unwrap_or(false))),
            (_, answer) => answer.map(Value::Bool),
        }
    }

    /// The values of two operands, each of which may be an error.
    #[inline]
    fn both(&mut self, left: NodeId, right: NodeId) -> Result<[Outcome<'a>; 2], Failure> {
        let left = self.eval(left);
        if let Err(failure @ Failure::Halt(_)) = left {
            return Err(failure);
        }
        let right = self.eval(right);
        if let Err(failure @ Failure::Halt(_)) = right {
            return Err(failure);
        }
        Ok([left, right])
    }

    /// The first error of two operands, one of which is an error. The call has its cost nevertheless.
    #[cold]
    fn strict(&mut self, rule: Rule, left: Outcome<'a>, right: Outcome<'a>) -> Outcome<'a> {
        let sized = |outcome: &Outcome<'a>| outcome.as_ref().map_or(Value::Null, Value::clone);
        self.charge_two(rule, &sized(&left), &sized(&right))?;
        left.and(right)
    }

    #[inline]
    fn charge_two(&mut self, rule: Rule, left: &Value<'a>, right: &Value<'a>) -> Result<(), Failure> {
        let cost = rule.of_two(left, right, &mut self.meter)?;
        self.charge(cost)
    }

    #[inline(never)]
    fn member(&mut self, set: u32, element: NodeId) -> Outcome<'a> {
        let element = self.eval(element)?;
        if matches!(element, Value::Bytes(_)) {
            return Err(Failure::Halt(Halt::Unhashable("types.Bytes")));
        }
        Ok(Value::Bool(self.program.sets.get(set as usize).is_some_and(|set| set.has(&element))))
    }

    /// `[a, b]`; it has its cost also if an element is an error.
    #[inline(never)]
    fn list(&mut self, span: Span) -> Outcome<'a> {
        let numbers = self.numbers(span);
        let mut elements = Vec::with_capacity(numbers.len());
        let mut error = None;
        for number in numbers {
            let element = self.eval(number & !OPTIONAL);
            if let Err(failure @ Failure::Halt(_)) = element {
                return Err(failure);
            }
            if let Err(failure) = push(&mut elements, element, number & OPTIONAL != 0) {
                error = Some(failure);
                break;
            }
        }
        self.charge(crate::cost::LIST)?;
        error.map_or_else(|| Ok(Value::List(List::of(elements))), Err)
    }

    /// `{a: b}`; it has its cost also if a part is an error.
    #[inline(never)]
    fn map(&mut self, span: Span) -> Outcome<'a> {
        let mut entries = Entries::default();
        let mut error = None;
        for pair in self.numbers(span).chunks_exact(2) {
            let &[key, value] = pair else { break };
            let key = self.eval(key);
            let entry = match key {
                Ok(key) => self.eval(value & !OPTIONAL).map(|value| (key, value)),
                Err(failure) => Err(failure),
            };
            if let Err(failure @ Failure::Halt(_)) = entry {
                return Err(failure);
            }
            if let Err(failure) = put(&mut entries, entry, value & OPTIONAL != 0) {
                error = Some(failure);
                break;
            }
        }
        self.charge(crate::cost::MAP)?;
        error.map_or_else(|| Ok(Value::Map(Map::of(entries))), Err)
    }

    /// `Name{field: value}`; it has its cost also if a field is an error.
    #[inline(never)]
    fn message(&mut self, place: u32) -> Outcome<'a> {
        let Some(message) = self.program.messages.get(place as usize) else { return Err(no_such_overload()) };
        let mut fields: Vec<(Arc<str>, Value<'a>)> = Vec::with_capacity(message.fields.len());
        let mut error = None;
        for (name, number) in message.fields.iter().zip(self.numbers(message.values)) {
            let value = match self.eval(number & !OPTIONAL) {
                Err(failure @ Failure::Halt(_)) => return Err(failure),
                Err(failure) => Err(failure),
                Ok(value) if number & OPTIONAL == 0 => Ok(Some(value)),
                Ok(value) => optional(value).map_err(|value| not_optional_entry(&**name, &value)),
            };
            let there = fields.iter().position(|(there, _)| there == name);
            match (value, there) {
                (Err(failure), _) => {
                    error = Some(failure);
                    break;
                }
                (Ok(None), Some(there)) => {
                    fields.remove(there);
                }
                (Ok(None), None) => {}
                (Ok(Some(value)), Some(there)) => {
                    fields.extend(fields.get(there).map(|(name, _)| (name.clone(), value)));
                    fields.swap_remove(there);
                }
                (Ok(Some(value)), None) => fields.push((name.clone(), value)),
            }
        }
        let made = match error {
            Some(failure) => Err(failure),
            None => match &message.types {
                Some(types) => types
                    .construct(&message.name, fields)
                    .unwrap_or_else(|| Err(Failure::error(format!("unknown type '{}'", message.name)))),
                None => messages::construct(&message.name, fields),
            },
        };
        self.charge(crate::cost::STRUCT)?;
        made
    }
}

/// The value of an optional value, if there is one; the value itself if it is no optional value.
fn optional<'a>(value: Value<'a>) -> Result<Option<Value<'a>>, Value<'a>> {
    match value {
        Value::Optional(value) => Ok(value.map(|value| Value::clone(&value))),
        value => Err(value),
    }
}

fn not_optional_entry(key: impl std::fmt::Display, value: &Value<'_>) -> Failure {
    Failure::error(format!("cannot initialize optional entry '{key}' from non-optional value {value}"))
}

fn push<'a>(elements: &mut Vec<Value<'a>>, element: Outcome<'a>, is_optional: bool) -> Result<(), Failure> {
    let element = element?;
    if is_optional {
        let element = optional(element).map_err(|value| {
            Failure::error(format!("cannot initialize optional list element from non-optional value {value}"))
        })?;
        elements.extend(element);
    } else {
        elements.push(element);
    }
    Ok(())
}

fn put<'a>(
    entries: &mut Entries<'a>,
    entry: Result<(Value<'a>, Value<'a>), Failure>,
    is_optional: bool,
) -> Result<(), Failure> {
    let (key, value) = entry?;
    if matches!(key, Value::Bytes(_)) {
        return Err(Failure::Halt(Halt::Unhashable("types.Bytes")));
    }
    if !is_optional {
        entries.insert(key, value);
        return Ok(());
    }
    match optional(value).map_err(|value| not_optional_entry(&key, &value))? {
        Some(value) => entries.insert(key, value),
        None => entries.remove(&key),
    }
    Ok(())
}

/// A list of constants.
pub(super) fn list(elements: impl Iterator<Item = Outcome<'static>>, optional: &[bool]) -> Outcome<'static> {
    let mut made = Vec::new();
    for (element, optional) in elements.zip(optional) {
        push(&mut made, element, *optional)?;
    }
    Ok(Value::List(List::of(made)))
}

/// A map of constants: keys and values by turns.
pub(super) fn map(mut parts: impl Iterator<Item = Outcome<'static>>, optional: &[bool]) -> Outcome<'static> {
    let mut entries = Entries::default();
    for pair in optional.chunks(2) {
        let (Some(key), Some(value)) = (parts.next(), parts.next()) else { break };
        let entry = key.and_then(|key| value.map(|value| (key, value)));
        put(&mut entries, entry, pair.last() == Some(&true))?;
    }
    Ok(Value::Map(Map::of(entries)))
}
