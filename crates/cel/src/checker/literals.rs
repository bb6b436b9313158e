//! What is checked of constants once the types are right: cel-go's validators. A duration, a timestamp and a
//! pattern that is written in the expression can be read, the elements of a list or a map that is written are
//! of one type, and the arguments of `format` fit the text that they are for.

use super::{Checked, Reference, faults, format};
use crate::ast::{Ast, Expr, ExprId, MapEntry};
use crate::value::Value;
use crate::{Env, Issues, Run, Type};

/// The function whose arguments may be of different types.
const FORMAT: &str = "format";

/// Reports what is wrong with constants of a checked expression.
pub(super) fn check(env: &Env, checked: &Checked, issues: &mut Issues) {
    let settings = env.settings();
    if !(settings.checks_literals || settings.homogeneous_literals) || !checked.ast.nodes.iter().any(concerns)
    {
        return;
    }
    let mut found = Found::default();
    found.visit(&checked.ast, checked.ast.root(), Place::Free);
    let mut report = |id, message| issues.report(offset(&checked.ast, id), message);
    for id in found.lists {
        check_list(checked, id, &mut report);
    }
    for id in found.maps {
        check_map(checked, id, &mut report);
    }
    if !settings.checks_literals {
        return;
    }
    for function in ["duration", "timestamp", "matches"] {
        for (id, _) in found.calls.iter().filter(|(_, name)| *name == function) {
            if let Some(arg) = invalid_argument(env, checked, *id, function) {
                report(arg, format!("invalid {function} argument"));
            }
        }
    }
    for (id, _) in found.calls.iter().filter(|(_, name)| *name == FORMAT) {
        if let Some((id, message)) = invalid_format(checked, *id) {
            report(id, message);
        }
    }
}

/// Whether there is something to check of a node.
fn concerns(node: &crate::ast::Node) -> bool {
    match &node.expr {
        Expr::List { elements, .. } => elements.len() > 1,
        Expr::Map(entries) => entries.len() > 1,
        Expr::Call { function, .. } => named(function).is_some(),
        _ => false,
    }
}

/// The name of a function whose arguments are checked.
fn named(function: &str) -> Option<&'static str> {
    ["duration", "timestamp", "matches", FORMAT].into_iter().find(|name| *name == function)
}

fn offset(ast: &Ast, id: ExprId) -> u32 {
    ast.nodes.get(id.0 as usize).map_or(0, |node| node.offset)
}

/// The nodes to check, operands before what they belong to.
#[derive(Default)]
struct Found {
    lists: Vec<ExprId>,
    maps: Vec<ExprId>,
    calls: Vec<(ExprId, &'static str)>,
}

/// Where a node is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Free,
    /// Within a call of `format`.
    Formatted,
}

impl Found {
    fn visit(&mut self, ast: &Ast, id: ExprId, place: Place) {
        match ast.expr(id) {
            Expr::Literal(_) | Expr::Ident(_) => {}
            Expr::Select { operand, .. } => self.visit(ast, *operand, place),
            Expr::Call { function, target, args } => {
                let inner = if **function == *FORMAT { Place::Formatted } else { place };
                for operand in target.iter().chain(args) {
                    self.visit(ast, *operand, inner);
                }
                self.calls.extend(named(function).map(|name| (id, name)));
            }
            Expr::List { elements, .. } => {
                for element in elements {
                    self.visit(ast, *element, place);
                }
                if place == Place::Free {
                    self.lists.push(id);
                }
            }
            Expr::Map(entries) => {
                for entry in entries {
                    self.visit(ast, entry.key, place);
                    self.visit(ast, entry.value, place);
                }
                if place == Place::Free {
                    self.maps.push(id);
                }
            }
            Expr::Struct { fields, .. } => {
                for field in fields {
                    self.visit(ast, field.value, place);
                }
            }
            Expr::Comprehension(comprehension) => {
                let of = comprehension;
                for part in [of.range, of.init, of.condition, of.step, of.result] {
                    self.visit(ast, part, place);
                }
            }
        }
    }
}

