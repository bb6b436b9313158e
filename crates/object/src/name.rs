//! What names may look like: the DNS forms, label keys and values, environment variables, ports, addresses.
//!
//! A rule takes a text and gives the list of what is wrong with it, in the words clients see (with the
//! example and the pattern they carry); an empty list means the text is fine and costs no allocation. Rules
//! whose message names another part of the value than the whole give [`field::List`] instead, and live in
//! [`address`] and [`domain`].
//!
//! Lengths are counted in bytes.

pub mod address;
pub mod domain;
mod generate;
mod pattern;
#[cfg(test)]
mod tests;
mod uid;

pub use generate::{
    GENERATED_SUFFIX_LENGTH, MAX_GENERATE_BASE_LENGTH, generate, generate_with, random_suffix,
};
pub use uid::random_uid;

use crate::field;
use std::borrow::Cow;

/// What is wrong with a text; nothing if it is empty.
pub type Messages = Vec<Cow<'static, str>>;

/// A rule for the names of a kind.
pub type Rule = fn(&str, Mode) -> Messages;

/// Whether a rule looks at a name or at the start of one that will get a random ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The whole name.
    Name,
    /// A prefix, which may end in a dash.
    Prefix,
}

/// The longest DNS label, in both RFC 1035 and RFC 1123.
pub const MAX_LABEL_LENGTH: usize = 63;
/// The longest DNS subdomain.
pub const MAX_SUBDOMAIN_LENGTH: usize = 253;
/// The longest label value, and the longest part of a qualified name after the slash.
pub const MAX_LABEL_VALUE_LENGTH: usize = 63;
/// The message for an empty value.
pub const EMPTY: &str = "must be non-empty";
/// The message for a number below zero.
pub const NEGATIVE: &str = "must be greater than or equal to 0";

macro_rules! label_pattern {
    () => {
        "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    };
}
macro_rules! subdomain_pattern {
    () => {
        concat!(label_pattern!(), r"(\.", label_pattern!(), ")*")
    };
}
macro_rules! qualified_pattern {
    () => {
        "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
    };
}

const LABEL_MESSAGE: &str = concat!(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end \
     with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '",
    label_pattern!(),
    "')"
);
const SUBDOMAIN_MESSAGE: &str = concat!(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start \
     and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '",
    subdomain_pattern!(),
    "')"
);
const SUBDOMAIN_WITH_UNDERSCORE_MESSAGE: &str = concat!(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must \
     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '",
    subdomain_pattern!(),
    "')"
);
const WILDCARD_MESSAGE: &str = concat!(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
     lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', \
     regex used for validation is '",
    r"\*\.",
    subdomain_pattern!(),
    "')"
);
const DNS1035_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
    an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_MESSAGE: &str = concat!(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character \
     (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '",
    qualified_pattern!(),
    "')"
);
const LABEL_VALUE_MESSAGE: &str = concat!(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation \
     is '(",
    qualified_pattern!(),
    ")?')"
);
const C_IDENTIFIER_MESSAGE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a \
    string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation \
    is '[A-Za-z_][A-Za-z0-9_]*')";
const ENV_VAR_MESSAGE: &str = "a valid environment variable name must consist of alphabetic characters, digits, '_', \
    '-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  or 'MyEnvName1', regex used \
    for validation is '[-._a-zA-Z][-._a-zA-Z0-9]*')";
const RELAXED_ENV_VAR_MESSAGE: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";
const CONFIG_MAP_KEY_MESSAGE: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
    (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
const PERCENT_MESSAGE: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  \
    or '93%', regex used for validation is '[0-9]+%')";
const HEADER_MESSAGE: &str = "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
    'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')";

/// A label of a domain name by RFC 1123, in lower case.
///
/// ```
/// assert!(object::name::dns1123_label("my-name").is_empty());
/// assert_eq!(object::name::dns1123_label("a.b"), ["must not contain dots"]);
/// ```
pub fn dns1123_label(value: &str) -> Messages {
    dns1123_label_bytes(value.as_bytes())
}

/// A domain name by RFC 1123, in lower case: labels joined by dots.
pub fn dns1123_subdomain(value: &str) -> Messages {
    dns1123_subdomain_bytes(value.as_bytes())
}

/// A domain name whose labels may also hold, and start with, an underscore.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Messages {
    let mut messages = longer_than(value.len(), MAX_SUBDOMAIN_LENGTH);
    if !pattern::subdomain_with_underscore(value.as_bytes()) {
        messages.push(SUBDOMAIN_WITH_UNDERSCORE_MESSAGE.into());
    }
    messages
}

