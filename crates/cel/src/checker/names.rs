//! What names mean: local names of loops, variables, types, and the one constant that there is.

use super::Checker;
use super::messages;
use crate::Function;
use crate::ast::{Expr, ExprId};
use crate::types::{OPTIONAL, Type};
use crate::value::Value;
use std::sync::Arc;

/// What a name refers to.
pub(super) struct Named {
    /// Its whole name, without a leading dot.
    pub(super) name: Arc<str>,
    /// Its type.
    pub(super) ty: Type,
    /// Its value, if it is a type or a constant.
    pub(super) value: Option<Value<'static>>,
}

impl<'a> Checker<'a> {
    /// What a name refers to. Names are not looked for in containers, so that a leading dot says nothing; a
    /// local name is found behind it too, as by cel-go.
    pub(super) fn find(&self, name: &str) -> Option<Named> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((there, ty)) = self.locals.iter().rev().find(|(there, _)| **there == *name) {
            return Some(Named { name: there.clone(), ty: ty.clone(), value: None });
        }
        if let Some((_, variable)) = self.env.variable(name) {
            return Some(Named { name: variable.name.clone(), ty: variable.ty.clone(), value: None });
        }
        if let Some(ty) = standard(name) {
            return Some(Named::of_type(name, ty));
        }
        if name == OPTIONAL && self.env.settings().optional_syntax {
            return Some(Named::of_type(name, Type::opaque(name, Vec::new())));
        }
        let provided = self.env.providers().find_map(|types| Some((types, types.find(name)?)));
        if let Some((types, ty)) = provided {
            let named = Named::of_type(name, ty);
            return Some(if types.is_value(name) { named } else { Named { value: None, ..named } });
        }
        if let Some(ty) = messages::find(name) {
            return Some(Named::of_type(name, ty));
        }
        (name == "google.protobuf.NullValue.NULL_VALUE").then(|| Named {
            name: name.into(),
            ty: Type::Int,
            value: Some(Value::Int(0)),
        })
    }

    /// The function of a name.
    pub(super) fn find_function(&self, name: &str) -> Option<&'a Arc<Function>> {
        self.env.function(name.strip_prefix('.').unwrap_or(name))
    }

    /// The name that selects of a name make together: `a.b.c`.
    pub(super) fn qualified(&self, id: ExprId) -> Option<String> {
        let mut fields = Vec::new();
        let mut at = id;
        let base = loop {
            match self.ast.expr(at) {
                Expr::Ident(name) => break name,
                Expr::Select { operand, field, test_only: false } => {
                    fields.push(field);
                    at = *operand;
                }
                _ => return None,
            }
        };
        let mut name = String::with_capacity(64);
        name.push_str(base);
        for field in fields.into_iter().rev() {
            name.push('.');
            name.push_str(field);
        }
        Some(name)
    }

    /// Whether there is an object type of this name, whose fields are known.
    pub(super) fn is_object(&self, name: &str) -> bool {
        self.env.providers().any(|types| types.has_fields(name)) || messages::find(name).is_some()
    }

    /// The type of a field of an object type.
    pub(super) fn find_field(&self, name: &str, field: &str) -> Option<Type> {
        self.env.find_field(name, field).or_else(|| messages::field(name, field))
    }
}

impl Named {
    /// The name of a type. Its value is the type if evaluation finds it by this name: the wrappers and the
    /// types of JSON have no value of their own.
    fn of_type(name: &str, ty: Type) -> Self {
        let is_value = !matches!(ty, Type::Wrapper(_) | Type::Dyn | Type::Any) && ty.name() == name;
        let value = is_value.then(|| Value::Type(ty.clone()));
        Self { name: name.into(), ty: Type::Type(Some(Arc::new(ty))), value }
    }
}

/// The types that have names in the language itself.
fn standard(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "bytes" => Type::Bytes,
        "double" => Type::Double,
        "google.protobuf.Duration" => Type::Duration,
        "int" => Type::Int,
        "list" => Type::list(Type::param("A")),
        "map" => Type::map(Type::param("A"), Type::param("B")),
        "null_type" => Type::Null,
        "string" => Type::String,
        "google.protobuf.Timestamp" => Type::Timestamp,
        "type" => Type::Type(None),
        "uint" => Type::Uint,
        _ => return None,
    })
}
