//! `PodNodeSelector`: pods go to the nodes that their namespace, or the configuration, selects.
//!
//! The configuration is a map at `podNodeSelectorPluginConfig`: `clusterDefaultNodeSelector` for namespaces
//! without the annotation, and by the name of a namespace all labels that its pods may select nodes by.

use super::errors::without_reason;
use super::{Builtin, Parts, pod};
use crate::{Attributes, Immediate, Lister, Operation};
use object::field::{Error, Path};
use object::{Key, Map, Text, Value, name};
use schema::view::View as _;
use schema::views::core::v1::Namespace;
use schema::{Builder, FieldBuilder, Limits, Ref, Shape, Status, Type, yaml};
use std::collections::{BTreeMap, HashMap};

/// The annotation of a namespace with its selector.
const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// The key of the configuration.
const CONFIGURATION: &str = "podNodeSelectorPluginConfig";

/// The key of the selector of namespaces without the annotation.
const CLUSTER_DEFAULT: &str = "clusterDefaultNodeSelector";

/// A selector: labels and their values, or what is wrong with its text.
type Selector = Result<BTreeMap<Text, Text>, String>;

/// The plugin.
pub struct PodNodeSelector {
    /// The annotations of namespaces; `None` for those without.
    namespaces: Lister<Option<Selector>>,
    cluster_default: Selector,
    allowed: HashMap<String, Selector>,
}

impl Builtin for PodNodeSelector {
    const NAME: &'static str = "PodNodeSelector";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let read = |namespace: &Map| {
            let metadata = Namespace::of(namespace).metadata();
            Some(metadata.annotations().get(ANNOTATION).map(parse))
        };
        let configured = parts.configuration.map_or_else(|| Ok(Map::new()), configuration)?;
        let selectors = configured.iter().map(|(key, value)| (key, value.as_str().unwrap_or_default()));
        let allowed: HashMap<_, _> =
            selectors.map(|(key, text)| (key.as_str().to_owned(), parse(text))).collect();
        Ok(Self {
            namespaces: Lister::new(parts.resource("namespaces")?, Namespace::schema(), read),
            cluster_default: allowed.get(CLUSTER_DEFAULT).cloned().unwrap_or_else(|| Ok(BTreeMap::new())),
            allowed,
        })
    }
}

/// The map of the configuration.
fn configuration(text: &[u8]) -> Result<Map, String> {
    let selectors = FieldBuilder::new(Shape::Map(Ref::Static(&Shape::String)));
    let ty: Ref<Type> = Builder::new("PodNodeSelectorConfiguration").field(CONFIGURATION, selectors).build();
    let decoded = yaml::decode(ty, text, &Limits::REQUEST).map_err(|error| error.to_string())?;
    Ok(decoded.value.get(CONFIGURATION).and_then(Value::as_map).cloned().unwrap_or_default())
}

/// A text of labels with their values: `a=b, c=d`.
fn parse(text: &str) -> Selector {
    let mut labels = BTreeMap::new();
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let sides: Vec<&str> = part.split('=').collect();
        let [key, value] = sides.as_slice() else {
            return Err(format!("invalid selector: [{}]", sides.join(" ")));
        };
        let (key, value) = (key.trim(), value.trim());
        let path = Path::UNSET;
        for (path, text, messages) in
            [(path, key, name::label_key(key)), (path.key(key), value, name::label_value(value))]
        {
            if !messages.is_empty() {
                return Err(Error::invalid(&path, text, messages.join("; ")).to_string());
            }
        }
        labels.insert(key.into(), value.into());
    }
    Ok(labels)
}

impl PodNodeSelector {
    /// The selector of a namespace.
    fn selector(&self, namespace: &str) -> Result<BTreeMap<Text, Text>, Status> {
        let Some(found) = self.namespaces.get("", namespace) else {
            return Err(Status::internal_error(&format!("namespace {namespace} does not exist")));
        };
        let selector = found.as_ref().as_ref().unwrap_or(&self.cluster_default);
        selector.clone().map_err(without_reason)
    }

    /// The labels of the namespace's selector that a pod does not have; 403 if it has another value for one.
    fn missing(&self, attributes: &Attributes<'_>, object: &Value) -> Result<BTreeMap<Text, Text>, Status> {
        let mut selector = self.selector(attributes.namespace)?;
        let Some(pod) = pod::of(Some(object)) else { return Ok(selector) };
        for (key, value) in pod.spec().node_selector().iter() {
            if selector.remove(key).is_some_and(|of_namespace| of_namespace != *value) {
                let why = "pod node label selector conflicts with its namespace node label selector";
                return Err(Status::forbidden("", "pods", pod.metadata().name(), why));
            }
        }
        Ok(selector)
    }

