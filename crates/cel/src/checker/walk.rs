//! The types of nodes, from the leaves up.
//!
//! The walk recurses over the tree, whose depth is bounded before it ([`super::check`]).

use super::Checker;
use super::messages;
use super::names::Named;
use super::substitution::is_dyn_or_error;
use super::{Reference, faults};
use crate::Type;
use crate::ast::{Comprehension, Expr, ExprId, MapEntry, StructField};
use crate::value::Value;
use std::sync::Arc;

impl Checker<'_> {
    /// Finds the type of a node and of all nodes below it.
    pub(super) fn check(&mut self, id: ExprId) {
        if self.types_are_too_large() {
            return;
        }
        match self.ast.expr(id) {
            Expr::Literal(value) => self.check_literal(id, value),
            Expr::Ident(name) => self.check_ident(id, name),
            Expr::Select { operand, field, test_only } => self.check_select(id, *operand, field, *test_only),
            Expr::Call { function, target, args } => self.check_call(id, function, *target, args),
            Expr::List { elements, optional } => self.check_list(id, elements, optional),
            Expr::Map(entries) => self.check_map(id, entries),
            Expr::Struct { name, fields } => self.check_struct(id, name, fields),
            Expr::Comprehension(comprehension) => self.check_comprehension(id, comprehension),
        }
    }

    fn check_literal(&mut self, id: ExprId, value: &Value<'_>) {
        let ty = match value {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            _ => Type::Error,
        };
        self.set_type(id, ty);
    }

    fn check_ident(&mut self, id: ExprId, name: &str) {
        match self.find(name) {
            Some(named) => self.refer(id, named),
            None => {
                self.set_type(id, Type::Error);
                self.report(id, || faults::undeclared(name));
            }
        }
    }

    /// Notes that a node is a name.
    fn refer(&mut self, id: ExprId, named: Named) {
        if !matches!(self.ast.expr(id), Expr::Ident(name) if *name == named.name) {
            self.rewrites.push((id, Expr::Ident(named.name.clone())));
        }
        self.set_type(id, named.ty);
        self.set_reference(id, Reference::Ident(named.name, named.value));
    }

    fn check_select(&mut self, id: ExprId, operand: ExprId, field: &str, test_only: bool) {
        if let Some(named) = self.qualified(id).and_then(|name| self.find(&name)) {
            return self.refer(id, named);
        }
        let field = self.select(id, operand, field, Optional::AsOperand);
        let ty = if test_only { Type::Bool } else { self.substitution.resolve(&field) };
        self.set_type(id, ty);
    }

    /// `operand.?field`, a call with the name of the field as a text.
    pub(super) fn check_optional_select(&mut self, id: ExprId, args: &[ExprId]) {
        let &[operand, field] = args else { return };
        let Expr::Literal(Value::String(name)) = self.ast.expr(field) else {
            return self.report(field, || "unsupported optional field selection".to_owned());
        };
        let ty = self.select(id, operand, name.as_str(), Optional::Always);
        let ty = self.substitution.resolve(&ty);
        self.set_type(id, ty);
        self.set_reference(id, Reference::Call(vec!["select_optional_field"]));
    }

    /// The type of a field; of an optional one it is optional.
    fn select(&mut self, id: ExprId, operand: ExprId, field: &str, optional: Optional) -> Type {
        self.check(operand);
        let operand = self.resolved(operand);
        let of = operand.as_optional();
        let is_optional = of.is_some() || matches!(optional, Optional::Always);
        let target = of.unwrap_or(&operand);
        let ty = match target {
            Type::Map(entry) => entry.1.clone(),
            Type::Struct(name) => self.field(id, name, field).unwrap_or(Type::Error),
            Type::Var(_) => {
                // What is selected from is of any type from here on.
                self.substitution.is_assignable(&Type::Dyn, target);
                Type::Dyn
            }
            _ => {
                if !is_dyn_or_error(target) {
                    self.report(id, || faults::not_selectable(target));
                }
                Type::Dyn
            }
        };
        if is_optional { Type::optional(ty) } else { ty }
    }

    /// The type of a field of an object type; without one a fault is reported.
    fn field(&mut self, id: ExprId, name: &str, field: &str) -> Option<Type> {
        if !self.is_object(name) {
            self.report(id, || faults::unresolved(name));
            return None;
        }
        let found = self.find_field(name, field);
        if found.is_none() {
            self.report(id, || faults::undefined_field(field));
        }
        found
    }

    fn check_list(&mut self, id: ExprId, elements: &[ExprId], optional: &[u32]) {
        let mut optional = optional.iter().peekable();
        let mut joined = None;
        for (place, &element) in elements.iter().enumerate() {
            self.check(element);
            let mut ty = self.type_of(element).clone();
            if optional.next_if(|next| **next as usize == place).is_some() {
                ty = self.unwrap_optional(element, ty);
            }
            joined = Some(self.join(joined, ty));
        }
        let element = joined.unwrap_or_else(|| self.substitution.fresh());
        self.set_composed(id, Type::list(element));
    }

    fn check_map(&mut self, id: ExprId, entries: &[MapEntry]) {
        let mut joined: Option<(Type, Type)> = None;
        for entry in entries {
            let (keys, values) = joined.unzip();
            self.check(entry.key);
            let key = self.type_of(entry.key).clone();
            let key = self.join(keys, key);
            self.check(entry.value);
            let mut value = self.type_of(entry.value).clone();
            if entry.optional {
                value = self.unwrap_optional(entry.value, value);
            }
            joined = Some((key, self.join(values, value)));
        }
        let (key, value) = joined.unwrap_or_else(|| (self.substitution.fresh(), self.substitution.fresh()));
        self.set_composed(id, Type::map(key, value));
    }

    /// Sets a type that was put together, which only here can have grown: what is resolved is measured by
    /// that.
    fn set_composed(&mut self, id: ExprId, ty: Type) {
        self.substitution.measure(&ty);
        self.set_type(id, ty);
    }

    /// What an optional element may be; if it is not optional, a fault is reported.
    fn unwrap_optional(&mut self, id: ExprId, ty: Type) -> Type {
        match ty.as_optional() {
            Some(of) => of.clone(),
            None => {
                if !ty.is_dyn() {
                    self.report(id, || faults::mismatch(&Type::optional(ty.clone()), &ty));
                }
                ty
            }
        }
    }

    /// The type of elements of both types. Whether elements may be of different types is checked afterwards.
    fn join(&mut self, before: Option<Type>, ty: Type) -> Type {
        let Some(before) = before else { return ty };
        if self.substitution.is_assignable(&before, &ty) {
            return self.substitution.most_general(before, ty);
        }
        Type::Dyn
    }

    fn check_struct(&mut self, id: ExprId, name: &str, fields: &[StructField]) {
        let Some(named) = self.find(name) else {
            self.report(id, || faults::undeclared(name));
            return self.set_type(id, Type::Error);
        };
        if *name != *named.name {
            let fields = fields.to_vec();
            self.rewrites.push((id, Expr::Struct { name: named.name.clone(), fields }));
        }
        self.set_reference(id, Reference::Ident(named.name.clone(), None));
        let mut message = named.name.clone();
        let ty = match &named.ty {
            Type::Error => Type::Error,
            Type::Type(of) => {
                let of = of.as_deref().unwrap_or(&Type::Type(None)).clone();
                match (messages::name(&of), &of) {
                    (Some(well_known), _) => message = well_known.into(),
                    (None, Type::Struct(name)) => message = name.clone(),
                    (None, other) => self.report(id, || faults::not_a_message(other)),
                }
                let is_message = messages::name(&of).is_some() || matches!(of, Type::Struct(_));
                if is_message { of } else { Type::Error }
            }
            other => {
                self.report(id, || faults::not_a_type(other));
                Type::Error
            }
        };
        self.set_type(id, ty);
        for field in fields {
            self.check_field(field, &message);
        }
    }

    fn check_field(&mut self, field: &StructField, message: &Arc<str>) {
        self.check(field.value);
        let wanted = self.field(field.id, message, &field.name).unwrap_or(Type::Error);
        let mut ty = self.type_of(field.value).clone();
        if field.optional {
            ty = self.unwrap_optional(field.value, ty);
        }
        if !self.substitution.is_assignable(&wanted, &ty) {
            self.report(field.id, || faults::field_mismatch(&field.name, &wanted, &ty));
        }
    }

    fn check_comprehension(&mut self, id: ExprId, comprehension: &Comprehension) {
        self.check(comprehension.range);
        self.check(comprehension.init);
        let range = self.resolved(comprehension.range);
        let accu = self.type_of(comprehension.init).clone();
        let outer = self.locals.len();
        self.locals.push((comprehension.accu.clone(), accu.clone()));
        // cel-go forgets within a loop, and after it, that numbers of different types cannot be compared.
        self.numeric_comparisons = true;
        let (first, second) = match &range {
            Type::List(element) if comprehension.var2.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(entry) => (**entry).clone(),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.substitution.is_assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                self.report(comprehension.range, || faults::not_a_range(other));
                (Type::Error, Type::Error)
            }
        };
        let inner = self.locals.len();
        self.locals.push((comprehension.var.clone(), first));
        if let Some(var2) = &comprehension.var2 {
            self.locals.push((var2.clone(), second));
        }
        self.check(comprehension.condition);
        self.expect_type(comprehension.condition, &Type::Bool);
        self.check(comprehension.step);
        self.expect_type(comprehension.step, &accu);
        self.locals.truncate(inner);
        self.check(comprehension.result);
        self.locals.truncate(outer);
        let ty = self.resolved(comprehension.result);
        self.set_type(id, ty);
    }

    /// Reports a fault if a node is not of a type.
    fn expect_type(&mut self, id: ExprId, wanted: &Type) {
        let ty = self.type_of(id).clone();
        if !self.substitution.is_assignable(wanted, &ty) {
            self.report(id, || faults::mismatch(wanted, &ty));
        }
    }
}

/// When a selected field is optional.
#[derive(Clone, Copy)]
enum Optional {
    /// If what it is selected from is optional.
    AsOperand,
    /// Always.
    Always,
}
