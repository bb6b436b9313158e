//! Calls: which overloads of a function take the arguments, and what the result is.

use super::{Checker, Reference, faults};
use crate::ast::{Expr, ExprId};
use crate::types::{Opaque, Type};
use crate::{Function, Overload};
use std::sync::Arc;

impl<'a> Checker<'a> {
    pub(super) fn check_call(&mut self, id: ExprId, name: &str, target: Option<ExprId>, args: &'a [ExprId]) {
        if name == "_?._" {
            return self.check_optional_select(id, args);
        }
        for arg in args {
            self.check(*arg);
        }
        let Some(target) = target else {
            return match self.find_function(name) {
                Some(function) => {
                    if *name != *function.name {
                        self.rewrite_call(id, function, args);
                    }
                    self.check_overloads(id, function, None, args);
                }
                None => self.undeclared_function(id, name),
            };
        };
        // `a.b.c()` is the function `a.b.c` if there is one, otherwise the function `c` of `a.b`.
        if let Some(mut whole) = self.qualified(target) {
            whole.push('.');
            whole.push_str(name);
            if let Some(function) = self.find_function(&whole) {
                self.rewrite_call(id, function, args);
                return self.check_overloads(id, function, None, args);
            }
        }
        self.check(target);
        match self.find_function(name) {
            Some(function) => self.check_overloads(id, function, Some(target), args),
            None => self.undeclared_function(id, name),
        }
    }

    fn undeclared_function(&mut self, id: ExprId, name: &str) {
        self.set_type(id, Type::Error);
        self.report(id, || faults::undeclared(name));
    }

    /// Makes a node a call of a function by its whole name.
    fn rewrite_call(&mut self, id: ExprId, function: &Function, args: &[ExprId]) {
        let function = function.name.clone();
        self.rewrites.push((id, Expr::Call { function, target: None, args: args.to_vec() }));
    }

    fn check_overloads(
        &mut self,
        id: ExprId,
        function: &'a Function,
        target: Option<ExprId>,
        args: &[ExprId],
    ) {
        let operands: Vec<Type> =
            target.iter().chain(args).map(|operand| self.type_of(*operand).clone()).collect();
        let logical = matches!(&*function.name, "_&&_" | "_||_");
        let mut overloads = Vec::new();
        let mut result: Option<Type> = None;
        for overload in &function.overloads {
            if overload.member != target.is_some()
                || (!self.numeric_comparisons && compares_numbers(overload.id))
            {
                continue;
            }
            if logical {
                return self.check_logical(id, overload.id, args, &operands);
            }
            let Some(found) = self.call(overload, &operands) else { continue };
            overloads.push(overload.id);
            result = Some(match result {
                None => found,
                Some(before) if before.is_dyn() || self.substitution.is_same(&found, &before) => before,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(result) => {
                self.set_type(id, result);
                self.set_reference(id, Reference::Call(overloads));
            }
            None => {
                self.report_overload(id, function, operands, target.is_some());
                self.set_type(id, Type::Error);
            }
        }
    }

    fn report_overload(&mut self, id: ExprId, function: &Function, mut operands: Vec<Type>, member: bool) {
        for operand in &mut operands {
            *operand = self.substitution.close(operand);
        }
        self.report(id, || faults::no_overload(&function.name, &operands, member));
    }

    /// The operands of `&&` and `||` are booleans, each of which is looked at by itself.
    fn check_logical(&mut self, id: ExprId, overload: &'static str, args: &[ExprId], operands: &[Type]) {
        let mut ty = Type::Bool;
        for (arg, operand) in args.iter().zip(operands) {
            if !self.substitution.is_assignable(operand, &Type::Bool) {
                self.report(*arg, || faults::mismatch(&Type::Bool, operand));
                ty = Type::Error;
            }
        }
        if ty == Type::Bool {
            self.set_reference(id, Reference::Call(vec![overload]));
        }
        self.set_type(id, ty);
    }

    /// The result of a call, if the overload takes the operands.
    fn call(&mut self, overload: &Overload, operands: &[Type]) -> Option<Type> {
        let params = self.fresh_params(overload);
        if overload.params.len() != operands.len() {
            return None;
        }
        let mut fits = true;
        for (operand, param) in operands.iter().zip(&overload.params) {
            fits = match params.instance(param) {
                Some(param) => self.substitution.assigns(operand, &param),
                None => self.substitution.assigns(operand, param),
            };
            if !fits {
                break;
            }
        }
        self.substitution.settle(fits).then(|| match params.instance(&overload.result) {
            Some(result) => self.substitution.resolve(&result),
            None => overload.result.clone(),
        })
    }

    /// An unknown for each parameter of a signature.
    fn fresh_params<'o>(&mut self, overload: &'o Overload) -> Params<'o> {
        let mut params = Params(Vec::new());
        for ty in std::iter::once(&overload.result).chain(&overload.params) {
            self.collect_params(ty, &mut params);
        }
        params
    }

    fn collect_params<'o>(&mut self, ty: &'o Type, params: &mut Params<'o>) {
        match ty {
            Type::Param(name) if params.find(name).is_none() => {
                params.0.push((name, self.substitution.fresh()));
            }
            Type::List(element) => self.collect_params(element, params),
            Type::Map(entry) => {
                self.collect_params(&entry.0, params);
                self.collect_params(&entry.1, params);
            }
            Type::Type(Some(of)) => self.collect_params(of, params),
            Type::Opaque(opaque) => opaque.params.iter().for_each(|param| self.collect_params(param, params)),
            _ => {}
        }
    }
}

/// The unknowns that the parameters of a signature are in a call.
struct Params<'o>(Vec<(&'o Arc<str>, Type)>);

impl Params<'_> {
    fn find(&self, name: &Arc<str>) -> Option<&Type> {
        self.0.iter().find(|(there, _)| *there == name).map(|(_, var)| var)
    }

    /// A type of the signature as a type of the call; `None` if it has no parameters.
    fn instance(&self, ty: &Type) -> Option<Type> {
        if self.0.is_empty() {
            return None;
        }
        match ty {
            Type::Param(name) => self.find(name).cloned(),
            Type::List(element) => self.instance(element).map(Type::list),
            Type::Map(entry) => {
                let (key, value) = (self.instance(&entry.0), self.instance(&entry.1));
                if key.is_none() && value.is_none() {
                    return None;
                }
                let key = key.unwrap_or_else(|| entry.0.clone());
                Some(Type::map(key, value.unwrap_or_else(|| entry.1.clone())))
            }
            Type::Type(Some(of)) => self.instance(of).map(|of| Type::Type(Some(Arc::new(of)))),
            Type::Opaque(opaque) => {
                let params = opaque.params.iter();
                let params =
                    params.map(|param| self.instance(param).unwrap_or_else(|| param.clone())).collect();
                Some(Type::Opaque(Arc::new(Opaque { name: opaque.name.clone(), params })))
            }
            _ => None,
        }
    }
}

/// Whether an overload compares numbers of different types.
fn compares_numbers(id: &str) -> bool {
    let Some((operation, right)) = id.rsplit_once('_') else { return false };
    let Some((operation, left)) = operation.rsplit_once('_') else { return false };
    let is_number = |name: &str| matches!(name, "int64" | "uint64" | "double");
    is_number(left)
        && is_number(right)
        && matches!(operation, "less" | "less_equals" | "greater" | "greater_equals")
}
