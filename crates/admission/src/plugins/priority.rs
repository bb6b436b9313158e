//! `Priority`: a pod gets the number and the preemption policy of its priority class, and at most one class
//! is the default.

use super::{Builtin, Parts, pod};
use crate::{Attributes, Immediate, Lister, Operation};
use object::{Key, Map, Text, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::PodSpec;
use schema::views::scheduling::v1::PriorityClass;
use std::sync::Arc;

/// The policy of pods for which there is no class.
const PREEMPT: &str = "PreemptLowerPriority";

/// The plugin.
pub struct Priority {
    classes: Lister<Class>,
}

/// The fields of a priority class that the plugin uses.
struct Class {
    name: Text,
    value: i64,
    is_default: bool,
    preemption: Option<Text>,
}

impl Class {
    fn of(class: &Map) -> Option<Self> {
        let class = PriorityClass::of(class);
        Some(Self {
            name: class.metadata().name().into(),
            value: class.value(),
            is_default: class.global_default(),
            preemption: class.preemption_policy().map(Text::from),
        })
    }
}

impl Builtin for Priority {
    const NAME: &'static str = "Priority";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let classes = parts.resource("priorityclasses.scheduling.k8s.io")?;
        Ok(Self { classes: Lister::new(classes, PriorityClass::schema(), Class::of) })
    }
}

impl Priority {
    /// The default class: of several, which can come about side by side, the one with the lowest number.
    fn default_class(&self) -> Option<Arc<Class>> {
        let classes = self.classes.all();
        classes.iter().filter(|class| class.is_default).min_by_key(|class| class.value).cloned()
    }

    fn resolve(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let Some(spec) = pod::of(Some(object)).map(|pod| pod.spec()) else { return Ok(()) };
        let class = match spec.priority_class_name() {
            "" => self.default_class(),
            name => {
                let Some(class) = self.classes.get("", name) else {
                    let why = format!("no PriorityClass with name {name} was found");
                    return Err(attributes.forbidden(Some(object), &why));
                };
                Some(class)
            }
        };
        let (value, preemption) = match &class {
            Some(class) => (class.value, class.preemption.clone()),
            None => (0, Some(Text::known(PREEMPT))),
        };
        let computed = "must not be provided in pod spec; priority admission controller computed";
        if let Some(given) = spec.priority().filter(|given| *given != value) {
            let why = format!(
                "the integer value of priority ({given}) {computed} {value} from the given PriorityClass name"
            );
            return Err(attributes.forbidden(Some(object), &why));
        }
        if let (Some(given), Some(policy)) = (spec.preemption_policy(), &preemption)
            && given != policy.as_str()
        {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) {computed} {policy} from the given PriorityClass name"
            );
            return Err(attributes.forbidden(Some(object), &why));
        }
        if let Some(spec) = pod::spec_mut(Some(object)) {
            if let Some(class) = class {
                spec.insert(Key::known("priorityClassName"), class.name.clone());
            }
            spec.insert(Key::known("priority"), value);
            if let Some(policy) = preemption {
                spec.insert(Key::known("preemptionPolicy"), policy);
            }
        }
        Ok(())
    }
}

/// Copies `priority` and `preemptionPolicy` from the old pod if an update leaves them out.
fn keep(old: PodSpec<'_>, object: &mut Value) {
    let Some(spec) = pod::spec_mut(Some(object)) else { return };
    for key in ["priority", "preemptionPolicy"] {
        if let Some(value) = old.map().get(key)
            && !spec.contains_key(key)
        {
            spec.insert(Key::known(key), value.clone());
        }
    }
}

