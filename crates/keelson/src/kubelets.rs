//! How kubelets are found and spoken to, as the flags say.

use std::path::PathBuf;

use server::api::{Backends, KubeletClient};

use crate::options::KubeletOptions;

/// Why kubelets cannot be spoken to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("--kubelet-certificate-authority: {path}: {cause}", path = .path.display())]
    Authorities { path: PathBuf, cause: std::io::Error },
    #[error("--kubelet-client-certificate and --kubelet-client-key have to be given together")]
    HalfPair,
    #[error("kubelets cannot be spoken to: {0}")]
    Tls(#[from] outbound::TlsError),
}

/// The addresses of kubelets.
pub(crate) fn addresses(options: &KubeletOptions) -> registry::KubeletAddresses {
    let default = registry::KubeletAddresses::default();
    registry::KubeletAddresses {
        types: options.address_types.clone().unwrap_or(default.types),
        port: options.port,
    }
}

/// The clients for kubelets, and for what is proxied to.
pub(crate) fn backends(options: &KubeletOptions) -> Result<Backends, Error> {
    let certificate = match (&options.client_certificate, &options.client_key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        _ => return Err(Error::HalfPair),
    };
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|cause| Error::Authorities { path: path.clone(), cause })
    };
    let authorities = options.certificate_authority.as_ref().map(read).transpose()?;
    Ok(Backends::new(KubeletClient { certificate, authorities })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_needs_its_key_and_files_have_to_be_there() {
        let half = KubeletOptions { client_key: Some("key".into()), ..KubeletOptions::default() };
        assert!(matches!(backends(&half), Err(Error::HalfPair)));
        let absent = KubeletOptions {
            certificate_authority: Some("/no/such/file".into()),
            ..KubeletOptions::default()
        };
        let error = backends(&absent).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("--kubelet-certificate-authority: /no/such/file: "), "{error}");
        assert!(backends(&KubeletOptions::default()).is_ok());
    }

    #[test]
    fn flags_replace_the_usual_addresses() {
        let given = KubeletOptions {
            address_types: Some(vec!["ExternalIP".into()]),
            port: 1,
            ..KubeletOptions::default()
        };
        let found = addresses(&given);
        assert_eq!((found.types, found.port), (vec!["ExternalIP".to_owned()], 1));
        assert_eq!(addresses(&KubeletOptions::default()), registry::KubeletAddresses::default());
    }
}
