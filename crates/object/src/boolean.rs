//! Booleans as text.

/// Parses true and false in the spellings that the reference accepts in flags, queries and annotations.
///
/// ```
/// assert_eq!(object::boolean::parse("T"), Some(true));
/// assert_eq!(object::boolean::parse("yes"), None);
/// ```
pub fn parse(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
