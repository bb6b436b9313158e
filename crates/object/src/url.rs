//! Addresses of the web as Go's `net/url` takes them apart and puts them together, with its error texts.
//!
//! Parts of an address are bytes, since an escape can stand for any byte.

use crate::netip;
use crate::quote::Quoted;
use std::borrow::Cow;
use std::fmt::{self, Write};

/// An address, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    /// What follows the scheme, if it does not begin with a slash.
    opaque: String,
    user: Option<User>,
    /// The host with its port, without escapes.
    host: Vec<u8>,
    /// The path, without escapes.
    path: Vec<u8>,
    /// The path as it was written, if that is not the usual way.
    raw_path: Option<String>,
    /// Whether the path follows the scheme without the slashes of a host.
    omits_host: bool,
    /// Whether it ends with a question mark.
    empty_query: bool,
    query: String,
    fragment: Vec<u8>,
    raw_fragment: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    name: Vec<u8>,
    password: Option<Vec<u8>>,
}

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse {}: {why}", Quoted(.text))]
pub struct Error {
    text: String,
    /// The reason alone.
    pub why: String,
}

/// What a part of an address may have without an escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Host,
    Zone,
    User,
    Query,
    Fragment,
}

/// Reads an address that may be relative, with its fragment.
pub fn parse(text: &str) -> Result<Url, Error> {
    let (address, fragment) = text.split_once('#').unwrap_or((text, ""));
    let mut url = take_apart(address, false).map_err(|why| Error { text: address.to_owned(), why })?;
    if !fragment.is_empty() {
        let plain = unescape(fragment, Part::Fragment).map_err(|why| Error { text: text.to_owned(), why })?;
        url.raw_fragment = (escape(&plain, Part::Fragment) != fragment).then(|| fragment.to_owned());
        url.fragment = plain.into_owned();
    }
    Ok(url)
}

/// Reads an address as in a request: absolute, or an absolute path, and without a fragment.
///
/// ```
/// use object::url::parse_request;
/// assert_eq!(parse_request("https://[::1]:80/a?b=c").unwrap().port(), "80");
/// assert_eq!(parse_request("a/b").unwrap_err().to_string(), r#"parse "a/b": invalid URI for request"#);
/// ```
pub fn parse_request(text: &str) -> Result<Url, Error> {
    take_apart(text, true).map_err(|why| Error { text: text.to_owned(), why })
}

impl Url {
    /// The scheme in lower case; empty if there is none.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The host with its port. Bytes that are no text become the replacement character.
    pub fn host(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.host)
    }

    /// The host without its port, and without the brackets of an address of IPv6.
    pub fn hostname(&self) -> Cow<'_, str> {
        let host = self.host_and_port().0;
        let bare = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
        String::from_utf8_lossy(bare.unwrap_or(host))
    }

    /// The port; empty if there is none.
    pub fn port(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.host_and_port().1)
    }

    fn host_and_port(&self) -> (&[u8], &[u8]) {
        let colon = self.host.iter().rposition(|byte| *byte == b':');
        match colon.and_then(|colon| self.host.split_at_checked(colon)) {
            Some((host, port)) if is_optional_port(port) => (host, port.get(1..).unwrap_or_default()),
            _ => (&self.host, b""),
        }
    }

    /// The name of the user, and the password after a colon, with escapes.
    pub fn user(&self) -> Option<String> {
        let user = self.user.as_ref()?;
        let mut text = escape(&user.name, Part::User);
        if let Some(password) = &user.password {
            text.push(':');
            text.push_str(&escape(password, Part::User));
        }
        Some(text)
    }

    /// The query as it was written; empty if there is none.
    pub fn raw_query(&self) -> &str {
        &self.query
    }

    /// The fragment without escapes; empty if there is none.
    pub fn fragment(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.fragment)
    }

    /// The path with escapes: as it was written, if that is valid.
    pub fn escaped_path(&self) -> Cow<'_, str> {
        match &self.raw_path {
            Some(raw) if is_valid(raw, Part::Path) => Cow::Borrowed(raw),
            _ if self.path == b"*" => Cow::Borrowed("*"),
            _ => escape(&self.path, Part::Path).into(),
        }
    }

    fn escaped_fragment(&self) -> Cow<'_, str> {
        match &self.raw_fragment {
            Some(raw) if is_valid(raw, Part::Fragment) => Cow::Borrowed(raw),
            _ => escape(&self.fragment, Part::Fragment).into(),
        }
    }

    /// The names and values of the query, in their order, without escapes. What cannot be read is left out.
    pub fn query(&self) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
        self.query.split('&').filter_map(|entry| {
            if entry.is_empty() || entry.contains(';') {
                return None;
            }
            let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
            Some((lossy(unescape(name, Part::Query).ok()?), lossy(unescape(value, Part::Query).ok()?)))
        })
    }
}

