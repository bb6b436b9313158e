//! Macros: calls that stand for larger expressions.

use super::build::{Builder, TooLarge};
use super::names::Name;
use crate::ast::{ACCUMULATOR, Comprehension, Expr, ExprId, OLD_ACCUMULATOR};
use crate::{MacroSet, Value};
use std::sync::Arc;

/// A call as it is written.
#[derive(Clone, Copy)]
pub(super) struct Call<'c> {
    /// The name of the function.
    pub(super) function: &'c str,
    /// What it is called on.
    pub(super) target: Option<ExprId>,
    /// Its arguments.
    pub(super) args: &'c [ExprId],
    /// The offset of its opening parenthesis, which the nodes of the expansion get.
    pub(super) offset: u32,
}

/// A fault of a call of a macro.
pub(super) struct Fault {
    /// The offset of the argument at fault.
    pub(super) offset: u32,
    /// What is wrong.
    pub(super) message: String,
}

/// Which macro a call is of.
#[derive(Clone, Copy)]
enum Macro {
    Has,
    Quantifier(Quantifier),
    Map,
    Filter,
    OptMap,
    OptFlatMap,
    Bind,
    TransformMap,
    TransformMapEntry,
}

#[derive(Clone, Copy)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

/// The macro of a name, a number of arguments and a kind of call; and the number of its variables.
fn find(set: &MacroSet, function: &str, args: usize, member: bool) -> Option<(Macro, usize)> {
    use Quantifier::{All, Exists, ExistsOne};
    if !member {
        return (function == "has" && args == 1).then_some((Macro::Has, 0));
    }
    let two = set.two_variables;
    Some(match (function, args) {
        ("all", 2) => (Macro::Quantifier(All), 1),
        ("exists", 2) => (Macro::Quantifier(Exists), 1),
        ("exists_one", 2) => (Macro::Quantifier(ExistsOne), 1),
        ("map", 2 | 3) => (Macro::Map, 1),
        ("filter", 2) => (Macro::Filter, 1),
        ("optMap", 2) if set.optional => (Macro::OptMap, 1),
        ("optFlatMap", 2) if set.optional => (Macro::OptFlatMap, 1),
        ("bind", 3) if set.bindings => (Macro::Bind, 1),
        ("all", 3) if two => (Macro::Quantifier(All), 2),
        ("exists", 3) if two => (Macro::Quantifier(Exists), 2),
        ("exists_one" | "existsOne", 3) if two => (Macro::Quantifier(ExistsOne), 2),
        ("transformList", 3 | 4) if two => (Macro::Map, 2),
        ("transformMap", 3 | 4) if two => (Macro::TransformMap, 2),
        ("transformMapEntry", 3 | 4) if two => (Macro::TransformMapEntry, 2),
        _ => return None,
    })
}

/// The expansion of a call; `None` if it is a call of a function.
pub(super) fn expand(builder: &mut Builder, set: &MacroSet, call: Call<'_>) -> Option<Result<ExprId, Fault>> {
    let (which, variables) = find(set, call.function, call.args.len(), call.target.is_some())?;
    let mut expansion = Expansion { builder, call };
    match (which, call.target, call.args) {
        (Macro::Has, _, [arg]) => Some(expansion.has(*arg)),
        (Macro::Bind, Some(target), [variable, init, result]) => {
            let named = expansion.builder.ident(target).is_some_and(|name| &**name == "cel");
            named.then(|| expansion.bind(*variable, *init, *result))
        }
        (Macro::OptMap | Macro::OptFlatMap, Some(target), [variable, mapped]) => {
            Some(expansion.optional(which, target, *variable, *mapped))
        }
        (_, Some(target), args) => {
            let (variables, rest) = args.split_at_checked(variables)?;
            Some(expansion.looped(which, target, variables, rest))
        }
        _ => None,
    }
}

/// The nodes of an expansion.
struct Expansion<'b, 'c> {
    builder: &'b mut Builder,
    call: Call<'c>,
}

impl Expansion<'_, '_> {
    fn fault(&self, id: ExprId, message: impl Into<String>) -> Fault {
        Fault { offset: self.builder.offset(id), message: message.into() }
    }

