//! Certificates for some names of the server, which the client chooses by SNI (`--tls-sni-cert-key`).

use std::collections::HashMap;
use std::sync::Arc;

use pki::Pair;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;

use super::{Error, Files, certified};

/// The files of a certificate for some names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFiles {
    /// The certificate and its key.
    pub files: Files,
    /// The names, with `*` for any first label; none for those of the certificate. An address is for clients
    /// that send no name and connect to it.
    pub names: Vec<String>,
}

impl NamedFiles {
    /// Reads a value of `--tls-sni-cert-key`: `certificate,key` or `certificate,key:name,name`.
    pub fn parse(value: &str) -> Result<Self, String> {
        let (files, names) = match value.split_once(':') {
            Some((_, names)) if names.trim().is_empty() => {
                return Err("empty names list is not allowed".to_owned());
            }
            Some((files, names)) => (files, names.split(',').map(|name| name.trim().to_owned()).collect()),
            None => (value, Vec::new()),
        };
        match files.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
            [certificate, key] => {
                Ok(Self { files: Files { certificate: certificate.into(), key: key.into() }, names })
            }
            _ => Err("expected comma separated certificate and key file paths".to_owned()),
        }
    }

    /// Reads the files.
    pub fn read(&self) -> Result<NamedPair, Error> {
        Ok(NamedPair { pair: self.files.read()?, names: self.names.clone() })
    }
}

/// A certificate for some names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPair {
    /// The certificate and its key.
    pub pair: Pair,
    /// As in [`NamedFiles`].
    pub names: Vec<String>,
}

/// The certificates by their names. A name that the flag gives counts before one of a certificate; of several
/// certificates the first counts.
#[derive(Debug, Default)]
pub(super) struct ByName(HashMap<String, Arc<CertifiedKey>>);

impl ByName {
    pub(super) fn new(pairs: &[NamedPair], provider: &CryptoProvider) -> Result<Self, Error> {
        let (mut given, mut found) = (HashMap::new(), HashMap::new());
        for named in pairs {
            let key = Arc::new(certified(&named.pair, provider)?);
            let of_certificate = || key.end_entity_cert().map(pki::serving_names).unwrap_or_default();
            let (by_name, names) = match named.names.is_empty() {
                true => (&mut found, of_certificate()),
                false => (&mut given, named.names.clone()),
            };
            for name in names {
                by_name.entry(name).or_insert_with(|| Arc::clone(&key));
            }
        }
        found.extend(given);
        Ok(Self(found))
    }

    /// The certificate for a name that a client sent, or for an address that it connected to.
    pub(super) fn find(&self, name: &str) -> Option<&Arc<CertifiedKey>> {
        if self.0.is_empty() {
            return None;
        }
        let name = name.to_lowercase();
        let wildcard = || {
            let (_, rest) = name.split_once('.').unwrap_or(("", ""));
            self.0.get(&if rest.is_empty() { "*".to_owned() } else { format!("*.{rest}") })
        };
        self.0.get(&name).or_else(wildcard)
    }

    /// The certificate for an address.
    pub(super) fn of_address(&self, address: &str) -> Option<&Arc<CertifiedKey>> {
        self.0.get(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pki::{Names, ensure_self_signed};
    use rustls::crypto::aws_lc_rs::default_provider;
    use std::time::SystemTime;
    use testkit::Folder;

    #[test]
    fn value_is_two_files_and_names() {
        let parsed = NamedFiles::parse("a.crt, a.key:*.example.com, example.com").unwrap();
        assert_eq!(parsed.files, Files { certificate: "a.crt".into(), key: "a.key".into() });
        assert_eq!(parsed.names, ["*.example.com", "example.com"]);
        assert!(NamedFiles::parse("a,b").unwrap().names.is_empty());
        assert_eq!(NamedFiles::parse("a,b:").unwrap_err(), "empty names list is not allowed");
        let other = "expected comma separated certificate and key file paths";
        assert_eq!(NamedFiles::parse("a").unwrap_err(), other);
        assert_eq!(NamedFiles::parse("a,b,c:x").unwrap_err(), other);
    }

    #[test]
    fn given_names_count_before_those_of_certificates_and_exact_ones_before_wildcards() {
        let folder = Folder::new().unwrap();
        let named = |file: &str, dns: &[&str], names: &[&str]| {
            let mut all = Names::default();
            all.dns.extend(dns.iter().map(|name| (*name).to_owned()));
            let host = [192, 0, 2, 1].into();
            ensure_self_signed(folder.path(), file, host, &all, clock::now()).unwrap();
            let path = |end: &str| folder.path().join(format!("{file}.{end}"));
            let files = Files { certificate: path("crt"), key: path("key") };
            NamedFiles { files, names: names.iter().map(|name| (*name).to_owned()).collect() }.read().unwrap()
        };
        let pairs = [
            named("own", &["own.example.com", "x.example.com"], &[]),
            named("wild", &[], &["*.example.com", "192.0.2.9"]),
            named("given", &[], &["x.example.com"]),
        ];
        let by_name = ByName::new(&pairs, &default_provider()).unwrap();
        let found = |name: &str| {
            let key = by_name.find(name)?;
            let is_it = |pair: &NamedPair| pki::certificates(&pair.pair.certificate).unwrap() == key.cert;
            pairs.iter().position(is_it)
        };
        for (name, expected) in [
            ("own.example.com", Some(0)),
            ("OWN.example.com", Some(0)),
            ("x.example.com", Some(2)),
            ("other.example.com", Some(1)),
            ("a.other.example.com", None),
            ("192.0.2.1", None),
        ] {
            assert_eq!(found(name), expected, "{name}");
        }
        assert!(by_name.of_address("192.0.2.9").is_some());
    }
}
