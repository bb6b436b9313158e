//! The components that `componentstatuses` shows: the controller manager and the scheduler, asked at their
//! usual ports of this host, and the store, which goes by the name of the reference's.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cache::Cache;
use http::Uri;
use outbound::{Bounds, Client, Tls, Trust};
use registry::{Components, Health};
use tasks::BoxFuture;

const CONTROLLER_MANAGER: &str = "controller-manager";
const SCHEDULER: &str = "scheduler";
const STORE: &str = "etcd-0";

/// How long a component may take to answer.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The most bytes of its answer.
const MOST_BYTES: usize = 10 << 10;

/// The components.
pub struct LocalComponents {
    cache: Arc<Cache>,
    controller_manager: Uri,
    scheduler: Uri,
    /// Made when somebody asks for the first time.
    client: OnceLock<Result<Client, String>>,
}

impl LocalComponents {
    /// The components beside a server with this cache.
    pub fn new(cache: &Arc<Cache>) -> Self {
        Self {
            cache: cache.clone(),
            controller_manager: Uri::from_static("https://127.0.0.1:10257/healthz"),
            scheduler: Uri::from_static("https://127.0.0.1:10259/healthz"),
            client: OnceLock::new(),
        }
    }

    fn store(&self) -> Health {
        match self.cache.health() {
            store::Health::Good => {
                Health { is_healthy: Some(true), message: "ok".into(), ..Health::default() }
            }
            store::Health::Failing(error) => {
                Health { is_healthy: Some(false), error: error.to_string(), ..Health::default() }
            }
            store::Health::Closed => {
                Health { is_healthy: Some(false), error: "closed".into(), ..Health::default() }
            }
        }
    }

    async fn ask(&self, url: &Uri) -> Health {
        let tls = || Client::new(&Tls { trust: Trust::Anyone, ..Tls::default() });
        let client = match self.client.get_or_init(|| tls().map_err(|error| error.to_string())) {
            Ok(client) => client,
            Err(error) => return Health { error: error.clone(), ..Health::default() },
        };
        let (is_healthy, message) = match client.get(url, "*/*", Bounds::within(TIMEOUT, MOST_BYTES)).await {
            Err(error) => (Some(false), error.to_string()),
            Ok(answer) => {
                let body = String::from_utf8_lossy(&answer.body);
                match answer.status.as_u16() {
                    200..300 => (Some(true), body.into_owned()),
                    300..400 => (None, format!("Probe terminated redirects, Response body: {body}")),
                    code => (Some(false), format!("HTTP probe failed with statuscode: {code}")),
                }
            }
        };
        Health { is_healthy, message, error: String::new() }
    }
}

impl Components for LocalComponents {
    fn names(&self) -> &[&'static str] {
        &[CONTROLLER_MANAGER, STORE, SCHEDULER]
    }

    fn health<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Health> {
        Box::pin(async move {
            match name {
                CONTROLLER_MANAGER => self.ask(&self.controller_manager).await,
                SCHEDULER => self.ask(&self.scheduler).await,
                _ => self.store(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::memory::Memory;
    use testkit::https::Authority;

    #[tokio::test(flavor = "multi_thread")]
    async fn components_are_asked_over_https_without_proof_of_who_they_are() {
        let cache = Cache::open(
            Arc::new(Memory::default()),
            registry::specs().unwrap(),
            cache::CacheOptions::default(),
        );
        let mut components = LocalComponents::new(&Arc::new(cache.await.unwrap()));
        let folder = testkit::Folder::new().unwrap();
        let pair = Authority::new().unwrap().issue(&["another"]).unwrap();
        let server = testkit::Kubelet::start(&pair, None, folder.path()).unwrap();
        let at = |port: u16| format!("https://127.0.0.1:{port}/healthz").parse::<Uri>().unwrap();
        components.scheduler = at(server.port());
        components.controller_manager = at(1);
        let well = |message: &str| Health {
            is_healthy: Some(true),
            message: message.to_owned(),
            error: String::new(),
        };
        assert_eq!(components.health(SCHEDULER).await, well("GET /healthz\n"));
        assert_eq!(components.health(STORE).await, well("ok"));
        let refused = components.health(CONTROLLER_MANAGER).await;
        assert_eq!(refused.is_healthy, Some(false));
        assert_eq!(
            refused.message,
            r#"Get "https://127.0.0.1:1/healthz": dial tcp 127.0.0.1:1: connect: connection refused"#
        );
    }
}
