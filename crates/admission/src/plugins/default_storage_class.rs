//! `DefaultStorageClass`: a claim that names no class gets the default one.

use super::default_class::{DefaultClasses, storage_class};
use super::storage::has_class;
use super::{Builtin, Parts};
use crate::{Attributes, Immediate, Operation};
use object::{Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec};
use schema::views::storage::v1::StorageClass;

/// The plugin.
pub struct DefaultStorageClass {
    classes: DefaultClasses,
}

impl Builtin for DefaultStorageClass {
    const NAME: &'static str = "DefaultStorageClass";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let prefix = "storageclasses.storage.k8s.io";
        let classes = DefaultClasses::new(parts, prefix, StorageClass::schema(), storage_class)?;
        Ok(Self { classes })
    }
}

impl Immediate for DefaultStorageClass {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        if attributes.is_about("", "persistentvolumeclaims")
            && let Some(claim) = object.and_then(Value::as_map_mut)
            && !has_class(PersistentVolumeClaim::of(claim))
            && let Some(class) = self.classes.newest()
            && let Some(spec) =
                claim.get_or_insert_with(PersistentVolumeClaim::SPEC, || Map::new().into()).as_map_mut()
        {
            spec.insert(PersistentVolumeClaimSpec::STORAGE_CLASS_NAME, class);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    async fn class_of(plugin: &DefaultStorageClass, rest: &str) -> Option<String> {
        let claim = format!(
            r#"{{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{{"name":"a","namespace":"n"}}{rest}}}"#
        );
        let made = Write::create("persistentvolumeclaims", &claim).mutate(plugin).await.unwrap().unwrap();
        let claim = PersistentVolumeClaim::of(made.as_map().unwrap());
        claim.spec().storage_class_name().map(str::to_owned)
    }

    #[tokio::test]
    async fn claims_without_a_class_get_the_newest_default() {
        let fixture = Fixture::new().await;
        let plugin: DefaultStorageClass = fixture.make(None).unwrap();
        assert_eq!(class_of(&plugin, "").await, None);
        for (name, created, marked) in [
            ("b", "2020-01-02", "true"),
            ("a", "2020-01-02", "true"),
            ("old", "2020-01-01", "true"),
            ("no", "2021-01-01", "yes"),
        ] {
            let class = format!(
                r#"{{"kind":"StorageClass","apiVersion":"storage.k8s.io/v1","metadata":{{"name":"{name}","creationTimestamp":"{created}T00:00:00Z","annotations":{{"storageclass.kubernetes.io/is-default-class":"{marked}"}}}},"provisioner":"p"}}"#
            );
            fixture.put("storageclasses.storage.k8s.io", &class).await;
        }
        assert_eq!(class_of(&plugin, "").await.as_deref(), Some("a"));
        assert_eq!(class_of(&plugin, r#","spec":{"storageClassName":""}"#).await.as_deref(), Some(""));
        let annotated = r#"{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"name":"a","namespace":"n","annotations":{"volume.beta.kubernetes.io/storage-class":""}}}"#;
        let made = Write::create("persistentvolumeclaims", annotated).mutate(&plugin).await.unwrap().unwrap();
        assert!(made.get("spec").is_none());
    }
}
