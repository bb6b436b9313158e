//! The scale of what an autoscaler scales: of any kind that has the subresource, built in or custom.

use object::quote::Quoted;
use object::{Text, Value};
use registry::{Address, Client};
use schema::Status;
use schema::views::autoscaling::v2::CrossVersionObjectReference;

/// Where a scale is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Target {
    group: Text,
    version: Text,
    resource: Text,
    namespace: Text,
    name: Text,
}

/// A scale, as it was read.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    object: Value,
}

/// Why a target was not found: what is reported, and whether the spec is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NoTarget {
    pub(super) message: String,
    pub(super) is_malformed: bool,
}

impl Scale {
    /// How many replicas there should be.
    pub(super) fn desired(&self) -> i64 {
        number(&self.object, "spec")
    }

    /// How many replicas there are.
    pub(super) fn actual(&self) -> i64 {
        number(&self.object, "status")
    }

    /// The text form of the selector of the pods.
    pub(super) fn selector(&self) -> &str {
        let selector = self.object.get("status").and_then(|status| status.get("selector"));
        selector.and_then(Value::as_str).unwrap_or_default()
    }
}

fn number(scale: &Value, part: &str) -> i64 {
    let number = scale.get(part).and_then(|part| part.get("replicas")).and_then(Value::as_i64);
    number.unwrap_or_default()
}

/// The group of an `apiVersion`; `None` if the text is none.
pub(super) fn group_of(api_version: &str) -> Option<&str> {
    match api_version.split_once('/') {
        Some((_, version)) if version.contains('/') => None,
        Some((group, _)) => Some(group),
        None => Some(""),
    }
}

impl Target {
    /// The target that a reference in a namespace names.
    pub(super) fn find(
        client: &Client,
        namespace: &str,
        reference: CrossVersionObjectReference<'_>,
    ) -> Result<Self, NoTarget> {
        let version = reference.api_version();
        let group = group_of(version).ok_or_else(|| NoTarget {
            message: format!("unexpected GroupVersion string: {version}"),
            is_malformed: true,
        })?;
        let catalog = client.registry().catalog();
        let kind = reference.kind();
        let mut served = catalog.served().filter(|served| served.group == group && served.kind == kind);
        let Some(first) = served.next() else {
            let message = format!("no matches for kind {} in group {}", Quoted(kind), Quoted(group));
            return Err(NoTarget { message, is_malformed: false });
        };
        Ok(Self {
            group: first.group.clone(),
            version: first.version.clone(),
            resource: first.resource.clone(),
            namespace: namespace.into(),
            name: reference.name().into(),
        })
    }

    fn address(&self) -> Address<'_> {
        Address {
            group: &self.group,
            version: &self.version,
            resource: &self.resource,
            subresource: "scale",
            namespace: &self.namespace,
            name: &self.name,
        }
    }

    /// Reads the scale.
    pub(super) async fn scale(&self, client: &Client) -> Result<Scale, Status> {
        Ok(Scale { object: client.get(self.address()).await? })
    }

    /// Sets how many replicas there should be, unless the object has changed since it was read.
    pub(super) async fn set(&self, client: &Client, scale: &Scale, replicas: i64) -> Result<(), Status> {
        let mut object = scale.object.clone();
        if let Some(scale) = object.as_map_mut() {
            crate::objects::edit(scale, "spec", |spec| drop(spec.insert("replicas", replicas)));
        }
        client.update(self.address(), object).await.map(drop)
    }
}
