//! `RuntimeClass`: a pod gets the overhead of its runtime class, and is kept to the nodes that have it.

use super::errors::without_reason;
use super::{Builtin, Parts, pod, tolerations};
use crate::{Attributes, Immediate, Lister, Operation};
use object::quantity::Quantity;
use object::quote::Quoted;
use object::{Key, Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::PodSpec;
use schema::views::node::v1;
use std::sync::Arc;

/// The plugin.
pub struct RuntimeClass {
    classes: Lister<Class>,
}

/// The fields of a runtime class that the plugin uses.
struct Class {
    /// The overhead of a pod of the class (`overhead.podFixed`), if the class has one.
    overhead: Option<Map>,
    scheduling: Option<Scheduling>,
}

struct Scheduling {
    node_selector: Map,
    tolerations: Vec<Value>,
}

impl Class {
    fn of(class: &Map) -> Option<Self> {
        let class = v1::RuntimeClass::of(class);
        let scheduling = class.scheduling().map(|scheduling| Scheduling {
            node_selector: scheduling.node_selector().map().clone(),
            tolerations: scheduling.tolerations().values().to_vec(),
        });
        let overhead = class.overhead().map(|overhead| overhead.pod_fixed().map().clone());
        Some(Self { overhead, scheduling })
    }

    fn complete(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let refused = {
            let Some(spec) = pod::spec_mut(Some(object)) else { return Ok(()) };
            self.set_overhead(spec).or_else(|| self.scheduling.as_ref().and_then(|of| of.merge_into(spec)))
        };
        refused.map_or(Ok(()), |why| Err(attributes.forbidden(Some(object), &why)))
    }

    /// Sets the overhead; why it cannot.
    fn set_overhead(&self, spec: &mut Map) -> Option<String> {
        let overhead = self.overhead.as_ref()?;
        let given = PodSpec::of(spec).overhead().map();
        if !given.is_empty() && !is_same(given, overhead) {
            return Some(MISMATCH.to_owned());
        }
        match overhead.is_empty() {
            true => spec.remove("overhead"),
            false => spec.insert(Key::known("overhead"), overhead.clone()),
        };
        None
    }
}

/// The refusal of an overhead that is not that of the class.
const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

impl Scheduling {
    /// Merges the rules into those of a pod; why it cannot.
    fn merge_into(&self, spec: &mut Map) -> Option<String> {
        if !self.node_selector.is_empty() {
            let given = PodSpec::of(spec).node_selector().map().clone();
            let given = given.index();
            let selector = kinds::map_at(spec, "nodeSelector")?;
            for (key, value) in self.node_selector.iter() {
                match given.get(key.as_str()) {
                    None => selector.insert_at(usize::MAX, key.clone(), value.clone()),
                    Some(of_pod) if *of_pod == value => {}
                    Some(of_pod) => {
                        let [value, of_pod] = [value, of_pod].map(|value| value.as_str().unwrap_or_default());
                        return Some(format!(
                            "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {of_pod}"
                        ));
                    }
                }
            }
        }
        let merged = tolerations::merge(PodSpec::of(spec).tolerations().values(), &self.tolerations);
        if !merged.is_empty() {
            spec.insert(Key::known("tolerations"), merged);
        }
        None
    }
}

/// Whether two lists of amounts are the same, however they are written.
fn is_same(one: &Map, other: &Map) -> bool {
    let amount = |value: &Value| value.as_str().and_then(|text| text.parse::<Quantity>().ok());
    let others = other.index();
    one.len() == other.len()
        && one.iter().all(|(resource, value)| {
            others.get(resource.as_str()).is_some_and(|other| amount(value) == amount(other))
        })
}

impl Builtin for RuntimeClass {
    const NAME: &'static str = "RuntimeClass";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let classes = parts.resource("runtimeclasses.node.k8s.io")?;
        Ok(Self { classes: Lister::new(classes, v1::RuntimeClass::schema(), Class::of) })
    }
}

impl RuntimeClass {
    /// The class of a pod; `None` if it names none, 403 if there is none of that name, 500 if it has none.
    fn class_of(&self, attributes: &Attributes<'_>, object: &Value) -> Result<Option<Arc<Class>>, Status> {
        let spec = pod::of(Some(object)).map(|pod| pod.spec());
        let Some(name) = spec.and_then(|spec| spec.runtime_class_name()) else { return Ok(None) };
        match self.classes.get("", name) {
            Some(class) => Ok(Some(class)),
            // The reference asks for it by a client, which refuses to.
            None if name.is_empty() => Err(without_reason("resource name may not be empty")),
            None => {
                let why = format!("pod rejected: RuntimeClass {} not found", Quoted(name));
                Err(attributes.forbidden(Some(object), &why))
            }
        }
    }

    fn complete(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        match self.class_of(attributes, object)? {
            Some(class) => class.complete(attributes, object),
            None => Ok(()),
        }
    }

