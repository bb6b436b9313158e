//! The rules for the address of a webhook.

use object::field::{Error, List, Path};
use object::quote::Quoted;

const FORM: &str = "; desired format: https://host[/path]";

/// The parts of an address, as the reference takes it apart.
struct Parts<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

/// The field errors of an address.
pub(super) fn validate(text: &str, path: &Path<'_>) -> List {
    let parts = match parse(text) {
        Ok(parts) => parts,
        Err(why) => {
            let why = format!("url must be a valid URL: parse {}: {why}{FORM}", Quoted(text));
            return Error::required(path, why).into();
        }
    };
    let mut errors = List::new();
    if parts.scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(Error::invalid(path, parts.scheme.as_str(), why));
    }
    if parts.host.is_empty() {
        errors.push(Error::invalid(path, parts.host, format!("host must be specified{FORM}")));
    }
    if let Some(user) = parts.user {
        errors.push(Error::invalid(path, user, "user information is not permitted in the URL"));
    }
    if !parts.fragment.is_empty() {
        errors.push(Error::invalid(path, parts.fragment, "fragments are not permitted in the URL"));
    }
    if !parts.query.is_empty() {
        errors.push(Error::invalid(path, parts.query, "query parameters are not permitted in the URL"));
    }
    errors
}

/// Whether a text is an address with a scheme and a host, as in the line of a request: it has no fragment.
pub(super) fn has_scheme_and_host(text: &str) -> bool {
    parse_request(text)
        .is_ok_and(|parts| !parts.scheme.is_empty() && !parts.host.is_empty() && !parts.host.contains('#'))
}

fn parse(text: &str) -> Result<Parts<'_>, String> {
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    check_controls(fragment)?;
    check_escapes(fragment)?;
    Ok(Parts { fragment, ..parse_request(rest)? })
}

fn check_controls(text: &str) -> Result<(), String> {
    match text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        true => Err("net/url: invalid control character in URL".to_owned()),
        false => Ok(()),
    }
}

fn parse_request(text: &str) -> Result<Parts<'_>, String> {
    check_controls(text)?;
    let (scheme, rest) = scheme(text)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut parts = Parts { scheme, user: None, host: "", query, fragment: "" };
    if !rest.starts_with('/') {
        if !parts.scheme.is_empty() {
            // An opaque address has no host.
            return Ok(parts);
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let mut path = rest;
    if let Some(after) = rest.strip_prefix("//")
        && (!parts.scheme.is_empty() || !rest.starts_with("///"))
    {
        let end = after.find('/').unwrap_or(after.len());
        let (authority, of_path) = after.split_at(end);
        path = of_path;
        match authority.rsplit_once('@') {
            None => parts.host = authority,
            Some((user, host)) => {
                parts.host = host;
                parts.user = Some(user);
                if !user.bytes().all(is_user_byte) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                check_escapes(user)?;
            }
        }
        check_host(parts.host)?;
    }
    check_escapes(path)?;
    Ok(parts)
}

/// The scheme in lower case, and the rest.
fn scheme(text: &str) -> Result<(String, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => {
                let (scheme, rest) = text.split_once(':').unwrap_or((text, ""));
                return Ok((scheme.to_ascii_lowercase(), rest));
            }
            _ => break,
        }
    }
    Ok((String::new(), text))
}

fn is_user_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte)
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(address) => match address.rsplit_once(']') {
            Some((_, port)) => port,
            None => return Err("missing ']' in host".to_owned()),
        },
        None => host.find(':').and_then(|at| host.get(at..)).unwrap_or_default(),
    };
    let is_port = match port.strip_prefix(':') {
        None => port.is_empty(),
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()),
    };
    if !is_port {
        return Err(format!("invalid port {} after host", Quoted(port)));
    }
    if let Some(bad) = host.chars().find(|char| " \"<>\\^`{|}".contains(*char)) {
        return Err(format!("invalid character {} in host name", Quoted(&bad.to_string())));
    }
    check_escapes(host)
}

/// Each percent sign has two hexadecimal digits after it.
fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let rest = text.get(at..).unwrap_or_default();
        let escape: String = rest.chars().take(3).collect();
        let is_valid = escape.len() == 3 && escape.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit());
        if !is_valid {
            return Err(format!("invalid URL escape {}", Quoted(&escape)));
        }
    }
    Ok(())
}
