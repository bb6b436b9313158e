//! URIs as a server reads them from a request: absolute, or an absolute path.

use std::net::Ipv6Addr;

pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    let Some((has_scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split_once('?').map_or(rest, |(path, _)| path);
    if text == "*" || has_scheme && !rest.starts_with('/') {
        return true;
    }
    let authority = rest.strip_prefix("//").filter(|_| has_scheme);
    let Some(authority) = authority else { return rest.starts_with('/') && is_escaped(rest) };
    let end = authority.find('/').unwrap_or(authority.len());
    authority
        .split_at_checked(end)
        .is_some_and(|(authority, path)| is_authority(authority) && is_escaped(path))
}

/// Whether there is a scheme, and what follows it. None if a colon stands first.
fn split_scheme(text: &str) -> Option<(bool, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((true, text.get(at + 1..)?)),
            _ => break,
        }
    }
    Some((false, text))
}

fn is_authority(authority: &str) -> bool {
    match authority.rsplit_once('@') {
        None => is_host(authority),
        Some((user, host)) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
            is_host(host) && user.bytes().all(allowed) && user.splitn(2, ':').all(is_escaped)
        }
    }
}

fn is_host(host: &str) -> bool {
    let is_port = |port: &str| {
        port.is_empty()
            || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some((_, bracketed)) = host.rsplit_once('[') {
        return bracketed
            .rsplit_once(']')
            .is_some_and(|(literal, port)| is_port(port) && is_literal(literal));
    }
    host.rfind(':').is_none_or(|at| host.get(at..).is_some_and(is_port)) && is_host_name(host)
}

/// An address of IPv6, with a zone after an escaped percent sign.
fn is_literal(literal: &str) -> bool {
    let (address, zone) = match literal.split_once("%25") {
        None => (literal, None),
        Some((address, zone)) => (address, Some(zone)),
    };
    address.parse::<Ipv6Addr>().is_ok() && zone.is_none_or(|zone| !zone.is_empty() && is_zone(zone))
}

fn in_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$&'()*+,;=:[]<>\"-_.~".contains(&byte)
}

/// Only what is not ASCII may be escaped, and a percent sign.
fn is_host_name(host: &str) -> bool {
    escapes(host, |escaped| escaped >= 0x80 || escaped == b'%', |byte| byte >= 0x80 || in_host(byte))
}

fn is_zone(zone: &str) -> bool {
    escapes(
        zone,
        |escaped| matches!(escaped, b'%' | b' ') || in_host(escaped),
        |byte| byte >= 0x80 || in_host(byte),
    )
}

fn is_escaped(text: &str) -> bool {
    escapes(text, |_| true, |_| true)
}

/// Whether two hexadecimal digits follow every percent sign, and all bytes are allowed.
fn escapes(text: &str, escaped: impl Fn(u8) -> bool, plain: impl Fn(u8) -> bool) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let right = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
                let code = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                code.and_then(|code| u8::try_from(code).ok()).is_some_and(&escaped)
            }
            byte => plain(byte),
        };
        if !right {
            return false;
        }
    }
    true
}
