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
        port: options.port.unwrap_or(default.port),
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