    /// A pod selects nodes by nothing but what its namespace may.
    fn check(&self, attributes: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        self.missing(attributes, object)?;
        let Some(allowed) = self.allowed.get(attributes.namespace) else { return Ok(()) };
        let allowed = allowed.as_ref().map_err(|error| without_reason(error.clone()))?;
        let Some(pod) = pod::of(Some(object)) else { return Ok(()) };
        let mut selected = pod.spec().node_selector().iter();
        let is_allowed = |key: &str, value: &str| allowed.get(key).is_some_and(|allowed| allowed == value);
        match allowed.is_empty() || selected.all(|(key, value)| is_allowed(key, value)) {
            true => Ok(()),
            false => {
                let why = "pod node label selector labels conflict with its namespace whitelist";
                Err(Status::forbidden("", "pods", pod.metadata().name(), why))
            }
        }
    }

    fn merge(&self, attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
        let missing = self.missing(attributes, object)?;
        if !missing.is_empty()
            && let Some(spec) = pod::spec_mut(Some(object))
            && let Some(selector) = kinds::map_at(spec, "nodeSelector")
        {
            for (key, value) in missing {
                selector.insert_at(usize::MAX, Key::from(key), value.into());
            }
        }
        self.check(attributes, object)
    }
}

impl Immediate for PodNodeSelector {
    fn handles(&self, operation: Operation) -> bool {
        operation == Operation::Create
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        match object {
            Some(object) if attributes.is_about("", "pods") => self.merge(attributes, object),
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

    async fn with_namespaces(configuration: Option<&str>) -> PodNodeSelector {
        let fixture = Fixture::new().await;
        for (name, selector) in [
            ("plain", None),
            ("ours", Some("a=1, b=2")),
            ("empty", Some("")),
            ("bad", Some("a=b=c")),
            ("worse", Some("-=1")),
        ] {
            let annotations = selector
                .map(|text| format!(r#","annotations":{{"{ANNOTATION}":"{text}"}}"#))
                .unwrap_or_default();
            let json = format!(
                r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{name}"{annotations}}}}}"#
            );
            fixture.put("namespaces", &json).await;
        }
        fixture.make(configuration).unwrap()
    }

    async fn selected(plugin: &PodNodeSelector, namespace: &str, selector: &str) -> Result<String, String> {
        let pod = format!(
            r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"{namespace}"}},"spec":{{"nodeSelector":{{{selector}}}}}}}"#
        );
        let made = Write::create("pods", &pod).mutate(plugin).await.map_err(|status| status.message)?;
        let spec = super::pod::of(made.as_ref()).unwrap().spec();
        let mut labels: Vec<String> =
            spec.node_selector().iter().map(|(key, value)| format!("{key}={value}")).collect();
        labels.sort();
        Ok(labels.join(","))
    }

    #[tokio::test]
    async fn pods_get_the_selector_of_their_namespace_or_of_the_cluster() {
        let plugin = with_namespaces(Some(
            "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: c=3\n  ours: a=1,b=2,d=4\n",
        ))
        .await;
        assert_eq!(selected(&plugin, "plain", r#""x":"y""#).await, Ok("c=3,x=y".into()));
        assert_eq!(selected(&plugin, "empty", "").await, Ok(String::new()));
        assert_eq!(selected(&plugin, "ours", r#""a":"1","d":"4""#).await, Ok("a=1,b=2,d=4".into()));
        for (namespace, selector, expected) in [
            (
                "ours",
                r#""a":"2""#,
                r#"pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector"#,
            ),
            (
                "ours",
                r#""x":"y""#,
                r#"pods "p" is forbidden: pod node label selector labels conflict with its namespace whitelist"#,
            ),
            ("bad", "", "invalid selector: [a b c]"),
            ("none", "", "Internal error occurred: namespace none does not exist"),
        ] {
            assert_eq!(selected(&plugin, namespace, selector).await, Err(expected.into()));
        }
        let worse = selected(&plugin, "worse", "").await.unwrap_err();
        assert!(worse.starts_with(r#"<nil>: Invalid value: "-": name part must consist of"#), "{worse}");
    }

    #[tokio::test]
    async fn without_configuration_only_namespaces_select() {
        let plugin = with_namespaces(None).await;
        assert_eq!(selected(&plugin, "plain", "").await, Ok(String::new()));
        assert_eq!(selected(&plugin, "ours", r#""x":"y""#).await, Ok("a=1,b=2,x=y".into()));
    }
}
