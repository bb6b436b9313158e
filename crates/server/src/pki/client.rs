//! Client certificates. Their subject has an organization for each group, which `rcgen` cannot write.

use std::time::{Duration, SystemTime};

use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _, date_time_ymd};
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use yasna::models::{GeneralizedTime, ObjectIdentifier, UTCTime};
use yasna::{DERWriter, Tag};

use super::issue::{HOUR, seconds};
use super::{Error, Pair};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10045, 4, 3, 2];
const AUTHORITY_KEY_IDENTIFIER: &[u64] = &[2, 5, 29, 35];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const CLIENT_AUTH: &[u64] = &[1, 3, 6, 1, 5, 5, 7, 3, 2];

/// The first second of 2050, from which on certificates write times with four digits of the year.
const UTC_TIME_ENDS: u64 = 2_524_608_000;

/// The user of a client certificate, and how long it is valid.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a> {
    /// The name.
    pub user: &'a str,
    /// The groups.
    pub groups: &'a [String],
    /// How long the certificate is valid.
    pub life: Duration,
}

impl Client<'_> {
    /// A new key, and its certificate by an authority.
    pub(super) fn issue(
        &self,
        authority: &CertificateDer<'_>,
        authority_key: &KeyPair,
        now: SystemTime,
    ) -> Result<Pair, Error> {
        let unusable = |_| Error::Make(rcgen::Error::CouldNotParseCertificate);
        let (_, issuer) = X509Certificate::from_der(authority).map_err(unusable)?;
        let key = KeyPair::generate()?;
        let mut serial = [0; 16];
        aws_lc_rs::rand::fill(&mut serial).map_err(|_| Error::Random)?;
        // Positive, and without a leading zero.
        if let Some(first) = serial.first_mut() {
            *first = *first & 0x7f | 0x40;
        }
        let now = seconds(now);
        let validity = [now.saturating_sub(HOUR.as_secs()), now.saturating_add(self.life.as_secs())];
        let signed = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_tagged(Tag::context(0), |writer| writer.write_u8(2));
                writer.next().write_bigint_bytes(&serial, true);
                algorithm(writer.next());
                writer.next().write_der(issuer.subject().as_raw());
                writer.next().write_sequence(|writer| {
                    validity.iter().for_each(|at| time(writer.next(), *at));
                });
                self.subject(writer.next());
                writer.next().write_der(&key.subject_public_key_info());
                writer.next().write_tagged(Tag::context(3), |writer| extensions(writer, &issuer));
            });
        });
        let signature = authority_key.sign(&signed)?;
        let certificate = yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_der(&signed);
                algorithm(writer.next());
                writer.next().write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(Pair { certificate: pem("CERTIFICATE", &certificate), key: key.serialize_pem() })
    }

    fn subject(&self, writer: DERWriter<'_>) {
        let groups = self.groups.iter().map(|group| (ORGANIZATION, group.as_str()));
        writer.write_sequence(|writer| {
            for (kind, text) in groups.chain([(COMMON_NAME, self.user)]) {
                writer.next().write_set(|writer| {
                    writer.next().write_sequence(|writer| {
                        writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
                        writer.next().write_utf8_string(text);
                    });
                });
            }
        });
    }
}

fn algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|writer| {
        writer.next().write_oid(&ObjectIdentifier::from_slice(ECDSA_WITH_SHA256));
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

fn extensions(writer: DERWriter<'_>, issuer: &X509Certificate<'_>) {
    let key_identifier =
        issuer.extensions().iter().find_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
            _ => None,
        });
    let critical = |writer: DERWriter<'_>, kind: &[u64], value: Vec<u8>| {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
            writer.next().write_bool(true);
            writer.next().write_bytes(&value);
        });
    };
    let plain = |writer: DERWriter<'_>, kind: &[u64], value: Vec<u8>| {
        writer.write_sequence(|writer| {
            writer.next().write_oid(&ObjectIdentifier::from_slice(kind));
            writer.next().write_bytes(&value);
        });
    };
    writer.write_sequence(|writer| {
        // Digital signatures: the first bit.
        let usage = yasna::construct_der(|writer| writer.write_bitvec_bytes(&[0x80], 1));
        critical(writer.next(), KEY_USAGE, usage);
        let purpose = yasna::construct_der(|writer| {
            writer
                .write_sequence(|writer| writer.next().write_oid(&ObjectIdentifier::from_slice(CLIENT_AUTH)));
        });
        plain(writer.next(), EXTENDED_KEY_USAGE, purpose);
        let no_authority = yasna::construct_der(|writer| writer.write_sequence(|_| {}));
        critical(writer.next(), BASIC_CONSTRAINTS, no_authority);
        if let Some(identifier) = key_identifier {
            let value = yasna::construct_der(|writer| {
                writer.write_sequence(|writer| {
                    writer
                        .next()
                        .write_tagged_implicit(Tag::context(0), |writer| writer.write_bytes(&identifier));
                });
            });
            plain(writer.next(), AUTHORITY_KEY_IDENTIFIER, value);
        }
    });
}

fn pem(label: &str, der: &[u8]) -> String {
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
