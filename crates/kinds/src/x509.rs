//! Certificates, keys and signing requests in PEM, as far as validation and signers read them. Faults have
//! the reference's words where its own code finds them; what its ASN.1 decoder says about broken DER is not
//! repeated.

mod kubelet;
mod signing_request;

pub use kubelet::{
    KUBELET_CLIENT_SIGNER, KUBELET_SERVING_SIGNER, LEGACY_SIGNER, check_kubelet_client, check_kubelet_serving,
};
pub use signing_request::{SigningRequest, Subject};

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, KeyPair, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::quote::Quoted;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use std::collections::HashMap;

const CERTIFICATE: &str = "CERTIFICATE";

/// A block of a PEM text.
struct Block<'a> {
    label: &'a str,
    has_headers: bool,
    bytes: Vec<u8>,
}

/// The well-formed blocks of a PEM text; what is between them, and blocks that are not well-formed, are
/// skipped.
fn blocks(pem: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut rest = std::str::from_utf8(pem).unwrap_or_default();
    std::iter::from_fn(move || {
        loop {
            let begin = begin(rest)?;
            let (block, after) = block(begin);
            rest = after;
            if block.is_some() {
                return block;
            }
        }
    })
}

/// The text after the next `-----BEGIN ` that starts a line.
fn begin(text: &str) -> Option<&str> {
    const BEGIN: &str = "-----BEGIN ";
    text.strip_prefix(BEGIN).or_else(|| text.split_once("\n-----BEGIN ").map(|(_, after)| after))
}

/// A block whose label begins the text, and what follows it.
fn block(text: &str) -> (Option<Block<'_>>, &str) {
    let Some((first, mut body)) = text.split_once('\n') else { return (None, "") };
    let Some(label) = first.trim_end().strip_suffix("-----") else { return (None, body) };
    let mut has_headers = false;
    while let Some((line, after)) = body.split_once('\n')
        && line.contains(':')
    {
        (has_headers, body) = (true, after);
    }
    let ended = match body.strip_prefix("-----END ") {
        Some(after) => Some(("", after)),
        None => body.split_once("\n-----END "),
    };
    let Some((base64, end)) = ended else { return (None, body) };
    let (last, after) = end.split_once('\n').unwrap_or((end, ""));
    if last.trim_end().strip_suffix("-----") != Some(label) {
        return (None, body);
    }
    let digits: String = base64.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    (STANDARD.decode(digits).ok().map(|bytes| Block { label, has_headers, bytes }), after)
}

/// Checks a signing request: one block of PEM, signed with its own key.
pub(crate) fn check_request(pem: &[u8]) -> Result<(), String> {
    let der = signing_request::der(pem)?;
    let request = signing_request::parse(&der)?;
    SigningRequest::read(&request)?;
    let key = &request.certification_request_info.subject_pki;
    request.verify_signature().map_err(|_| {
        match key.parsed() {
            Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error",
            Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure",
            _ => "x509: Ed25519 verification failure",
        }
        .to_owned()
    })
}

/// When the first certificate in PEM ends, in seconds since 1970; `None` if there is none that can be read.
pub fn not_after(pem: &[u8]) -> Option<i64> {
    let block = blocks(pem).next()?;
    let (_, certificate) = X509Certificate::from_der(&block.bytes).ok()?;
    Some(certificate.validity().not_after.timestamp())
}

/// How many seconds the first certificate in PEM lasts; `None` if there is none that can be read.
pub fn lifetime(pem: &[u8]) -> Option<i64> {
    let block = blocks(pem).find(|block| block.label == CERTIFICATE)?;
    let (_, certificate) = X509Certificate::from_der(&block.bytes).ok()?;
    let validity = certificate.validity();
    Some(validity.not_after.timestamp().saturating_sub(validity.not_before.timestamp()))
}

