//! What certificate signing requests ask for.

use std::net::IpAddr;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::cri_attributes::ParsedCriAttribute;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const SERIAL_NUMBER: &[u64] = &[2, 5, 4, 5];

/// The attributes of subjects that certificates get, in their order there: country, organization, unit,
/// locality, province, street, postal code, common name, serial number.
const ATTRIBUTES: [&[u64]; 9] = [
    &[2, 5, 4, 6],
    ORGANIZATION,
    &[2, 5, 4, 11],
    &[2, 5, 4, 7],
    &[2, 5, 4, 8],
    &[2, 5, 4, 9],
    &[2, 5, 4, 17],
    COMMON_NAME,
    SERIAL_NUMBER,
];

/// What a certificate signing request asks for. Extensions other than alternative names are not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningRequest {
    /// The subject.
    pub subject: Subject,
    /// Alternative names of hosts.
    pub dns_names: Vec<String>,
    /// Alternative names of mail boxes.
    pub email_addresses: Vec<String>,
    /// Alternative addresses.
    pub ip_addresses: Vec<IpAddr>,
    /// Alternative names by URI.
    pub uris: Vec<String>,
    /// The DER of the public key with its algorithm.
    pub public_key: Vec<u8>,
}

/// The subject of a request, as far as certificates get it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The values of each of [`ATTRIBUTES`].
    values: [Vec<String>; ATTRIBUTES.len()],
}

impl SigningRequest {
    /// Reads a request in PEM. Its signature is not checked.
    pub fn parse(pem: &[u8]) -> Result<Self, String> {
        Self::read(&parse(&der(pem)?)?)
    }

    pub(super) fn read(request: &X509CertificationRequest<'_>) -> Result<Self, String> {
        let info = &request.certification_request_info;
        let subject = Subject::read(&info.subject);
        let mut read = Self { subject, public_key: info.subject_pki.raw.to_vec(), ..Self::default() };
        for attribute in info.iter_attributes() {
            let ParsedCriAttribute::ExtensionRequest(asked) = attribute.parsed_attribute() else { continue };
            for extension in asked.extensions.iter().filter(|one| one.oid == OID_X509_EXT_SUBJECT_ALT_NAME) {
                let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() else {
                    return Err("x509: invalid subject alternative names".to_owned());
                };
                read.read_names(&names.general_names)?;
            }
        }
        Ok(read)
    }

    /// Reads alternative names. Of several extensions the last one counts.
    fn read_names(&mut self, names: &[GeneralName<'_>]) -> Result<(), String> {
        let lists = [&mut self.dns_names, &mut self.email_addresses, &mut self.uris];
        lists.into_iter().for_each(Vec::clear);
        self.ip_addresses.clear();
        for name in names {
            let (list, kind, text) = match name {
                GeneralName::DNSName(text) => (&mut self.dns_names, "dNSName", *text),
                GeneralName::RFC822Name(text) => (&mut self.email_addresses, "rfc822Name", *text),
                GeneralName::URI(text) => (&mut self.uris, "uniformResourceIdentifier", *text),
                GeneralName::IPAddress(octets) => {
                    let v4 = <[u8; 4]>::try_from(*octets).map(IpAddr::from);
                    let address = v4.or_else(|_| <[u8; 16]>::try_from(*octets).map(IpAddr::from));
                    let length = octets.len();
                    let why = |_| format!("x509: cannot parse IP address of length {length}");
                    self.ip_addresses.push(address.map_err(why)?);
                    continue;
                }
                GeneralName::Invalid(..) => return Err("x509: invalid subject alternative names".to_owned()),
                _ => continue,
            };
            if !text.is_ascii() {
                return Err(format!("x509: SAN {kind} is malformed"));
            }
            list.push(text.to_owned());
        }
        Ok(())
    }
}

impl Subject {
    fn read(name: &X509Name<'_>) -> Self {
        let mut subject = Self::default();
        for attribute in name.iter_attributes() {
            let is_of =
                |kind: &[u64]| attribute.attr_type().iter().is_some_and(|ids| ids.eq(kind.iter().copied()));
            let Ok(text) = attribute.as_str() else { continue };
            for (kind, values) in ATTRIBUTES.iter().zip(&mut subject.values).filter(|(kind, _)| is_of(kind)) {
                // These are single, and the last one counts.
                if [COMMON_NAME, SERIAL_NUMBER].contains(kind) {
                    values.clear();
                }
                values.push(text.to_owned());
            }
        }
        subject
    }

    /// The common name; empty if there is none.
    pub fn common_name(&self) -> &str {
        self.values_of(COMMON_NAME).first().map_or("", String::as_str)
    }

    /// The organizations.
    pub fn organizations(&self) -> &[String] {
        self.values_of(ORGANIZATION)
    }

    /// The attributes that are there, by their object identifiers, in the order of certificates.
    pub fn attributes(&self) -> impl Iterator<Item = (&'static [u64], &[String])> {
        let all = ATTRIBUTES.into_iter().zip(&self.values);
        all.map(|(kind, values)| (kind, values.as_slice())).filter(|(_, values)| !values.is_empty())
    }

    fn values_of(&self, kind: &[u64]) -> &[String] {
        self.attributes().find(|(other, _)| *other == kind).map_or(&[], |(_, values)| values)
    }
}

/// The DER of a request in PEM.
pub(super) fn der(pem: &[u8]) -> Result<Vec<u8>, String> {
    let block = super::blocks(pem).next().filter(|block| block.label == "CERTIFICATE REQUEST");
    block.map(|block| block.bytes).ok_or_else(|| "PEM block type must be CERTIFICATE REQUEST".to_owned())
}

pub(super) fn parse(der: &[u8]) -> Result<X509CertificationRequest<'_>, String> {
    let (rest, request) = X509CertificationRequest::from_der(der).map_err(|error| error.to_string())?;
    if rest.is_empty() { Ok(request) } else { Err("asn1: syntax error: trailing data".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    #[test]
    fn requests_ask_for_a_subject_and_names() {
        let names = ["a.example".to_owned(), "192.0.2.1".to_owned(), "2001:db8::1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.subject_alt_names.push(SanType::Rfc822Name("a@example.com".try_into().unwrap()));
        params.subject_alt_names.push(SanType::URI("spiffe://x/y".try_into().unwrap()));
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "system:node:a");
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CustomDnType(vec![1, 2, 3]), "unknown");
        let key = KeyPair::generate().unwrap();
        let pem = params.serialize_request(&key).unwrap().pem().unwrap();
        let request = SigningRequest::parse(pem.as_bytes()).unwrap();
        assert_eq!(request.subject.common_name(), "system:node:a");
        assert_eq!(request.subject.organizations(), ["system:nodes"]);
        let kinds: Vec<_> = request.subject.attributes().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [ORGANIZATION, COMMON_NAME]);
        assert_eq!(request.dns_names, ["a.example"]);
        assert_eq!(request.email_addresses, ["a@example.com"]);
        assert_eq!(request.uris, ["spiffe://x/y"]);
        let addresses: Vec<IpAddr> = vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()];
        assert_eq!(request.ip_addresses, addresses);
        assert_eq!(request.public_key, rcgen::PublicKeyData::subject_public_key_info(&key));
    }

    #[test]
    fn other_blocks_are_no_requests() {
        let error = SigningRequest::parse(b"-----BEGIN A-----\nAAAA\n-----END A-----\n").unwrap_err();
        assert_eq!(error, "PEM block type must be CERTIFICATE REQUEST");
    }
}
