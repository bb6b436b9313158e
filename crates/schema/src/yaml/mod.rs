//! YAML: decoded by way of JSON text, and encoded from JSON text.
//!
//! Decoding matches the reference: YAML 1.1 scalars, only the first document, the same error messages and
//! line numbers. Encoding gives the same text as the reference, except where the reference loses or refuses a
//! JSON value.

mod emit;
mod from_json;
mod go;
mod json_first;
mod parse;
mod read;
mod resolve;
mod scan;
mod sort;
mod timestamp;
mod to_json;
mod token;

use crate::decode::{Decoded, Error, Fault, Limits, Strict};
use crate::model::{Shape, Type};

pub use from_json::{Writer, encode, from_json};

/// A YAML document as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Json {
    /// The text, without white space, keys sorted.
    pub text: String,
    /// One [`Strict::Yaml`] that names all duplicate keys, or nothing.
    pub strict: Vec<Strict>,
}

/// Reads an object of a type.
pub fn decode(ty: impl Into<crate::Ref<Type>>, input: &[u8], limits: &Limits) -> Result<Decoded, Error> {
    decode_shape(&Shape::Struct(ty.into()), input, limits)
}

/// Reads a value of any shape.
pub fn decode_shape(shape: &Shape, input: &[u8], limits: &Limits) -> Result<Decoded, Error> {
    if let Some(decoded) = json_first::decode_shape(shape, input, limits) {
        return Ok(decoded);
    }
    let Json { text, strict: mut all } = to_json(input, limits)?;
    // The limit applies to the YAML text, not to the JSON text.
    let limits = Limits { bytes: usize::MAX, ..*limits };
    let Decoded { value, strict, pruned } = crate::json::decode_shape(shape, text.as_bytes(), &limits)?;
    all.extend(strict);
    all.truncate(Decoded::MOST_STRICT);
    Ok(Decoded { value, strict: all, pruned })
}

/// The first document of a YAML stream as JSON; an empty stream is null.
pub fn to_json(input: &[u8], limits: &Limits) -> Result<Json, Error> {
    if input.len() > limits.bytes {
        return Err(Error::TooLarge(limits.bytes));
    }
    let written = parse::parse(input, limits).and_then(|document| to_json::write(&document, limits));
    let written = written.map_err(|fault| *fault)?;
    let strict = match written.repeated.is_empty() {
        true => vec![],
        false => vec![Strict::Yaml(format!("yaml: unmarshal errors:\n  {}", written.repeated.join("\n  ")))],
    };
    // The converter writes only UTF-8.
    let text = String::from_utf8(written.json).unwrap_or_default();
    Ok(Json { text, strict })
}

/// A YAML syntax error without a line.
#[cold]
fn fault(problem: impl AsRef<str>) -> Fault {
    fault_plain(format!("yaml: {}", problem.as_ref()))
}

/// A YAML syntax error at a line.
#[cold]
fn fault_at(line: usize, problem: &str) -> Fault {
    fault_plain(format!("yaml: line {line}: {problem}"))
}

#[cold]
fn fault_plain(message: String) -> Fault {
    Fault::new(Error::Syntax(message))
}