/// A domain name whose first label is a star.
pub fn wildcard_dns1123_subdomain(value: &str) -> Messages {
    let mut messages = longer_than(value.len(), MAX_SUBDOMAIN_LENGTH);
    if !value.as_bytes().strip_prefix(b"*.").is_some_and(pattern::subdomain) {
        messages.push(WILDCARD_MESSAGE.into());
    }
    messages
}

/// A label of a domain name by RFC 1035: it starts with a letter.
pub fn dns1035_label(value: &str) -> Messages {
    dns1035_label_bytes(value.as_bytes())
}

/// A name with an optional domain before a slash: label and annotation keys, resource and condition names.
///
/// ```
/// assert!(object::name::qualified_name("example.com/My_Name").is_empty());
/// ```
pub fn qualified_name(value: &str) -> Messages {
    let mut messages = Messages::new();
    let name = match value.split_once('/') {
        None => value,
        Some((_, rest)) if rest.contains('/') => {
            let message = format!(
                "a qualified name {QUALIFIED_MESSAGE} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            );
            return vec![message.into()];
        }
        Some(("", name)) => {
            messages.push("prefix part must be non-empty".into());
            name
        }
        Some((prefix, name)) => {
            messages.extend(
                dns1123_subdomain(prefix).iter().map(|message| format!("prefix part {message}").into()),
            );
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".into());
    } else if name.len() > MAX_LABEL_VALUE_LENGTH {
        messages.push(format!("name part {}", max_length_message(MAX_LABEL_VALUE_LENGTH)).into());
    }
    if !pattern::qualified(name.as_bytes()) {
        messages.push(format!("name part {QUALIFIED_MESSAGE}").into());
    }
    messages
}

/// The key of a label; the same as [`qualified_name`].
pub fn label_key(value: &str) -> Messages {
    qualified_name(value)
}

/// The value of a label, which may be empty.
pub fn label_value(value: &str) -> Messages {
    let mut messages = longer_than(value.len(), MAX_LABEL_VALUE_LENGTH);
    if !value.is_empty() && !pattern::qualified(value.as_bytes()) {
        messages.push(LABEL_VALUE_MESSAGE.into());
    }
    messages
}

/// An identifier of the C language, of any length.
pub fn c_identifier(value: &str) -> Messages {
    let bytes = value.as_bytes();
    let starts = bytes.first().is_some_and(|&first| first.is_ascii_alphabetic() || first == b'_');
    matching(
        starts && bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_'),
        C_IDENTIFIER_MESSAGE,
    )
}

/// The name of an environment variable, by the stricter of the two rules.
pub fn env_var_name(value: &str) -> Messages {
    let starts = value.bytes().next().is_some_and(|first| !first.is_ascii_digit());
    let mut messages = matching(starts && value.bytes().all(is_key_byte), ENV_VAR_MESSAGE);
    messages.extend(parent_directory(value));
    messages
}

/// The name of an environment variable, by the looser of the two rules: printable ASCII except `=`.
pub fn relaxed_env_var_name(value: &str) -> Messages {
    let mut messages = Messages::new();
    if value.is_empty() {
        messages.push("environment variable name must be non-empty".into());
    }
    if !value.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'=') {
        messages.push(RELAXED_ENV_VAR_MESSAGE.into());
    }
    messages
}

/// A key of a config map or a secret.
pub fn config_map_key(value: &str) -> Messages {
    let mut messages = longer_than(value.len(), MAX_SUBDOMAIN_LENGTH);
    if value.is_empty() || !value.bytes().all(is_key_byte) {
        messages.push(CONFIG_MAP_KEY_MESSAGE.into());
    }
    messages.extend(parent_directory(value));
    messages
}

/// The name of a port: an IANA service name in lower case.
pub fn port_name(value: &str) -> Messages {
    let mut messages = longer_than(value.len(), 15);
    let allowed = |byte: u8| matches!(byte, b'-' | b'a'..=b'z' | b'0'..=b'9');
    if value.is_empty() || !value.bytes().all(allowed) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".into());
    }
    if !value.bytes().any(|byte| byte.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".into());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".into());
    }
    if value.starts_with('-') || value.ends_with('-') {
        messages.push("must not begin or end with a hyphen".into());
    }
    messages
}

/// A number of percent, such as `25%`.
pub fn percent(value: &str) -> Messages {
    let number = value.strip_suffix('%').unwrap_or_default();
    matching(!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()), PERCENT_MESSAGE)
}

/// The name of an HTTP header.
pub fn http_header_name(value: &str) -> Messages {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    matching(!value.is_empty() && value.bytes().all(allowed), HEADER_MESSAGE)
}

/// A port number from 1 to 65535.
pub fn port_number(port: i64) -> Messages {
    in_range(port, 1, 65535)
}