impl Immediate for Priority {
    /// Deletes too, of which it does nothing: the reference counts the plugin then.
    fn handles(&self, operation: Operation) -> bool {
        operation != Operation::Connect
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        let (true, Some(object)) = (attributes.is_about("", "pods"), object) else {
            return Ok(());
        };
        if attributes.operation == Operation::Create {
            return self.resolve(attributes, object);
        }
        if let Some(old) = pod::of(attributes.old) {
            keep(old.spec(), object);
        }
        Ok(())
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        let is_class = attributes.is_about("scheduling.k8s.io", "priorityclasses");
        if is_class
            && attributes.operation != Operation::Delete
            && let Some(class) = object.and_then(Value::as_map).map(PriorityClass::of)
            && class.global_default()
            && let Some(other) = self.default_class()
            && (attributes.operation == Operation::Create || other.name != class.metadata().name())
        {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                other.name
            );
            return Err(attributes.forbidden(object, &why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    fn class(name: &str, value: i64, more: &str) -> String {
        format!(
            r#"{{"kind":"PriorityClass","apiVersion":"scheduling.k8s.io/v1","metadata":{{"name":"{name}"}},"value":{value}{more}}}"#
        )
    }

    fn pod(spec: &str) -> String {
        format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"n"}},"spec":{{{spec}}}}}"#
        )
    }

    async fn resolved(plugin: &Priority, spec: &str) -> Result<(i64, String, String), String> {
        let made = Write::create("pods", &pod(spec)).mutate(plugin).await.map_err(|status| status.message)?;
        let spec = super::pod::of(made.as_ref()).unwrap().spec();
        let policy = spec.preemption_policy().unwrap_or_default();
        Ok((spec.priority().unwrap(), spec.priority_class_name().into(), policy.into()))
    }

    #[tokio::test]
    async fn every_operation_on_objects_is_counted() {
        let plugin: Priority = Fixture::new().await.make(None).unwrap();
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            assert!(plugin.handles(operation));
        }
        assert!(!plugin.handles(Operation::Connect));
    }

    #[tokio::test]
    async fn pods_get_the_number_and_policy_of_their_class() {
        let fixture = Fixture::new().await;
        let plugin: Priority = fixture.make(None).unwrap();
        assert_eq!(resolved(&plugin, "").await, Ok((0, String::new(), PREEMPT.into())));
        let put = async |name: &str, value, more: &str| {
            fixture.put("priorityclasses.scheduling.k8s.io", &class(name, value, more)).await;
        };
        put("high", 7, r#","preemptionPolicy":"Never""#).await;
        put("old", 3, "").await;
        put("two", 20, r#","globalDefault":true,"preemptionPolicy":"PreemptLowerPriority""#).await;
        put("ten", 10, r#","globalDefault":true,"preemptionPolicy":"PreemptLowerPriority""#).await;
        assert_eq!(resolved(&plugin, "").await, Ok((10, "ten".into(), PREEMPT.into())));
        let never = Ok((7, "high".into(), "Never".into()));
        assert_eq!(resolved(&plugin, r#""priorityClassName":"high""#).await, never);
        assert_eq!(
            resolved(&plugin, r#""priorityClassName":"high","priority":7,"preemptionPolicy":"Never""#).await,
            never
        );
        let of_pod = r#""priorityClassName":"old","preemptionPolicy":"Never""#;
        assert_eq!(resolved(&plugin, of_pod).await, Ok((3, "old".into(), "Never".into())));
        for (spec, expected) in [
            (r#""priorityClassName":"none""#, "no PriorityClass with name none was found"),
            (
                r#""priority":41"#,
                "the integer value of priority (41) must not be provided in pod spec; priority admission controller computed 10 from the given PriorityClass name",
            ),
            (
                r#""priorityClassName":"high","preemptionPolicy":"PreemptLowerPriority""#,
                "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission controller computed Never from the given PriorityClass name",
            ),
        ] {
            let expected = format!(r#"pods "p" is forbidden: {expected}"#);
            assert_eq!(resolved(&plugin, spec).await, Err(expected));
        }
    }

    #[tokio::test]
    async fn updates_keep_what_they_leave_out() {
        let plugin: Priority = Fixture::new().await.make(None).unwrap();
        let (old, new) = (pod(r#""priority":5,"preemptionPolicy":"Never""#), pod(r#""priority":6"#));
        let made = Write::update("pods", &old, &new).mutate(&plugin).await.unwrap();
        let spec = super::pod::of(made.as_ref()).unwrap().spec();
        assert_eq!((spec.priority(), spec.preemption_policy()), (Some(6), Some("Never")));
    }

    #[tokio::test]
    async fn one_class_is_the_default() {
        let fixture = Fixture::new().await;
        let plugin: Priority = fixture.make(None).unwrap();
        let default = |name: &str| class(name, 1, r#","globalDefault":true"#);
        let (a, b) = (default("a"), default("b"));
        let write = |new| Write { group: "scheduling.k8s.io", ..Write::create("priorityclasses", new) };
        assert!(write(&a).validate(&plugin).await.is_ok());
        fixture.put("priorityclasses.scheduling.k8s.io", &a).await;
        let refused = write(&b).validate(&plugin).await.err().unwrap();
        assert_eq!(
            refused.message,
            r#"priorityclasses.scheduling.k8s.io "b" is forbidden: PriorityClass a is already marked as default. Only one default can exist"#
        );
        let plain = class("b", 1, "");
        assert!(write(&plain).validate(&plugin).await.is_ok());
        let update = |new| Write { operation: Operation::Update, old: Some(new), ..write(new) };
        assert!(update(&a).validate(&plugin).await.is_ok());
        assert!(update(&b).validate(&plugin).await.is_err());
    }
}
