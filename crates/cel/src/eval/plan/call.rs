//! Calls: operators, functions of the standard library, and functions of other libraries.

use super::{Planned, Planner};
use crate::ast::ExprId;
use crate::checker::Reference;
use crate::cost::actual::Rule;
use crate::env::{Function, Run};
use crate::eval::node::{Call, Callable, Node, Op, Span};
use crate::eval::run;
use crate::value::{Entries, List, Meter, Value};
use crate::{Failure, Type};
use pattern::Pattern;
use std::sync::Arc;

impl Planner<'_> {
    pub(super) fn call(
        &mut self,
        id: ExprId,
        function: &Arc<str>,
        target: Option<ExprId>,
        args: &[ExprId],
    ) -> Result<Planned, String> {
        let mut planned = Vec::with_capacity(args.len() + 1);
        for arg in target.iter().chain(args) {
            planned.push(self.planned(*arg)?);
        }
        self.call_of(id, function, planned)
    }

    /// A call whose operands are planned.
    fn call_of(&mut self, id: ExprId, function: &Arc<str>, planned: Vec<Planned>) -> Result<Planned, String> {
        let overload = match self.checked.references.get(id.0 as usize) {
            Some(Some(Reference::Call(ids))) => match ids.as_slice() {
                [only] => Some(*only),
                _ => None,
            },
            _ => None,
        };
        match (&**function, planned.len()) {
            ("_&&_", _) | ("_||_", _) => {
                let terms = planned.into_iter().map(|term| self.finish(term)).collect();
                let span = self.span(terms);
                let node = if &**function == "_&&_" { Node::And(span) } else { Node::Or(span) };
                return Ok(Planned::Node(self.push(node)));
            }
            _ => {}
        }
        let mut planned = planned.into_iter();
        let operands = (planned.next(), planned.next(), planned.next());
        match (&**function, operands) {
            ("_?_:_", (Some(condition), Some(truthy), Some(falsy))) => {
                Ok(self.choice(condition, truthy, falsy))
            }
            ("_==_", (Some(left), Some(right), None)) => {
                let (left, right) = (self.finish(left), self.finish(right));
                Ok(Planned::Node(self.push(Node::Equal(left, right))))
            }
            ("_!=_", (Some(left), Some(right), None)) => {
                let (left, right) = (self.finish(left), self.finish(right));
                Ok(Planned::Node(self.push(Node::NotEqual(left, right))))
            }
            ("_[_]", (Some(operand), Some(index), None)) => self.index(operand, index, false),
            ("_?._" | "_[?_]", (Some(operand), Some(index), None)) => self.index(operand, index, true),
            ("or", (Some(left), Some(right), None))
                if overload.is_none_or(|id| id == "optional_or_optional") =>
            {
                let (left, right) = (self.finish(left), self.finish(right));
                Ok(Planned::Node(self.push(Node::OrOptional(left, right))))
            }
            ("orValue", (Some(left), Some(right), None))
                if overload.is_none_or(|id| id == "optional_orValue_value") =>
            {
                let (left, right) = (self.finish(left), self.finish(right));
                Ok(Planned::Node(self.push(Node::OrValue(left, right))))
            }
            (function, operands) => {
                let (first, second, third) = operands;
                let all: Vec<_> = [first, second, third].into_iter().flatten().chain(planned).collect();
                self.function(function, overload, all)
            }
        }
    }

    fn function(
        &mut self,
        name: &str,
        overload: Option<&'static str>,
        mut args: Vec<Planned>,
    ) -> Result<Planned, String> {
        let rule = Rule::of(name, overload.unwrap_or_default(), args.len());
        if let Some(op) = Op::of(name, args.len()) {
            match (args.len(), args.pop(), args.pop()) {
                (1, operand, _) => return self.unary(op, rule, operand),
                (2, Some(right), Some(left)) => return self.binary(op, rule, overload, left, right),
                (_, last, before) => args.extend(before.into_iter().chain(last)),
            }
        }
        self.library(name, overload, rule, args)
    }

    fn unary(&mut self, op: Op, rule: Rule, operand: Option<Planned>) -> Result<Planned, String> {
        match operand {
            Some(Planned::Constant(Ok(value))) if matches!(op, Op::Type | Op::Dyn) => {
                let value = run::convert(op, value).map_err(|failure| failure.to_string())?;
                Ok(Planned::Constant(Ok(value)))
            }
            Some(operand) => {
                let operand = self.finish(operand);
                Ok(Planned::Node(self.push(Node::Unary { op, rule, operand })))
            }
            None => Err(format!("no such overload: {}()", op.name())),
        }
    }

    fn binary(
        &mut self,
        op: Op,
        rule: Rule,
        overload: Option<&'static str>,
        left: Planned,
        right: Planned,
    ) -> Result<Planned, String> {
        if let (Op::In, Some("in_list"), Planned::Constant(Ok(Value::List(list)))) = (op, overload, &right) {
            if list.is_empty() {
                return Ok(Planned::Constant(Ok(Value::Bool(false))));
            }
            if let Some(set) = members(list) {
                let element = self.finish(left);
                self.tables.sets.push(set);
                let set = (self.tables.sets.len() - 1) as u32;
                return Ok(Planned::Node(self.push(Node::Member { set, element })));
            }
        }
        let pattern = match (&op, &right) {
            (Op::Matches, Planned::Constant(Ok(Value::String(pattern)))) => {
                Some(Pattern::new(pattern.as_str())?)
            }
            _ => None,
        };
        let left = self.finish(left);
        let right = self.finish(right);
        Ok(Planned::Node(match pattern {
            Some(pattern) => {
                self.tables.patterns.push(pattern);
                let pattern = (self.tables.patterns.len() - 1) as u32;
                self.push(Node::Matches { pattern, rule, text: left, constant: right })
            }
            None => self.push(Node::Binary { op, rule, left, right }),
        }))
    }

    /// A function that is not the plan's own.
    fn library(
        &mut self,
        name: &str,
        overload: Option<&'static str>,
        rule: Rule,
        args: Vec<Planned>,
    ) -> Result<Planned, String> {
        let Some(function) = self.env.function(name).cloned() else {
            return Err(format!("no such overload: {name}"));
        };
        let single =
            function.overloads.iter().find(|there| Some(there.id) == overload && is_bound(there.run));
        let overloads: Box<[Callable]> = match single {
            Some(single) => [callable(&single.params, single.run)].into(),
            None => bound(&function),
        };
        if overloads.is_empty() && name != Op::InsertEntry.name() && args.is_empty() {
            return Err(format!("no such overload: {name}()"));
        }
        let convertible = is_conversion(name) && args.len() == 1;
        if convertible && let [Planned::Constant(Ok(value))] = args.as_slice() {
            let value = value.clone();
            let made = run::invoke(name, &overloads, None, &[value], &mut Meter::new(0, None));
            let made = made.map_err(|failure| failure.to_string())?;
            return Ok(Planned::Constant(Ok(made)));
        }
        let is_match = overloads.iter().any(|callable| matches!(callable.run, Run::Match(_)));
        let pattern = match args.get(1) {
            Some(Planned::Constant(Ok(Value::String(pattern)))) if is_match => {
                Some(Box::new(Pattern::new(pattern.as_str())?))
            }
            _ => None,
        };
        // Functions that take any number of arguments stop at the first error: those with several overloads,
        // and `format`.
        let eager = args.len() == 2 && overloads.len() == 1 && pattern.is_none() && name != "format";
        let arguments = args.into_iter().map(|arg| self.finish(arg)).collect();
        let arguments = self.span(arguments);
        let function = function.name.clone();
        self.tables.calls.push(Call { function, overloads, arguments, rule, eager, pattern });
        Ok(Planned::Node(self.push(Node::Call((self.tables.calls.len() - 1) as u32))))
    }

    /// The operands of a call that was planned, for a loop that makes its accumulator larger.
    pub(super) fn arguments(&self, span: Span) -> &[u32] {
        let start = span.start as usize;
        self.tables.numbers.get(start..start + span.len as usize).unwrap_or_default()
    }
}

