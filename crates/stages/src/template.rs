//! Templates in a part of Go's language: fields, variables, pipelines, `if`, `range`, `with`, and functions.
//!
//! What is not there (`define`, `template`, `block`, `break`, `continue`, other functions) is refused when a
//! template is read. What a template may do is bounded: the steps that it takes, and what it writes.
//!
//! A field that is absent has no value, at whatever depth; KWOK fails where a parent is absent. A number is
//! true unless it is zero; in KWOK the numbers of an object always are.

mod call;
mod eval;
mod parse;
mod show;
#[cfg(test)]
mod tests;

use object::Value;

/// The most steps of a template.
const MOST_STEPS: usize = 200_000;
/// The most bytes that a template writes.
const MOST_BYTES: usize = 1 << 20;
/// How deep actions and expressions may be nested.
const DEPTH: usize = 64;

/// A template that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    nodes: Vec<Node>,
}

/// Functions that know more than their arguments: of nodes and of pods.
pub trait Functions {
    /// Calls a function. `None` if there is none of this name.
    fn call(&self, name: &str, arguments: &[Value]) -> Option<Result<Value, String>>;
}

/// No further functions.
impl Functions for () {
    fn call(&self, _name: &str, _arguments: &[Value]) -> Option<Result<Value, String>> {
        None
    }
}

/// The functions that [`Functions`] may have, so that a template with another one is refused when it is read.
const FURTHER: &[&str] =
    &["NodeIP", "NodeName", "NodePort", "NodeIPWith", "NodeIPsWith", "PodIP", "PodIPWith", "PodIPsWith"];

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    /// What a pipeline gives, or the change of a variable.
    Action(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
}

/// A part that depends on a pipeline.
#[derive(Clone, Debug, PartialEq)]
struct Branch {
    pipeline: Pipeline,
    then: Vec<Node>,
    or_else: Vec<Node>,
}

/// Calls, each with the result of the one before as its last argument.
#[derive(Clone, Debug, PartialEq)]
struct Pipeline {
    /// The variables that get the result: `$x`, or `$key, $value` of a range.
    variables: Vec<String>,
    assignment: Assignment,
    calls: Vec<Call>,
}

/// What happens to the variables of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Assignment {
    /// `:=`
    Declare,
    /// `=`
    Set,
}

/// An operand, or a function with its arguments.
#[derive(Clone, Debug, PartialEq)]
enum Call {
    Operand(Operand),
    Function(String, Vec<Operand>),
}

/// A value in a pipeline.
#[derive(Clone, Debug, PartialEq)]
enum Operand {
    Literal(Value),
    /// `.`, and the fields within it.
    Dot(Vec<String>),
    /// `$x`, and the fields within it; `$` is what the template was given.
    Variable(String, Vec<String>),
    /// A pipeline in parentheses, and the fields within its result.
    Nested(Box<Pipeline>, Vec<String>),
    /// A function without arguments, as an argument.
    Function(String),
}

impl Template {
    /// Reads a template.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text.trim()).map(|nodes| Self { nodes })
    }

    /// What the template makes of an object.
    pub fn render(&self, object: &Value, functions: &dyn Functions) -> Result<String, String> {
        eval::Evaluation::new(object, functions).run(&self.nodes)
    }
}
