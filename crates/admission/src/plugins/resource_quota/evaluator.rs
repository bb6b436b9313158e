//! How objects of a resource are counted.

use super::super::resource_list::{ResourceList, count};
use super::pod_resources::PodLevel;
use super::scope::Scope;
use super::{device_claims, pods, services, volume_claims};
use crate::plugins::Gates;
use crate::{Attributes, Operation};
use object::time::MicroTime;
use object::{Map, Value};
use schema::Type;
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolumeClaim, Pod, Service};
use schema::views::resource::v1beta1::ResourceClaim;
use std::collections::BTreeSet;

/// Before the name of a resource whose objects are counted.
const COUNT: &str = "count/";
/// Resources that were counted by their names before there was `count/`.
const BY_NAME: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];
/// Resources that quotas do not count: those without objects, and events.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

/// How the objects of one resource are counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evaluator {
    Pods {
        pod_level_resources: bool,
    },
    Services,
    VolumeClaims {
        have_scopes: bool,
    },
    DeviceClaims,
    /// By their number alone: `count/deployments.apps`.
    Count(String),
}

impl Evaluator {
    /// That of a resource; none if quotas ignore it.
    pub(super) fn of(group: &str, resource: &str, gates: Gates) -> Option<Self> {
        let pod_level_resources = gates.pod_level_resources;
        match (group, resource) {
            ignored if IGNORED.contains(&ignored) => None,
            ("", "pods") => Some(Self::Pods { pod_level_resources }),
            ("", "services") => Some(Self::Services),
            ("", "persistentvolumeclaims") => {
                Some(Self::VolumeClaims { have_scopes: gates.volume_attributes_class })
            }
            ("resource.k8s.io", "resourceclaims") if gates.dynamic_resource_allocation => {
                Some(Self::DeviceClaims)
            }
            ("", resource) => Some(Self::Count(format!("{COUNT}{resource}"))),
            (group, resource) => Some(Self::Count(format!("{COUNT}{resource}.{group}"))),
        }
    }

    /// The evaluators that count one of these names, each once.
    pub(super) fn counting(names: &BTreeSet<&str>, gates: Gates) -> Vec<Self> {
        let of = |resource: (&str, &str)| Self::of(resource.0, resource.1, gates);
        let special = ["pods", "services", "persistentvolumeclaims"].map(|resource| ("", resource));
        let special = special.into_iter().chain([("resource.k8s.io", "resourceclaims")]).filter_map(of);
        let mut evaluators: Vec<Self> =
            special.filter(|evaluator| names.iter().any(|name| evaluator.counts(name))).collect();
        for name in names {
            let resource = name.strip_prefix(COUNT).or(BY_NAME.contains(name).then_some(*name));
            let resource = resource.map(|resource| resource.split_once('.').unwrap_or((resource, "")));
            evaluators.extend(resource.and_then(|(resource, group)| of((group, resource))));
        }
        evaluators.sort_unstable();
        evaluators.dedup();
        evaluators
    }

    /// Where the objects are in the cache: `pods`, `deployments.apps`.
    pub(super) fn prefix(&self) -> &str {
        match self {
            Self::Pods { .. } => "pods",
            Self::Services => "services",
            Self::VolumeClaims { .. } => "persistentvolumeclaims",
            Self::DeviceClaims => "resourceclaims.resource.k8s.io",
            Self::Count(name) => name.strip_prefix(COUNT).unwrap_or(name),
        }
    }