    fn check(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        let class = self.class_of(attributes, object)?;
        let overhead = class.as_ref().and_then(|class| class.overhead.as_ref());
        let Some(given) = pod::of(Some(object)).map(|pod| pod.spec().overhead().map()) else { return Ok(()) };
        let why = match overhead {
            Some(overhead) if !is_same(given, overhead) => MISMATCH,
            None if !given.is_empty() => {
                "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            }
            _ => return Ok(()),
        };
        Err(attributes.forbidden(Some(object), why))
    }
}

impl Immediate for RuntimeClass {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        match object {
            Some(object) if attributes.is_about("", "pods") => self.complete(attributes, object),
            _ => Ok(()),
        }
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        match object {
            Some(object) if attributes.is_about("", "pods") => self.check(attributes, object),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};
    use schema::Limits;

    async fn with_class(more: &str) -> (Fixture, RuntimeClass) {
        let fixture = Fixture::new().await;
        let json = format!(
            r#"{{"kind":"RuntimeClass","apiVersion":"node.k8s.io/v1","metadata":{{"name":"r"}},"handler":"h"{more}}}"#
        );
        fixture.put("runtimeclasses.node.k8s.io", &json).await;
        let plugin = fixture.make(None).unwrap();
        (fixture, plugin)
    }

    fn pod(spec: &str) -> String {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"n"}},"spec":{{{spec}}}}}"#
        )
    }

    async fn admitted(plugin: &RuntimeClass, spec: &str) -> Result<Value, String> {
        let json = pod(spec);
        let write = Write::create("pods", &json);
        let made = write.mutate(plugin).await.map_err(|status| status.message)?;
        Ok(made.unwrap().get("spec").unwrap().clone())
    }

    async fn why(plugin: &RuntimeClass, spec: &str) -> String {
        let refused = Write::create("pods", &pod(spec)).validate(plugin).await.err();
        refused.map(|status| status.message).unwrap_or_default()
    }

    fn json(text: &str) -> Value {
        schema::json::decode_shape(&schema::Shape::Any, text.as_bytes(), &Limits::STORED).unwrap().value
    }

    #[tokio::test]
    async fn pods_have_the_overhead_of_their_class() {
        let (_fixture, plugin) = with_class(r#","overhead":{"podFixed":{"cpu":"100m"}}"#).await;
        let named = r#""runtimeClassName":"r""#;
        let expected = json(&format!(r#"{{{named},"overhead":{{"cpu":"100m"}}}}"#));
        assert_eq!(admitted(&plugin, named).await.unwrap(), expected);
        let same = format!(r#"{named},"overhead":{{"cpu":"0.1"}}"#);
        assert_eq!(admitted(&plugin, &same).await.unwrap(), expected);
        let other = format!(r#"{named},"overhead":{{"cpu":"1"}}"#);
        let mismatch = format!(r#"pods "p" is forbidden: {MISMATCH}"#);
        assert_eq!(admitted(&plugin, &other).await.unwrap_err(), mismatch);
        assert_eq!(why(&plugin, &other).await, mismatch);
        assert_eq!(why(&plugin, named).await, mismatch);
        assert_eq!(
            why(&plugin, r#""overhead":{"cpu":"1"}"#).await,
            r#"pods "p" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"#
        );
        assert_eq!(why(&plugin, "").await, "");
        assert_eq!(
            admitted(&plugin, r#""runtimeClassName":"none""#).await.unwrap_err(),
            r#"pods "p" is forbidden: pod rejected: RuntimeClass "none" not found"#
        );
        let unnamed =
            Write::create("pods", &pod(r#""runtimeClassName":"""#)).mutate(&plugin).await.unwrap_err();
        assert_eq!((unnamed.code, unnamed.message.as_str()), (500, "resource name may not be empty"));
    }

    #[tokio::test]
    async fn pods_go_to_the_nodes_of_their_class() {
        let (_fixture, plugin) = with_class(
            r#","scheduling":{"nodeSelector":{"a":"1"},"tolerations":[{"key":"t","operator":"Exists"}]}"#,
        )
        .await;
        let made = admitted(
            &plugin,
            r#""runtimeClassName":"r","nodeSelector":{"b":"2"},"tolerations":[{"key":"t","operator":"Equal","value":"x"},{"key":"u"}]"#,
        )
        .await
        .unwrap();
        assert_eq!(made.get("nodeSelector"), Some(&json(r#"{"a":"1","b":"2"}"#)));
        assert_eq!(made.get("tolerations"), Some(&json(r#"[{"key":"u"},{"key":"t","operator":"Exists"}]"#)));
        assert_eq!(
            admitted(&plugin, r#""runtimeClassName":"r","nodeSelector":{"a":"2"}"#).await.unwrap_err(),
            r#"pods "p" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[a] = 1; pod.spec.nodeSelector[a] = 2"#
        );
    }
}
