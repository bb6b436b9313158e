//! Texts of other servers that may repeat a secret that was sent to them.

use std::borrow::Cow;

/// Takes the place of a secret.
pub(crate) const WITHHELD: &str = "[withheld]";

/// A text without a secret. An empty secret is none.
pub(crate) fn withhold<'a>(text: &'a str, secret: &str) -> Cow<'a, str> {
    match !secret.is_empty() && text.contains(secret) {
        true => text.replace(secret, WITHHELD).into(),
        false => text.into(),
    }
}
