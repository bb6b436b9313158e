//! The headers of an authenticating proxy, which shows a client certificate of an authority of its own.

use crate::{Certificates, Outcome, User, certificate};
use http::{HeaderMap, HeaderName};
use rustls::pki_types::CertificateDer;

/// Which proxies are trusted, and the headers that they set.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// The authorities of their certificates.
    pub authorities: Certificates,
    /// The common names that these may have; empty for any.
    pub allowed_names: Vec<String>,
    /// Headers of the user name: the first with a value counts.
    pub username_headers: Vec<HeaderName>,
    /// Headers of the uid: the first with a value counts.
    pub uid_headers: Vec<HeaderName>,
    /// Headers of groups: all their values count.
    pub group_headers: Vec<HeaderName>,
    /// Starts of headers of further attributes, in lower case.
    pub extra_prefixes: Vec<String>,
}

impl Proxy {
    pub(crate) fn generation(&self) -> u64 {
        self.authorities.generation()
    }

    /// Whether certificates are those of a proxy that is trusted.
    pub(crate) fn certify(&self, chain: &[CertificateDer<'static>]) -> Outcome<()> {
        let name = chain.first().and_then(|own| certificate::common_name(own));
        let is_allowed =
            self.allowed_names.is_empty() || name.is_some_and(|name| self.allowed_names.contains(&name));
        match self.authorities.verify(chain) {
            Some(until) if is_allowed => Outcome::Valid { value: (), until },
            _ => Outcome::Refused,
        }
    }

    /// Whether a header is one that proxies set.
    pub(crate) fn sets(&self, name: &str) -> bool {
        let all = [&self.username_headers, &self.uid_headers, &self.group_headers];
        all.into_iter().flatten().any(|own| own == name)
            || self.extra_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }

    /// The user that the headers of a trusted proxy name.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let first = |names: &[HeaderName]| {
            names.iter().filter_map(text).find(|text| !text.is_empty()).map(str::to_owned)
        };
        let name = first(&self.username_headers)?;
        let values = |name: &HeaderName| {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.filter(|value| !value.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let groups = self.group_headers.iter().flat_map(values).collect();
        let mut extra: Vec<(String, Vec<String>)> = Vec::new();
        for prefix in &self.extra_prefixes {
            for (name, value) in headers {
                let (Some(key), Ok(value)) = (name.as_str().strip_prefix(prefix), value.to_str()) else {
                    continue;
                };
                let key = unescape_key(key);
                match extra.iter_mut().find(|(of, _)| *of == key) {
                    Some((_, values)) => values.push(value.to_owned()),
                    None => extra.push((key, vec![value.to_owned()])),
                }
            }
        }
        extra.sort();
        Some(User { name, uid: first(&self.uid_headers).unwrap_or_default(), groups, extra })
    }
}

/// The key of a further attribute in the name of a header: decoded, or as it is if it cannot be.
pub(crate) fn unescape_key(written: &str) -> String {
    let mut bytes = Vec::with_capacity(written.len());
    let mut rest = written.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let Some(decoded) = digit().zip(digit()).and_then(|(high, low)| u8::try_from(high << 4 | low).ok())
        else {
            return written.to_owned();
        };
        bytes.push(decoded);
    }
    String::from_utf8(bytes).unwrap_or_else(|_| written.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn proxy() -> Proxy {
        let names = |names: &[&'static str]| names.iter().map(|name| HeaderName::from_static(name)).collect();
        Proxy {
            authorities: Certificates::new(Vec::new()).unwrap(),
            allowed_names: Vec::new(),
            username_headers: names(&["x-user", "x-remote-user"]),
            uid_headers: names(&["x-remote-uid"]),
            group_headers: names(&["x-remote-group"]),
            extra_prefixes: vec!["x-remote-extra-".into()],
        }
    }

    #[test]
    fn headers_name_user_groups_and_decoded_attributes() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-user", ""),
            ("x-remote-user", "jane"),
            ("x-remote-uid", "7"),
            ("x-remote-group", "dev"),
            ("x-remote-group", "ops"),
            ("x-remote-extra-scopes", "a"),
            ("x-remote-extra-scopes", "b"),
            ("x-remote-extra-example.com%2fproject", "p"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let user = proxy().user(&headers).unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["dev", "ops"]);
        let extra = |key: &str, values: &[&str]| {
            (key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(user.extra, [extra("example.com/project", &["p"]), extra("scopes", &["a", "b"])]);
        assert_eq!(proxy().user(&HeaderMap::new()), None);
    }

    #[test]
    fn key_that_cannot_be_decoded_stays_as_it_is() {
        for (written, key) in [("a%2Fb", "a/b"), ("a%2", "a%2"), ("a%zz", "a%zz"), ("%ff", "%ff")] {
            assert_eq!(unescape_key(written), key);
        }
    }
}
