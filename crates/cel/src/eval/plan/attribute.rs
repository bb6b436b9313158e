//! Attributes: a variable or a value, and the fields of it that are looked at.

use super::{Planned, Planner};
use crate::eval::node::{Attribute, Base, By, Name, NodeId, Qualifier, Span};
use crate::value::Value;
use std::sync::Arc;

/// An attribute to which fields can be added.
#[derive(Clone)]
pub(super) struct Chain {
    pub(super) start: Start,
    pub(super) qualifiers: Vec<Qualifier>,
    /// Whether the value of the node is whether the last field is there.
    pub(super) has: bool,
}

/// What a chain begins with.
#[derive(Clone)]
pub(super) enum Start {
    Base(Base),
    /// `a ? b : c`; fields are added to both.
    Choice(NodeId, Box<Chain>, Box<Chain>),
}

impl Chain {
    pub(super) fn new(start: Start) -> Self {
        Self { start, qualifiers: Vec::new(), has: false }
    }

    /// Adds a field, key or index.
    pub(super) fn add(&mut self, by: By, optional: bool, test: bool) {
        match &mut self.start {
            Start::Base(_) => self.qualifiers.push(Qualifier { by, optional, test }),
            Start::Choice(_, truthy, falsy) => {
                truthy.add(by, optional, test);
                falsy.add(by, optional, test);
            }
        }
    }
}

impl Planner<'_> {
    /// The planned node as something to which fields can be added.
    pub(super) fn chain(&mut self, planned: Planned) -> Chain {
        match planned {
            Planned::Attribute(chain) => chain,
            planned => {
                let node = self.finish(planned);
                Chain::new(Start::Base(Base::Node(node)))
            }
        }
    }

    /// Puts a chain into the tables.
    pub(super) fn attribute(&mut self, chain: Chain) -> u32 {
        let base = match chain.start {
            Start::Base(base) => base,
            Start::Choice(condition, truthy, falsy) => {
                let truthy = self.attribute(*truthy);
                let falsy = self.attribute(*falsy);
                Base::Choice { condition, truthy, falsy }
            }
        };
        let start = self.tables.qualifiers.len() as u32;
        let len = chain.qualifiers.len() as u32;
        self.tables.qualifiers.extend(chain.qualifiers);
        self.tables.attributes.push(Attribute { base, qualifiers: Span { start, len } });
        (self.tables.attributes.len() - 1) as u32
    }

    /// A constant text to find fields by.
    pub(super) fn name_of(&mut self, text: &str) -> By {
        let there = self.tables.names.iter().position(|name| &*name.text == text);
        let place = there.unwrap_or_else(|| {
            let text: Arc<str> = text.into();
            let property = crate::escape::unescape(&text).map(|name| match name {
                std::borrow::Cow::Borrowed(_) => text.clone(),
                std::borrow::Cow::Owned(name) => name.into(),
            });
            self.tables.names.push(Name { text, property });
            self.tables.names.len() - 1
        });
        By::Name(place as u32)
    }

    /// `operand[index]`, `operand[?index]` and `operand.?field`.
    pub(super) fn index(
        &mut self,
        operand: Planned,
        index: Planned,
        optional: bool,
    ) -> Result<Planned, String> {
        let mut chain = self.chain(operand);
        let by = match index {
            Planned::Constant(Ok(Value::String(text))) => self.name_of(text.as_str()),
            Planned::Constant(Ok(
                value @ (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Bool(_)),
            )) => By::Constant(self.constant(Ok(value))),
            Planned::Constant(Ok(value)) => {
                return Err(format!("invalid qualifier type: {}", value.go_name()));
            }
            Planned::Constant(Err(_)) => return Err("invalid qualifier type: *types.Err".into()),
            Planned::Attribute(index) => By::Attribute(self.attribute(index)),
            Planned::Node(node) => By::Node(node),
        };
        chain.add(by, optional, false);
        Ok(Planned::Attribute(chain))
    }

    /// `condition ? truthy : falsy`.
    pub(super) fn choice(&mut self, condition: Planned, truthy: Planned, falsy: Planned) -> Planned {
        let condition = self.finish(condition);
        let mut branches = [truthy, falsy].map(|branch| {
            let mut chain = self.chain(branch);
            chain.has = false;
            Box::new(chain)
        });
        let [truthy, falsy] = &mut branches;
        let start = Start::Choice(
            condition,
            std::mem::replace(truthy, Box::new(Chain::new(Start::Base(Base::Slot(0))))),
            std::mem::replace(falsy, Box::new(Chain::new(Start::Base(Base::Slot(0))))),
        );
        Planned::Attribute(Chain::new(start))
    }
}
