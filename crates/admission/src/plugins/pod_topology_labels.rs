//! `PodTopologyLabels`: pods get the zone and the region of their node as labels, behind the gate
//! `PodTopologyLabelsAdmission`.

use super::{Builtin, Parts, pod};
use crate::{Attributes, Immediate, Operation};
use cache::{Entry, Resource};
use object::{Key, Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::Binding;
use std::sync::Arc;

/// The labels that are copied.
const LABELS: [&str; 2] = ["topology.k8s.io/zone", "topology.k8s.io/region"];

/// The plugin.
pub struct PodTopologyLabels {
    nodes: Arc<Resource>,
    is_on: bool,
}

impl Builtin for PodTopologyLabels {
    const NAME: &'static str = "PodTopologyLabels";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { nodes: parts.resource("nodes")?, is_on: parts.settings.gates.pod_topology_labels })
    }
}

/// The node of a pod, or of the binding of one.
fn node_of<'a>(attributes: &Attributes<'_>, object: &'a Value) -> Option<&'a str> {
    let node = match attributes.subresource {
        "" => pod::of(Some(object))?.spec().node_name(),
        "binding" => {
            let target = Binding::of(object.as_map()?).target();
            (target.kind() == "Node").then(|| target.name())?
        }
        _ => return None,
    };
    (!node.is_empty()).then_some(node)
}

fn copy(node: &Entry, object: &mut Map) {
    let copied: Vec<_> = node.labels().filter(|(key, _)| LABELS.contains(key)).collect();
    if !copied.is_empty()
        && let Some(metadata) = kinds::map_at(object, "metadata")
        && let Some(labels) = kinds::map_at(metadata, "labels")
    {
        for (key, value) in copied {
            labels.insert(Key::from(key), value);
        }
    }
}

impl Immediate for PodTopologyLabels {
    fn handles(&self, operation: Operation) -> bool {
        // Without its gate too: the reference counts the plugin then.
        operation == Operation::Create
    }

    fn mutate(&self, attributes: &Attributes<'_>, object: Option<&mut Value>) -> Result<(), Status> {
        let (true, Some(object)) = (self.is_on && attributes.is_resource("", "pods"), object) else {
            return Ok(());
        };
        let Some(node) = node_of(attributes, object) else { return Ok(()) };
        // A node that is missing, or cannot be read, has no labels.
        if let Ok(Some(node)) = self.nodes.lookup("", node)
            && let Some(object) = object.as_map_mut()
        {
            copy(&node, object);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};

    #[tokio::test]
    async fn labels_of_the_node_are_copied_to_pods_and_bindings() {
        let mut fixture = Fixture::new().await;
        fixture
            .put(
                "nodes",
                r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","labels":{"topology.k8s.io/zone":"z","topology.k8s.io/region":"r","other":"x"}}}"#,
            )
            .await;
        let off: PodTopologyLabels = fixture.make(None).unwrap();
        assert!(off.handles(Operation::Create));
        fixture.settings.gates.pod_topology_labels = true;
        let plugin: PodTopologyLabels = fixture.make(None).unwrap();
        assert!(plugin.handles(Operation::Create) && !plugin.handles(Operation::Update));
        let labels_by = async |plugin: &PodTopologyLabels, write: Write<'_>| {
            let made = write.mutate(plugin).await.unwrap().unwrap();
            let labels = made.get("metadata").and_then(|metadata| metadata.get("labels"));
            let labels = labels.and_then(Value::as_map).cloned().unwrap_or_default();
            let texts = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap()));
            texts.collect::<Vec<_>>()
        };
        let labels = async |write: Write<'_>| labels_by(&plugin, write).await;
        let copied = ["topology.k8s.io/zone=z", "topology.k8s.io/region=r"];
        let pod = |node: &str| {
            format!(
                r#"{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"p","namespace":"n","labels":{{"topology.k8s.io/zone":"own"}}}},"spec":{{{node}}}}}"#
            )
        };
        let bound = pod(r#""nodeName":"a""#);
        assert_eq!(labels_by(&off, Write::create("pods", &bound)).await, ["topology.k8s.io/zone=own"]);
        assert_eq!(labels(Write::create("pods", &bound)).await, copied);
        for node in ["", r#""nodeName":"none""#] {
            assert_eq!(labels(Write::create("pods", &pod(node))).await, ["topology.k8s.io/zone=own"]);
        }
        for (kind, expected) in [("Node", &copied[..]), ("", &[])] {
            let binding = format!(
                r#"{{"kind":"Binding","apiVersion":"v1","metadata":{{"name":"p","namespace":"n"}},"target":{{"kind":"{kind}","name":"a"}}}}"#
            );
            let bind = Write { subresource: "binding", ..Write::create("pods", &binding) };
            assert_eq!(labels(bind).await, expected);
        }
    }
}
