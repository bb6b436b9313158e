//! The mutations of a `MutatingAdmissionPolicy`: what their expressions are compiled to, and what their
//! values do to an object.
//!
//! ```
//! use cel::Budget;
//! use cel::kubernetes::{EnvSet, Release};
//! use expressions::patches::PatchType;
//! use merge::mutation;
//! use object::{Map, Value};
//! use schema::{Ref, builtin};
//!
//! let env = EnvSet::base(Release(32), true).with_patches().stored;
//! let compiled = PatchType::JsonPatch
//!     .compile(&env, r#"[JSONPatch{op: "add", path: "/immutable", value: true}]"#)
//!     .unwrap();
//! let mut budget = Budget { limit: 10_000_000, spent: 0, interrupted: None };
//! let value = compiled.evaluate(&[], &mut budget).unwrap();
//! let mutation = PatchType::JsonPatch.mutation(&value).unwrap();
//! let ty = Ref::Static(builtin::by_kind("", "v1", "ConfigMap").unwrap());
//! let mutated = mutation::apply(&ty, &Map::new().into(), mutation).unwrap();
//! assert_eq!(mutated.get("immutable"), Some(&Value::Bool(true)));
//! ```

use crate::{Compiled, Fault};
use cel::mutation::{self, Converter, Operation};
use cel::types::RuntimeNames;
use cel::{Env, Type, Value};
use merge::mutation::Mutation;

/// The type of a mutation: `patchType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `ApplyConfiguration`: the expression makes a configuration that is merged into the object.
    ApplyConfiguration,
    /// `JSONPatch`: the expression makes a list of operations.
    JsonPatch,
}

impl PatchType {
    /// The type of the expression.
    pub fn result_type(self) -> Type {
        match self {
            Self::ApplyConfiguration => mutation::apply_configuration(),
            Self::JsonPatch => mutation::json_patch(),
        }
    }

    /// Compiles the expression of a mutation, for an environment with patches
    /// ([`cel::EnvSet::with_patches`]).
    pub fn compile(self, env: &Env, text: &str) -> Result<Compiled, Fault> {
        let wanted = self.result_type();
        Compiled::new(env, text, std::slice::from_ref(&wanted), |found| {
            format!("must evaluate to {} but got {}", RuntimeNames(&wanted), RuntimeNames(found))
        })
    }

    /// What the value of the expression does. The error is the policy's, in the words of the reference.
    pub fn mutation(self, value: &Value<'_>) -> Result<Mutation, String> {
        match self {
            Self::ApplyConfiguration => configuration(value).map(Mutation::ApplyConfiguration),
            Self::JsonPatch => operations(value).map(Mutation::JsonPatch),
        }
    }
}

fn configuration(value: &Value<'_>) -> Result<object::Value, String> {
    let mut converter = Converter::new();
    check_type_names(&mut converter, value)?;
    converter.configuration(value)
}

fn check_type_names(converter: &mut Converter, value: &Value<'_>) -> Result<(), String> {
    converter.check_type_names(value).map_err(|why| format!("type mismatch: {why}"))
}

fn operations(value: &Value<'_>) -> Result<Vec<merge::mutation::Operation>, String> {
    const MISMATCH: &str = "type mismatch: JSONPatchType.expression should evaluate to array";
    let Value::List(list) = value else { return Err(MISMATCH.to_owned()) };
    let mut converter = Converter::new();
    let mut operations = Vec::with_capacity(list.len());
    for element in list.iter() {
        let element = element.map_err(|why| why.to_string())?;
        let Some(Operation { op, path, from, value }) = Operation::of(&element) else {
            let found = element.type_of();
            return Err(format!("{MISMATCH} of JSONPatch, got element of {}", found.name()));
        };
        operations.push(merge::mutation::Operation {
            op: converter.text(op)?,
            path: converter.text(path)?,
            from: converter.text(from)?,
            value: match value {
                Some(value) => Some(json(&mut converter, value)?),
                None => None,
            },
        });
    }
    Ok(operations)
}

/// The value of an operation. The types within an object are checked, and not those within a list or a map.
fn json(converter: &mut Converter, value: &Value<'_>) -> Result<object::Value, String> {
    check_type_names(converter, value)?;
    converter.json(value).map_err(|why| {
        format!("JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}")
    })
}
