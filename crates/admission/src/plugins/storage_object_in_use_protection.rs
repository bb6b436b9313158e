//! `StorageObjectInUseProtection`: volumes and claims get a finalizer, which a controller takes away when
//! nobody uses them.

use super::{Builtin, Gates, Parts};
use crate::{Attributes, Immediate, Operation};
use object::{Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::meta::v1::ObjectMeta;

/// The plugin.
pub struct StorageObjectInUseProtection {
    gates: Gates,
}

impl StorageObjectInUseProtection {
    /// The finalizer for objects of a resource.
    fn finalizer(&self, attributes: &Attributes<'_>) -> Option<&'static str> {
        let attributes_class = "volumeattributesclasses";
        if attributes.is_about("", "persistentvolumes") {
            Some("kubernetes.io/pv-protection")
        } else if attributes.is_about("", "persistentvolumeclaims") {
            Some("kubernetes.io/pvc-protection")
        } else if self.gates.volume_attributes_class
            && attributes.is_about("storage.k8s.io", attributes_class)
        {
            Some("kubernetes.io/vac-protection")
        } else {
            None
        }
    }
}

impl Builtin for StorageObjectInUseProtection {
    const NAME: &'static str = "StorageObjectInUseProtection";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { gates: parts.settings.gates })
    }
}

impl Immediate for StorageObjectInUseProtection {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        if let Some(finalizer) = self.finalizer(attributes)
            && let Some(object) = object.and_then(Value::as_map_mut)
            && let Some(metadata) = object.get_or_insert_with("metadata", || Map::new().into()).as_map_mut()
            && !ObjectMeta::of(metadata).finalizers().iter().any(|known| known == finalizer)
        {
            let none = || Vec::<Value>::new().into();
            if let Some(list) = metadata.get_or_insert_with(ObjectMeta::FINALIZERS, none).as_list_mut() {
                list.push(finalizer.into());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    #[tokio::test]
    async fn volumes_and_claims_are_protected_once() {
        let mut fixture = Fixture::new().await;
        let plugin: StorageObjectInUseProtection = fixture.make(None).unwrap();
        let finalizers = async |plugin: &StorageObjectInUseProtection,
                                group: &'static str,
                                resource: &str,
                                before: &str| {
            let object = format!(r#"{{"metadata":{{"name":"a","finalizers":[{before}]}}}}"#);
            let write = Write { group, ..Write::create(resource, &object) };
            let made = write.mutate(plugin).await.unwrap().unwrap();
            let metadata = made.get("metadata").and_then(Value::as_map).unwrap();
            ObjectMeta::of(metadata).finalizers().iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(finalizers(&plugin, "", "persistentvolumes", "").await, "kubernetes.io/pv-protection");
        let claims = "persistentvolumeclaims";
        assert_eq!(finalizers(&plugin, "", claims, r#""a/b""#).await, "a/b kubernetes.io/pvc-protection");
        let twice = finalizers(&plugin, "", claims, r#""kubernetes.io/pvc-protection""#).await;
        assert_eq!(twice, "kubernetes.io/pvc-protection");
        assert_eq!(finalizers(&plugin, "", "configmaps", "").await, "");
        let (group, classes) = ("storage.k8s.io", "volumeattributesclasses");
        assert_eq!(finalizers(&plugin, group, classes, "").await, "");
        fixture.settings.gates.volume_attributes_class = true;
        let plugin: StorageObjectInUseProtection = fixture.make(None).unwrap();
        assert_eq!(finalizers(&plugin, group, classes, "").await, "kubernetes.io/vac-protection");
    }
}
