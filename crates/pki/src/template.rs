//! Certificates of no authority, written and signed. `rcgen` cannot write every subject that they may have.

use std::time::Duration;

use rcgen::{
    KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519,
    PKCS_RSA_SHA256, SignatureAlgorithm, SigningKey as _, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, DERWriterSeq, Tag};

use super::Error;
use super::validity::Validity;

const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const ALTERNATIVE_NAMES: &[u64] = &[2, 5, 29, 17];

/// The first second of 2050, from which on certificates write times with four digits of the year.
const UTC_TIME_ENDS: u64 = 2_524_608_000;

/// A certificate, before it is signed.
pub(super) struct Template<'a> {
    /// The attributes of the subject by their object identifiers, each with its values.
    pub(super) subject: Vec<(&'static [u64], &'a [String])>,
    /// The DER of the public key with its algorithm.
    pub(super) public_key: &'a [u8],
    pub(super) validity: Validity,
    /// What the key is for: the first of the extension's bits is the lowest one.
    pub(super) key_usage: u16,
    /// What the certificate is for.
    pub(super) purposes: Vec<&'static [u64]>,
    /// Alternative names, each with its tag.
    pub(super) names: Vec<(u64, Vec<u8>)>,
}

impl Template<'_> {
    /// The certificate in PEM, signed by an authority.
    pub(super) fn sign(&self, authority: &CertificateDer<'_>, key: &KeyPair) -> Result<String, Error> {
        let unusable = |_| Error::Make(rcgen::Error::CouldNotParseCertificate);
        let (_, issuer) = X509Certificate::from_der(authority).map_err(unusable)?;
        let algorithm = Algorithm::of(key)?;
        let serial = serial()?;
        let signed = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&serial, true);
                algorithm.write(writer.next());
                writer.next().write_der(issuer.subject().as_raw());
                write_validity(writer.next(), self.validity);
                self.write_subject(writer.next());
                writer.next().write_der(self.public_key);
                writer.next().write_tagged(Tag::context(3), |writer| {
                    writer.write_sequence(|writer| self.write_extensions(writer, &issuer));
                });
            });
        });
        sign(&signed, &algorithm, key)
    }

    fn write_subject(&self, writer: DERWriter<'_>) {
        writer.write_sequence(|writer| {
            for (kind, values) in &self.subject {
                writer.next().write_set_of(|writer| {
                    for value in *values {
                        writer.next().write_sequence(|writer| {
                            writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
                            if value.chars().all(is_printable) {
                                writer.next().write_printable_string(value);
                            } else {
                                writer.next().write_utf8_string(value);
                            }
                        });
                    }
                });
            }
        });
    }

    fn write_extensions(&self, writer: &mut DERWriterSeq<'_>, issuer: &X509Certificate<'_>) {
        if self.key_usage != 0 {
            let bits = 16 - self.key_usage.leading_zeros() as usize;
            let bytes = self.key_usage.reverse_bits().to_be_bytes();
            let bytes = bytes.get(..bits.div_ceil(8)).unwrap_or_default();
            let usage = yasna::construct_der(|writer| writer.write_bitvec_bytes(bytes, bits));
            extension(writer.next(), KEY_USAGE, Critical::Yes, &usage);
        }
        if !self.purposes.is_empty() {
            let purposes = yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    for purpose in &self.purposes {
                        writer.next().write_oid(&ObjectIdentifier::from_slice(purpose));
                    }
                });
            });
            extension(writer.next(), EXTENDED_KEY_USAGE, Critical::No, &purposes);
        }
        let no_authority = yasna::construct_der(|writer| writer.write_sequence(|_| {}));
        extension(writer.next(), BASIC_CONSTRAINTS, Critical::Yes, &no_authority);
        let key_identifier =
            issuer.extensions().iter().find_map(|extension| match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
                _ => None,
            });
        if let Some(identifier) = key_identifier {
            let value = yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    writer
                        .next()
                        .write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(&identifier));
                });
            });
            extension(writer.next(), AUTHORITY_KEY_IDENTIFIER, Critical::No, &value);
        }
        if !self.names.is_empty() {
            let names = yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    for (tag, name) in &self.names {
                        writer
                            .next()
                            .write_tagged_implicit(Tag::context(*tag), |writer| writer.write_bytes(name));
                    }
                });
            });
            let critical = if self.subject.is_empty() { Critical::Yes } else { Critical::No };
            extension(writer.next(), ALTERNATIVE_NAMES, critical, &names);
        }
    }
}

