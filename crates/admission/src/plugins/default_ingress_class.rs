//! `DefaultIngressClass`: an ingress that names no class gets the default one.

use super::default_class::{DefaultClasses, ingress_class};
use super::{Builtin, Parts};
use crate::{Attributes, Immediate, Operation};
use object::{Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::networking::v1::{Ingress, IngressClass, IngressSpec};

/// The plugin.
pub struct DefaultIngressClass {
    classes: DefaultClasses,
}

impl Builtin for DefaultIngressClass {
    const NAME: &'static str = "DefaultIngressClass";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let prefix = "ingressclasses.networking.k8s.io";
        let classes = DefaultClasses::new(parts, prefix, IngressClass::schema(), ingress_class)?;
        Ok(Self { classes })
    }
}

impl Immediate for DefaultIngressClass {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        if attributes.is_about("networking.k8s.io", "ingresses")
            && let Some(object) = object.and_then(Value::as_map_mut)
            && !has_class(Ingress::of(object))
            && let Some(class) = self.classes.newest()
            && let Some(spec) = object.get_or_insert_with(Ingress::SPEC, || Map::new().into()).as_map_mut()
        {
            spec.insert(IngressSpec::INGRESS_CLASS_NAME, class);
        }
        Ok(())
    }
}

/// Whether an ingress names a class, by the field or by the annotation before it.
fn has_class(ingress: Ingress<'_>) -> bool {
    ingress.spec().ingress_class_name().is_some()
        || ingress.metadata().annotations().get("kubernetes.io/ingress.class").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    #[tokio::test]
    async fn ingresses_without_a_class_get_the_default() {
        let fixture = Fixture::new().await;
        let plugin: DefaultIngressClass = fixture.make(None).unwrap();
        let class = r#"{"kind":"IngressClass","apiVersion":"networking.k8s.io/v1","metadata":{"name":"c","annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}}}"#;
        fixture.put("ingressclasses.networking.k8s.io", class).await;
        let class_of = async |rest: &str| {
            let ingress = format!(
                r#"{{"kind":"Ingress","apiVersion":"networking.k8s.io/v1","metadata":{{"name":"a","namespace":"n"{rest}}}"#
            );
            let write = Write { group: "networking.k8s.io", ..Write::create("ingresses", &ingress) };
            let made = write.mutate(&plugin).await.unwrap().unwrap();
            Ingress::of(made.as_map().unwrap()).spec().ingress_class_name().map(str::to_owned)
        };
        assert_eq!(class_of("}").await.as_deref(), Some("c"));
        assert_eq!(class_of(r#"},"spec":{"ingressClassName":"d"}"#).await.as_deref(), Some("d"));
        assert_eq!(class_of(r#","annotations":{"kubernetes.io/ingress.class":"x"}}"#).await, None);
    }
}
