//! An expression outside of schemas: of a policy, a match condition or a configuration file.

use cel::types::RuntimeNames;
use cel::value::Value;
use cel::{Budget, Checked, Env, Outcome, Program, Type};
use std::fmt;

/// An expression that was compiled, with the type of its value.
#[derive(Debug)]
pub struct Compiled {
    program: Program,
    result_type: Type,
}

/// Why an expression could not be compiled, in the words of the reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The expression is at fault.
    Invalid(String),
    /// A checked expression could not be planned.
    Internal(String),
}

impl Compiled {
    /// Compiles an expression whose value has one of these types; `Type::Any` stands for every type.
    /// `mismatch` says what is wrong with a value of another type.
    pub fn new(
        env: &Env,
        text: &str,
        wanted: &[Type],
        mismatch: impl FnOnce(&Type) -> String,
    ) -> Result<Self, Fault> {
        let checked = check(env, text)?;
        let result_type = checked.result_type();
        if !wanted.iter().any(|wanted| wanted == result_type || *wanted == Type::Any) {
            return Err(Fault::Invalid(mismatch(result_type)));
        }
        Self::of(env, &checked)
    }

    /// Plans an expression that was checked.
    pub(crate) fn of(env: &Env, checked: &Checked) -> Result<Self, Fault> {
        let program = env.program(checked);
        let program =
            program.map_err(|why| Fault::Internal(format!("program instantiation failed: {why}")))?;
        Ok(Self { program, result_type: checked.result_type().clone() })
    }

    /// The type of the value.
    pub fn result_type(&self) -> &Type {
        &self.result_type
    }

    /// The value for the values of variables, by slot ([`Env::variable`]).
    pub fn evaluate<'a>(&'a self, slots: &[Value<'a>], budget: &mut Budget<'_>) -> Outcome<'a> {
        self.program.evaluate(slots, budget)
    }
}

impl Fault {
    /// What is wrong.
    pub fn detail(&self) -> &str {
        match self {
            Self::Invalid(detail) | Self::Internal(detail) => detail,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

impl std::error::Error for Fault {}

/// Parses an expression and finds its types.
pub(crate) fn check(env: &Env, text: &str) -> Result<Checked, Fault> {
    env.compile(text).map_err(|issues| Fault::Invalid(format!("compilation failed: {issues}")))
}

/// `must evaluate to bool`, or to one of several types.
pub fn must_evaluate_to(wanted: &[Type]) -> String {
    match wanted {
        [one] => format!("must evaluate to {}", RuntimeNames(one)),
        several => {
            let shown: Vec<String> = several.iter().map(|ty| RuntimeNames(ty).to_string()).collect();
            format!("must evaluate to one of [{}]", shown.join(" "))
        }
    }
}
