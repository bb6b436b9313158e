//! The check of a policy's expressions with the types of one kind.
//!
//! A policy is stored with expressions that take objects for values of any type. What they would do to the
//! objects of a kind that the policy matches is found out here. Nothing is evaluated, and the type of the
//! result does not matter.

use super::scope::REQUEST;
use super::variables::{DeclaredVariables, TYPE_NAME};
use crate::rule::type_name;
use cel::declared::{Declared, DeclaredTypes};
use cel::library::authz;
use cel::{Env, Type};
use std::sync::Arc;

/// The expressions of a policy, if `object` and `oldObject` are of one kind.
pub struct TypeCheck {
    env: Env,
    variables: Arc<DeclaredVariables>,
}

/// A kind, and what its schema declares.
#[derive(Clone, Debug)]
pub struct DeclaredKind {
    /// The name of the kind: `Pod`.
    pub kind: Box<str>,
    /// What its objects are.
    pub declared: Arc<Declared>,
}

impl TypeCheck {
    /// For objects of a kind, and for parameters of another one, if their kind is known: otherwise there is
    /// no `params`.
    pub fn new(object: &DeclaredKind, params: Option<&DeclaredKind>) -> Self {
        let variables = Arc::new(DeclaredVariables::default());
        let objects = object.types();
        let ty = objects.root();
        let mut env = REQUEST
            .stored
            .extend()
            .types(objects)
            .types(variables.clone())
            .variable("object", ty.clone())
            .variable("oldObject", ty)
            .variable("authorizer", authz::authorizer_type())
            .variable("variables", Type::object(TYPE_NAME));
        if let Some(types) = params.map(DeclaredKind::types) {
            let ty = types.root();
            env = env.types(types).variable("params", ty);
        }
        Self { env: env.build(), variables }
    }

    /// Adds a variable, which the expressions after it can name. One that is at fault can be of any type.
    pub fn add_variable(&self, name: &str, text: &str) {
        let checked = self.env.compile(text).ok();
        self.variables.declare(name, checked.as_ref().map(cel::Checked::result_type));
    }

    /// What is wrong with an expression, if anything is.
    pub fn faults(&self, text: &str) -> Option<String> {
        self.env.compile(text).err().map(|issues| issues.to_string())
    }
}

impl DeclaredKind {
    fn types(&self) -> Arc<DeclaredTypes> {
        Arc::new(DeclaredTypes::new(&type_name(&self.kind), self.declared.clone()))
    }
}