fn lossy(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => String::from_utf8_lossy(bytes),
        Cow::Owned(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
    }
}

/// The address, put together again.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_empty = true;
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
            is_empty = false;
        }
        if self.opaque.is_empty() {
            let has_authority = !self.host.is_empty() || self.user.is_some();
            if has_authority || !self.scheme.is_empty() && !self.omits_host {
                if has_authority || !self.path.is_empty() {
                    f.write_str("//")?;
                    is_empty = false;
                }
                if let Some(user) = self.user() {
                    write!(f, "{user}@")?;
                }
                f.write_str(&escape(&self.host, Part::Host))?;
            }
            let path = self.escaped_path();
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                f.write_str("/")?;
                is_empty = false;
            }
            if is_empty && path.split('/').next().is_some_and(|first| first.contains(':')) {
                f.write_str("./")?;
            }
            f.write_str(&path)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if self.empty_query || !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", self.escaped_fragment())?;
        }
        Ok(())
    }
}

fn take_apart(text: &str, of_request: bool) -> Result<Url, String> {
    if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    if text.is_empty() && of_request {
        return Err("empty url".to_owned());
    }
    let mut url = Url::default();
    if text == "*" {
        url.path = b"*".to_vec();
        return Ok(url);
    }
    let (scheme, rest) = split_scheme(text)?;
    url.scheme = scheme.to_ascii_lowercase();
    let rest = match rest.split_once('?') {
        Some((rest, query)) => {
            url.empty_query = query.is_empty();
            url.query = query.to_owned();
            rest
        }
        None => rest,
    };
    if !rest.starts_with('/') {
        if !url.scheme.is_empty() {
            url.opaque = rest.to_owned();
            return Ok(url);
        }
        if of_request {
            return Err("invalid URI for request".to_owned());
        }
        if rest.split('/').next().is_some_and(|first| first.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
    }
    let may_have_host = !url.scheme.is_empty() || !of_request && !rest.starts_with("///");
    let path = match rest.strip_prefix("//").filter(|_| may_have_host) {
        Some(after) => {
            let end = after.find('/').unwrap_or(after.len());
            let (authority, path) = after.split_at_checked(end).unwrap_or((after, ""));
            read_authority(&mut url, authority)?;
            path
        }
        None => {
            url.omits_host = !url.scheme.is_empty() && rest.starts_with('/');
            rest
        }
    };
    let plain = unescape(path, Part::Path)?;
    url.raw_path = (escape(&plain, Part::Path) != path).then(|| path.to_owned());
    url.path = plain.into_owned();
    Ok(url)
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok(text.split_once(':').unwrap_or(("", text))),
            _ => break,
        }
    }
    Ok(("", text))
}

fn read_authority(url: &mut Url, authority: &str) -> Result<(), String> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    url.host = read_host(host)?;
    let Some(user) = user else { return Ok(()) };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    if !user.bytes().all(allowed) {
        return Err("net/url: invalid userinfo".to_owned());
    }
    let (name, password) = match user.split_once(':') {
        Some((name, password)) => (name, Some(password)),
        None => (user, None),
    };
    let name = unescape(name, Part::User)?.into_owned();
    let password = password.map(|password| unescape(password, Part::User)).transpose()?;
    url.user = Some(User { name, password: password.map(Cow::into_owned) });
    Ok(())
}