/// A numeric user id.
pub fn user_id(id: i64) -> Messages {
    in_range(id, 0, i32::MAX.into())
}

/// A numeric group id.
pub fn group_id(id: i64) -> Messages {
    in_range(id, 0, i32::MAX.into())
}

/// A number between two others, both included.
pub fn in_range(value: i64, least: i64, most: i64) -> Messages {
    if (least..=most).contains(&value) { Messages::new() } else { vec![range_message(least, most).into()] }
}

/// The rule for kinds whose names are domain names, which most are.
pub fn name_is_dns_subdomain(name: &str, mode: Mode) -> Messages {
    dns1123_subdomain_bytes(&masked(name, mode))
}

/// The rule for kinds whose names are DNS labels, such as namespaces.
pub fn name_is_dns_label(name: &str, mode: Mode) -> Messages {
    dns1123_label_bytes(&masked(name, mode))
}

/// The rule for kinds whose names are DNS labels of the older form, such as services.
pub fn name_is_dns1035_label(name: &str, mode: Mode) -> Messages {
    dns1035_label_bytes(&masked(name, mode))
}

/// The rule for kinds whose names only have to fit a path of a URL, such as roles.
///
/// ```
/// use object::name::{Mode, name_is_path_segment};
/// assert_eq!(name_is_path_segment("..", Mode::Name), ["may not be '..'"]);
/// assert_eq!(name_is_path_segment("a/b%", Mode::Prefix), ["may not contain '/'", "may not contain '%'"]);
/// ```
pub fn name_is_path_segment(name: &str, mode: Mode) -> Messages {
    match (mode, name) {
        (Mode::Name, ".") => return vec!["may not be '.'".into()],
        (Mode::Name, "..") => return vec!["may not be '..'".into()],
        _ => {}
    }
    let mut messages = Messages::new();
    if name.contains('/') {
        messages.push("may not contain '/'".into());
    }
    if name.contains('%') {
        messages.push("may not contain '%'".into());
    }
    messages
}

/// The message for a text that is too long.
pub fn max_length_message(most: usize) -> String {
    format!("must be no more than {most} characters")
}

/// The message for a number out of bounds.
pub fn range_message(least: i64, most: i64) -> String {
    format!("must be between {least} and {most}, inclusive")
}

/// The message for a text that does not match a pattern, with examples of texts that do.
///
/// ```
/// let message = object::name::pattern_message("bad", "[ab]+", &["a", "b"]);
/// assert_eq!(message, "bad (e.g. 'a',  or 'b', regex used for validation is '[ab]+')");
/// ```
pub fn pattern_message(message: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn dns1123_label_bytes(value: &[u8]) -> Messages {
    let mut messages = longer_than(value.len(), MAX_LABEL_LENGTH);
    if !pattern::label(value) {
        let dots = pattern::subdomain(value);
        messages.push(if dots { "must not contain dots" } else { LABEL_MESSAGE }.into());
    }
    messages
}

fn dns1123_subdomain_bytes(value: &[u8]) -> Messages {
    let mut messages = longer_than(value.len(), MAX_SUBDOMAIN_LENGTH);
    if !pattern::subdomain(value) {
        messages.push(SUBDOMAIN_MESSAGE.into());
    }
    messages
}

fn dns1035_label_bytes(value: &[u8]) -> Messages {
    let mut messages = longer_than(value.len(), MAX_LABEL_LENGTH);
    if !(pattern::label(value) && value.first().is_some_and(u8::is_ascii_lowercase)) {
        messages.push(DNS1035_MESSAGE.into());
    }
    messages
}

/// A prefix with its trailing dash, and the character before it, replaced by a letter that every rule
/// accepts.
fn masked(name: &str, mode: Mode) -> Cow<'_, [u8]> {
    match name.as_bytes() {
        [kept @ .., _, b'-'] if mode == Mode::Prefix => Cow::Owned([kept, b"a"].concat()),
        bytes => Cow::Borrowed(bytes),
    }
}

fn longer_than(length: usize, most: usize) -> Messages {
    if length > most { vec![max_length_message(most).into()] } else { Messages::new() }
}

fn matching(matches: bool, message: &'static str) -> Messages {
    if matches { Messages::new() } else { vec![message.into()] }
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

fn parent_directory(value: &str) -> Option<Cow<'static, str>> {
    match value {
        "." => Some("must not be '.'".into()),
        ".." => Some("must not be '..'".into()),
        _ if value.starts_with("..") => Some("must not start with '..'".into()),
        _ => None,
    }
}

/// Turns messages about one value into field errors.
pub fn invalid(path: &field::Path<'_>, value: &str, messages: Messages) -> field::List {
    messages.into_iter().map(|message| field::Error::invalid(path, value, message)).collect()
}
