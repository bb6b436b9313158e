//! The endpoint of a KMS plugin: `unix:///run/kms.sock`.

use object::quote::quote;

/// The scheme of a URL, and what follows its colon. A text that is not a URL is an error, with the message of
/// the reference.
pub(super) fn split(url: &str) -> Result<(String, &str), String> {
    let fault = |why: &str| Err(format!("parse {}: {why}", quote(url)));
    if url.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return fault("net/url: invalid control character in URL");
    }
    let end = url.find(|char: char| !(char.is_ascii_alphanumeric() || matches!(char, '+' | '-' | '.')));
    let starts_with_letter = url.starts_with(|first: char| first.is_ascii_alphabetic());
    let (scheme, rest) = match end.map(|end| url.split_at(end)) {
        Some(("", rest)) if rest.starts_with(':') => return fault("missing protocol scheme"),
        Some((scheme, rest)) if starts_with_letter && rest.starts_with(':') => {
            (scheme.to_ascii_lowercase(), rest.get(1..).unwrap_or_default())
        }
        _ => (String::new(), url),
    };
    let first = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if scheme.is_empty() && first.contains(':') {
        return fault("first path segment in URL cannot contain colon");
    }
    let path = if scheme.is_empty() { rest } else { path(rest) };
    if let Err(escape) = unescape(path) {
        return fault(&format!("invalid URL escape {}", quote(&escape)));
    }
    Ok((scheme, rest))
}

/// The socket of an endpoint: a file, or `@` and the name of an abstract socket.
pub(super) fn socket(url: &str) -> Option<String> {
    let (_, rest) = split(url).ok()?;
    let path = unescape(path(rest)).ok()?;
    Some(match path.strip_prefix('/') {
        Some(name) if name.starts_with('@') => name.to_owned(),
        _ => path,
    })
}

/// The path in what follows a scheme.
fn path(rest: &str) -> &str {
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or_default(),
        None if rest.starts_with('/') => rest,
        None => "",
    }
}

/// A path without escapes; the error is an invalid escape.
fn unescape(path: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(0), digit(1)) else {
            let shown = after.get(..2).unwrap_or(after);
            return Err(format!("%{}", String::from_utf8_lossy(shown)));
        };
        bytes.push((high << 4 | low) as u8);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_is_the_path_of_the_endpoint() {
        for (endpoint, expected) in [
            ("unix:///run/kms.sock", "/run/kms.sock"),
            ("unix:/run/kms.sock", "/run/kms.sock"),
            ("UNIX:///run/a%20b.sock?x#y", "/run/a b.sock"),
            ("unix://host/kms.sock", "/kms.sock"),
            ("unix:///@kms", "@kms"),
            ("unix:kms", ""),
        ] {
            assert_eq!(socket(endpoint).as_deref(), Some(expected), "{endpoint}");
        }
    }
}