fn read_host(host: &str) -> Result<Vec<u8>, String> {
    let check_port = |port: &str| match is_optional_port(port.as_bytes()) {
        true => Ok(()),
        false => Err(format!("invalid port {} after host", Quoted(port))),
    };
    let Some((_, bracketed)) = host.rsplit_once('[') else {
        if let Some(colon) = host.rfind(':') {
            check_port(host.get(colon..).unwrap_or_default())?;
        }
        return unescape(host, Part::Host).map(Cow::into_owned);
    };
    let Some((_, port)) = host.rsplit_once(']') else {
        return Err("missing ']' in host".to_owned());
    };
    check_port(port)?;
    let port = unescape(port, Part::Host)?;
    let literal = bracketed.rsplit_once(']').map_or(bracketed, |(literal, _)| literal);
    let mut plain = match literal.find("%25").and_then(|at| literal.split_at_checked(at)) {
        Some((address, zone)) => {
            let mut plain = unescape(address, Part::Host)?.into_owned();
            plain.extend_from_slice(&unescape(zone, Part::Zone)?);
            plain
        }
        None => unescape(literal, Part::Host)?.into_owned(),
    };
    let text = String::from_utf8_lossy(&plain);
    match netip::parse_address(&text) {
        Err(error) => return Err(format!("invalid host: {error}")),
        Ok(address) if address.ip.is_ipv4() => return Err("invalid IP-literal".to_owned()),
        Ok(_) => {}
    }
    plain.insert(0, b'[');
    plain.push(b']');
    plain.extend_from_slice(&port);
    Ok(plain)
}

/// Whether this is nothing, or a colon and digits.
fn is_optional_port(port: &[u8]) -> bool {
    match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

fn must_escape(byte: u8, part: Part) -> bool {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => false,
        b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'[' | b']'
        | b'<' | b'>' | b'"'
            if matches!(part, Part::Host | Part::Zone) =>
        {
            false
        }
        b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'?' | b'@' => match part {
            Part::Path => byte == b'?',
            Part::User => matches!(byte, b'@' | b'/' | b'?' | b':'),
            Part::Query | Part::Host | Part::Zone => true,
            Part::Fragment => false,
        },
        b'!' | b'(' | b')' | b'*' => part != Part::Fragment,
        _ => true,
    }
}

/// Whether a part is written in a way that may stay.
fn is_valid(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| b"!$&'()*+,;=:@[]%".contains(&byte) || !must_escape(byte, part))
}

fn escape(bytes: &[u8], part: Part) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if must_escape(*byte, part) {
            // Writing into a String cannot fail.
            let _ = write!(text, "%{byte:02X}");
        } else {
            text.push(char::from(*byte));
        }
    }
    text
}

fn unescape(text: &str, part: Part) -> Result<Cow<'_, [u8]>, String> {
    let in_host = matches!(part, Part::Host | Part::Zone);
    let bytes = text.as_bytes();
    if !in_host && !bytes.iter().any(|byte| *byte == b'%' || *byte == b'+' && part == Part::Query) {
        return Ok(Cow::Borrowed(bytes));
    }
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        match first {
            b'%' => {
                let refuse =
                    || Err(format!("invalid URL escape {}", quote_bytes(rest.get(..3).unwrap_or(rest))));
                let digit = |at: usize| after.get(at).and_then(|byte| char::from(*byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(0), digit(1)) else { return refuse() };
                let code = (high * 16 + low) as u8;
                let allowed = match part {
                    Part::Host => high >= 8 || code == b'%',
                    Part::Zone => code == b'%' || code == b' ' || !must_escape(code, Part::Host),
                    _ => true,
                };
                if !allowed {
                    return refuse();
                }
                plain.push(code);
                rest = after.get(2..).unwrap_or_default();
                continue;
            }
            b'+' if part == Part::Query => plain.push(b' '),
            byte if in_host && byte.is_ascii() && must_escape(*byte, part) => {
                let character = char::from(*byte).to_string();
                return Err(format!("invalid character {} in host name", Quoted(&character)));
            }
            byte => plain.push(*byte),
        }
        rest = after;
    }
    Ok(Cow::Owned(plain))
}

/// Bytes in quotes; those that are no text are spelt by their codes.
fn quote_bytes(bytes: &[u8]) -> String {
    let mut quoted = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        let valid = Quoted(chunk.valid()).to_string();
        quoted.push_str(valid.get(1..valid.len() - 1).unwrap_or_default());
        for byte in chunk.invalid() {
            // Writing into a String cannot fail.
            let _ = write!(quoted, "\\x{byte:02x}");
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