/// Checks certificates in PEM. Nothing at all is valid too.
pub(crate) fn check_certificates(pem: &[u8]) -> Result<(), String> {
    if pem.is_empty() {
        return Ok(());
    }
    let mut count = 0;
    for block in blocks(pem) {
        if block.label != CERTIFICATE {
            return Err(format!("only CERTIFICATE PEM blocks are allowed, found {}", Quoted(block.label)));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".to_owned());
        }
        count += 1;
        if block.bytes.is_empty() {
            return Err("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        let mut der = block.bytes.as_slice();
        while !der.is_empty() {
            (der, _) = X509Certificate::from_der(der).map_err(|_| MALFORMED.to_owned())?;
        }
    }
    if count == 0 { Err("must contain at least one CERTIFICATE PEM block".to_owned()) } else { Ok(()) }
}

/// What is wrong with a bundle of the certificates of authorities, in PEM: each has to be there once, and
/// nothing else.
pub(crate) fn trust_anchor_faults(pem: &[u8]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut anchors: Vec<(Vec<u8>, Vec<usize>)> = Vec::new();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    for (at, block) in blocks(pem).enumerate() {
        if block.label != CERTIFICATE {
            faults.push(format!("entry {at} has bad block type: {}", block.label));
        } else if block.has_headers {
            faults.push(format!("entry {at} has PEM block headers"));
        } else if let Some(why) = anchor_fault(&block.bytes) {
            faults.push(format!("entry {at} {why}"));
        } else {
            let place = *places.entry(block.bytes.clone()).or_insert(anchors.len());
            match anchors.get_mut(place) {
                Some((_, indices)) => indices.push(at),
                None => anchors.push((block.bytes, vec![at])),
            }
        }
    }
    if !faults.is_empty() {
        return faults;
    }
    if anchors.is_empty() {
        return vec!["at least one trust anchor must be provided".to_owned()];
    }
    let repeated = anchors.iter().filter(|(_, indices)| indices.len() > 1);
    let shown = |indices: &[usize]| indices.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    repeated.map(|(_, indices)| format!("duplicate trust anchor (indices [{}])", shown(indices))).collect()
}

/// What is wrong with the certificate of an authority.
fn anchor_fault(der: &[u8]) -> Option<&'static str> {
    let Ok((&[], certificate)) = X509Certificate::from_der(der) else {
        return Some("does not parse as X.509");
    };
    match certificate.basic_constraints() {
        Ok(Some(constraints)) if constraints.value.ca => None,
        Ok(_) => Some("does not have the CA bit set"),
        Err(_) => Some("does not parse as X.509"),
    }
}

/// Checks authorities in PEM: one that can be read is enough, whatever is around it. Nothing at all is valid
/// too.
pub fn check_authorities(pem: &[u8]) -> Result<(), String> {
    let mut why = "unable to parse bytes as PEM block".to_owned();
    let mut is_malformed = false;
    for block in blocks(pem) {
        if block.label == CERTIFICATE && !block.has_headers {
            if X509Certificate::from_der(&block.bytes).is_ok_and(|(rest, _)| rest.is_empty()) {
                return Ok(());
            }
            is_malformed = true;
            why = format!("failed to parse certificate: {MALFORMED}");
        } else if !is_malformed {
            why = "no valid certificate authority data seen".to_owned();
        }
    }
    if pem.is_empty() { Ok(()) } else { Err(format!("unable to load root certificates: {why}")) }
}

const MALFORMED: &str = "x509: malformed certificate";

/// Checks that a private key is that of a certificate, both in PEM.
pub(crate) fn check_key_pair(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let certificate = find(certificate, |label| label == CERTIFICATE).map_err(no_certificate)?;
    let key = find(key, |label| label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY")).map_err(no_key)?;
    let (rest, certificate) = X509Certificate::from_der(&certificate).map_err(|_| MALFORMED.to_owned())?;
    if !rest.is_empty() {
        return Err(MALFORMED.to_owned());
    }
    let Some((algorithm, public)) = public_key(&key) else {
        return Err("tls: failed to parse private key".to_owned());
    };
    let of = certificate.public_key();
    match algorithm_of(of) {
        None => Err("tls: unknown public key algorithm".to_owned()),
        Some(other) if other != algorithm => {
            Err("tls: private key type does not match public key type".to_owned())
        }
        Some(_) if *of.subject_public_key.data != *public => {
            Err("tls: private key does not match public key".to_owned())
        }
        Some(_) => Ok(()),
    }
}

/// The first block with such a label, or the labels of all others.
fn find(pem: &[u8], wanted: impl Fn(&str) -> bool) -> Result<Vec<u8>, Vec<String>> {
    let mut skipped = Vec::new();
    for block in blocks(pem) {
        if wanted(block.label) {
            return Ok(block.bytes);
        }
        skipped.push(block.label.to_owned());
    }
    Err(skipped)
}

fn no_certificate(skipped: Vec<String>) -> String {
    match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned()
        }
        several => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [{}]",
            several.join(" ")
        ),
    }
}

