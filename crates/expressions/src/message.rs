//! Messages and errors of rules.

use cel::Value;
use object::field::{BadValue, Error, Path};
use schema::structural::Expression;

/// The most bytes of a message that an expression makes.
const MOST_BYTES: usize = cel::kubernetes::MOST_MESSAGE_BYTES;

/// The message of a rule that is not true.
pub(crate) fn of_failed(rule: &Expression) -> String {
    match rule.message.is_empty() {
        true => format!("failed rule: {}", name(rule)),
        false => rule.message.trim().to_owned(),
    }
}

/// How errors call a rule: by its message, or by its text.
pub(crate) fn name(rule: &Expression) -> &str {
    if rule.message.is_empty() { rule.rule.trim() } else { rule.message.trim() }
}

/// The message that an expression made, if it can be one.
pub(crate) fn made(value: &Value<'_>) -> Option<String> {
    let Value::String(text) = value else { return None };
    let text = text.as_str().trim();
    let is_fit = !text.is_empty() && text.len() <= MOST_BYTES && !text.contains('\n');
    is_fit.then(|| text.to_owned())
}

/// The error of a rule that is not true.
pub(crate) fn error(reason: &str, path: &Path<'_>, value: &'static str, message: String) -> Error {
    match reason {
        "FieldValueForbidden" => Error::forbidden(path, message),
        "FieldValueRequired" => Error::required(path, message),
        "FieldValueDuplicate" => Error::duplicate(path, BadValue::from(value)),
        _ => Error::invalid(path, value, message),
    }
}