/// The type of an element; what an optional one may be.
fn element_type(checked: &Checked, id: ExprId, optional: bool) -> &Type {
    let ty = checked.type_of(id);
    if optional { ty.as_optional().unwrap_or(ty) } else { ty }
}

/// Reports the first element of a list that is not of the type of the first one.
fn check_list(checked: &Checked, id: ExprId, report: &mut impl FnMut(ExprId, String)) {
    let Expr::List { elements, optional } = checked.ast.expr(id) else { return };
    let mut optional = optional.iter().peekable();
    let mut first: Option<&Type> = None;
    for (place, element) in elements.iter().enumerate() {
        let is_optional = optional.next_if(|next| **next as usize == place).is_some();
        let ty = element_type(checked, *element, is_optional);
        match first {
            None => first = Some(ty),
            Some(first) if first.is_equivalent(ty) => {}
            Some(first) => return report(*element, faults::mismatch(first, ty)),
        }
    }
}

/// Reports keys and values of a map that are not of the types of the first entry.
fn check_map(checked: &Checked, id: ExprId, report: &mut impl FnMut(ExprId, String)) {
    let Expr::Map(entries) = checked.ast.expr(id) else { return };
    let types =
        |entry: &MapEntry| (checked.type_of(entry.key), element_type(checked, entry.value, entry.optional));
    let Some((first, others)) = entries.split_first() else { return };
    let (keys, values) = types(first);
    for entry in others {
        let (key, value) = types(entry);
        if !keys.is_equivalent(key) {
            report(entry.key, faults::mismatch(keys, key));
        }
        if !values.is_equivalent(value) {
            report(entry.value, faults::mismatch(values, value));
        }
    }
}

/// The first argument of a call, if it is a constant that the function cannot read. What `matches(text,
/// pattern)` has first is the text, which cel-go takes for the pattern.
fn invalid_argument(env: &Env, checked: &Checked, call: ExprId, function: &str) -> Option<ExprId> {
    let Expr::Call { args, .. } = checked.ast.expr(call) else { return None };
    let arg = *args.first()?;
    let Expr::Literal(value) = checked.ast.expr(arg) else { return None };
    let is_valid = match (function, value) {
        ("matches", Value::String(pattern)) => pattern::check_pattern(pattern.as_str()).is_ok(),
        ("matches", _) => true,
        _ => is_readable(env, function, checked.type_of(arg), value),
    };
    (!is_valid).then_some(arg)
}

/// Whether a function has a value for a constant.
fn is_readable(env: &Env, function: &str, ty: &Type, value: &Value<'static>) -> bool {
    let overloads = env.function(function).map(|function| function.overloads.as_slice()).unwrap_or_default();
    let overload = overloads.iter().find(|overload| !overload.member && *overload.params == [ty.clone()]);
    match overload.map(|overload| overload.run) {
        Some(Run::Call(run)) => run(std::slice::from_ref(value)).is_ok(),
        Some(_) => true,
        // The types let `null` be a point in time; the function does not.
        None => false,
    }
}

/// What is wrong with a call of `format`, if both the text and the list of arguments are written in it.
fn invalid_format(checked: &Checked, call: ExprId) -> Option<(ExprId, String)> {
    let Expr::Call { target: Some(target), args, .. } = checked.ast.expr(call) else { return None };
    let is_of_texts = match checked.references.get(call.0 as usize) {
        Some(Some(Reference::Call(overloads))) => overloads.contains(&"string_format"),
        _ => true,
    };
    let (Expr::Literal(Value::String(text)), [args]) = (checked.ast.expr(*target), args.as_slice()) else {
        return None;
    };
    match checked.ast.expr(*args) {
        Expr::List { elements, .. } if is_of_texts => format::check(checked, text.as_str(), elements)
            .map(|fault| (fault.at.unwrap_or(call), fault.message)),
        _ => None,
    }
}
