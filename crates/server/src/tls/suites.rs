//! `--tls-cipher-suites`: the suites of TLS 1.2 by the names that Go has for them. Those of TLS 1.3 cannot be
//! chosen, as in the reference.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
};

use super::{Oldest, Protocols, TlsConfig};

/// The suites that can be chosen.
const CHOSEN: [(&str, SupportedCipherSuite); 8] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The suites of TLS 1.3, which are always there.
const TLS13: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];

/// The suites that the reference knows and this server does not have: without forward secrecy, or with a
/// cipher that is not authenticated.
const ABSENT: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

impl TlsConfig {
    /// Checks the names of suites: the error is that of the reference. Returns the names of those that this
    /// server does not have, and leaves out.
    pub fn check_suites(&self) -> Result<Vec<&'static str>, String> {
        let mut absent = Vec::new();
        for name in &self.suites {
            if let Some(known) = ABSENT.iter().find(|known| *known == name) {
                absent.push(*known);
            } else if !TLS13.contains(&name.as_str()) && find(name).is_none() {
                return Err(format!("Cipher suite {name} not supported or doesn't exist"));
            }
        }
        let is_required = |name: &String| name.ends_with("_WITH_AES_128_GCM_SHA256") && find(name).is_some();
        let needs_one = self.protocols == Protocols::Both && self.oldest == Oldest::Tls12;
        if needs_one && !self.suites.is_empty() && !self.suites.iter().any(is_required) {
            return Err(
                "error configuring http2: http2: TLSConfig.CipherSuites is missing an HTTP/2-required AES_128_GCM_SHA256 cipher \
                 (need at least one of TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 or TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)"
                    .to_owned(),
            );
        }
        Ok(absent)
    }

    /// Leaves of `all` the suites of TLS 1.3 and the chosen ones; all of them if none are chosen.
    pub(super) fn choose(&self, all: &mut Vec<SupportedCipherSuite>) {
        if !self.suites.is_empty() {
            let chosen: Vec<_> = self.suites.iter().filter_map(|name| find(name)).collect();
            all.retain(|suite| suite.tls13().is_some() || chosen.contains(suite));
        }
    }
}

fn find(name: &str) -> Option<SupportedCipherSuite> {
    CHOSEN.iter().find(|(known, _)| *known == name).map(|(_, suite)| *suite)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;

    fn config(names: &[&str]) -> TlsConfig {
        TlsConfig { suites: names.iter().map(|name| (*name).to_owned()).collect(), ..TlsConfig::default() }
    }

    #[test]
    fn chosen_suites_limit_tls_1_2_alone() {
        let left = |names: &[&str]| {
            let mut all = ALL_CIPHER_SUITES.to_vec();
            config(names).choose(&mut all);
            all
        };
        assert_eq!(left(&[]), ALL_CIPHER_SUITES);
        let one = left(&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"]);
        assert_eq!(one.len(), 4, "{one:?}");
        assert!(one.contains(&TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256));
    }

    #[test]
    fn unknown_suites_are_refused_and_absent_ones_are_named() {
        assert_eq!(
            config(&["foo"]).check_suites(),
            Err("Cipher suite foo not supported or doesn't exist".to_owned())
        );
        let some = ["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
        assert_eq!(config(&some).check_suites(), Ok(vec!["TLS_RSA_WITH_RC4_128_SHA"]));
        assert_eq!(config(&[]).check_suites(), Ok(Vec::new()));
        for lacking in [["TLS_RSA_WITH_AES_128_GCM_SHA256"], ["TLS_AES_128_GCM_SHA256"]] {
            let refused = config(&lacking).check_suites().unwrap_err();
            assert!(refused.contains("missing an HTTP/2-required AES_128_GCM_SHA256 cipher"), "{refused}");
            let http1 = TlsConfig { protocols: Protocols::Http1, ..config(&lacking) };
            assert!(http1.check_suites().is_ok());
        }
    }
}