fn is_bound(run: Run) -> bool {
    !matches!(run, Run::Planned)
}

fn callable(params: &[Type], run: Run) -> Callable {
    Callable { params: params.into(), run }
}

fn bound(function: &Function) -> Box<[Callable]> {
    let overloads = function.overloads.iter().filter(|overload| is_bound(overload.run));
    overloads.map(|overload| callable(&overload.params, overload.run)).collect()
}

/// Whether a call with a constant is made with the plan.
fn is_conversion(name: &str) -> bool {
    matches!(name, "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint")
}

/// The elements of a constant list by which `in` is answered, numbers also in the other types that they can
/// have; `None` if there are others than texts, numbers and booleans.
fn members(list: &List<'static>) -> Option<Entries<'static>> {
    let mut set = Entries::default();
    for element in list.iter() {
        let element = element.ok().filter(|element| {
            use Value::{Bool, Double, Int, String, Uint};
            matches!(element, Bool(_) | Int(_) | Uint(_) | Double(_) | String(_))
        })?;
        let others = match &element {
            Value::Int(number) => {
                [Some(Value::Double(*number as f64)), u64::try_from(*number).ok().map(Value::Uint)]
            }
            Value::Uint(number) => {
                [Some(Value::Double(*number as f64)), i64::try_from(*number).ok().map(Value::Int)]
            }
            Value::Double(number) => [
                crate::value::whole(*number).map(Value::Int),
                crate::value::whole_unsigned(*number).map(Value::Uint),
            ],
            _ => [None, None],
        };
        for member in std::iter::once(element).chain(others.into_iter().flatten()) {
            set.insert(member, Value::Bool(true));
        }
    }
    Some(set)
}

/// The error of a call that no overload fits.
pub(in crate::eval) fn no_such_overload(function: &str, args: &[Value<'_>]) -> Failure {
    let types: Vec<_> = args.iter().map(|arg| arg.type_of().name().to_owned()).collect();
    Failure::error(format!("no such overload: {function}({})", types.join(", ")))
}