    fn call(&mut self, function: Name, args: Vec<ExprId>) -> ExprId {
        self.builder.call(self.call.offset, function, args)
    }

    fn member(&mut self, function: Name, target: ExprId) -> ExprId {
        let call = Expr::Call { function: function.text(), target: Some(target), args: Vec::new() };
        self.builder.add(self.call.offset, call)
    }

    fn literal(&mut self, value: Value<'static>) -> ExprId {
        self.builder.literal(self.call.offset, value)
    }

    fn list(&mut self, elements: Vec<ExprId>) -> ExprId {
        self.builder.add(self.call.offset, Expr::List { elements, optional: Vec::new() })
    }

    fn ident(&mut self, name: Arc<str>) -> ExprId {
        self.builder.add(self.call.offset, Expr::Ident(name))
    }

    fn accumulator(&mut self) -> ExprId {
        self.ident(Name::Accumulator.text())
    }

    fn has(&mut self, arg: ExprId) -> Result<ExprId, Fault> {
        match self.builder.node(arg).map(|node| &node.expr) {
            Some(Expr::Select { operand, field, .. }) => {
                let test = Expr::Select { operand: *operand, field: field.clone(), test_only: true };
                Ok(self.builder.add(self.call.offset, test))
            }
            _ => Err(self.fault(arg, "invalid argument to has() macro")),
        }
    }

    /// A loop over nothing whose accumulator is a variable of the result.
    fn binding(&mut self, name: Arc<str>, init: ExprId, result: ExprId) -> ExprId {
        let range = self.list(Vec::new());
        let condition = self.literal(Value::Bool(false));
        let step = self.ident(name.clone());
        let var = Name::Unused.text();
        let loops = Comprehension { range, var, var2: None, accu: name, init, condition, step, result };
        self.builder.add(self.call.offset, Expr::Comprehension(Box::new(loops)))
    }

    fn bind(&mut self, variable: ExprId, init: ExprId, result: ExprId) -> Result<ExprId, Fault> {
        match self.builder.ident(variable).cloned() {
            Some(name) => Ok(self.binding(name, init, result)),
            None => Err(self.fault(variable, "cel.bind() variable names must be simple identifiers")),
        }
    }

    /// `target.hasValue() ? optional.of(mapped) : optional.none()`, with a variable for `target.value()`.
    fn optional(
        &mut self,
        which: Macro,
        target: ExprId,
        variable: ExprId,
        mapped: ExprId,
    ) -> Result<ExprId, Fault> {
        let flat = matches!(which, Macro::OptFlatMap);
        let Some(name) = self.builder.ident(variable).cloned() else {
            let function = if flat { "optFlatMap" } else { "optMap" };
            let message = format!("{function}() variable name must be a simple identifier");
            return Err(self.fault(variable, message));
        };
        let test = self.member(Name::HasValue, target);
        let copy = self.builder.copy(target, self.call.offset).map_err(|TooLarge| Fault {
            offset: self.call.offset,
            message: "expression is too large: optMap and optFlatMap repeat what they are called on"
                .to_owned(),
        })?;
        let value = self.member(Name::Value, copy);
        let mut mapped = self.binding(name, value, mapped);
        if !flat {
            mapped = self.call(Name::OptionalOf, vec![mapped]);
        }
        let none = self.call(Name::OptionalNone, Vec::new());
        Ok(self.call(Name::Conditional, vec![test, mapped, none]))
    }

