//! The serving certificate of a run, its kubeconfig, and the authority that signs for others.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use crate::options::ServerOptions;
use controllers::CertificateAuthority;
use kinds::x509::SigningRequest;
use pki::{ADMIN_USER, Kubeconfig, Names, Order, Pki, ServiceAccountKey, Signer, Token};
use server::tls::{self, Files, NamedFiles, Serving};
use storage::DataDir;

/// The name of the files in `--cert-dir`.
const PAIR: &str = "apiserver";

/// Why there is no serving certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Own(#[from] pki::Error),
    #[error(transparent)]
    Given(#[from] tls::Error),
    #[error("{} cannot be used to sign certificates: {why}", .path.display())]
    Signing { path: PathBuf, why: String },
}

/// Where certificates come from.
#[derive(Debug, Clone)]
pub(crate) struct Certificates {
    own: Pki,
    given: GivenFiles,
    address: SocketAddr,
    kubeconfig: PathBuf,
    names: FurtherNames,
}

/// Serving certificates in files of the administrator.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenFiles {
    /// For all names: `--tls-cert-file`, or those of `--cert-dir`.
    pub(crate) main: Option<Files>,
    /// For some names.
    pub(crate) named: Vec<NamedFiles>,
}

impl GivenFiles {
    /// The files of the options. Makes the pair in `--cert-dir`, for the address `advertised`, if absent.
    pub(crate) fn new(options: &ServerOptions, advertised: IpAddr) -> Result<Self, Error> {
        let named = options.named_certificates.clone();
        if let Some((certificate, key)) =
            options.tls_cert_file.clone().zip(options.tls_private_key_file.clone())
        {
            return Ok(Self { main: Some(Files { certificate, key }), named });
        }
        let Some(directory) = &options.cert_dir else { return Ok(Self { main: None, named }) };
        let mut names = Names::default();
        names.dns.extend(["kubernetes", "kubernetes.default", "kubernetes.default.svc"].map(str::to_owned));
        names.addresses.insert(options.services.range.first());
        if options.bind_address.is_unspecified() {
            names.dns.insert("localhost".to_owned());
            // The kubeconfig has one of them.
            names.addresses.extend([IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()]);
        }
        let names = names.with_address(options.bind_address);
        if pki::ensure_self_signed(directory, PAIR, advertised, &names, clock::now())? {
            log::info!(directory:% = directory.display(); "made {PAIR}.crt and {PAIR}.key");
        }
        let path = |end: &str| directory.join(format!("{PAIR}.{end}"));
        Ok(Self { main: Some(Files { certificate: path("crt"), key: path("key") }), named })
    }
}

/// The authority that signs certificate signing requests. Its files are read for each of them, so they may
/// change.
pub(crate) enum ClusterAuthority {
    /// That of the data directory.
    Own(Pki),
    /// `--cluster-signing-cert-file` and its key.
    Given(Files),
}

impl ClusterAuthority {
    fn signer(&self) -> Result<Signer, Error> {
        match self {
            Self::Own(pki) => Ok(pki.signer()?),
            Self::Given(files) => {
                let unusable = |why| Error::Signing { path: files.certificate.clone(), why };
                Signer::new(files.read()?).map_err(unusable)
            }
        }
    }
}

impl CertificateAuthority for ClusterAuthority {
    fn sign(&self, request: &SigningRequest, usages: &[&str], life: Duration) -> Result<String, String> {
        let signer = self.signer().map_err(|error| error.to_string())?;
        let signed = signer.sign(&Order { request, usages, life }, clock::now());
        signed.map_err(|error| error.to_string())
    }
}

/// Further names of the serving certificate.
#[derive(Debug, Clone)]
pub(crate) struct FurtherNames {
    /// The first address of the service range, under which pods reach the API.
    pub(crate) service: IpAddr,
    pub(crate) advertised: Option<IpAddr>,
    pub(crate) host: Option<String>,
}

/// The loaded certificates.
pub(crate) struct Loaded {
    pub(crate) serving: Serving,
    /// The authority of client certificates, in PEM.
    pub(crate) client_authority: String,
    /// The authority by which clients verify the server, in PEM.
    pub(crate) authority: String,
    pub(crate) token: Token,
}

