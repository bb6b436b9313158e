//! Makes plans of checked expressions: names become slots, calls become functions, constants are made.
//!
//! What is made of constants is what cel-go's `OptOptimize` makes, because it shows in costs and errors:
//! lists and maps of constants, conversions of a constant, `in` with a list of constants, constant patterns.

mod attribute;
mod call;
mod fold;

use super::node::{Base, By, Node, NodeId, OPTIONAL, Span, Tables};
use super::{Program, run};
use crate::ast::{Expr, ExprId, MapEntry, StructField};
use crate::checker::{self, Checked, Reference};
use crate::mutation::is_object;
use crate::value::Value;
use crate::{Env, Failure, Type};
use attribute::{Chain, Start};
pub(super) use call::no_such_overload;
use std::sync::Arc;

/// Plans an expression; the error is cel-go's text.
pub(crate) fn plan(env: &Env, checked: &Checked) -> Result<Program, String> {
    let mut planner = Planner { env, checked, tables: Tables::default(), scopes: Vec::new() };
    let root = planner.node(checked.ast.root())?;
    let Tables {
        nodes, numbers, constants, attributes, qualifiers, names, sets, patterns, variables, ..
    } = planner.tables;
    Ok(Program {
        root,
        depth: checked.ast.depth() as u32,
        locals: planner.tables.locals,
        variables: variables.into(),
        nodes: nodes.into(),
        numbers: numbers.into(),
        constants: constants.into(),
        attributes: attributes.into(),
        qualifiers: qualifiers.into(),
        names: names.into(),
        sets: sets.into(),
        patterns: patterns.into(),
        calls: planner.tables.calls.into(),
        messages: planner.tables.messages.into(),
        folds: planner.tables.folds.into(),
    })
}

/// A node that may still become part of the one around it.
enum Planned {
    /// A constant, or the error that takes its place.
    Constant(Result<Value<'static>, Failure>),
    /// A value, to which fields can be added.
    Attribute(Chain),
    Node(NodeId),
}

/// A plan that is being made.
struct Planner<'p> {
    env: &'p Env,
    checked: &'p Checked,
    tables: Tables,
    /// The names of the loops around a node and their locals, the innermost last.
    scopes: Vec<(Arc<str>, u32)>,
}

