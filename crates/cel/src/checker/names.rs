//! What names mean: local names of loops, variables, types, and the one constant that there is.

use super::Checker;
use super::messages;
use crate::ast::{Expr, ExprId};
use crate::types::{OPTIONAL, Type};
use crate::value::Value;
use crate::{Env, Function};
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
        let own = standard(self.env, name).or_else(|| self.env.find_type(name));
        if let Some(ty) = own.or_else(|| messages::find(name)) {
            let ty = Type::Type(Some(Arc::new(ty)));
            return Some(Named { name: name.into(), ty, value: value_of_type(self.env, name) });
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

/// The type that evaluation knows by this name. It knows fewer types than the checker: neither those that
/// schemas declare, nor wrappers, nor the messages of JSON.
pub(crate) fn value_of_type(env: &Env, name: &str) -> Option<Value<'static>> {
    let of_library = || env.providers().find(|types| types.is_value(name))?.find(name);
    let of_message = || messages::find(name).filter(|ty| matches!(ty, Type::Struct(_)));
    let ty = standard(env, name).or_else(of_library).or_else(of_message)?;
    Some(Value::Type(ty))
}

/// The types that have names in the language itself.
fn standard(env: &Env, name: &str) -> Option<Type> {
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
        OPTIONAL if env.settings().optional_syntax => Type::opaque(OPTIONAL, Vec::new()),
        _ => return None,
    })
}
