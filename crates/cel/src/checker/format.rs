//! Whether the arguments of `format` fit the clauses of its text, as far as their types say.

use super::Checked;
use crate::ast::{Expr, ExprId};
use crate::library::strings::{Clause, ClauseFault, Piece, clauses};
use crate::types::Type;

/// A text and arguments that do not fit.
pub(super) struct Fault {
    /// The argument at fault; `None` if it is the call.
    pub(super) at: Option<ExprId>,
    /// What is wrong.
    pub(super) message: String,
}

impl Fault {
    fn of_call(message: impl Into<String>) -> Self {
        Self { at: None, message: message.into() }
    }
}

/// What is wrong with a text and its arguments.
pub(super) fn check(checked: &Checked, text: &str, args: &[ExprId]) -> Option<Fault> {
    match checked_clauses(checked, text, args) {
        Err(fault) => Some(fault),
        Ok(used) if args.len() > used => Some(Fault::of_call(format!(
            "too many arguments supplied to string.format (expected {used}, got {})",
            args.len()
        ))),
        Ok(_) => None,
    }
}

/// The number of arguments that the text uses.
fn checked_clauses(checked: &Checked, text: &str, args: &[ExprId]) -> Result<usize, Fault> {
    let mut used = 0;
    for piece in clauses(text) {
        let Piece::Clause(clause) = piece else { continue };
        if clause == Err(ClauseFault::End) {
            return Err(Fault::of_call(ClauseFault::End.to_string()));
        }
        let arg = args.get(used).ok_or_else(|| Fault::of_call(format!("index {used} out of range")))?;
        let clause = clause.map_err(|fault| Fault::of_call(fault.to_string()))?;
        if let Some(at) = unfit(checked, clause, *arg) {
            let given = checked.type_of(at).name();
            let message = format!("error during formatting: {}, was given {given}", clause.takes());
            return Err(Fault { at: Some(at), message });
        }
        used += 1;
    }
    Ok(used)
}

/// The part of an argument that a clause does not take.
fn unfit(checked: &Checked, clause: Clause, arg: ExprId) -> Option<ExprId> {
    let ty = checked.type_of(arg).unwrapped();
    let fits = match clause {
        Clause::Text => return unfit_for_text(checked, arg),
        Clause::Decimal | Clause::Octal => matches!(ty, Type::Int | Type::Uint),
        Clause::Fixed(_) | Clause::Scientific(_) => matches!(ty, Type::Double | Type::String),
        Clause::Binary => matches!(ty, Type::Int | Type::Uint | Type::Bool),
        Clause::Hexadecimal { .. } => matches!(ty, Type::Int | Type::Uint | Type::String | Type::Bytes),
    };
    (*ty != Type::Dyn && !fits).then_some(arg)
}

/// The part of an argument that cannot be shown as text.
fn unfit_for_text(checked: &Checked, arg: ExprId) -> Option<ExprId> {
    let fits = matches!(
        checked.type_of(arg).unwrapped(),
        Type::Dyn
            | Type::List(_)
            | Type::Map(_)
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Bool
            | Type::String
            | Type::Timestamp
            | Type::Bytes
            | Type::Duration
            | Type::Type(_)
            | Type::Null
    );
    if !fits {
        return Some(arg);
    }
    match checked.ast.expr(arg) {
        Expr::List { elements, .. } => elements.iter().find_map(|element| unfit_for_text(checked, *element)),
        Expr::Map(entries) => entries.iter().find_map(|entry| {
            unfit_for_text(checked, entry.key).or_else(|| unfit_for_text(checked, entry.value))
        }),
        _ => None,
    }
}