fn no_key(skipped: Vec<String>) -> String {
    match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one == CERTIFICATE => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        several => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [{}]",
            several.join(" ")
        ),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rsa,
    Ecdsa,
    Ed25519,
}

fn algorithm_of(key: &SubjectPublicKeyInfo<'_>) -> Option<Algorithm> {
    match key.parsed() {
        Ok(PublicKey::RSA(_)) => Some(Algorithm::Rsa),
        Ok(PublicKey::EC(_)) => Some(Algorithm::Ecdsa),
        _ if key.algorithm.algorithm.to_id_string() == "1.3.101.112" => Some(Algorithm::Ed25519),
        _ => None,
    }
}

/// The public half of a private key.
fn public_key(der: &[u8]) -> Option<(Algorithm, Vec<u8>)> {
    if let Ok(key) = RsaKeyPair::from_der(der).or_else(|_| RsaKeyPair::from_pkcs8(der)) {
        return Some((Algorithm::Rsa, key.public_key().as_ref().to_vec()));
    }
    if let Ok(key) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        return Some((Algorithm::Ed25519, key.public_key().as_ref().to_vec()));
    }
    let curves =
        [&ECDSA_P256_SHA256_ASN1_SIGNING, &ECDSA_P384_SHA384_ASN1_SIGNING, &ECDSA_P521_SHA512_ASN1_SIGNING];
    let key = curves.into_iter().find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok())?;
    Some((Algorithm::Ecdsa, key.public_key().as_ref().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};

    #[test]
    fn keys_belong_to_certificates() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        let key = key.serialize_pem();
        let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
        let ed25519 = KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem();
        let check = |certificate: &str, key: &str| check_key_pair(certificate.as_bytes(), key.as_bytes());
        assert_eq!(check(&certificate, &key), Ok(()));
        for (certificate, key, expected) in [
            (&certificate, &other, "tls: private key does not match public key"),
            (&certificate, &ed25519, "tls: private key type does not match public key type"),
            (&certificate, &String::new(), "tls: failed to find any PEM data in key input"),
            (
                &certificate,
                &certificate,
                "tls: found a certificate rather than a key in the PEM for the private key",
            ),
            (
                &key,
                &certificate,
                "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
            ),
        ] {
            assert_eq!(check(certificate, key), Err(expected.to_owned()));
        }
        let odd = "-----BEGIN A-----\nAAAA\n-----END A-----\n".repeat(2);
        let types = "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [A A]";
        assert_eq!(check(&odd, &key), Err(types.to_owned()));
    }

    #[test]
    fn one_readable_authority_is_enough() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let good = CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let other = "-----BEGIN A-----\nAAAA\n-----END A-----\n";
        let check = |pem: &str| check_authorities(pem.as_bytes()).map_err(|why| why.replace(MALFORMED, "x"));
        for pem in ["", &good, &format!("{broken}{good}"), &format!("{other}{good}{broken}")] {
            assert_eq!(check(pem), Ok(()), "{pem}");
        }
        for (pem, why) in [
            ("x", "unable to parse bytes as PEM block"),
            (other, "no valid certificate authority data seen"),
            (&format!("{broken}{other}"), "failed to parse certificate: x"),
        ] {
            assert_eq!(check(pem), Err(format!("unable to load root certificates: {why}")), "{pem}");
        }
    }

    #[test]
    fn certificates_are_plain_blocks() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let certificate = CertificateParams::new(["a".to_owned()]).unwrap().self_signed(&key).unwrap().pem();
        let check = |pem: &str| check_certificates(pem.as_bytes());
        assert_eq!(check(&format!("text\n{certificate}{certificate}")), Ok(()));
        assert_eq!(check(""), Ok(()));
        for (pem, expected) in [
            ("x", "must contain at least one CERTIFICATE PEM block"),
            (
                "-----BEGIN A-----\nAAAA\n-----END A-----\n",
                "only CERTIFICATE PEM blocks are allowed, found \"A\"",
            ),
            (
                "-----BEGIN CERTIFICATE-----\na: b\n\nAAAA\n-----END CERTIFICATE-----\n",
                "no PEM block headers are permitted",
            ),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", MALFORMED),
        ] {
            assert_eq!(check(pem), Err(expected.to_owned()), "{pem}");
        }
    }
}