    /// The type of the objects, if what they use depends on more than their number.
    pub(super) fn ty(&self) -> Option<&'static Type> {
        match self {
            Self::Pods { .. } => Some(Pod::schema()),
            Self::Services => Some(Service::schema()),
            Self::VolumeClaims { .. } => Some(PersistentVolumeClaim::schema()),
            Self::DeviceClaims => Some(ResourceClaim::schema()),
            Self::Count(_) => None,
        }
    }

    /// Whether a write can change what the object uses.
    pub(super) fn handles(&self, attributes: &Attributes<'_>, object: &Map) -> bool {
        let old = attributes.old.and_then(Value::as_map);
        match (self, attributes.subresource, attributes.operation) {
            (_, "", Operation::Create) => true,
            (Self::Pods { .. }, "", Operation::Update) => old.is_some_and(|old| {
                pods::is_terminating(Pod::of(old)) != pods::is_terminating(Pod::of(object))
            }),
            (Self::Pods { .. }, "resize", Operation::Update) => true,
            (Self::VolumeClaims { .. }, "" | "status", Operation::Update) => true,
            (Self::Services | Self::DeviceClaims, "", Operation::Update) => true,
            _ => false,
        }
    }

    /// Whether the evaluator counts the resource with this name in a quota.
    pub(super) fn counts(&self, name: &str) -> bool {
        match self {
            Self::Pods { .. } => pods::counts(name),
            Self::Services => services::counts(name),
            Self::VolumeClaims { .. } => volume_claims::counts(name),
            Self::DeviceClaims => device_claims::counts(name),
            Self::Count(counted) => name == counted || self.by_name() == Some(name),
        }
    }

    fn by_name(&self) -> Option<&str> {
        Some(self.prefix()).filter(|prefix| BY_NAME.contains(prefix))
    }

    /// The usage of an object.
    pub(super) fn usage(&self, object: &Map) -> ResourceList {
        match self {
            Self::Pods { .. } => pods::usage(Pod::of(object), MicroTime::now(), self.pod_level()),
            Self::Services => services::usage(Service::of(object)),
            Self::VolumeClaims { .. } => volume_claims::usage(PersistentVolumeClaim::of(object)),
            Self::DeviceClaims => device_claims::usage(ResourceClaim::of(object)),
            Self::Count(_) => self.usage_of(1),
        }
    }

    /// The usage of a number of objects, of which only the number counts.
    pub(super) fn usage_of(&self, number: usize) -> ResourceList {
        match self {
            Self::Count(name) => {
                let names = [Some(name.as_str()), self.by_name()].into_iter().flatten();
                names.map(|name| (name.into(), count(number))).collect()
            }
            _ => ResourceList::default(),
        }
    }

    /// Whether an object says what a quota that counts these names has to know.
    pub(super) fn check(&self, object: &Map, names: &[&str]) -> Result<(), String> {
        match self {
            Self::Pods { .. } => pods::check(Pod::of(object), names, self.pod_level()),
            _ => Ok(()),
        }
    }

    /// Whether its objects can be in scopes at all. Quotas with scopes count no others.
    pub(super) fn has_scopes(&self) -> bool {
        matches!(self, Self::Pods { .. } | Self::VolumeClaims { have_scopes: true })
    }

    /// Whether an object is in a scope.
    pub(super) fn is_in(&self, object: &Map, scope: &Scope) -> Result<bool, String> {
        match self {
            Self::Pods { .. } => pods::is_in(Pod::of(object), scope, self.pod_level()),
            Self::VolumeClaims { have_scopes: true } => {
                volume_claims::is_in(PersistentVolumeClaim::of(object), scope)
            }
            _ => Ok(false),
        }
    }

    /// Whether an object is in all of these scopes.
    pub(super) fn is_in_all(&self, object: &Map, scopes: &[Scope]) -> Result<bool, String> {
        let mut is_in = true;
        for scope in scopes {
            is_in &= self.is_in(object, scope)?;
        }
        Ok(is_in)
    }

    /// When an object stops to use something without being written.
    pub(super) fn ends_at(&self, object: &Map) -> Option<MicroTime> {
        match self {
            Self::Pods { .. } => pods::ends_at(Pod::of(object)),
            _ => None,
        }
    }

    fn pod_level(&self) -> PodLevel {
        match self {
            Self::Pods { pod_level_resources: true } => PodLevel::Counts,
            _ => PodLevel::Ignored,
        }
    }
}
