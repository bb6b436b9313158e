//! Where the services of the cluster are that webhooks are behind.

use cache::Resource;
use object::Map;
use object::quote::Quoted;
use outbound::{ResolveService, Service};
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1;
use std::sync::Arc;

/// Finds the addresses of services.
struct Services {
    services: Arc<Resource>,
    /// The endpoints, if they are connected to instead of the address of the service.
    endpoints: Option<Arc<Resource>>,
}

/// Finds the addresses of services among these, and connects to endpoints if those are given.
pub fn services(services: Arc<Resource>, endpoints: Option<Arc<Resource>>) -> ResolveService {
    let services = Services { services, endpoints };
    Arc::new(move |service| services.address(service))
}

impl Services {
    /// Host and port of a service, or why it has none.
    fn address(&self, service: &Service) -> Result<String, String> {
        let Service { namespace, name, port } = service;
        let found = read(&self.services, namespace, name, v1::Service::schema())?;
        let found = found.ok_or_else(|| format!("service {} not found", Quoted(name)))?;
        let spec = v1::Service::of(&found).spec();
        let ty = spec.r#type();
        if ty == "ExternalName" && self.endpoints.is_none() {
            return Ok(joined(spec.external_name(), *port));
        }
        if !matches!(ty, "ClusterIP" | "LoadBalancer" | "NodePort") {
            return Err(format!("unsupported service type {}", Quoted(ty)));
        }
        if self.endpoints.is_none() && ty == "ClusterIP" && spec.cluster_ip() == "None" {
            return Err("cannot route to service with ClusterIP \"None\"".to_owned());
        }
        let of_service = spec.ports().iter().find(|of| of.port() == *port);
        let of_service =
            of_service.ok_or_else(|| format!("no service port {port} found for service {}", Quoted(name)))?;
        match &self.endpoints {
            None => Ok(joined(spec.cluster_ip(), *port)),
            Some(endpoints) => endpoint(endpoints, service, of_service.name()),
        }
    }
}

/// Host and port of a random endpoint.
fn endpoint(endpoints: &Resource, service: &Service, port: &str) -> Result<String, String> {
    let Service { namespace, name, .. } = service;
    let found = read(endpoints, namespace, name, v1::Endpoints::schema())?;
    let found = found.ok_or_else(|| format!("endpoints {} not found", Quoted(name)))?;
    let subsets = v1::Endpoints::of(&found).subsets();
    let first = fastrand::usize(..subsets.len().max(1));
    for at in 0..subsets.len() {
        let Some(subset) = subsets.get((first + at) % subsets.len()) else { continue };
        let addresses = subset.addresses();
        let address = addresses.get(fastrand::usize(..addresses.len().max(1)));
        let of_port = subset.ports().iter().find(|of| of.name() == port);
        if let (Some(address), Some(of_port)) = (address, of_port) {
            return Ok(joined(address.ip(), of_port.port()));
        }
    }
    Err(format!("no endpoints available for service {}", Quoted(name)))
}

fn read(
    resource: &Resource,
    namespace: &str,
    name: &str,
    ty: &'static schema::Type,
) -> Result<Option<Map>, String> {
    let entry = resource.lookup(namespace, name).map_err(|error| error.to_string())?;
    entry.map(|entry| stored::decode(ty, entry.bytes()).map_err(|error| error.to_string())).transpose()
}

fn joined(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