impl Certificates {
    /// Certificates for a server at `address` with the keys `own` of the data directory `data_dir`.
    pub(crate) fn new(
        data_dir: &DataDir,
        own: Pki,
        given: GivenFiles,
        address: SocketAddr,
        names: FurtherNames,
    ) -> Self {
        let kubeconfig = data_dir.kubeconfig();
        Self { own, given, address, kubeconfig, names }
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &PathBuf {
        &self.kubeconfig
    }

    /// The server's URL for a client on this host.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The server's address for a client on this host.
    pub(crate) fn address(&self) -> SocketAddr {
        let address = match self.address.ip() {
            IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            other => other,
        };
        SocketAddr::new(address, self.address.port())
    }

    /// The files of the administrator.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let named = self.given.named.iter().map(|named| &named.files);
        self.given.main.iter().chain(named).flat_map(Files::paths).collect()
    }

    /// Reads or makes the certificates, and writes the kubeconfig if its content has changed. Blocking. After
    /// an error, which an authority is that is not valid by the clock, everything is as it was.
    pub(crate) fn load(&self) -> Result<Loaded, Error> {
        let mut names = Names::of_this_host(self.names.service).with_address(self.address.ip());
        names.addresses.extend(self.names.advertised);
        names.dns.extend(self.names.host.clone());
        let material = self.own.ensure(&names, clock::now())?;
        self.renew_front_proxy()?;
        for what in &material.made {
            log::info!("made {what}");
        }
        if let Some(end) = &material.authority_ends {
            log::warn!(end = end.as_str(); "the authority ends soon: run `keelson renew-authority` before");
        }
        let pair = match &self.given.main {
            Some(files) => files.read()?,
            None => material.serving,
        };
        let named = self.given.named.iter().map(NamedFiles::read).collect::<Result<_, _>>()?;
        // Clients trust exactly the given certificate, or everything that our own authority signs.
        let is_given = self.given.main.is_some();
        let authority = if is_given { &pair.certificate } else { &material.authority }.clone();
        let serving = Serving { pair, named };
        let kubeconfig = Kubeconfig {
            server: self.url(),
            authority: &authority,
            user: ADMIN_USER,
            client: &material.admin,
            token: Some(&material.token.0),
        };
        kubeconfig.write(&self.kubeconfig)?;
        Ok(Loaded { serving, client_authority: material.authority, authority, token: material.token })
    }

    /// Renews the certificate by which other API servers know this one, if the server made it.
    fn renew_front_proxy(&self) -> Result<(), Error> {
        if self.own.has_front_proxy() {
            for what in self.own.front_proxy(clock::now())?.made {
                log::info!("made {what}");
            }
        }
        Ok(())
    }

    /// The authority that signs certificate signing requests: the given one, or that of the data directory.
    /// `None` if only certificates of other authorities are given, whose keys are not known.
    pub(crate) fn cluster_authority(
        &self,
        options: &ServerOptions,
    ) -> Result<Option<ClusterAuthority>, Error> {
        let given = options.signing.certificate.clone().zip(options.signing.key.clone());
        let authority = match given {
            Some((certificate, key)) => ClusterAuthority::Given(Files { certificate, key }),
            None if options.access.client_ca_file.is_some() => return Ok(None),
            None => ClusterAuthority::Own(self.own.clone()),
        };
        authority.signer()?;
        Ok(Some(authority))
    }

    /// The key of service account tokens in the data directory, which is made by a first start. Blocking, and
    /// to be called before [`load`](Self::load).
    pub(crate) fn service_account_key(&self) -> Result<ServiceAccountKey, Error> {
        let key = self.own.service_account_key()?;
        if let Some(what) = &key.made {
            log::info!("made {what}");
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_an_address_that_clients_can_connect_to() {
        let data_dir = DataDir::at("x".as_ref()).unwrap();
        for (address, url) in [
            ("127.0.0.1:6443", "https://127.0.0.1:6443"),
            ("0.0.0.0:1", "https://127.0.0.1:1"),
            ("[::]:1", "https://[::1]:1"),
            ("192.0.2.1:8443", "https://192.0.2.1:8443"),
        ] {
            let further = FurtherNames { service: [10, 0, 0, 1].into(), advertised: None, host: None };
            let certificates = Certificates::new(
                &data_dir,
                Pki::new("x"),
                GivenFiles::default(),
                address.parse().unwrap(),
                further,
            );
            assert_eq!(certificates.url(), url);
        }
    }
}
