//! `PersistentVolumeClaimResize`: a claim grows only if it is bound and its class allows that.

use super::storage::class;
use super::{Builtin, Parts};
use crate::{Attributes, Immediate, Lister, Operation};
use object::Value;
use object::quantity::Quantity;
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::PersistentVolumeClaim;
use schema::views::storage::v1::StorageClass;

/// The plugin.
pub struct PersistentVolumeClaimResize {
    /// Whether each class allows it.
    classes: Lister<bool>,
}

impl PersistentVolumeClaimResize {
    fn refusal(
        &self,
        old: PersistentVolumeClaim<'_>,
        new: PersistentVolumeClaim<'_>,
    ) -> Option<&'static str> {
        if size(new) <= size(old) {
            return None;
        }
        if old.status().phase() != "Bound" {
            return Some("Only bound persistent volume claims can be expanded");
        }
        let (class, before) = (class(new), class(old));
        let is_allowed = !class.is_empty()
            && class == before
            && self.classes.get("", class).is_some_and(|is_allowed| *is_allowed);
        (!is_allowed).then_some(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        )
    }
}

fn size(claim: PersistentVolumeClaim<'_>) -> Quantity {
    let requested = claim.spec().resources().requests().get("storage");
    requested.and_then(|text| text.parse().ok()).unwrap_or_default()
}

impl Builtin for PersistentVolumeClaimResize {
    const NAME: &'static str = "PersistentVolumeClaimResize";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let classes = parts.resource("storageclasses.storage.k8s.io")?;
        let read = |class: &object::Map| Some(StorageClass::of(class).allow_volume_expansion() == Some(true));
        Ok(Self { classes: Lister::new(classes, StorageClass::schema(), read) })
    }
}

impl Immediate for PersistentVolumeClaimResize {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Update
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        if attributes.is_about("", "persistentvolumeclaims")
            && let Some(old) = attributes.old.and_then(Value::as_map)
            && let Some(new) = object.and_then(Value::as_map)
            && let Some(why) = self.refusal(PersistentVolumeClaim::of(old), PersistentVolumeClaim::of(new))
        {
            return Err(attributes.forbidden(object, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    fn claim(class: &str, size: &str, phase: &str) -> String {
        format!(
            r#"{{"metadata":{{"name":"a","namespace":"n"}},"spec":{{"storageClassName":"{class}","resources":{{"requests":{{"storage":"{size}"}}}}}},"status":{{"phase":"{phase}"}}}}"#
        )
    }

    #[tokio::test]
    async fn claims_grow_if_they_are_bound_and_their_class_allows_it() {
        let fixture = Fixture::new().await;
        let plugin: PersistentVolumeClaimResize = fixture.make(None).unwrap();
        for (name, allowed) in [("yes", "true"), ("no", "false")] {
            let class = format!(
                r#"{{"kind":"StorageClass","apiVersion":"storage.k8s.io/v1","metadata":{{"name":"{name}"}},"provisioner":"p","allowVolumeExpansion":{allowed}}}"#
            );
            fixture.put("storageclasses.storage.k8s.io", &class).await;
        }
        let grow = async |class: &str, from: &str, to: &str, phase: &str| {
            let (old, new) = (claim(class, from, phase), claim(class, to, phase));
            let write = Write::update("persistentvolumeclaims", &old, &new);
            write.validate(&plugin).await.err().map(|refused| refused.message)
        };
        assert_eq!(grow("yes", "1Gi", "2Gi", "Bound").await, None);
        assert_eq!(grow("no", "2Gi", "1Gi", "Pending").await, None);
        let pending = grow("yes", "1Gi", "1025Mi", "Pending").await.unwrap();
        assert!(
            pending.ends_with("forbidden: Only bound persistent volume claims can be expanded"),
            "{pending}"
        );
        for class in ["no", "gone", ""] {
            let refused = grow(class, "1Gi", "2Gi", "Bound").await.unwrap();
            assert!(refused.ends_with("must support resize"), "{refused}");
        }
    }
}