    /// A macro that is a loop over its target.
    fn looped(
        &mut self,
        which: Macro,
        target: ExprId,
        variables: &[ExprId],
        rest: &[ExprId],
    ) -> Result<ExprId, Fault> {
        let (var, var2) = self.variables(which, variables)?;
        let (filter, body) = match rest {
            [filter, body] => (Some(*filter), *body),
            [body] => (None, *body),
            _ => return Err(self.fault(target, "invalid arguments")),
        };
        let (init, condition, step, result) = match which {
            Macro::Quantifier(quantifier) => self.quantifier(quantifier, body),
            _ => {
                let collects = matches!(which, Macro::Map | Macro::Filter);
                let init = if collects { self.list(Vec::new()) } else { self.empty_map() };
                let condition = self.literal(Value::Bool(true));
                let element = match (which, variables) {
                    (Macro::Filter, [variable]) => self.list(vec![*variable]),
                    (Macro::Map, _) => self.list(vec![body]),
                    _ => body,
                };
                let accumulator = self.accumulator();
                let mut step = match which {
                    Macro::TransformMap => {
                        let key = self.ident(var.clone());
                        self.call(Name::MapInsert, vec![accumulator, key, element])
                    }
                    Macro::TransformMapEntry => self.call(Name::MapInsert, vec![accumulator, element]),
                    _ => self.call(Name::Add, vec![accumulator, element]),
                };
                let filter = if matches!(which, Macro::Filter) { Some(body) } else { filter };
                if let Some(filter) = filter {
                    let accumulator = self.accumulator();
                    step = self.call(Name::Conditional, vec![filter, step, accumulator]);
                }
                (init, condition, step, self.accumulator())
            }
        };
        let accu = Name::Accumulator.text();
        let loops = Comprehension { range: target, var, var2, accu, init, condition, step, result };
        Ok(self.builder.add(self.call.offset, Expr::Comprehension(Box::new(loops))))
    }

    fn empty_map(&mut self) -> ExprId {
        self.builder.add(self.call.offset, Expr::Map(Vec::new()))
    }

    /// The first value, the condition, the step and the result of a quantifier.
    fn quantifier(&mut self, quantifier: Quantifier, body: ExprId) -> (ExprId, ExprId, ExprId, ExprId) {
        match quantifier {
            Quantifier::All => {
                let init = self.literal(Value::Bool(true));
                let accumulator = self.accumulator();
                let condition = self.call(Name::NotStrictlyFalse, vec![accumulator]);
                let accumulator = self.accumulator();
                let step = self.call(Name::And, vec![accumulator, body]);
                (init, condition, step, self.accumulator())
            }
            Quantifier::Exists => {
                let init = self.literal(Value::Bool(false));
                let accumulator = self.accumulator();
                let not = self.call(Name::Not, vec![accumulator]);
                let condition = self.call(Name::NotStrictlyFalse, vec![not]);
                let accumulator = self.accumulator();
                let step = self.call(Name::Or, vec![accumulator, body]);
                (init, condition, step, self.accumulator())
            }
            Quantifier::ExistsOne => {
                let init = self.literal(Value::Int(0));
                let condition = self.literal(Value::Bool(true));
                let (accumulator, one) = (self.accumulator(), self.literal(Value::Int(1)));
                let more = self.call(Name::Add, vec![accumulator, one]);
                let accumulator = self.accumulator();
                let step = self.call(Name::Conditional, vec![body, more, accumulator]);
                let (accumulator, one) = (self.accumulator(), self.literal(Value::Int(1)));
                (init, condition, step, self.call(Name::Equals, vec![accumulator, one]))
            }
        }
    }

    /// The names of the variables of a loop.
    fn variables(&self, which: Macro, variables: &[ExprId]) -> Result<(Arc<str>, Option<Arc<str>>), Fault> {
        let two = variables.len() == 2;
        let message = match which {
            Macro::Map | Macro::Filter if !two => "argument is not an identifier",
            _ => "argument must be a simple name",
        };
        let mut names = Vec::with_capacity(2);
        for variable in variables {
            names.push(self.builder.ident(*variable).ok_or_else(|| self.fault(*variable, message))?.clone());
        }
        if let ([first, second], [_, at]) = (&*names, variables)
            && first == second
        {
            return Err(self.fault(*at, format!("duplicate variable name: {first}")));
        }
        for (name, variable) in names.iter().zip(variables) {
            if &**name == ACCUMULATOR || &**name == OLD_ACCUMULATOR {
                return Err(self.fault(*variable, "iteration variable overwrites accumulator variable"));
            }
        }
        let mut names = names.into_iter();
        Ok((names.next().unwrap_or_default(), names.next()))
    }
}
