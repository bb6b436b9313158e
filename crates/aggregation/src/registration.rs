//! What counts of an `APIService`.

use kinds::metadata;
use object::{Map, Text};
use outbound::Service;
use schema::view::View as _;
use schema::views::apiregistration::v1::APIService;

/// An API service, as far as it counts here.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) name: Text,
    /// The priority of the group among all groups.
    pub(crate) group_priority: i64,
    /// The priority of the version in its group.
    pub(crate) version_priority: i64,
    /// The server behind it; `None` if this server serves the group version itself.
    pub(crate) remote: Option<Box<RemoteSpec>>,
}

/// The server behind an API service.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RemoteSpec {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) service: ServiceKey,
    pub(crate) ca_bundle: Vec<u8>,
    pub(crate) skips_verification: bool,
    /// The condition `Available`.
    pub(crate) available: Option<Available>,
}

/// A port of a service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServiceKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: i64,
}

impl ServiceKey {
    pub(crate) fn service(&self) -> Service {
        Service { namespace: self.namespace.clone(), name: self.name.clone(), port: self.port }
    }
}

/// The texts of the condition `Available`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Available {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The reason.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Available {
    /// A condition.
    pub fn new(status: &str, reason: &str, message: impl Into<String>) -> Self {
        Self { status: status.to_owned(), reason: reason.to_owned(), message: message.into() }
    }

    /// The condition of an API service; `None` if it has none.
    pub fn of(object: &Map) -> Option<Self> {
        let conditions = APIService::of(object).status().conditions();
        let found = conditions.iter().find(|condition| condition.r#type() == "Available")?;
        Some(Self::new(found.status(), found.reason(), found.message()))
    }

    /// Whether the status is `True`.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

impl Registration {
    pub(crate) fn read(object: &Map) -> Self {
        let spec = APIService::of(object).spec();
        let remote = spec.service().map(|service| {
            Box::new(RemoteSpec {
                group: spec.group().to_owned(),
                version: spec.version().to_owned(),
                service: ServiceKey {
                    namespace: service.namespace().to_owned(),
                    name: service.name().to_owned(),
                    port: service.port().unwrap_or(443),
                },
                ca_bundle: spec.ca_bundle().to_vec(),
                skips_verification: spec.insecure_skip_tls_verify(),
                available: Available::of(object),
            })
        });
        Self {
            name: metadata(object).name().into(),
            group_priority: spec.group_priority_minimum(),
            version_priority: spec.version_priority(),
            remote,
        }
    }
}

impl Registration {
    /// Whether nothing but its availability is another one.
    pub(crate) fn differs_in_availability_alone(&self, other: &Self) -> bool {
        let (Some(own), Some(others)) = (&self.remote, &other.remote) else { return false };
        let priorities = |of: &Self| [of.group_priority, of.version_priority];
        own.available != others.available
            && priorities(self) == priorities(other)
            && own.is_reached_as(others)
    }
}

impl RemoteSpec {
    pub(crate) fn is_available(&self) -> bool {
        self.available.as_ref().is_some_and(Available::is_true)
    }

    /// Whether the server is reached in the same way.
    pub(crate) fn is_reached_as(&self, other: &Self) -> bool {
        self.service == other.service
            && self.ca_bundle == other.ca_bundle
            && self.skips_verification == other.skips_verification
    }
}
