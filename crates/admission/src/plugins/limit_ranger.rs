//! `LimitRanger`: containers get the default requests and limits of the limit ranges of their namespace, and
//! containers, pods and claims keep within their bounds.

mod range;
#[cfg(test)]
mod tests;

use super::{Builtin, Parts, pod};
use crate::{Attributes, Immediate, Lister, Operation};
use object::Value;
use range::Range;
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::{LimitRange, PersistentVolumeClaim};
use schema::views::meta::v1::ObjectMeta;

/// The plugin.
pub struct LimitRanger {
    ranges: Lister<Range>,
    pod_level_resources: bool,
}

impl Builtin for LimitRanger {
    const NAME: &'static str = "LimitRanger";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let read = |range: &object::Map| Some(Range::of(LimitRange::of(range)));
        let ranges = Lister::new(parts.resource("limitranges")?, LimitRange::schema(), read);
        Ok(Self { ranges, pod_level_resources: parts.settings.gates.pod_level_resources })
    }
}

/// Whether limit ranges apply to a write: the resources of a pod are set when it is created and when it is
/// resized. Objects that are being deleted are not checked.
fn concerns(attributes: &Attributes<'_>) -> bool {
    let is_update = attributes.operation == Operation::Update;
    let is_limited = match attributes.subresource {
        "" => {
            let is_pod = attributes.is_resource("", "pods") && !is_update;
            is_pod || attributes.is_resource("", "persistentvolumeclaims")
        }
        "resize" => attributes.is_resource("", "pods") && is_update,
        _ => false,
    };
    is_limited && !attributes.old.is_some_and(is_deleting)
}

fn is_deleting(object: &Value) -> bool {
    let metadata = object.get("metadata").and_then(Value::as_map);
    metadata.is_some_and(|metadata| ObjectMeta::of(metadata).deletion_timestamp().is_some())
}

impl Immediate for LimitRanger {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        if concerns(attributes)
            && attributes.is_resource("", "pods")
            && let Some(pod) = object.and_then(Value::as_map_mut)
        {
            let ranges = self.ranges.in_namespace(attributes.namespace);
            ranges.iter().for_each(|range| range.fill(pod));
        }
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        if !concerns(attributes) {
            return Ok(());
        }
        for range in self.ranges.in_namespace(attributes.namespace) {
            let refused = match attributes.is_resource("", "pods") {
                true => pod::of(object).and_then(|pod| range.check_pod(pod, self.pod_level_resources)),
                false => object
                    .and_then(Value::as_map)
                    .map(PersistentVolumeClaim::of)
                    .and_then(|claim| range.check_claim(claim)),
            };
            if let Some(why) = refused {
                return Err(attributes.forbidden(object, &why));
            }
        }
        Ok(())
    }
}
