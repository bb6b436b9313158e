//! Whether servers answer: the condition `Available` of their API services.

use std::time::Duration;

use auth::User;
use cache::Resource;
use http::Request;
use http_body_util::{BodyExt as _, Empty};
use object::Map;
use object::quote::Quoted;
use registry::conditions;
use schema::view::View as _;
use schema::views::core::v1::{Endpoints, Service};
use schema::{Status, stored};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::jobs::Outcome;
use crate::registration::{Available, ServiceKey};
use crate::remote::{Remote, addressed};
use crate::{API_SERVICES, Aggregation, families, headers};

/// How long a server may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many times a server is asked at the same time. It may have several endpoints: one answer is enough.
const ATTEMPTS: usize = 5;

impl Aggregation {
    /// Finds out whether a server answers, and writes the condition if it says something else.
    pub(crate) async fn check(self: &std::sync::Arc<Self>, remote: &Remote) -> Outcome {
        let Some(spec) = remote.remote_spec() else { return Outcome::Nothing };
        let (now, is_asked_again) = match self.missing(&spec.service) {
            Some(missing) => (missing, false),
            None => match self.probe(remote, &spec.service).await {
                Ok(()) => (Available::new("True", "Passed", "all checks passed"), false),
                Err(why) => (Available::new("False", "FailedDiscoveryCheck", why), true),
            },
        };
        families::show_availability(remote.name(), now.is_true());
        let was_available = remote.is_available();
        let written = match spec.available.as_ref() == Some(&now) {
            true => Ok(()),
            false => self.write(remote.name(), &now).await,
        };
        match written {
            Ok(()) => {
                if was_available && !now.is_true() {
                    families::count_unavailable(remote.name(), &now.reason);
                }
                if is_asked_again { Outcome::Failed } else { Outcome::Succeeded }
            }
            // The change asks again.
            Err(error) if matches!(error.code, 404 | 409) => Outcome::Succeeded,
            Err(error) => {
                log::error!(service = remote.name(), error:% = error.message; "the condition of an API service could not be written");
                Outcome::Failed
            }
        }
    }

    async fn write(&self, name: &str, now: &Available) -> Result<(), Status> {
        let condition = Map::from_iter([
            ("type", "Available"),
            ("status", &now.status),
            ("reason", &now.reason),
            ("message", &now.message),
        ]);
        let address = API_SERVICES.named(name).subresource("status");
        self.client
            .modify(address, |object| {
                let status = object.get_or_insert_with("status", || Map::new().into());
                if let Some(status) = status.as_map_mut() {
                    conditions::set(status, condition);
                }
            })
            .await
    }

    /// What is missing for a service to be asked.
    fn missing(&self, key: &ServiceKey) -> Option<Available> {
        let ServiceKey { namespace, name, port } = key;
        let no = |reason, message: String| Some(Available::new("False", reason, message));
        let place = format!("service/{name} in {}", Quoted(namespace));
        let Some(service) = find(&self.services, key, Service::schema()) else {
            return no("ServiceNotFound", format!("{place} is not present"));
        };
        let spec = Service::of(&service).spec();
        if spec.r#type() != "ClusterIP" {
            return None;
        }
        let Some(served) = spec.ports().iter().find(|served| served.port() == *port) else {
            return no("ServicePortError", format!("{place} is not listening on port {port}"));
        };
        let Some(endpoints) = find(&self.endpoints, key, Endpoints::schema()) else {
            return no("EndpointsNotFound", format!("cannot find endpoints for {place}"));
        };
        let mut subsets = Endpoints::of(&endpoints).subsets().iter();
        let is_active = subsets.any(|subset| {
            !subset.addresses().is_empty() && subset.ports().iter().any(|port| port.name() == served.name())
        });
        if is_active {
            return None;
        }
        let port = Quoted(served.name());
        no("MissingEndpoints", format!("endpoints for {place} have no addresses with port name {port}"))
    }

    /// Asks a server for a document that it has to have.
    async fn probe(self: &std::sync::Arc<Self>, remote: &Remote, key: &ServiceKey) -> Result<(), String> {
        let path = match remote.group() {
            "" => format!("/api/{}", remote.version()),
            group => format!("/apis/{group}/{}", remote.version()),
        };
        let mut attempts = JoinSet::new();
        for _ in 0..ATTEMPTS {
            let (aggregation, path) = (self.clone(), path.clone());
            let address = (self.config.resolve)(&key.service());
            attempts.spawn(async move { aggregation.attempt(&address?, &path).await });
        }
        let mut outcome = Err("no answer".to_owned());
        while let Some(attempt) = attempts.join_next().await {
            outcome = attempt.unwrap_or_else(|error| Err(error.to_string()));
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn attempt(&self, address: &str, path: &str) -> Result<(), String> {
        let url = format!("https://{address}{path}");
        let failed = |why: String| format!("failing or missing response from {url}: {why}");
        let lost = |why: &str| failed(format!("Get {}: {why}", Quoted(&url)));
        let mut request = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
        *request.uri_mut() = path.parse().map_err(|error| format!("{path}: {error}"))?;
        // This user may see everything.
        let user = User {
            name: "system:kube-aggregator".into(),
            groups: vec![User::MASTERS.into()],
            ..User::default()
        };
        headers::set(request.headers_mut(), &user, false).map_err(|error| error.to_string())?;
        let request = addressed(address, request)?;
        match timeout(TIMEOUT, self.prober.send(request, None)).await {
            Ok(Ok(answer)) if answer.status().is_success() => Ok(()),
            Ok(Ok(answer)) => Err(failed(format!("bad status from {url}: {}", answer.status().as_u16()))),
            Ok(Err(why)) => Err(lost(&why.to_string())),
            Err(_) => Err(lost("context deadline exceeded (Client.Timeout exceeded while awaiting headers)")),
        }
    }
}

fn find(resource: &Resource, key: &ServiceKey, ty: &'static schema::Type) -> Option<Map> {
    let entry = resource.lookup(&key.namespace, &key.name).ok().flatten()?;
    stored::logged(&entry, stored::decode(ty, entry.bytes()))
}
