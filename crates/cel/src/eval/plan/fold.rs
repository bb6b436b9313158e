//! Loops.

use super::{Planned, Planner};
use crate::ast::Comprehension;
use crate::eval::node::{Base, Fold, LOCALS, Node, NodeId, Op};

impl Planner<'_> {
    pub(super) fn fold(&mut self, fold: &Comprehension) -> Result<Planned, String> {
        let range = self.node(fold.range)?;
        // No two loops share locals: the first value of an accumulator is evaluated when it is first asked
        // for, which can be within another loop.
        let accumulator = self.tables.locals;
        self.tables.locals += LOCALS;
        let init = self.node(fold.init)?;
        let outside = self.scopes.len();
        self.add_names(fold, accumulator);
        let condition = self.node(fold.condition)?;
        let step = self.node(fold.step)?;
        self.grow(step, accumulator);
        // The variables are not there any more when the result is evaluated.
        self.scopes.truncate(outside);
        self.scopes.push((fold.accu.clone(), accumulator));
        let result = self.node(fold.result)?;
        self.scopes.truncate(outside);
        let two_variables = fold.var2.is_some();
        self.tables.folds.push(Fold { range, accumulator, two_variables, init, condition, step, result });
        Ok(Planned::Node(self.push(Node::Fold((self.tables.folds.len() - 1) as u32))))
    }

    /// Adds the names of a loop: its accumulator is found first, and the variable before the second one.
    fn add_names(&mut self, fold: &Comprehension, accumulator: u32) {
        let names = [fold.var2.as_ref(), Some(&fold.var), Some(&fold.accu)];
        for (name, local) in names.into_iter().zip([accumulator + 2, accumulator + 1, accumulator]) {
            self.scopes.extend(name.map(|name| (name.clone(), local)));
        }
    }

    /// Makes of the addition to an accumulator, where its sum is the next accumulator, one that does not
    /// copy.
    fn grow(&mut self, step: NodeId, accumulator: u32) {
        match self.tables.nodes.get(step as usize).copied() {
            Some(Node::Binary { op: op @ (Op::Add | Op::InsertMap), rule, left, right })
                if self.is_local(left, accumulator) =>
            {
                self.replace(step, Node::Grow { op, rule, local: accumulator, right });
            }
            Some(Node::Call(call)) => {
                let Some(call) = self.tables.calls.get(call as usize) else { return };
                if &*call.function != Op::InsertEntry.name() {
                    return;
                }
                let (rule, arguments) = (call.rule, call.arguments);
                if let [map, _, _] = *self.arguments(arguments)
                    && self.is_local(map, accumulator)
                {
                    let right = arguments.start + 1;
                    self.replace(step, Node::Grow { op: Op::InsertEntry, rule, local: accumulator, right });
                }
            }
            Some(Node::Attribute(attribute)) => {
                let Some(attribute) = self.tables.attributes.get(attribute as usize) else { return };
                if let Base::Choice { truthy, falsy, .. } = attribute.base {
                    for branch in [truthy, falsy] {
                        let branch = self.tables.attributes.get(branch as usize);
                        if let Some(Base::Node(node)) =
                            branch.filter(|branch| branch.qualifiers.len == 0).map(|branch| branch.base)
                        {
                            self.grow(node, accumulator);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    fn is_local(&self, node: NodeId, accumulator: u32) -> bool {
        let Some(Node::Attribute(attribute)) = self.tables.nodes.get(node as usize) else { return false };
        self.tables.attributes.get(*attribute as usize).is_some_and(|attribute| {
            attribute.qualifiers.len == 0
                && matches!(attribute.base, Base::Local(local) if local == accumulator)
        })
    }

    fn replace(&mut self, place: NodeId, node: Node) {
        if let Some(there) = self.tables.nodes.get_mut(place as usize) {
            *there = node;
        }
    }
}