/// Whether an extension is critical: software that does not know it must refuse the certificate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Critical {
    Yes,
    No,
}

fn extension(writer: DERWriter<'_>, kind: &[u64], critical: Critical, value: &[u8]) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
        if critical == Critical::Yes {
            writer.next().write_bool(true);
        }
        writer.next().write_bytes(value);
    });
}

/// The certificate of an authority that signed itself, with another serial number and validity, and otherwise
/// as it is.
pub(super) fn renew(
    authority: &X509Certificate<'_>,
    key: &KeyPair,
    validity: Validity,
) -> Result<String, Error> {
    let algorithm = Algorithm::of(key)?;
    let serial = serial()?;
    let signed = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
            writer.next().write_bigint_bytes(&serial, true);
            algorithm.write(writer.next());
            writer.next().write_der(authority.issuer().as_raw());
            write_validity(writer.next(), validity);
            writer.next().write_der(authority.subject().as_raw());
            writer.next().write_der(authority.public_key().raw);
            writer.next().write_tagged(Tag::context(3), |writer| {
                writer.write_sequence(|writer| {
                    for one in authority.extensions() {
                        let critical = if one.critical { Critical::Yes } else { Critical::No };
                        let identifier: Vec<u64> = one.oid.iter().into_iter().flatten().collect();
                        extension(writer.next(), &identifier, critical, one.value);
                    }
                });
            });
        });
    });
    sign(&signed, &algorithm, key)
}

/// A new serial number: positive, and without a leading zero.
fn serial() -> Result<[u8; 16], Error> {
    let mut serial = [0; 16];
    aws_lc_rs::rand::fill(&mut serial).map_err(|_| Error::Random)?;
    if let Some(first) = serial.first_mut() {
        *first = *first & 0x7f | 0x40;
    }
    Ok(serial)
}

/// The certificate in PEM with this content.
fn sign(content: &[u8], algorithm: &Algorithm, key: &KeyPair) -> Result<String, Error> {
    let signature = key.sign(content)?;
    let certificate = yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(content);
            algorithm.write(writer.next());
            writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    Ok(pem("CERTIFICATE", &certificate))
}

/// How an authority signs.
struct Algorithm {
    identifier: &'static [u64],
    has_parameters: bool,
}

impl Algorithm {
    fn of(key: &KeyPair) -> Result<Self, Error> {
        let known: [(&SignatureAlgorithm, &'static [u64]); 5] = [
            (&PKCS_ECDSA_P256_SHA256, &[1, 2, 840, 10045, 4, 3, 2]),
            (&PKCS_ECDSA_P384_SHA384, &[1, 2, 840, 10045, 4, 3, 3]),
            (&PKCS_ECDSA_P521_SHA512, &[1, 2, 840, 10045, 4, 3, 4]),
            (&PKCS_RSA_SHA256, &[1, 2, 840, 113_549, 1, 1, 11]),
            (&PKCS_ED25519, &[1, 3, 101, 112]),
        ];
        let found = known.iter().find(|(algorithm, _)| *algorithm == key.algorithm());
        let (algorithm, identifier) = found.ok_or(rcgen::Error::UnsupportedSignatureAlgorithm)?;
        Ok(Self { identifier, has_parameters: **algorithm == PKCS_RSA_SHA256 })
    }

    fn write(&self, writer: DERWriter<'_>) {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(self.identifier));
            if self.has_parameters {
                writer.next().write_null();
            }
        });
    }
}

/// Whether a `PrintableString` may have it.
fn is_printable(c: char) -> bool {
    c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c)
}

fn write_validity(writer: DERWriter<'_>, validity: Validity) {
    writer.write_sequence(|writer| {
        time(writer.next(), validity.not_before);
        time(writer.next(), validity.not_after);
    });
}

fn time(writer: DERWriter<'_>, seconds: u64) {
    let at = date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    if seconds < UTC_TIME_ENDS {
        writer.write_utctime(&UTCTime::from_datetime(at));
    } else {
        writer.write_generalized_time(&GeneralizedTime::from_datetime(at));
    }
}

pub(super) fn pem(label: &str, der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}
