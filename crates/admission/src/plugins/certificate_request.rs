//! The subject of a certificate signing request.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

/// What certificate requests ask to be.
pub(super) struct Subject {
    /// Of several the last; empty if there is none.
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
}

/// The subject of a request in PEM.
pub(super) fn subject(pem: &[u8]) -> Result<Subject, String> {
    let block = Pem::iter_from_buffer(pem).next().and_then(Result::ok);
    let Some(block) = block.filter(|block| block.label == "CERTIFICATE REQUEST") else {
        return Err("PEM block type must be CERTIFICATE REQUEST".to_owned());
    };
    let (_, request) =
        X509CertificationRequest::from_der(&block.contents).map_err(|error| error.to_string())?;
    let subject = &request.certification_request_info.subject;
    let organizations = subject.iter_organization().filter_map(|name| name.as_str().ok());
    let names = subject.iter_common_name().filter_map(|name| name.as_str().ok());
    Ok(Subject {
        organizations: organizations.map(str::to_owned).collect(),
        common_name: names.last().unwrap_or_default().to_owned(),
    })
}
