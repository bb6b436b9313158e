//! The headers by which a server learns who the user of a request is.

use auth::User;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";

/// A part of a user that cannot be a header. Without it the server would take the user for another one, so
/// nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("net/http: invalid header field value for \"{0}\"")]
pub struct InvalidHeader(&'static str);

/// Sets the headers of a user, and removes those that the client sent.
pub(crate) fn set(headers: &mut HeaderMap, user: &User, uids: bool) -> Result<(), InvalidHeader> {
    for name in [USER, UID, GROUP] {
        headers.remove(name);
    }
    let extra: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(EXTRA)).cloned().collect();
    for name in extra {
        headers.remove(name);
    }
    headers.insert(USER, value(&user.name, "X-Remote-User")?);
    if uids && !user.uid.is_empty() {
        headers.insert(UID, value(&user.uid, "X-Remote-Uid")?);
    }
    for group in &user.groups {
        headers.append(GROUP, value(group, "X-Remote-Group")?);
    }
    for (key, values) in &user.extra {
        let name = HeaderName::try_from(format!("{EXTRA}{}", escaped(key)))
            .map_err(|_| InvalidHeader("X-Remote-Extra-"))?;
        for text in values {
            headers.append(&name, value(text, "X-Remote-Extra-")?);
        }
    }
    Ok(())
}

fn value(text: &str, header: &'static str) -> Result<HeaderValue, InvalidHeader> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| InvalidHeader(header))
}

/// A key of extra attributes, percent-encoded where a header's name cannot have its bytes.
fn escaped(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|'
            | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User {
            name: "jané".into(),
            uid: "7".into(),
            groups: vec!["a".into(), "b".into()],
            extra: vec![("scopes/x%".into(), vec!["1".into(), "2".into()])],
        }
    }

    #[test]
    fn headers_say_who_the_user_is_and_not_what_the_client_says() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("x-remote-user", "root"), ("X-Remote-Extra-Old", "1"), ("X-Remote-Uid", "9")] {
            headers.append(HeaderName::try_from(name).unwrap(), HeaderValue::from_static(value));
        }
        set(&mut headers, &user(), false).unwrap();
        let all = |name: &str| {
            let values = headers.get_all(name).iter();
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(all("x-remote-user"), ["jané"]);
        assert!(all("x-remote-uid").is_empty());
        assert_eq!(all("x-remote-group"), ["a", "b"]);
        assert_eq!(all("x-remote-extra-scopes%2fx%25"), ["1", "2"]);
        assert!(all("x-remote-extra-old").is_empty());
        set(&mut headers, &user(), true).unwrap();
        assert_eq!(headers["x-remote-uid"], "7");
    }

    #[test]
    fn user_that_cannot_be_told_is_an_error() {
        let odd = User { name: "a\nb".into(), ..User::default() };
        let error = set(&mut HeaderMap::new(), &odd, true).unwrap_err();
        assert_eq!(error.to_string(), r#"net/http: invalid header field value for "X-Remote-User""#);
    }
}
