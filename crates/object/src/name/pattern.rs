//! The patterns that names are held to, as plain loops over bytes.

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
pub(super) fn label(value: &[u8]) -> bool {
    enclosed(value, is_lower_or_digit, |byte| is_lower_or_digit(byte) || byte == b'-')
}

/// Labels joined by dots.
pub(super) fn subdomain(value: &[u8]) -> bool {
    value.split(|&byte| byte == b'.').all(label)
}

/// Labels of the form `_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?` joined by dots.
pub(super) fn subdomain_with_underscore(value: &[u8]) -> bool {
    value.split(|&byte| byte == b'.').all(|label| {
        let label = label.strip_prefix(b"_").unwrap_or(label);
        enclosed(label, is_lower_or_digit, |byte| is_lower_or_digit(byte) || matches!(byte, b'-' | b'_'))
    })
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
pub(super) fn qualified(value: &[u8]) -> bool {
    let ends = |byte: u8| byte.is_ascii_alphanumeric();
    enclosed(value, ends, |byte| ends(byte) || matches!(byte, b'-' | b'_' | b'.'))
}

/// `[A-Za-z0-9/\-._~%!$&'()*+,;=:]+`
pub(super) fn http_path(value: &[u8]) -> bool {
    !value.is_empty()
        && value.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte))
}

/// A text whose first and last byte are of one class and all of whose bytes are of another, wider one.
fn enclosed(value: &[u8], ends: impl Fn(u8) -> bool, inside: impl Fn(u8) -> bool) -> bool {
    match value {
        [] => false,
        [only] => ends(*only),
        [first, middle @ .., last] => ends(*first) && ends(*last) && middle.iter().all(|&byte| inside(byte)),
    }
}

fn is_lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}
