//! Other API servers behind this one: how they are reached, and how they know this server, as the flags say.

use std::sync::Arc;

use access::authentication::OwnProxy;
use aggregation::{Aggregation, Config};
use outbound::{CertificateFiles, ResolveService, Service};
use pki::{FRONT_PROXY_USER, Pki};
use registry::Registry;
use tasks::Name;

use crate::options::ServerOptions;

/// Why other API servers cannot be reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("--proxy-client-cert-file and --proxy-client-key-file have to be given together")]
    HalfPair,
    #[error("other API servers cannot be reached: {0}")]
    Tls(#[from] outbound::TlsError),
    #[error(transparent)]
    Own(#[from] pki::Error),
    #[error("the resource {0} is missing")]
    Missing(&'static str),
}

/// The certificate by which other API servers know this one.
pub(crate) struct Identity {
    certificate: Option<CertificateFiles>,
    /// What the others have to know of it, if this server made it.
    pub(crate) own: Option<OwnProxy>,
}

impl Identity {
    /// The certificate of the flags. Makes one if no flag is about it.
    pub(crate) fn load(options: &ServerOptions, pki: &Pki) -> Result<Self, Error> {
        let given = &options.aggregation;
        let files = match (&given.certificate, &given.key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(Error::HalfPair),
        };
        if let Some((certificate, key)) = files {
            return Ok(Self { certificate: Some(CertificateFiles::open(certificate, key)?), own: None });
        }
        if options.access.proxy.client_ca_file.is_some() {
            return Ok(Self { certificate: None, own: None });
        }
        let made = pki.front_proxy(clock::now())?;
        for what in &made.made {
            log::info!("made {what}");
        }
        let uids = options.gates.remote_uids;
        Ok(Self {
            certificate: Some(CertificateFiles::open(made.certificate, made.key)?),
            own: Some(OwnProxy { authority: made.authority, name: FRONT_PROXY_USER, uids }),
        })
    }
}

/// What is known of other API servers; from now on it is kept. `own` is the host and port of this server.
pub(crate) fn start(
    options: &ServerOptions,
    registry: &Arc<Registry>,
    identity: &Identity,
    own: String,
) -> Result<Option<Arc<Aggregation>>, Error> {
    let find = |name: &'static str| registry.cache().resource(name).ok_or(Error::Missing(name));
    let routes_to_endpoints = options.admission.settings.webhooks.endpoint_routing;
    let endpoints = routes_to_endpoints.then(|| find("endpoints")).transpose()?;
    let config = Config {
        resolve: beside_own(own, admission::webhook::services(find("services")?, endpoints)),
        certificate: identity.certificate.clone(),
        uids: options.gates.remote_uids,
        refuses_redirects: options.aggregation.refuses_redirects,
    };
    let aggregation = Aggregation::new(registry, config)?.map(Arc::new);
    if let Some(aggregation) = &aggregation {
        let aggregation = aggregation.clone();
        crate::run::keep(Name::Aggregation, move || aggregation.clone().run());
    }
    Ok(aggregation)
}

/// Finds this server itself as the service `kubernetes`, whose address may lead to another one.
fn beside_own(own: String, others: ResolveService) -> ResolveService {
    Arc::new(move |service: &Service| {
        let Service { namespace, name, port } = service;
        match (namespace.as_str(), name.as_str(), *port) {
            ("default", "kubernetes", 443) => Ok(own.clone()),
            _ => others(service),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_needs_its_key_and_is_made_if_no_flag_is_about_it() {
        let folder = tempfile::tempdir().unwrap();
        let pki = Pki::new(folder.path().join("pki"));
        let load = |change: fn(&mut ServerOptions)| {
            let mut options = ServerOptions::default();
            change(&mut options);
            Identity::load(&options, &pki)
        };
        let half = load(|options| options.aggregation.key = Some("key".into()));
        assert!(matches!(half, Err(Error::HalfPair)));
        let absent = load(|options| {
            (options.aggregation.certificate, options.aggregation.key) =
                (Some("/no/1".into()), Some("/no/2".into()));
        });
        assert!(matches!(absent, Err(Error::Tls(_))));
        let own = load(|_| ()).unwrap();
        assert_eq!(own.own.unwrap().name, "front-proxy-client");
        assert!(own.certificate.is_some());
        let trusted = load(|options| options.access.proxy.client_ca_file = Some("ca".into())).unwrap();
        assert!(trusted.certificate.is_none() && trusted.own.is_none());
    }

    #[test]
    fn service_of_this_server_leads_to_this_server() {
        let others: ResolveService = Arc::new(|_| Err("elsewhere".to_owned()));
        let find = beside_own("127.0.0.1:1".into(), others);
        let service = |name: &str, port| Service { namespace: "default".into(), name: name.into(), port };
        assert_eq!(find(&service("kubernetes", 443)), Ok("127.0.0.1:1".into()));
        assert_eq!(find(&service("kubernetes", 444)), Err("elsewhere".into()));
        assert_eq!(find(&service("other", 443)), Err("elsewhere".into()));
    }
}
