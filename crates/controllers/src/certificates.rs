//! Certificate signing requests: three controllers approve those of kubelets, sign those that are approved,
//! and remove old ones.

pub(crate) mod approver;
pub(crate) mod cleaner;
pub(crate) mod durations;
mod recognize;
pub(crate) mod signer;

use crate::Context;
use crate::follow::{StartFrom, follow};
use crate::queue::{Queue, Reconcile};
use cache::{Entry, Resource, Update};
use kinds::map_at;
use kinds::x509::SigningRequest;
use object::{List, Map, Text, Value};
use registry::Address;
use schema::Status;
use schema::stored;
use schema::view::View as _;
use schema::views::certificates::v1::CertificateSigningRequest;
use std::sync::Arc;
use std::time::Duration;

/// The account of all three.
const ACCOUNT: &str = "certificate-controller";
/// Where requests are in the store.
const PREFIX: &str = "certificatesigningrequests.certificates.k8s.io";
const REQUESTS: Address<'static> = Address::v1("certificates.k8s.io", "certificatesigningrequests", "");
/// The most signing requests that are reconciled at the same time.
const AT_ONCE: usize = 5;

const APPROVED: &str = "Approved";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";

/// Signs certificates that the cluster trusts.
pub trait CertificateAuthority: Send + Sync {
    /// A certificate in PEM for a request, whose signature was checked, or why there is none. `usages` are
    /// those of the API; `life` is how long the certificate is valid, unless the authority ends before.
    fn sign(&self, request: &SigningRequest, usages: &[&str], life: Duration) -> Result<String, String>;
}

/// Works off the requests there are, and those that change.
async fn work(context: &Context, requests: Arc<Resource>, worker: impl Reconcile<Key = Text>) {
    let queue: Arc<Queue<Text>> = Arc::default();
    let _requests = follow(requests, StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { after: Some(request), .. } = update {
                queue.add(request.name().into());
            }
        }
    });
    queue.work(context, AT_ONCE, Arc::new(worker)).await;
}

/// A request of the cache, with its entry; `None` if it is not there or cannot be read.
fn find(requests: &Resource, name: &str) -> Option<(Arc<Entry>, Map)> {
    let entry = requests.lookup("", name).ok().flatten()?;
    let request = stored::logged(&entry, stored::decode(CertificateSigningRequest::schema(), entry.bytes()))?;
    Some((entry, request))
}

/// Whether a request has a condition of a type.
fn has(request: CertificateSigningRequest<'_>, ty: &str) -> bool {
    request.status().conditions().iter().any(|condition| condition.r#type() == ty)
}

/// The parsed request. Only what was valid is stored.
fn parse(request: CertificateSigningRequest<'_>) -> Result<SigningRequest, Status> {
    SigningRequest::parse(request.spec().request())
        .map_err(|why| Status::internal_error(&format!("unable to parse the request: {why}")))
}

/// Adds a condition.
fn add_condition(request: &mut Map, ty: &str, reason: &str, message: &str) {
    let fields = [("type", ty), ("status", "True"), ("reason", reason), ("message", message)];
    let condition: Map = fields.into_iter().collect();
    let Some(status) = map_at(request, "status") else { return };
    let conditions = status.get_or_insert_with("conditions", || List::default().into());
    if let Value::List(conditions) = conditions {
        conditions.push(condition.into());
    }
}

#[cfg(test)]
mod testing {
    use super::*;
    use crate::testing::Fixture;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
    use registry::Client;

    /// A request of a subject in PEM.
    pub(super) fn pem(organization: &str, name: &str, alternative: &[&str]) -> String {
        let names: Vec<String> = alternative.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.distinguished_name.push(DnType::CommonName, name);
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    /// The certificate of some authority in PEM.
    pub(super) fn certificate() -> String {
        let params = CertificateParams::new(["a".to_owned()]).unwrap();
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    impl Fixture {
        /// Makes a request.
        pub(super) async fn request(&self, name: &str, signer: &str, usages: &[&str], pem: &str) {
            self.request_by(&self.client, name, signer, usages, pem).await;
        }

        /// Makes a request as somebody.
        pub(super) async fn request_by(
            &self,
            client: &Client,
            name: &str,
            signer: &str,
            usages: &[&str],
            pem: &str,
        ) {
            let mut spec = Map::new();
            spec.insert("signerName", signer);
            spec.insert("usages", usages.iter().copied().collect::<Value>());
            spec.insert("request", Value::Bytes(pem.as_bytes().into()));
            let metadata: Map = [("name", name)].into_iter().collect();
            let mut object = Map::new();
            object.insert("metadata", metadata);
            object.insert("spec", spec);
            client.create(REQUESTS, object.into()).await.unwrap();
        }

        /// Adds a condition to a request.
        pub(super) async fn decide(&self, name: &str, ty: &str, at: Option<&str>) {
            let subresource = if ty == FAILED { "status" } else { "approval" };
            let change = |request: &mut Map| {
                add_condition(request, ty, "Test", "by the test");
                let status = request.get_mut("status").and_then(Value::as_map_mut).unwrap();
                let conditions = status.get_mut("conditions").and_then(Value::as_list_mut).unwrap();
                let last = conditions.last_mut().and_then(Value::as_map_mut).unwrap();
                if let Some(at) = at {
                    last.insert("lastUpdateTime", at);
                }
            };
            self.client.modify(REQUESTS.named(name).subresource(subresource), change).await.unwrap();
        }

        /// Waits until a request is in a state.
        pub(super) async fn until_request(
            &self,
            name: &str,
            what: &str,
            holds: impl Fn(CertificateSigningRequest<'_>) -> bool,
        ) {
            let requests = self.cache.resource(PREFIX).unwrap();
            let holds = async || {
                find(&requests, name)
                    .is_some_and(|(_, request)| holds(CertificateSigningRequest::of(&request)))
            };
            self.until(what, holds).await;
        }
    }
}
