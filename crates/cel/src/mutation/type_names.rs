//! Whether the objects within an object have the types of the fields that they are in.

use super::room::{DEEPEST, Room};
use super::types::is_object;
use crate::value::{List, Map, Value};
use object::field::{MOST_ERRORS, MOST_TEXT, more};
use object::quote::Quoted;

/// Checks the types within an object; the error has a line for each that is wrong.
pub(super) fn check(value: &Value<'_>, room: &mut Room) -> Result<(), String> {
    let Value::Struct(made) = value else { return Ok(()) };
    let path = made.name.to_string();
    let mut checker = Checker { path, faults: Vec::new(), left_out: 0, text: 0, room };
    checker.check(value, 0);
    if checker.faults.is_empty() {
        return Ok(());
    }
    if checker.left_out > 0 {
        checker.faults.push(format!("and {}", more(checker.left_out)));
    }
    Err(checker.faults.join("\n"))
}

struct Checker<'r> {
    /// The type that an object at this place has.
    path: String,
    faults: Vec<String>,
    /// How many faults are only counted.
    left_out: usize,
    /// The length of the faults.
    text: usize,
    room: &'r mut Room,
}

impl Checker<'_> {
    fn check(&mut self, value: &Value<'_>, depth: usize) {
        // What is too large or too deep is refused when it is converted.
        if depth > DEEPEST || self.room.take(1).is_err() {
            return;
        }
        match value {
            Value::Struct(made) if is_object(&made.name) => {
                if *made.name != *self.path {
                    self.report(&made.name);
                }
                for (name, value) in &made.fields {
                    let length = self.path.len();
                    self.path.push('.');
                    self.path.push_str(name);
                    self.check(value, depth + 1);
                    self.path.truncate(length);
                }
            }
            Value::List(List::Elements(elements)) => {
                elements.iter().for_each(|element| self.check(element, depth + 1));
            }
            Value::Map(Map::Entries(entries)) => {
                entries.as_slice().iter().for_each(|(_, value)| self.check(value, depth + 1));
            }
            // The reference looks at lists and maps in optional values, and not at objects.
            Value::Optional(Some(value)) if !matches!(**value, Value::Struct(_)) => {
                self.check(value, depth + 1);
            }
            _ => {}
        }
    }

    fn report(&mut self, found: &str) {
        if self.faults.len() >= MOST_ERRORS || self.text > MOST_TEXT {
            self.left_out += 1;
            return;
        }
        let (found, expected) = (Quoted(found), Quoted(&self.path));
        let fault = format!(
            "unexpected type name {found}, expected {expected}, which matches field name path from root Object type"
        );
        self.text += fault.len();
        self.faults.push(fault);
    }
}
