//! Errors of several causes, and errors without a reason.

use object::field::more;
use schema::Status;
use schema::status::Reason;
use std::collections::HashSet;

/// The most messages that are kept.
const MOST: usize = 1000;

/// Messages that become one: the same message counts once, and past [`MOST`] they are counted only.
#[derive(Default)]
pub(super) struct Errors {
    messages: Vec<String>,
    seen: HashSet<String>,
    left_out: usize,
}

impl Errors {
    /// Adds a message, if there is one.
    pub(super) fn extend(&mut self, message: Option<String>) {
        let Some(message) = message else { return };
        if self.messages.len() >= MOST {
            self.left_out += 1;
        } else if self.seen.insert(message.clone()) {
            self.messages.push(message);
        }
    }

    /// All messages as one; none if there are none.
    pub(super) fn message(mut self) -> Option<String> {
        if self.left_out > 0 {
            self.messages.push(format!("and {}", more(self.left_out)));
        }
        match self.messages.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        }
    }
}

/// 500 for an error that the reference passes on without a reason.
pub(super) fn without_reason(message: impl Into<String>) -> Status {
    Status {
        code: 500,
        reason: Reason::Unknown,
        message: message.into(),
        details: None,
        token: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<'a>(messages: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let mut errors = Errors::default();
        messages.into_iter().for_each(|message| errors.extend(Some(message.to_owned())));
        errors.message()
    }

    #[test]
    fn several_messages_are_one_in_brackets_without_duplicates() {
        assert_eq!(message([]), None);
        assert_eq!(message(["a", "a"]).as_deref(), Some("a"));
        assert_eq!(message(["a", "b", "a"]).as_deref(), Some("[a, b]"));
    }

    #[test]
    fn messages_past_the_bound_are_counted() {
        let many: Vec<String> = (0..MOST + 7).map(|at| at.to_string()).collect();
        let all = message(many.iter().map(String::as_str)).unwrap();
        assert!(all.ends_with(&format!(", {}, and {}]", MOST - 1, more(7))), "{all}");
    }
}
