//! The address of a member, as `--etcd-servers` names it.
//!
//! The forms are those of the reference's client: `http://host:port`, `https://host:port`, `unix://path`,
//! `unixs://path`, and `host:port` alone, which uses TLS if a file for it is given. TLS is never used with
//! `http://`.

use super::Tls;
use http::Uri;
use rustls::pki_types::ServerName;
use std::{fmt, io, path::PathBuf};

/// The port of etcd where a URL names none.
const PORT: u16 = 2379;

/// Where a member listens.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) address: Address,
    /// What its requests name as their server.
    pub(super) origin: Uri,
    security: Security,
    text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Security {
    Plain,
    Tls,
    /// TLS if there are files for it.
    Optional,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Target {
    /// Reads an endpoint.
    pub(super) fn parse(text: &str) -> io::Result<Self> {
        let wrong = || {
            let why = format!("{text:?} is not the address of an etcd server, such as https://host:2379");
            io::Error::new(io::ErrorKind::InvalidInput, why)
        };
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let security = match scheme {
            "http" => Security::Plain,
            "https" | "unixs" => Security::Tls,
            "" | "unix" => Security::Optional,
            _ => return Err(wrong()),
        };
        let (address, authority) = if scheme.starts_with("unix") {
            (Address::Unix(rest.into()), "localhost".to_owned())
        } else {
            let authority: http::uri::Authority = rest.trim_end_matches('/').parse().map_err(|_| wrong())?;
            let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = authority.port_u16().unwrap_or(PORT);
            (Address::Tcp { host, port }, authority.to_string())
        };
        if matches!(&address, Address::Tcp { host, .. } if host.is_empty()) || rest.is_empty() {
            return Err(wrong());
        }
        let protocol = if security == Security::Tls { "https" } else { "http" };
        let origin = Uri::builder().scheme(protocol).authority(authority).path_and_query("/").build();
        Ok(Self { address, origin: origin.map_err(|_| wrong())?, security, text: text.to_owned() })
    }

    /// The name that the member's certificate has to be for; none for a connection without TLS.
    pub(super) fn server_name(&self, tls: &Tls) -> io::Result<Option<ServerName<'static>>> {
        let is_plain = match self.security {
            Security::Plain => true,
            Security::Tls => false,
            Security::Optional => tls.ca.is_none() && tls.cert.is_none() && tls.key.is_none(),
        };
        if is_plain {
            return Ok(None);
        }
        let host = match &self.address {
            Address::Tcp { host, .. } => host.clone(),
            Address::Unix(_) => "localhost".to_owned(),
        };
        ServerName::try_from(host).map(Some).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn endpoints_are_read_as_the_reference_reads_them() {
        let with_files = Tls { ca: Some("ca.crt".into()), ..Tls::default() };
        let tcp = |host: &str, port| Address::Tcp { host: host.into(), port };
        let cases = [
            ("http://127.0.0.1:2379", tcp("127.0.0.1", 2379), false, false),
            ("https://etcd.example:4001", tcp("etcd.example", 4001), true, true),
            ("https://etcd.example/", tcp("etcd.example", 2379), true, true),
            ("etcd:2379", tcp("etcd", 2379), false, true),
            ("http://[::1]:2379", tcp("::1", 2379), false, false),
            ("unix:///run/etcd.sock", Address::Unix("/run/etcd.sock".into()), false, true),
            ("unixs:///run/etcd.sock", Address::Unix("/run/etcd.sock".into()), true, true),
        ];
        for (text, address, bare, filed) in cases {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.address, address, "{text}");
            assert_eq!(target.server_name(&Tls::default()).unwrap().is_some(), bare, "{text}");
            assert_eq!(target.server_name(&with_files).unwrap().is_some(), filed, "{text}");
        }
        for text in ["", "ftp://a:1", "http://", "http://a b", "unix://"] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