impl Planner<'_> {
    /// Plans a node, to be evaluated by itself.
    fn node(&mut self, id: ExprId) -> Result<NodeId, String> {
        let planned = self.planned(id)?;
        Ok(self.finish(planned))
    }

    fn finish(&mut self, planned: Planned) -> NodeId {
        match planned {
            Planned::Constant(value) => {
                let constant = self.constant(value);
                self.push(Node::Constant(constant))
            }
            Planned::Attribute(chain) => {
                let has = chain.has;
                let attribute = self.attribute(chain);
                self.push(if has { Node::Has(attribute) } else { Node::Attribute(attribute) })
            }
            Planned::Node(node) => node,
        }
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.tables.nodes.push(node);
        (self.tables.nodes.len() - 1) as NodeId
    }

    fn constant(&mut self, value: Result<Value<'static>, Failure>) -> u32 {
        self.tables.constants.push(value);
        (self.tables.constants.len() - 1) as u32
    }

    fn span(&mut self, numbers: Vec<NodeId>) -> Span {
        let start = self.tables.numbers.len() as u32;
        let len = numbers.len() as u32;
        self.tables.numbers.extend(numbers);
        Span { start, len }
    }

    /// Plans a node. The planner recurses here: what does not recurse itself is in functions of its own, so
    /// that a level takes little of the stack.
    fn planned(&mut self, id: ExprId) -> Result<Planned, String> {
        let checked = self.checked;
        match checked.ast.expr(id) {
            Expr::Literal(value) => Ok(Planned::Constant(Ok(value.clone()))),
            Expr::Ident(name) => self.ident(id, name),
            Expr::Select { operand, field, test_only } => match checked.references.get(id.0 as usize) {
                Some(Some(Reference::Ident(name, _))) => self.ident(id, name),
                _ => {
                    let planned = self.planned(*operand)?;
                    Ok(self.select(*operand, planned, field, *test_only))
                }
            },
            Expr::Call { function, target, args } => self.call(id, function, *target, args),
            Expr::List { elements, optional } => self.list(elements, optional),
            Expr::Map(entries) => self.map(entries),
            Expr::Struct { name, fields } => self.message(name, fields),
            Expr::Comprehension(fold) => self.fold(fold),
        }
    }

    /// A name: of a loop, of a variable, of a type or of another constant.
    fn ident(&mut self, id: ExprId, name: &Arc<str>) -> Result<Planned, String> {
        let checked = self.checked;
        let Some(Some(Reference::Ident(name, value))) = checked.references.get(id.0 as usize) else {
            return Ok(self.name(name));
        };
        // cel-go takes every name whose type is `type(...)` for the name of a type, also one of a loop.
        match (value, checked.type_of(id)) {
            (Some(value), _) => Ok(Planned::Constant(Ok(value.clone()))),
            (None, Type::Type(_)) => match checker::value_of_type(self.env, name) {
                Some(value) => Ok(Planned::Constant(Ok(value))),
                None => Err(format!("reference to undefined type: {name}")),
            },
            (None, _) => Ok(self.name(name)),
        }
    }

    fn select(&mut self, operand: ExprId, planned: Planned, field: &str, test_only: bool) -> Planned {
        let mut chain = self.chain(planned);
        let is_object = matches!(self.checked.type_of(operand), Type::Struct(name) if is_object(name));
        let by = match self.name_of(field) {
            By::Name(name) if is_object => By::Field(name),
            by => by,
        };
        chain.add(by, false, test_only);
        chain.has |= test_only;
        Planned::Attribute(chain)
    }

    /// A name: of a loop or of a variable.
    fn name(&mut self, name: &Arc<str>) -> Planned {
        let name = name.strip_prefix('.').unwrap_or(name);
        let local = self.scopes.iter().rev().find(|(there, _)| &**there == name).map(|(_, local)| *local);
        let start = match (local, self.env.variable(name)) {
            (Some(local), _) => Base::Local(local),
            (None, Some((slot, _))) => Base::Slot(slot as u32),
            (None, None) => {
                let text = format!("no such attribute(s): {name}");
                Base::Missing(self.constant(Err(Failure::error(text))))
            }
        };
        if let Base::Slot(slot) = start
            && !self.tables.variables.iter().any(|(there, _)| *there == slot)
        {
            self.tables.variables.push((slot, name.into()));
        }
        Planned::Attribute(Chain::new(Start::Base(start)))
    }

    fn list(&mut self, elements: &[ExprId], optional: &[u32]) -> Result<Planned, String> {
        let mut parts = Vec::with_capacity(elements.len());
        for element in elements {
            parts.push(self.planned(*element)?);
        }
        let mut flags = vec![false; elements.len()];
        for place in optional {
            if let Some(flag) = flags.get_mut(*place as usize) {
                *flag = true;
            }
        }
        Ok(self.made(parts, &flags, Node::List))
    }

    fn map(&mut self, entries: &[MapEntry]) -> Result<Planned, String> {
        let mut parts = Vec::with_capacity(entries.len() * 2);
        for entry in entries {
            parts.push(self.planned(entry.key)?);
            parts.push(self.planned(entry.value)?);
        }
        let optional: Vec<_> = entries.iter().flat_map(|entry| [false, entry.optional]).collect();
        Ok(self.made(parts, &optional, Node::Map))
    }

    /// A list or a map; of constants it is a constant itself.
    fn made(&mut self, parts: Vec<Planned>, optional: &[bool], node: fn(Span) -> Node) -> Planned {
        let constant = parts.iter().all(|part| matches!(part, Planned::Constant(_)));
        if constant {
            let parts = parts.into_iter().filter_map(|part| match part {
                Planned::Constant(value) => Some(value),
                _ => None,
            });
            let made = match node(Span::default()) {
                Node::List(_) => run::list(parts, optional),
                _ => run::map(parts, optional),
            };
            return Planned::Constant(made);
        }
        let numbers = parts.into_iter().zip(optional).map(|(part, optional)| {
            let node = self.finish(part);
            if *optional { node | OPTIONAL } else { node }
        });
        let numbers = numbers.collect();
        let span = self.span(numbers);
        Planned::Node(self.push(node(span)))
    }

    fn message(&mut self, name: &Arc<str>, fields: &[StructField]) -> Result<Planned, String> {
        let name: Arc<str> = name.strip_prefix('.').map_or_else(|| name.clone(), Arc::from);
        let types = self.env.providers().find(|types| types.find(&name).is_some()).cloned();
        if types.is_none() && !name.starts_with(run::PACKAGE) {
            return Err(format!("unknown type: {name}"));
        }
        let mut values = Vec::with_capacity(fields.len());
        for field in fields {
            let node = self.node(field.value)?;
            values.push(if field.optional { node | OPTIONAL } else { node });
        }
        let values = self.span(values);
        let fields = fields.iter().map(|field| field.name.clone()).collect();
        self.tables.messages.push(super::node::Message { name, fields, values, types });
        Ok(Planned::Node(self.push(Node::Struct((self.tables.messages.len() - 1) as u32))))
    }
}
